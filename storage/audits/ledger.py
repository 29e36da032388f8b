"""The ledger: every audit that was started in a store, by question; one line each, only ever added to.

Each line of `audits/ledger.jsonl` holds the SHA-256 of itself and of the line before, so none can be changed, or
taken out but at the end, unnoticed. An audit is written down before its first run, once: stopping it, or not
liking what it says, takes nothing back.
"""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow.compute as pc

from ksdp.audit.errors import StoreError
from ksdp.audit.screening.clearance import Attempt
from ksdp.storage.audits.history import read_summary
from ksdp.storage.codec import START, add_line, hashed_line, is_whole, whole_lines
from ksdp.storage.findings import read_verdicts
from ksdp.storage.locks import lock
from ksdp.storage.store import Store


def record_attempt(store: Store, attempt: Attempt) -> bool:
    """Record an audit unless the ledger has it, and return whether it was new.

    Raises
    ------
    StoreError
        If the last line is not one that was written. The others are not parsed: who reads the ledger checks them.
    """
    path = _file(store.root)
    if _end(path, attempt.audit)[0]:  # nothing to write, which a store that only can be read allows
        return False
    with lock(path.with_name(".ledger.lock")):
        stands, last = _end(path, attempt.audit)
        if stands:
            return False
        if last:
            _parsed(last)
        previous = hashlib.sha256(last).hexdigest() if last else START
        add_line(path, hashed_line(asdict(attempt) | {"previous": previous}))
    return True


def read_attempts(store: Store, question: str) -> tuple[Attempt, ...]:
    """All audits of a question, in the order in which they were started."""
    return tuple(one for one in _all(store) if one.question == question)


def find_attempt(store: Store, audit: str) -> Attempt | None:
    """An audit as it was started; None where the ledger does not name it."""
    return next((one for one in [*_all(store)] if one.audit == audit), None)


def _all(store: Store) -> Iterator[Attempt]:
    previous = START
    for number, line in enumerate(_lines(_file(store.root)), start=1):
        attempt, says = _parsed(line)
        if says != previous:
            raise StoreError(f"the ledger of audits is damaged: line {number} does not follow the one before.")
        previous = hashlib.sha256(line).hexdigest()
        yield attempt


def remembered_sensitive(store: Store, attempts: Sequence[Attempt], *, margin: float, unit: str) -> frozenset[str]:
    """Documents (or groups) that an earlier audit proved to be above the margin: no other seed makes them clear.

    Parameters
    ----------
    attempts : sequence of Attempt
        The audits that count. One that was never finished, or is void, proved nothing.
    margin : float
        Of the decision now. An audit with a smaller margin proved less than what is asked now, and is passed over.
    unit : str
        `document` or `group`: audits of the other are passed over.

    Raises
    ------
    StoreError
        If a finished audit cannot be read: what it proved would be forgotten.
    """
    found: set[str] = set()
    for folder in {store.audit(one.audit) for one in attempts if one.margin >= margin}:
        if not (folder / "audit.json").is_file():
            continue
        summary = read_summary(folder)
        if summary.valid and summary.design.unit == unit:
            verdicts = read_verdicts(folder)
            found |= set(verdicts.filter(pc.equal(verdicts["verdict"], "sensitive"))["document"].to_pylist())
    return frozenset(map(str, found))


def _file(root: Path) -> Path:
    return root / "audits" / "ledger.jsonl"


def _end(path: Path, audit: str) -> tuple[bool, bytes]:
    """Whether an audit stands there, and the last line."""
    if not path.is_file() or not path.stat().st_size:
        return False, b""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        before = content.rfind(b"\n", 0, max(content.rfind(b"\n"), 0)) + 1
        ends = whole_lines(content[before:])
        whole = before + sum(len(line) + 1 for line in ends)
        # As `json.dumps` writes it; a quotation mark inside of a value would be escaped.
        stands = 0 <= content.find(f'"audit": {json.dumps(audit)}'.encode("ascii")) < whole
        return stands, ends[-1] if ends else b""


def _lines(path: Path) -> list[bytes]:
    try:
        return whole_lines(path.read_bytes())
    except FileNotFoundError:
        return []


def _parsed(line: bytes) -> tuple[Attempt, str]:
    try:
        values = json.loads(line)
        if not is_whole(values):
            raise ValueError("changed")
        del values["hash"]
        previous = str(values.pop("previous"))
        return Attempt(**values), previous
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError("the ledger of audits is damaged: a line is not one that was written.") from error
