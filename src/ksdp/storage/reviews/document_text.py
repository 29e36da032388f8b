"""The text of a document for a reviewer, and who read which text: `reviews/looks.jsonl`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ksdp.audit.errors import StoreError
from ksdp.storage.codec import add_to_chain, read_chain
from ksdp.storage.files import read_stored
from ksdp.storage.locks import lock
from ksdp.storage.store import Store


@dataclass(frozen=True)
class TextAccess:
    """One time that a reviewer read a text."""

    number: int
    at: datetime
    reviewer: str
    audit: str
    document: str


def _file(store: Store) -> Path:
    return store.root / "reviews" / "looks.jsonl"


def record_access(store: Store, audit: str, document: str, reviewer: str, now: datetime) -> None:
    """Record an access before the text is fetched."""
    path = _file(store)
    line = {"at": now.astimezone(UTC).isoformat(), "reviewer": reviewer, "audit": audit, "document": document}
    try:
        with lock(path.parent / "lock"):
            add_to_chain(path, line)
    except OSError as error:
        raise StoreError(f"this access cannot be recorded ({error.strerror}): the text is not shown.") from error


def read_accesses(store: Store) -> tuple[list[TextAccess], int | None]:
    """Accesses, oldest first, up to the line (from 1) that is not what was written; None where all are."""
    try:
        entries, broken = read_chain(read_stored(_file(store)))
    except FileNotFoundError:
        return [], None
    return [
        TextAccess(number, datetime.fromisoformat(entry.pop("at")), **entry)
        for number, entry in enumerate(entries, 1)
    ], broken


@dataclass(frozen=True)
class TextCommand:
    """A program that reads an id (UTF-8, no line break after it) on standard input and writes the text.

    No shell is between, and the id is no argument: whatever it holds, it is data. What the program says on
    standard error is not shown, because it may hold the text.
    """

    command: tuple[str, ...]
    seconds: float = 10.0
    most: int = 100_000

    def __call__(self, audit: str, document: str) -> str:
        """Fetch the text."""
        try:
            done = subprocess.run(
                self.command, input=document.encode(), capture_output=True, timeout=self.seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise StoreError(f"the resolver did not answer within {self.seconds:g} s.") from None
        except OSError as error:
            raise StoreError(f"the resolver cannot be run: {error.strerror}.") from None
        if done.returncode:
            raise StoreError(f"the resolver has no text for this document (exit code {done.returncode}).")
        text = done.stdout.decode("utf-8", "replace")
        return text if len(text) <= self.most else text[: self.most] + "\n[cut]"
