"""How an audit is named to a worker, which rebuilds its plan from what is stored."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from ksdp.audit.errors import InputError
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Part, Plan, document_parts, keeps_values
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import own_code
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.statistics.simulated import SimulatedStatistic
from ksdp.audit.verdicts.looks import FIRST, Stage
from ksdp.storage.audits.stages import read_stage
from ksdp.storage.blocks import ROW_GROUP
from ksdp.storage.findings import read_spec
from ksdp.storage.mapped_corpus import corpus_written, open_corpus
from ksdp.storage.remote import Place
from ksdp.storage.store import Store


@dataclass(frozen=True)
class AuditRef:
    """Names a stage of an audit to a worker."""

    store: str
    audit: str
    corpus: str
    """Hash of the corpus."""
    may_sample: bool = True
    """False: only cached observables may be used."""
    stage: str = FIRST
    blocks: str | None = None
    """URL where the store keeps its blocks; workers then need no folder of it."""
    part: Part | None = None
    """Some of the stage's documents alone; None: all."""
    code: str | None = None
    """Digest of code that is not ours, as whoever started the audit has it (`code_of`); None: there is none, or
    nobody compares."""

    def at(self, stage: str) -> AuditRef:
        """Another stage of the same audit, with all its documents."""
        return replace(self, stage=stage, part=None)

    @property
    def whole(self) -> AuditRef:
        """The same stage with all its documents."""
        return self.at(self.stage)

    def of(self, part: Part) -> AuditRef:
        """Some documents of the same stage."""
        return replace(self, part=part)


@dataclass(frozen=True)
class Folders:
    """Where the blocks of a stage are, and what their keys must be."""

    observables: Place
    values: Place
    key: str
    values_key: str
    dropped: bool
    """Whether the values go when they are tested."""


def open_audit(ref: AuditRef) -> Plan:
    """The plan of the whole audit, from a reference to its first look."""
    return _audit(ref, _written(ref))


def _written(ref: AuditRef) -> tuple[int, ...]:
    return corpus_written(Store(Path(ref.store)).corpus(ref.corpus))


@lru_cache(maxsize=4)
def _audit(ref: AuditRef, written: tuple[int, ...]) -> Plan:
    store = Store(Path(ref.store))
    plan = make_plan(Opened.of(read_spec(store.audit(ref.audit)), open_corpus(store.corpus(ref.corpus))))
    if ref.code is not None and ref.code != code_of(plan):
        raise InputError(
            "a worker has other code of the mechanism or of a statistic than this machine: install the same on all"
            " of them, and edit it when the audit is finished."
        )
    return plan


def code_of(plan: Plan) -> str | None:
    """Digest of the code of a plan's mechanism and statistics that is not ours; None where all of it is."""
    named = [plan.spec.mechanism.model_dump(mode="json"), plan.spec.statistics.names]
    code = own_code(named, [plan.mechanism, *plan.statistics])
    return content_key(code) if code else None


@lru_cache(maxsize=8)
def open_stage(ref: AuditRef) -> Stage:
    """The stage that a reference names; the first look follows from the plan."""
    if ref.part is not None:
        parent = open_stage(ref.whole)
        # What an earlier look measured was other documents beside one another, and is gone.
        some = slice(*ref.part)
        strongest = None if parent.strongest is None else parent.strongest[some]
        return replace(parent, rows=parent.rows[some], before=None, strongest=strongest)
    if ref.stage != FIRST:
        return read_stage(Store(Path(ref.store)).audit(ref.audit), ref.stage)
    plan = open_audit(ref)
    names = tuple(s.name for s in plan.statistics)
    return Stage(FIRST, plan.design.seed, plan.looks[0].runs, plan.audited, names)


def open_plan(ref: AuditRef) -> Plan:
    """Rebuild the plan of a stage from the store, once a process; anew where its corpus was written anew."""
    return _plan(ref, _written(ref))


@lru_cache(maxsize=4)
def _plan(ref: AuditRef, written: tuple[int, ...]) -> Plan:
    return open_audit(ref.at(FIRST)).narrowed(open_stage(ref))


@lru_cache(maxsize=4)
def folders_of(ref: AuditRef) -> Folders:
    """Folders and keys of a stage's blocks."""
    plan = open_plan(ref)
    folder = Store(Path(ref.store)).runs(plan.runs_identity)
    key = content_key(plan.runs_identity)
    # Values are of these documents, in this order, under these statistics of these observables.
    read: dict[str, object] = {"every": plan.reading.every}
    if plan.spec.statistics.runs_of is not None:  # of other documents than those of the runs
        read["corpus"] = plan.corpus.hash
    if plan.reading.early:
        read["early"] = plan.reading.early
    if code := own_code(plan.spec.statistics.names, plan.statistics):
        read["code"] = code
    if rules := [(s.reads, s.runs, s.further) for s in plan.statistics if isinstance(s, SimulatedStatistic)]:
        read["rules"] = rules
    if plan.strongest is not None:
        read["strongest"] = hashlib.sha256(plan.strongest.tobytes()).hexdigest()
    chosen = content_key(
        {
            "statistics": {s.name: s.version for s in plan.statistics},
            "sees": list(plan.releases.seen),
            "rows": hashlib.sha256(np.ascontiguousarray(plan.audited).tobytes()).hexdigest(),
        }
        | read
    )
    dropped = not keeps_values(open_audit(ref.at(FIRST)))
    # Apart from those of other audits, which may keep theirs.
    values = folder / "values" if not dropped else folder / "passing" / ref.audit
    return Folders(folder / "observables", values / chosen, key, f"{key}/{chosen}", dropped)


def parts_of(ref: AuditRef) -> list[AuditRef]:
    """A stage's documents in parts whose values are there at once; the stage itself where one part is all."""
    if not folders_of(ref).dropped:
        return [ref]
    parts = document_parts(open_plan(ref), ROW_GROUP)
    return [ref] if len(parts) == 1 else [ref.of(part) for part in parts]
