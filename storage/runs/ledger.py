"""What a party's data has been used for: one line a run that began, one more when it finished, chained by hashes.

A line is written before anything that depends on data is sent: what a run gave away that was killed stays counted.
The file is the party's own (mode 0600), beside its key.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.storage.locks import lock

__all__ = ["Ledger"]

_START = "0" * 64


class Ledger:
    """A file of lines that are only ever added.

    Parameters
    ----------
    path : Path
        Made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else adds a line meanwhile: what was read is still so when a line is added."""
        with lock(self.path.with_name(f".{self.path.name}.lock")):
            yield

    def read(self) -> list[dict[str, Any]]:
        """All lines, in order.

        Raises
        ------
        StoreError
            If one was changed, is missing between others, or cannot be read.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"the ledger {self.path} cannot be read.") from error
        lines, previous = [], _START
        for number, one in enumerate(text.splitlines(), start=1):
            try:
                line = json.loads(one)
                stated = line.pop("hash")
                whole = line["previous"] == previous and stated == _hash(line)
            except (ValueError, KeyError, TypeError, AttributeError):
                whole = False
            if not whole:
                raise StoreError(
                    f"the ledger {self.path}: line {number} was changed or cut. What was given away is not known: "
                    "restore the file, or set it aside and count its runs as unbounded."
                )
            previous = stated
            lines.append(line)
        return lines

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one more, synced; call it within `locked`."""
        lines = self.read()
        previous = _hash(lines[-1]) if lines else _START
        content = dict(line) | {"previous": previous}
        text = json.dumps(content | {"hash": _hash(content)}, sort_keys=True, allow_nan=False) + "\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"the ledger {self.path} cannot be written: {error.strerror}.") from error


def _hash(line: Mapping[str, Any]) -> str:
    text = json.dumps(line, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(b"ksdp-ledger-1\n" + text.encode()).hexdigest()
