"""Whether a review log is whole: its chain of hashes, from the file itself, and what a crash left at its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ksdp.audit.errors import StoreError
from ksdp.storage.locks import shared_lock
from ksdp.storage.reviews.log import GENESIS, LogHead, follow, locked, log_file, read_head, read_lines
from ksdp.storage.reviews.signatures import read_signatures
from ksdp.storage.store import write_whole


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
