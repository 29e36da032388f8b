"""The review log: `reviews/log.jsonl`, one decision a line, chained by hashes, only ever added to.

Each line is the canonical JSON of an entry (sorted keys, no spaces, ASCII). `hash` is the SHA-256, behind a fixed
prefix, of the line without it; `previous` is the hash of the line before. So no line can be changed, left out or
moved unnoticed, save at the end: `reviews/head.json`, written after each addition, names the newest line.

Whoever may write the folder can make up a whole new chain, but none that holds an entry whose hash is known from
elsewhere.

Additions hold a lock, are synced, and never touch a whole line. A crash may leave a *torn* last line, without its
line break. It was never reported as recorded, so it is no entry, and the next addition takes its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.audit.reviewing import CorpusUnits, Decision, Entry, file_of
from ksdp.storage.files import read_stored
from ksdp.storage.locks import lock, shared_lock
from ksdp.storage.store import append_synced, write_json

GENESIS = "0" * 64
"""`previous` of the first entry."""
_PREFIX = b"ksdp-review-1\n"
_FIELDS = tuple(name for name in (field.name for field in fields(Entry)) if name != "hash")
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


def check_copy(source: Path, target: Path) -> None:
    """Refuse to copy the decisions of a store into one that has others: two chains cannot be joined."""
    here, there = log_file(source), log_file(target)
    if here.exists() and there.exists() and not read_stored(here).startswith(read_stored(there)):
        raise StoreError(
            f"{source} and {target} have decisions of their own, and two logs cannot be joined: copy into a store "
            "without decisions."
        )


def copy_reviews(source: Path, target: Path) -> None:
    """Copy the decisions of a store, with their policy; see `check_copy`."""
    if log_file(source).exists():
        with locked(source) as log:
            shutil.copytree(
                log.parent, log_file(target).parent, dirs_exist_ok=True, ignore=shutil.ignore_patterns("lock")
            )


def _canonical(said: dict[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _said(entry: Entry) -> dict[str, Any]:
    body = {name: getattr(entry, name) for name in _FIELDS}
    return body | {"decision": str(entry.decision), "at": entry.at.astimezone(UTC).isoformat()}


def _hash(said: dict[str, Any]) -> str:
    return hashlib.sha256(_PREFIX + _canonical(said)).hexdigest()


def chained(entry: Entry) -> Entry:
    """An entry with its own hash, in place of what it has."""
    return replace(entry, hash=_hash(_said(entry)))


def parse_line(line: bytes) -> Entry:
    """Read a line, without its line break."""
    try:
        body = json.loads(line.decode("ascii"))
        if {name: type(value) for name, value in body.items()} != _TYPES:
            raise ValueError("other keys")
        at = datetime.fromisoformat(body["at"])
        entry = Entry(**body | {"decision": Decision(body["decision"]), "at": at})
        fields = _said(entry)
        if _canonical(fields | {"hash": entry.hash}) != line or _hash(fields) != entry.hash:
            raise ValueError("another form")
    except (TypeError, ValueError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError("it was changed, or is no entry") from error
    return entry


def add_lines(path: Path, log: ReviewLog, entries: Sequence[Entry]) -> None:
    """Add entries to what is in the log, in place of a torn line, and sync. The lock must be held."""
    content = b"".join(_canonical(_said(entry) | {"hash": entry.hash}) + b"\n" for entry in entries)
    if log.torn:
        os.truncate(path, len(log.content))
    if not path.exists():  # from the first byte on there is a head: a log without one was cut off by somebody
        write_json(path.parent / "head.json", {"number": 0, "hash": GENESIS})
    append_synced(path, content)
    write_json(path.parent / "head.json", {"number": entries[-1].number, "hash": entries[-1].hash})


@dataclass(frozen=True)
class ReviewLog:
    """Entries of a log."""

    content: bytes = b""
    entries: tuple[Entry, ...] = ()
    torn: int = 0
    """Bytes of a last line that a crash cut short."""
    fault: str = ""
    """Why the line behind the entries is not the next one; empty where there is none."""

    @property
    def head(self) -> LogHead:
        """The newest entry."""
        return LogHead(len(self.entries), self.entries[-1].hash if self.entries else GENESIS)

    @cached_property
    def _named(self) -> dict[tuple[str, str], list[Entry]]:
        named: dict[tuple[str, str], list[Entry]] = {}
        for entry in self.entries:
            named.setdefault((entry.unit, entry.document), []).append(entry)
        return named

    def about(self, units: CorpusUnits, documents: Iterable[str] | None = None) -> dict[str, list[Entry]]:
        """Entries about units of a corpus, whatever the audit, by name, in the order of the log."""
        if documents is None:
            documents = [name for unit, name in self._named if unit == units.unit]
        entries_of = {name: self._named.get((units.unit, name), []) for name in documents}
        mine = {
            name: [
                entry for entry in entries if entry.corpus == units.corpus or file_of(entry.source) == units.file
            ]
            for name, entries in entries_of.items()
        }
        return {name: entries for name, entries in mine.items() if entries}


def _parsed(content: bytes, before: ReviewLog) -> ReviewLog:
    *lines, torn = content[len(before.content) :].split(b"\n")
    entries, newest, fault = list(before.entries), before.head, ""
    try:
        for line in lines:
            entry = parse_line(line)
            if entry.number != newest.number + 1:
                raise ValueError(f"it says that it is entry {entry.number}")
            if entry.previous != newest.hash:
                raise ValueError("it does not follow from the entry before")
            newest = LogHead(entry.number, entry.hash)
            entries.append(entry)
    except ValueError as error:
        fault = f"entry {len(entries) + 1} is not what was written: {error}."
    return ReviewLog(content[: len(content) - len(torn)], tuple(entries), len(torn), fault)


_kept: dict[Path, tuple[tuple[int, int], ReviewLog]] = {}
"""Logs that were read: size and time of the file, and what was in it."""


def read_review_log(path: Path) -> ReviewLog:
    """Read a log; its file is read again if it has changed. A lock must be held."""
    try:
        file = path.stat()
    except FileNotFoundError:
        log = ReviewLog()
    else:
        stamp, log = _kept.get(path, ((-1, 0), ReviewLog()))
        if stamp != (file.st_size, file.st_mtime_ns):
            content = read_stored(path)
            log = _parsed(content, log if not log.fault and content.startswith(log.content) else ReviewLog())
            _kept[path] = ((file.st_size, file.st_mtime_ns), log)
    report = _report(log, [read_head(path)])
    if not report.whole:
        raise StoreError(f"the review log is broken: {report.reason}")
    return log


def read_head(path: Path) -> LogHead:
    """Read `head.json` beside a log; entry 0 if there is none."""
    file = path.parent / "head.json"
    try:
        head = json.loads(read_stored(file).decode("ascii"))
        return LogHead(int(head["number"]), str(head["hash"]))
    except FileNotFoundError:
        return LogHead(0, GENESIS)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{file.name} of the reviews cannot be read: nobody can say where the log ends."
        ) from error


@dataclass(frozen=True, slots=True)
class ChainReport:
    """Result of checking a log."""

    entries: int
    """Whole lines that are good, from the first one on."""
    head: LogHead
    broken: int | None
    """Line number (from 1) of the first entry that is not what it should be; None where the chain holds."""
    reason: str
    """A sentence on what is wrong; empty where nothing is."""
    torn: int
    """Bytes of a last line that a crash cut short; it is no entry."""

    @property
    def whole(self) -> bool:
        """Whether every entry is good."""
        return self.broken is None


def check_chain(root: Path, anchors: Sequence[LogHead] = ()) -> ChainReport:
    """Check every entry of a log, from the file itself."""
    inside = log_file(root) if root.is_dir() else root
    try:
        with shared_lock(inside.parent / "lock"):  # a copy of a log has none, and needs none
            log = _parsed(read_stored(inside) if inside.exists() else b"", ReviewLog())
            report = _report(log, [read_head(inside), *anchors])
            if root.is_dir() and report.whole and log.entries and not (inside.parent / "head.json").is_file():
                why = "head.json, which names the newest entry, was taken away: entries may be missing at the end."
                return replace(report, broken=report.entries + 1, reason=why)
            return report
    except OSError as error:
        raise StoreError(f"the review log {inside} cannot be read: {error.strerror}.") from error


def _report(log: ReviewLog, anchors: Sequence[LogHead]) -> ChainReport:
    good, broken, why = len(log.entries), None, log.fault
    hashes = (GENESIS, *(entry.hash for entry in log.entries))
    missed = [a for a in anchors if not 0 <= a.number <= good or hashes[a.number] != a.hash]
    if why:
        broken = good + 1
    elif missed:
        first = min(missed, key=lambda anchor: anchor.number)
        broken = min(first.number, good + 1)
        why = (
            f"entries {good + 1} to {first.number} are missing at the end."
            if first.number > good
            else f"entry {first.number} is not the one that is known from elsewhere: the log was written anew."
        )
    return ChainReport(good, log.head, broken, why, log.torn)
