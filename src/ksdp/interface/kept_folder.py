"""Where a call keeps what it makes: the store that is named, or a folder that goes with the result."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ksdp.audit.errors import InputError
from ksdp.audit.urls import was_url


def kept_folder(store: str | Path | None) -> tuple[Path, tempfile.TemporaryDirectory[str] | None]:
    """The store's folder, and what the result holds on to where it is a temporary one."""
    if store is not None:
        if was_url(store):
            raise InputError("`store` must be a folder of this machine; a spec's `cluster.blocks` may be a URL.")
        return Path(str(store)), None
    keep = tempfile.TemporaryDirectory(prefix="ksdp-")
    return Path(keep.name) / "store", keep
