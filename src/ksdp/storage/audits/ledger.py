"""The ledger: every audit that was started in a store, by question, and every one that was finished.

Each line of `audits/ledger.jsonl` holds the SHA-256 of itself and of the line before, so none can be changed, or
taken out but at the end, unnoticed. An audit is written down before its first run, once, and again when it is
finished: stopping it, not liking what it says, or removing its folder takes nothing back.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ksdp.audit.errors import DamagedFile, StoreError
from ksdp.storage.codec import SUMS, add_to_chain, names_file, read_chain, whole_lines
from ksdp.storage.files import open_regular, read_stored
from ksdp.storage.locks import lock
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


@dataclass(frozen=True)
class AuditLedger:
    """The ledger of a store, as it was read."""

    lines: tuple[Mapping[str, Any], ...]

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """All audits as they were started, in that order."""
        from ksdp.audit.screening.clearance import Attempt  # imports numpy

        try:
            return tuple(Attempt(**line) for line in self.lines if "question" in line)
        except TypeError as error:
            raise StoreError("the ledger of audits is damaged: a line is not one that was written.") from error

    def attempts_at(self, question: str) -> tuple[Attempt, ...]:
        """All audits of a question, in the order in which they were started."""
        return tuple(attempt for attempt in self.attempts if attempt.question == question)

    def attempt(self, audit: str) -> Attempt | None:
        """An audit as it was started; None where the ledger does not name it."""
        return next((attempt for attempt in self.attempts if attempt.audit == audit), None)

    @cached_property
    def questions(self) -> dict[str, AuditQuestion]:
        """The question of every audit."""
        from ksdp.audit.screening.clearance import AuditQuestion  # imports numpy

        return {attempt.audit: AuditQuestion(attempt.question, attempt.file) for attempt in self.attempts}

    def proposing(self, audit: str) -> str:
        """The audit that proposed the list which this one audited by itself; else this one."""
        from ksdp.audit.screening.clearance import proposed_by  # imports numpy

        started = self.attempt(audit)
        return (started and proposed_by(started.attempt)) or audit

    @property
    def started(self) -> set[str]:
        """Every audit that was started."""
        return {str(line["audit"]) for line in self.lines if "audit" in line}

    @property
    def finished(self) -> list[str]:
        """Every audit that was finished, in that order, whatever the clock said."""
        return [str(line["finished"]) for line in self.lines if "finished" in line]

    @property
    def parts(self) -> frozenset[str]:
        """Audits that are one of several of an attempt: rounds of a screening, a schedule's changed rows."""
        return frozenset(str(line["audit"]) for line in self.lines if line.get("part"))

    @property
    def signed(self) -> dict[str, tuple[str, ...]]:
        """The audits that each signed clearance rests on, by the SHA-256 of what is signed."""
        return {str(line["signed"]): tuple(line["audits"]) for line in self.lines if "signed" in line}

    @property
    def deciding(self) -> frozenset[str]:
        """The last audit behind each signed clearance: an audit of exactly its list."""
        return frozenset(audits[-1] for audits in self.signed.values() if audits)


def read_ledger(store: Store) -> AuditLedger:
    """Read the ledger; empty where no audit was started."""
    path = _file(store.root)
    return _chained(read_stored(path)) if path.exists() else AuditLedger(())


def lost_audits(store: Store) -> dict[str, str]:
    """Audits that were finished and whose summary is gone, each with a sentence that says so."""
    finished = set(read_ledger(store).finished)
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
    ledger = read_ledger(source)
    finished = set(ledger.finished)
    for attempt in ledger.attempts_at(question):
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


@lru_cache(maxsize=2)
def _chained(content: bytes) -> AuditLedger:
    lines, broken = read_chain(content)
    if broken is not None:
        raise StoreError(f"the ledger of audits is damaged: line {broken} is not one that was written.")
    return AuditLedger(tuple(lines))


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
