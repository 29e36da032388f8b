"""The plan of an audit as a value: everything a spec and a corpus decide, before anything runs.

Workers rebuild the same plan from the stored spec and corpus, so nothing but block numbers travels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.absence import ProvedSensitive
from ksdp.audit.contract import Mechanism, Release, traits_of
from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.mechanisms.factorisation.pd_svd import hidden_mean
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.spent import Promise
from ksdp.audit.mechanisms.schema import ReleaseSchema
from ksdp.audit.opened import Holdings, Opened, parties_key
from ksdp.audit.registry import own_code
from ksdp.audit.run_subsampling import RunSubsampling, kept_without
from ksdp.audit.specs.design import Block, Design, Literal, Shared
from ksdp.audit.specs.models import Spec
from ksdp.audit.statistic import Pool, Statistic, sentence_of, statistic_traits
from ksdp.audit.statistics.linear.solve import fits_dense_solver
from ksdp.audit.verdicts.looks import FRESH, Look, Stage
from ksdp.audit.verdicts.low_fpr import LowFpr

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PlannedStatistics:
    """The statistics of an audit."""

    chosen: tuple[Statistic, ...]
    skipped: dict[str, str]
    """Statistics that the mechanism's releases do not allow, and what they miss."""
    default: tuple[str, ...]
    """Names of the statistics that an audit of this mechanism tests where its spec names none."""


def reads(statistic: Statistic, seen: Iterable[str]) -> frozenset[str]:
    """Names of the announced arrays that a statistic reads, where these are to be seen."""
    names = tuple(seen)
    more = statistic_traits(statistic)
    wanted = {*statistic.needs, *more.reads, *[name for name in more.needs_any if name in names][:1]}
    return frozenset(wanted & set(names))


def unweighed(
    announced: Iterable[Release], seen: Iterable[str], statistics: Iterable[Statistic]
) -> tuple[Release, ...]:
    """Arrays, those aside that everybody works out from others, of which no statistic weighs every number."""
    names = tuple(seen)
    weighing = (statistic for statistic in statistics if statistic_traits(statistic).weighs)
    weighed = {name for statistic in weighing for name in reads(statistic, names)}
    arrays = (a for a in announced if a.name not in weighed and not a.derived_from)
    return tuple(array for array in arrays if math.prod(array.shape) > 1)


def rounds_solved(mechanism: Mechanism, arrays: Iterable[Release], documents: int) -> bool:
    """Whether exact sums of rounds are among these arrays, and so many documents are solved for who was in."""
    exact = traits_of(mechanism).noise_free and any(array.early for array in arrays)
    return exact and fits_dense_solver(documents) and not hidden_mean(mechanism)


# Of the design, what no run depends on.
_NO_MATTER = {"with_runs", "looks", "fresh_runs", "without_runs", "absent"}
_FRESH_READ = 600  # a without arm of 437 runs bounds a false positive rate of 1 % (`effect.tpr_at_fpr`)

NULL_CONTROLS = 24
"""Control documents whose value ignores their bit."""
CONTROLS = 32
"""All control documents; the others carry a planted leak."""


