"""The review log: `reviews/log.jsonl`, one decision a line, chained by hashes, only ever added to.

Each line is the canonical JSON of an entry (sorted keys, no spaces, ASCII). `hash` is the SHA-256, behind a fixed
prefix, of the line without it; `previous` is the hash of the line before. So no line can be changed, left out or
moved unnoticed, save at the end: `reviews/head.json`, written after each addition, names the newest line, and each
clearance made from decisions carries the newest line of its day, signed (give it as an anchor).

Whoever may write the folder can make up a whole new chain; signed clearances are what they cannot make up.

Additions hold a lock, are synced, and never touch earlier bytes. A crash may leave a *torn* last line, without its
line break. It was never reported as recorded, so it is no entry; it is reported by `check_chain`, and nothing is
added behind it until `set_torn_aside` was called, which keeps the torn bytes in a file of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.audit.reviewing import Decision, Entry
from ksdp.storage.locks import lock
from ksdp.storage.store import write_json
from ksdp.storage.synced import append_synced

GENESIS = "0" * 64
"""`previous` of the first entry."""
_PREFIX = b"ksdp-review-1\n"
_FIELDS = ("number", "audit", "document", "decision", "reason", "reviewer", "at", "saw", "previous")
_TYPES = {name: int if name in ("number", "saw") else str for name in (*_FIELDS, "hash")}


@dataclass(frozen=True, slots=True)
class LogHead:
    """The newest entry of a log; number 0 where there is none."""

    number: int
    hash: str


def log_file(root: Path) -> Path:
    """The log of a store."""
    return root / "reviews" / "log.jsonl"


@contextlib.contextmanager
def locked(root: Path) -> Iterator[Path]:
    """Hold the reviews of a store; the log's path."""
    path = log_file(root)
    with lock(path.parent / "lock"):
        yield path


def _canonical(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _said(entry: Entry) -> dict[str, Any]:
    fields = {name: getattr(entry, name) for name in _FIELDS}
    return fields | {"decision": str(entry.decision), "at": entry.at.astimezone(UTC).isoformat()}


def _hash(fields: dict[str, Any]) -> str:
    return hashlib.sha256(_PREFIX + _canonical(fields)).hexdigest()


def make_entry(
    head: LogHead,
    *,
    audit: str,
    document: str,
    decision: Decision,
    reason: str,
    reviewer: str,
    at: datetime,
    saw: int,
) -> Entry:
    """The entry that follows `head`."""
    bare = Entry(
        number=head.number + 1,
        audit=audit,
        document=document,
        decision=decision,
        reason=reason,
        reviewer=reviewer,
        at=at.astimezone(UTC),
        saw=saw,
        previous=head.hash,
        hash="",
    )
    values = {name: getattr(bare, name) for name in _FIELDS}
    return Entry(**values, hash=_hash(_said(bare)))


def parse_line(line: bytes) -> Entry:
    """Read a line, without its line break.

    Raises
    ------
    ValueError
        If it is not the canonical form of an entry with its right hash.
    """
    try:
        fields = json.loads(line.decode("ascii"))
        if {name: type(value) for name, value in fields.items()} != _TYPES:
            raise ValueError("other keys")
        values = {**fields, "decision": Decision(fields["decision"]), "at": datetime.fromisoformat(fields["at"])}
        entry = Entry(**values)
        whole = _said(entry)
        if _canonical(whole | {"hash": entry.hash}) != line or _hash(whole) != entry.hash:
            raise ValueError("another form")
    except (TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError("it was changed, or is no entry") from error
    return entry


def read_lines(path: Path, start: int = 0) -> tuple[list[bytes], int]:
    """Whole lines from byte `start` on, without their line breaks, and how many bytes are torn behind them."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            content = file.read()
    except FileNotFoundError:
        return [], 0
    *lines, torn = content.split(b"\n")
    return lines, len(torn)


def add_lines(path: Path, entries: Sequence[Entry]) -> int:
    """Add entries to the log and sync; bytes written. The lock must be held, and nothing torn be at the end."""
    content = b"".join(_canonical(_said(entry) | {"hash": entry.hash}) + b"\n" for entry in entries)
    if not path.exists():  # from the first byte on there is a head: a log without one was cut off by somebody
        write_json(path.parent / "head.json", {"number": 0, "hash": GENESIS})
    append_synced(path, content)
    write_json(path.parent / "head.json", {"number": entries[-1].number, "hash": entries[-1].hash})
    return len(content)


def follow(head: LogHead, lines: Iterable[bytes]) -> Iterator[Entry]:
    """Entries of the lines that follow `head`, in a chain.

    Raises
    ------
    ValueError
        At the first line that is not the next entry, saying why not.
    """
    for line in lines:
        entry = parse_line(line)
        if entry.number != head.number + 1:
            raise ValueError(f"it says that it is entry {entry.number}")
        if entry.previous != head.hash:
            raise ValueError("it does not follow from the entry before")
        head = LogHead(entry.number, entry.hash)
        yield entry


def read_head(path: Path) -> LogHead:
    """What `head.json` beside a log says; entry 0 where there is none."""
    file = path.parent / "head.json"
    try:
        head = json.loads(file.read_text(encoding="ascii"))
        return LogHead(int(head["number"]), str(head["hash"]))
    except FileNotFoundError:
        return LogHead(0, GENESIS)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{file.name} of the reviews cannot be read: nobody can say where the log ends."
        ) from error
