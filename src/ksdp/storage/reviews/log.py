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
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import StoreError
from ksdp.audit.reviewing import Decision, Entry
from ksdp.storage.locks import lock, shared_lock
from ksdp.storage.store import append_synced, write_json, write_whole

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
    """Refuse to copy the decisions of a store into one that has others: two chains cannot be joined.

    Raises
    ------
    StoreError
        If the target's log is no beginning of the source's.
    """
    here, there = log_file(source), log_file(target)
    if here.exists() and there.exists() and not here.read_bytes().startswith(there.read_bytes()):
        raise StoreError(
            f"{source} and {target} have decisions of their own, and two logs cannot be joined: copy into a store "
            "without decisions."
        )


def copy_reviews(source: Path, target: Path) -> None:
    """Copy the decisions of a store, with their policy and signatures; see `check_copy`."""
    if log_file(source).exists():
        with locked(source) as log:
            made_again = shutil.ignore_patterns("lock", "index.sqlite*")
            shutil.copytree(log.parent, log_file(target).parent, dirs_exist_ok=True, ignore=made_again)


def _canonical(said: dict[str, Any]) -> bytes:
    return json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def _said(entry: Entry) -> dict[str, Any]:
    said = {name: getattr(entry, name) for name in _FIELDS}
    return said | {"decision": str(entry.decision), "at": entry.at.astimezone(UTC).isoformat()}


def _hash(said: dict[str, Any]) -> str:
    return hashlib.sha256(_PREFIX + _canonical(said)).hexdigest()


def chained(entry: Entry) -> Entry:
    """An entry with its own hash, in place of what it has."""
    return replace(entry, hash=_hash(_said(entry)))


def parse_line(line: bytes) -> Entry:
    """Read a line, without its line break.

    Raises
    ------
    ValueError
        If it is not the canonical form of an entry with its right hash.
    """
    try:
        said = json.loads(line.decode("ascii"))
        if {name: type(value) for name, value in said.items()} != _TYPES:
            raise ValueError("other keys")
        at = datetime.fromisoformat(said["at"])
        entry = Entry(**said | {"decision": Decision(said["decision"]), "at": at})
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


_SIGNED_PREFIX = b"ksdp-review-head-1\n"
_NAME = "signatures.jsonl"


@dataclass(frozen=True, slots=True)
class Signed:
    """One entry, and whose key signed it."""

    number: int
    hash: str
    key: str
    """The public key, 64 hex digits."""


def _message(number: int, digest: str) -> bytes:
    return _SIGNED_PREFIX + f"{number}\n{digest}\n".encode("ascii")


def sign_entries(log: Path, entries: Sequence[Entry], key: Ed25519PrivateKey) -> None:
    """Sign entries that the log has. The lock must be held."""
    public = key.public_key().public_bytes_raw().hex()
    lines = [
        {
            "number": entry.number,
            "hash": entry.hash,
            "key": public,
            "signature": key.sign(_message(entry.number, entry.hash)).hex(),
        }
        for entry in entries
    ]
    content = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode("ascii")
    path = log.parent / _NAME
    torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    # A line that a crash cut short was of an entry that was not reported as signed: it is ended.
    append_synced(path, (b"\n" if torn else b"") + content)


def read_signatures(log: Path) -> list[Signed]:
    """Entries that were signed, in the order of the file, every signature checked."""
    try:
        *lines, _ = (log.parent / _NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{_NAME} of the reviews cannot be read: {error.strerror}.") from error
    signatures = []
    for number, line in enumerate(lines, 1):
        try:
            said = json.loads(line.decode("ascii"))
            signed = Signed(int(said["number"]), str(said["hash"]), str(said["key"]))
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed.key))
            public.verify(bytes.fromhex(said["signature"]), _message(signed.number, signed.hash))
        except (InvalidSignature, ValueError, TypeError, KeyError) as error:
            if not line.endswith(b"}"):
                continue  # cut short by a crash, and ended later
            raise StoreError(f"line {number} of the reviews' {_NAME} is no signature that holds.") from error
        signatures.append(signed)
    return signatures


