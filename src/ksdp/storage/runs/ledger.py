"""Uses of a party's data: one line a run that began, one more when it finished, chained by hashes.

A line is written before anything that depends on data is sent: what a run gave away that was killed stays counted.
The file is the party's own (mode 0600), beside its key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.storage.codec import add_to_chain, read_chain
from ksdp.storage.files import read_stored
from ksdp.storage.locks import lock


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
        """Keep other processes from adding a line, so that what was read still holds when one is added."""
        with lock(self.path.with_name(f".{self.path.name}.lock")):
            yield

    def read(self) -> list[dict[str, Any]]:
        """All lines, in order."""
        try:
            lines, broken = read_chain(read_stored(self.path))
        except FileNotFoundError:
            return []
        if broken is not None:
            raise StoreError(
                f"the ledger {self.path}: line {broken} was changed or cut. What was given away is not known: "
                "restore the file, or set it aside and count its runs as unbounded."
            )
        return lines

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one more, synced; call it within `locked`."""
        self.read()
        try:
            add_to_chain(self.path, line)
        except OSError as error:
            raise StoreError(f"the ledger {self.path} cannot be written: {error.strerror or error}.") from error
