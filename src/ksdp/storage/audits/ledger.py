"""The ledger: every audit that was started in a store, by question, and every one that was finished.

Each line of `audits/ledger.jsonl` holds the SHA-256 of itself and of the line before, so none can be changed, or
taken out but at the end, unnoticed. An audit is written down before its first run, once, and again when it is
finished: stopping it, not liking what it says, or removing its folder takes nothing back.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksdp.audit.errors import DamagedFile, StoreError
from ksdp.storage.codec import SUMS, add_to_chain, names_file, read_chain, whole_lines
from ksdp.storage.locks import lock
from ksdp.storage.readers.files import open_regular, read_stored
from ksdp.storage.store import Store

if TYPE_CHECKING:
    from ksdp.audit.screening.clearance import Attempt, AuditQuestion


def record_attempt(store: Store, attempt: Attempt) -> bool:
    """Record an audit unless the ledger has it, and return whether it was new."""
    return _record(store, "audit", asdict(attempt))


def record_finished(store: Store, audit: str) -> bool:
    """Record that an audit has written its summary (`record_attempt`)."""
    return _record(store, "finished", {"finished": audit})


def record_signed(store: Store, digest: str, audits: Iterable[str]) -> bool:
    """Record, before it is written, a clearance and the audits that it rests on (`record_attempt`)."""
    return _record(store, "signed", {"signed": digest, "audits": list(audits)})


def signed_audits(store: Store) -> dict[str, tuple[str, ...]]:
    """The audits that each signed clearance rests on, by the SHA-256 of what is signed."""
    return {str(line["signed"]): tuple(line["audits"]) for line in _lines(store) if "signed" in line}


def deciding_audits(store: Store) -> frozenset[str]:
    """The last audit behind each signed clearance: an audit of exactly its list."""
    return frozenset(audits[-1] for audits in signed_audits(store).values() if audits)


def part_audits(store: Store) -> frozenset[str]:
    """Audits that are one of several of an attempt: rounds of a screening, a schedule's changed rows."""
    return frozenset(str(line["audit"]) for line in _lines(store) if line.get("part"))


def proposing_audit(store: Store, audit: str) -> str:
    """The audit that proposed the list which this one audited by itself; this one, where it is no such audit."""
    from ksdp.audit.screening.clearance import proposed_by  # imports numpy

    started = find_attempt(store, audit)
    return (started and proposed_by(started.attempt)) or audit


def started_audits(store: Store) -> set[str]:
    """Every audit that the ledger names."""
    return set(_values(store, "audit"))


def finished_audits(store: Store) -> list[str]:
    """Every audit that was finished, in that order, whatever the clock said."""
    return list(_values(store, "finished"))


def read_attempts(store: Store, question: str) -> tuple[Attempt, ...]:
    """All audits of a question, in the order in which they were started."""
    return tuple(attempt for attempt in _attempts(store) if attempt.question == question)


def read_questions(store: Store) -> dict[str, AuditQuestion]:
    """Return the question of every audit."""
    from ksdp.audit.screening.clearance import AuditQuestion  # imports numpy

    return {attempt.audit: AuditQuestion(attempt.question, attempt.file) for attempt in _attempts(store)}


def find_attempt(store: Store, audit: str) -> Attempt | None:
    """An audit as it was started; None where the ledger does not name it."""
    return next((attempt for attempt in [*_attempts(store)] if attempt.audit == audit), None)


def lost_audits(store: Store) -> dict[str, str]:
    """Audits that were finished and whose summary is gone, each with a sentence that says so.

    The ledger names them, or the checksums of their folder do.
    """
    finished = set(finished_audits(store))
    folders = (sums.parent for sums in store.root.glob(f"audits/*/{SUMS}"))
    finished |= {folder.name for folder in folders if names_file(folder / "audit.json")}
    return {
        audit: f"audit {audit!r} was finished, and its audit.json is gone: restore audits/{audit} from a backup, "
        "or run `ksdp audit` with its spec again."
        for audit in sorted(finished)
        if not (store.audit(audit) / "audit.json").is_file()
    }


def copy_attempts(source: Store, target: Store, question: str) -> None:
    """Record all audits of a question in another store as well, the finished ones as finished."""
    finished = set(finished_audits(source))
    for attempt in read_attempts(source, question):
        record_attempt(target, attempt)
        if attempt.audit in finished:
            record_finished(target, attempt.audit)


def check_none_lost(store: Store) -> None:
    """Refuse a store that has lost a finished audit: what it proved sensitive would be forgotten."""
    for sentence in lost_audits(store).values():
        raise DamagedFile(f"nothing is cleared from this store: {sentence}")


def _record(store: Store, name: str, content: Mapping[str, Any]) -> bool:
    """Add a line unless there is one whose `name` has this value, and return whether it was new."""
    path, value = _file(store.root), str(content[name])
    if _stands(path, name, value):  # nothing to write, which a store that only can be read allows
        return False
    with lock(path.with_name(".ledger.lock")):
        if _stands(path, name, value):
            return False
        add_to_chain(path, content)
    return True


def _values(store: Store, name: str) -> Iterator[str]:
    return (str(line[name]) for line in _lines(store) if name in line)


def _attempts(store: Store) -> Iterator[Attempt]:
    from ksdp.audit.screening.clearance import Attempt  # imports numpy

    for line in _lines(store):
        if "question" in line:
            try:
                yield Attempt(**line)
            except TypeError as error:
                raise StoreError("the ledger of audits is damaged: a line is not one that was written.") from error


def _lines(store: Store) -> tuple[dict[str, Any], ...]:
    path = _file(store.root)
    return _chained(read_stored(path)) if path.exists() else ()


@lru_cache(maxsize=2)
def _chained(content: bytes) -> tuple[dict[str, Any], ...]:
    lines, broken = read_chain(content)
    if broken is not None:
        raise StoreError(f"the ledger of audits is damaged: line {broken} is not one that was written.")
    return tuple(lines)


def _file(root: Path) -> Path:
    return root / "audits" / "ledger.jsonl"


def _stands(path: Path, name: str, value: str) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        before = content.rfind(b"\n", 0, max(content.rfind(b"\n"), 0)) + 1
        length = before + sum(len(line) + 1 for line in whole_lines(content[before:]))
        # As `json.dumps` writes it; a quotation mark inside of a value would be escaped.
        return 0 <= content.find(f"{json.dumps(name)}: {json.dumps(value)}".encode("ascii")) < length