@dataclass(frozen=True, slots=True)
class ChainReport:
    """What checking a log found."""

    entries: int
    """Whole lines that are good, from the first one on."""
    head: LogHead
    """The last of them."""
    broken: int | None
    """Line number (from 1) of the first entry that is not what it should be; None where the chain holds."""
    reason: str
    """A sentence on what is wrong; empty where nothing is."""
    torn: int
    """Bytes of a last line that a crash cut short."""

    @property
    def whole(self) -> bool:
        """Whether every entry is good and nothing is torn."""
        return self.broken is None and not self.torn


def check_chain(root: Path, anchors: Sequence[LogHead] = ()) -> ChainReport:
    """Check every entry of a log, from the file itself.

    Parameters
    ----------
    root : Path
        Folder of a store, or a log file; `head.json` beside it is an anchor where it is there.
    anchors : sequence of LogHead
        Entries known from elsewhere, as signed clearances carry them: the log must hold each.
    """
    inside = log_file(root) if root.is_dir() else root
    try:
        with shared_lock(inside.parent / "lock"):  # a copy of a log has none, and needs none
            report = _check(inside, anchors)
            held = report.broken is None and (report.entries or report.torn)
            if root.is_dir() and held and not (inside.parent / "head.json").is_file():
                why = "head.json, which names the newest entry, was taken away: entries may be missing at the end."
                return replace(report, broken=report.entries + 1, reason=why)
            return report
    except OSError as error:
        raise StoreError(f"the review log {inside} cannot be read: {error.strerror}.") from error


def _check(path: Path, anchors: Sequence[LogHead]) -> ChainReport:
    signed = [LogHead(one.number, one.hash) for one in read_signatures(path)]
    wanted = [read_head(path), *signed, *anchors]
    lines, torn = read_lines(path)
    hashes = [GENESIS]
    why = ""
    try:
        for entry in follow(LogHead(0, GENESIS), lines):
            hashes.append(entry.hash)
    except ValueError as error:
        why = f"entry {len(hashes)} is not what was written: {error}."
    good = len(hashes) - 1
    broken = len(hashes) if why else None
    missed = [a for a in wanted if not 0 <= a.number <= good or hashes[a.number] != a.hash]
    if not why and missed:
        first = min(missed, key=lambda anchor: anchor.number)
        broken = min(first.number, good + 1)
        why = (
            f"entries {good + 1} to {first.number} are missing at the end."
            if first.number > good
            else f"entry {first.number} is not the one that is known from elsewhere: the log was written anew."
        )
    elif not why and torn:
        why = f"a line of {torn} bytes behind entry {good} was cut short; it is no entry."
    return ChainReport(good, LogHead(good, hashes[-1]), broken, why, torn)


def set_torn_aside(root: Path, now: datetime) -> Path | None:
    """Move a torn last line into `reviews/torn-<number>-<time>.bin`; its path, or None where nothing is torn.

    The bytes are written and synced there before they are cut off the log.

    Raises
    ------
    StoreError
        If the entries before it are broken: that is no crash, and nothing is moved.
    """
    with locked(root) as path:
        report = _check(path, ())
        if report.broken is not None:
            raise StoreError(f"the review log is broken, not torn: {report.reason} Nothing was moved.")
        if not report.torn:
            return None
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(size - report.torn)
            torn = file.read()
        aside = path.parent / f"torn-{report.entries + 1}-{now.astimezone(UTC):%Y%m%dT%H%M%S%f}.bin"

        def write(part: Path) -> None:
            part.write_bytes(torn)

        write_whole(aside, write)
        with path.open("r+b") as log:
            log.truncate(size - report.torn)
            os.fsync(log.fileno())
        return aside
