"""Audits that continue others with more runs: what they continue, and how far they are.

`audits/<id>/origin.json` says what an audit continues; `reviews/more-runs/<id>.json` how far the continuation of
an audit is: the flow writes it, pages read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.storage.store import Store, write_json

__all__ = ["Origin", "read_origin", "read_progress", "write_origin", "write_progress"]


@dataclass(frozen=True, slots=True)
class Origin:
    """What an audit continues."""

    spec: str
    """Hash of the first one's spec: the one that people wrote."""
    audits: tuple[str, ...]
    """From the first one on."""


def write_origin(store: Store, audit: str, origin: Origin) -> None:
    """Say what an audit continues."""
    write_json(store.audit(audit) / "origin.json", {"spec": origin.spec, "audits": list(origin.audits)})


def read_origin(store: Store, audit: str) -> Origin | None:
    """What an audit continues; None where nothing.

    Raises
    ------
    StoreError
        If the file is damaged.
    """
    said = _read(store.audit(audit) / "origin.json")
    return None if said is None else Origin(str(said["spec"]), tuple(said["audits"]))


def _progress(store: Store, audit: str) -> Path:
    return store.root / "reviews" / "more-runs" / f"{audit}.json"


def write_progress(store: Store, audit: str, progress: Mapping[str, Any]) -> None:
    """Say how far the continuation of an audit is."""
    write_json(_progress(store, audit), dict(progress))


def read_progress(store: Store, audit: str) -> dict[str, Any] | None:
    """How far the continuation of an audit is; None where nobody started one.

    Returns
    -------
    dict or None
        `state` (`running`, `done` or `failed`), `audit` (the new one), `documents` asked for, `with_runs`,
        `stage` with `units` of `total`, `started` and `changed` (UTC), `process` (who writes this) and `reason`
        of a failure. A process that was killed leaves `running` behind: look at `changed`.

    Raises
    ------
    StoreError
        If the file is damaged.
    """
    return _read(_progress(store, audit))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise StoreError(f"{path.name} in {path.parent.name} cannot be read.") from error
