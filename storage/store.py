"""The store: one folder of Parquet and JSON, movable, private to the user, readable by any tool.

::

    store/
      corpora/<hash>/          the matrix as memory-mapped .npy, ids.parquet, corpus.json (never any text)
      runs/<key>/              identity.json (what the runs depend on)
        observables/           <lane>-<start>-<stop>.parquet, one row a run
        values/<statistics>/   <lane>-<start>-<stop>.parquet, one row a document
      audits/<id>/             spec.json, audit.json, report.html,
                               verdicts.parquet, statistics.parquet, curves.parquet, effects.parquet,
                               stages/: later looks, and the fresh runs
      reviews/                 log.jsonl: what people decided, chained; policy.json, head.json, an index
      screens/                 <id>.json, <id>.html and <id>-excluded.parquet: rounds of a screening
      views/                   <id>.json, <id>.parquet, <id>.html: audits of several views, combined
      claims/                  <key>.json: what runs on a mechanism's worst case proved about its claim
      schedules/<name>/        what is audited when, its history, verdicts as they stand, drift, notices
      prefect/                 Prefect's own database: status, never the truth

Everything is written under a temporary name, synced and renamed: a file is whole or absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import StoreError

__all__ = ["Store", "content_key", "write_arrays", "write_json", "write_text", "write_whole"]


def content_key(identity: Mapping[str, Any]) -> str:
    """A short name for everything that `identity` says, independent of the order of its keys."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, sync it and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        part.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write JSON for people: sorted as given, indented."""
    write_text(path, json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text, whole."""

    def write(part: Path) -> None:
        part.write_text(text, encoding="utf-8")

    write_whole(path, write)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays by name, as an npz."""

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.savez(file, **dict[str, Any](arrays))

    write_whole(path, write)


@dataclass(frozen=True)
class Store:
    """A store's folders."""

    root: Path

    @classmethod
    def open(cls, root: Path, *, create: bool = True) -> Store:
        """Open a store, making it where there is none.

        Raises
        ------
        StoreError
            If there is none and `create` is False, or the folder is something else.
        """
        root = root.resolve()
        marker = root / "ksdp-store.json"
        if marker.is_file():
            return cls(root)
        if not create:
            raise StoreError(f"{root} is not a ksdp store; name one with `--store DIR`, or set KSDP_STORE.")
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise StoreError(f"{root} exists and is not a ksdp store; name an empty or a new folder.")
        root.mkdir(parents=True, exist_ok=True)
        root.chmod(0o700)
        write_json(marker, {"store": 1})
        return cls(root)

    def corpus(self, corpus_hash: str) -> Path:
        """Folder of a corpus."""
        return self.root / "corpora" / corpus_hash.removeprefix("sha256:")[:20]

    def runs(self, identity: Mapping[str, Any]) -> Path:
        """Folder of the blocks of all audits that share these runs; its identity is written on first use."""
        folder = self.root / "runs" / content_key(identity)
        if not (folder / "identity.json").is_file():
            write_json(folder / "identity.json", dict(identity))
        return folder

    def identities(self) -> list[dict[str, Any]]:
        """What the stored runs depend on."""
        files = sorted(self.root.glob("runs/*/identity.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def audit(self, audit: str) -> Path:
        """Folder of an audit."""
        return self.root / "audits" / audit

    def audits(self) -> list[str]:
        """Finished audits, newest first."""
        files = self.root.glob("audits/*/audit.json")
        return [file.parent.name for file in sorted(files, key=lambda f: f.stat().st_mtime, reverse=True)]

    @property
    def prefect(self) -> Path:
        """Prefect's home."""
        return self.root / "prefect"