@dataclass(frozen=True)
class Column:
    """One column of the tables of tests."""

    name: str
    version: int
    family: str
    sentence: str
    """A sentence for people about what the adversary looks at."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All decisions about an audit, before it runs."""

    opened: Opened
    releases: ReleaseSchema
    """The releases of a run, those that statistics may read, and those that are stored."""
    tested: PlannedStatistics
    design: Design
    background: dict[str, NDArray[Any]]
    """Knowledge of the adversary besides the releases of a run."""
    block_runs: int
    """Runs in a block."""
    looks: tuple[Look, ...]
    """When the audit decides, and at what level."""
    reading: RunSubsampling
    """Which part of the runs a document's tests read (`ksdp.audit.run_subsampling`)."""
    pool: Pool
    """Documents that databases are drawn from; the same for all stages, which share expectations."""
    strongest: NDArray[np.int64] | None = None
    """The place in `statistics` of the one that is measured for each audited unit; None: all are."""
    promise: Promise | None = None
    """Bound that the mechanism's noise proves for every document, whatever a run shows."""
    absent: ProvedSensitive | None = None
    """Units that are proved sensitive before any run: in the pool as everybody, and not among the `audited`."""

    @property
    def spec(self) -> Spec:
        """The spec."""
        return self.opened.spec

    @property
    def corpus(self) -> Corpus:
        """All documents."""
        return self.opened.corpus

    @property
    def holdings(self) -> Holdings:
        """The units that each side holds."""
        return self.opened.holdings

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that is audited."""
        return self.opened.mechanism

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics that are measured."""
        return self.tested.chosen

    @property
    def proved(self) -> bool:
        """Whether every document is clear against every attack before any run."""
        return proved_before_runs(self.promise, self.spec)

    @property
    def units(self) -> Units:
        """Units that have a verdict and are in or out as a whole: the documents of the corpus, or its groups."""
        return self.holdings.units

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the observables that go to the store, where any do."""
        return tuple(array.name for array in self.releases.kept)

    @property
    def from_store(self) -> bool:
        """Whether stored observables are enough for every statistic; otherwise runs are computed again."""
        return frozenset[str]().union(*(reads(s, self.releases.seen) for s in self.statistics)) <= set(self.kept)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of every table of tests, in order."""
        return tuple(Column(s.name, s.version, s.family, sentence_of(s)) for s in self.statistics)

    @property
    def counted(self) -> int:
        """Documents that the corrections count: the whole pool where ids are named (see `LookScope`)."""
        named = isinstance(self.spec.design.documents, tuple)
        return len(self.design.pool if named and isinstance(self.design, Shared | Literal) else self.audited)

    @property
    def low_fpr(self) -> LowFpr | None:
        """How true positives at 1 % false ones are tested: the same at every look, whoever is open there."""
        wanted = self.spec.design.documents
        documents = wanted if isinstance(wanted, int) else len(self.holdings.victim)
        clear = self.spec.decision_in_run.for_clear / self.spec.decision_in_run.level
        return LowFpr.of(
            self.spec.decision_in_run, min(1.0, clear) * min(look.level for look in self.looks), documents
        )

    @property
    def fresh_runs(self) -> int:
        """Fresh runs of a lane for what was flagged; even, as the literal design deals runs in turn."""
        wanted = self.design.runs * self.spec.design.fresh_with_runs / self.spec.design.with_runs
        multiple = 2 if self.reading.all else self.fresh_every * self.block_runs
        return multiple * math.ceil(wanted / multiple)

    @property
    def fresh_every(self) -> int:
        """As `every`, of the fresh runs: so that the without arm still bounds a false positive rate of 1 %."""
        runs = self.design.runs * self.spec.design.fresh_with_runs / self.spec.design.with_runs
        return max(e for e in (1, 2, 4, 8, 16) if e == 1 or (e <= self.reading.every and runs / e >= _FRESH_READ))

    @property
    def read_runs(self) -> int:
        """Runs of a lane that the tests of a document read."""
        return self.reading.runs(self.design.runs)

    @property
    def measured(self) -> float:
        """Part of all values, of a document in a run, that are measured."""
        return self.reading.measured(self.design.runs, self.design.share)

    @property
    def arms(self) -> tuple[int, int]:
        """Runs that a test reads with and without the document, on average."""
        return self.reading.arms(self.design.runs, self.design.share)

    def kept_runs(self, block: Block, inclusion: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Which values are measured, given a block's bits, shape (n_documents + CONTROLS, n_runs); None: all."""
        if self.reading.all:
            return None
        seed, population = self.design.seed, len(self.units) + CONTROLS
        numbers = np.concatenate([self.design.targets(block.lane), len(self.units) + np.arange(CONTROLS)])
        keeps = kept_without(seed, block, numbers, population, self.block_runs, self.reading)
        return inclusion | keeps[:, None]

    def narrowed(self, stage: Stage) -> Plan:
        """The plan of one stage.

        Documents leave the tables in the shared design only: in the others, who is a target decides who is drawn.
        """
        fewer = {"audited": stage.rows} if isinstance(self.design, Shared) else {}
        chosen = tuple(s for s in self.statistics if s.name in stage.statistics)
        reading = RunSubsampling(self.fresh_every) if stage.name == FRESH else self.reading
        design = replace(cast(Any, self.design), runs=stage.runs, seed=stage.seed, **fewer)
        tested = replace(self.tested, chosen=chosen)
        return replace(self, tested=tested, strongest=stage.strongest, design=design, reading=reading)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Every block of the audit, in order."""
        return tuple(
            Block(lane, start, min(start + self.block_runs, self.design.runs))
            for lane in range(self.design.lanes)
            for start in range(0, self.design.runs, self.block_runs)
        )

    @property
    def runs(self) -> int:
        """Runs of all lanes."""
        return self.design.runs * self.design.lanes

    @property
    def audited(self) -> NDArray[np.int64]:
        """Units that are audited, in the order of the result."""
        return np.concatenate([self.design.targets(lane) for lane in range(self.design.lanes)])

    @cached_property
    def precision(self) -> str:
        """Precision of observables: `store.precision`, or double where single would hide who was in.

        Without noise, a run publishes digits that single precision rounds away. Where rows differ little against
        their size, these alone tell who is in (D 0.85 against 0.01, for places in one room); later rounds add a
        little in such digits (decision 5).
        """
        return "float64" if traits_of(self.mechanism).noise_free else self.spec.store.precision

    @property
    def bytes_a_value(self) -> int:
        """Bytes of a stored value."""
        return np.dtype(self.spec.store.precision).itemsize

    @property
    def kept_bytes(self) -> int:
        """Bytes of a run's observables that go to the store."""
        numbers = sum(math.prod(array.shape) for array in self.releases.kept)
        return numbers * np.dtype(self.precision).itemsize

    @cached_property
    def runs_identity(self) -> dict[str, Any]:
        """Everything a run's observables depend on: the key of its blocks.

        Audits that differ in the rest, and in the shared design in who is named, share blocks on purpose.
        """
        # Who is audited decides what is drawn in the balanced design, and lanes are numbered by it in the literal.
        free = {"documents"} if self.spec.design.kind == "shared" else set()
        design = self.spec.design.model_dump(mode="json", exclude=_NO_MATTER | free)
        # Stores of the last round and of every round differ; those of mechanisms with one round do not.
        keeps_early = self.spec.store.observables == "all" and any(a.early for a in self.releases.recorded)
        code, planted = own_code(self.spec.mechanism.model_dump(mode="json"), [self.mechanism]), self.spec.planted
        return (
            {
                "corpus": self.spec.statistics.runs_of or self.corpus.hash,
                "mechanism": self.mechanism.name,
                "mechanism_version": self.mechanism.version,
                "parameters": parameters_of(self.mechanism),
                "parties": parties_key(self.spec),
                "design": design,
                "seed": self.design.seed,
                "precision": self.spec.store.precision,
                "format": 1,
            }
            | ({"kept": "all"} if keeps_early else {})
            | ({"observed": self.precision} if self.precision != self.spec.store.precision else {})
            | ({"code": code} if code else {})
            | ({"planted": [leak.model_dump(mode="json") for leak in planted]} if planted else {})
        )


def proved_before_runs(promise: Promise | None, spec: Spec) -> bool:
    """Whether the draw or the mechanism's noise proves the margin of every document."""
    return spec.proved_by_draw or (promise is not None and spec.decision_in_run.accepts(promise.bound))


Part = tuple[int, int]
"""Places of a stage's documents, the first and the one after the last."""

_SMALL = 512 * 2**20
VALUES_AT_ONCE = 4 * 2**30
"""Bytes of values on disk at once, where they are not kept: what takes more is tested part by part."""
# What a worker holds of one block: values run by run, and turned.
_HELD_BYTES = 512 * 2**20


def reads_one_document(statistics: Sequence[Statistic]) -> bool:
    """Whether no value can depend on which documents are measured beside it: only our statistics promise that."""
    return all(map(_ours, statistics))


def _ours(part: Any) -> bool:
    """Whether a statistic, and all that it is made of, is of this package; what cannot be told is not."""
    if isinstance(part, str | int | float | None):
        return True
    if isinstance(part, tuple):
        return all(map(_ours, part))
    home = part if isinstance(part, FunctionType) else type(part)
    parts = [getattr(part, field.name) for field in fields(part)] if is_dataclass(part) else []
    return str(home.__module__).startswith("ksdp.") and all(map(_ours, parts))


def strongest_alone(plan: Plan, statistics: Sequence[str], columns: Sequence[str]) -> NDArray[np.int64] | None:
    """Return the place of each document's column among the statistics, if no other need be measured of it."""
    apart = isinstance(plan.design, Shared) and plan.units.order is None and reads_one_document(plan.statistics)
    if not apart or len(statistics) < 2 or set(columns) - set(statistics):
        return None
    return np.array([statistics.index(column) for column in columns], dtype=np.int64)


def _columns(plan: Plan) -> int:
    """Stored of a document: the statistics, or the one of them that is measured, and the canary."""
    return 1 + (len(plan.statistics) if plan.strongest is None else 1)


def bytes_a_document(plan: Plan) -> float:
    """Approximate bytes of a document's stored values, canary and bits."""
    bits = 1 if plan.reading.all else 2
    return plan.design.runs * (plan.measured * _columns(plan) * plan.bytes_a_value + bits / 8)


def keeps_values(plan: Plan) -> bool:
    """Whether the values of an audit stay in the store when it is finished."""
    policy = plan.spec.store.values
    if policy == "all" or not isinstance(plan.design, Shared) or not reads_one_document(plan.statistics):
        return True
    return policy == "small" and len(plan.audited) * bytes_a_document(plan) <= _SMALL


def document_parts(plan: Plan, together: int) -> list[Part]:
    """The parts of a stage's documents whose values are there at once, where they are not kept; one at least."""
    documents = len(plan.audited)
    fits = VALUES_AT_ONCE / bytes_a_document(plan)
    turned = plan.block_runs * _columns(plan) * 2 * plan.bytes_a_value
    size = together * max(1, int(min(fits, _HELD_BYTES / turned) // together))
    return [(first, min(first + size, documents)) for first in range(0, documents, size)]
