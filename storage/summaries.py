"""Summaries in the store, read without NumPy and Arrow: what `ksdp list` prints is no more than them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ksdp.audit.errors import StoreError
from ksdp.audit.results.summary import Summary as Summary
from ksdp.storage.checksums import check_sealed

Read = TypeVar("Read")


def read_summary(folder: Path) -> Summary:
    """Read `audit.json`; its paths are where it lies now, as a store may be copied, or mounted elsewhere."""
    path = folder / "audit.json"
    try:
        fields = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"there is no finished audit {folder.name!r} in this store.") from error
    summary = parsed(Summary.from_json, fields, f"audit {folder.name!r}")
    check_sealed(path, f"audit {folder.name!r}")
    return replace(summary, store=str(folder.parents[1]), report=str(folder / "report.html"))


def parsed(parse: Callable[[Mapping[str, Any]], Read], told: Mapping[str, Any], what: str) -> Read:
    """Parse a stored summary; raises `StoreError` if it is not valid."""
    try:
        return parse(told)
    except ValidationError as error:
        where = ", ".join(f"`{'.'.join(map(str, problem['loc']))}`" for problem in error.errors()[:3])
        raise StoreError(f"the summary of {what} is damaged at {where}; run it again.") from None
    except ValueError as error:
        raise StoreError(f"{what} cannot be read: {error}; run it again.") from error
