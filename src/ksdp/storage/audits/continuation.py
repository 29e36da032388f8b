"""Audits that continue others with more runs: what they continue, and how far they are.

`audits/<id>/origin.json` says what an audit continues; `reviews/more-runs/<id>.json` how far the continuation of
an audit is: the flow writes it, pages read it. Whoever continues an audit holds the lock beside
it, which is free as soon as its holder is dead: a file that says `running` beside a free lock is that of a process
that was killed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.locks import is_locked, startable_lock
from ksdp.storage.store import Store

UNDER_WAY = ("starting", "waiting", "running")
"""States of a continuation that goes on by itself."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The audit that another continues."""

    spec: str
    """Hash of the first one's spec that a clearance is bound to (`ksdp.audit.specs.models.Spec.binding`)."""
    audits: tuple[str, ...]


def write_origin(store: Store, audit: str, origin: Origin) -> None:
    """Say what an audit continues."""
    write_checked_json(store.audit(audit) / "origin.json", {"spec": origin.spec, "audits": list(origin.audits)})


def read_origin(store: Store, audit: str) -> Origin | None:
    """Return the origin of an audit that continues another; None if it continues none."""
    path = store.audit(audit) / "origin.json"
    if not path.exists():
        return None
    return read_object(path, lambda record: Origin(record["spec"], tuple(record["audits"])), f"audit {audit!r}")


def _progress(store: Store, audit: str) -> Path:
    return store.root / "reviews" / "more-runs" / f"{audit}.json"


def _lock(store: Store, audit: str) -> Path:
    return _progress(store, audit).with_suffix(".lock")


def claimed(store: Store, audit: str, inherited: int | None = None) -> AbstractContextManager[int | None]:
    """Be the one process that continues an audit, while the context lasts."""
    return startable_lock(_lock(store, audit), inherited)


def open_log(store: Store, audit: str) -> BinaryIO:
    """The log of the continuation of an audit, emptied, for its owner's eyes alone."""
    path = _progress(store, audit).with_suffix(".log")
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


def write_progress(store: Store, audit: str, progress: Mapping[str, Any]) -> None:
    """Record the progress of an audit's continuation; the caller has claimed it."""
    write_checked_json(_progress(store, audit), dict(progress))


def read_progress(store: Store, audit: str) -> dict[str, Any] | None:
    """The progress of an audit's continuation; None if none was started."""
    progress = _read_progress(store, audit)
    if progress is None or progress.get("state") not in UNDER_WAY or is_locked(_lock(store, audit)):
        return progress
    # The lock may have been given back since the file was read: then its last word is there now.
    progress = _read_progress(store, audit)
    return progress | {"state": "interrupted"} if progress and progress.get("state") in UNDER_WAY else progress


def _read_progress(store: Store, audit: str) -> dict[str, Any] | None:
    path = _progress(store, audit)
    return read_object(path, dict, "more runs", "delete it") if path.is_file() else None
