"""The plan of an audit: everything a spec and a corpus decide, before anything runs.

Workers rebuild the same plan from the stored spec and corpus, so nothing but block numbers travels.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property, lru_cache
from types import FunctionType
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.absence import ProvedSensitive
from ksdp.audit.contract import (
    Database,
    Documents,
    Mechanism,
    Pool,
    Release,
    Statistic,
    own_statistics,
    sentence_of,
    statistic_traits,
    traits_of,
)
from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.callables import FunctionMechanism
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.planted import ArrayLeak
from ksdp.audit.mechanisms.privacy.spent import Promise
from ksdp.audit.mechanisms.recorded import ENOUGH, RecordedRuns, is_own
from ksdp.audit.mechanisms.schema import ReleaseSchema, kept_of
from ksdp.audit.numeric.sparse_rows import rows_of, take_rows
from ksdp.audit.party_view import Holdings, parties_key
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import default_statistics, own_code, select_statistics
from ksdp.audit.run_subsampling import EVERY_RUN, RunSubsampling, best_every, kept_without, more_runs
from ksdp.audit.specs.design import Block, Design, Literal, Shared
from ksdp.audit.specs.models import Spec
from ksdp.audit.statistics.further import further_runs, numbers_and_products
from ksdp.audit.statistics.linear.groups import GroupMean, OfGroups, solves_groups
from ksdp.audit.statistics.linear.solve import fits_dense_solver
from ksdp.audit.statistics.linear.system import own_mechanism
from ksdp.audit.statistics.simulated import SIMULATED, SimulatedStatistic
from ksdp.audit.statistics.simulated import STATISTICS as SIMULATIONS
from ksdp.audit.verdicts.looks import FRESH, Look, Stage, planned_looks
from ksdp.audit.verdicts.low_fpr import LowFpr

Rows = NDArray[np.int64]


def pool_of(plan: Plan) -> Pool:
    """What databases are made of: some of the victim's units, and all or half of those of others."""
    corpus, units, held = plan.corpus, plan.units, plan.holdings
    mine, others = held.victim, np.sort(np.concatenate([held.honest, held.coalition]))
    share = held.size / max(len(mine), 1)
    own = corpus.matrix if len(mine) == len(units) else rows_of(corpus.matrix, units.rows(mine))
    group = _groups_of(units, mine)
    leaks = tuple(replace(one, unit=int(np.searchsorted(mine, one.unit))) for one in plan.leaks)
    rows = None if len(mine) == len(units) else units.rows(mine)
    known: dict[str, Any] = {"group": group, "leaks": leaks, "corpus_rows": rows}
    if not len(others):
        return Pool(own, share, None, plan.mechanism, **known)
    fixed = rows_of(corpus.matrix, units.rows(others))
    shared = 0.5 if held.drawn else 1.0
    pool = Pool(own, share, fixed, plan.mechanism, shared, bool(len(held.coalition)), **known)
    if not (len(held.honest) and len(held.coalition)):
        return pool
    honest, coalition = (rows_of(corpus.matrix, units.rows(rows)) for rows in (held.honest, held.coalition))
    return replace(pool, honest=honest, coalition=coalition)


def _groups_of(units: Units, mine: Rows) -> Rows | None:
    """The group of each row of these units, in the corpus's order, from 0; None where units are documents."""
    if units.order is None:
        return None
    rows, starts = units.members(mine)
    number = np.repeat(np.arange(len(mine)), np.diff(starts))
    return np.asarray(number[np.argsort(rows, kind="stable")])


def built_documents(
    corpus: Corpus, units: Units, targets: Rows, background: Mapping[str, NDArray[Any]], pool: Pool | None = None
) -> Documents:
    """The target units, with the adversary's background knowledge."""
    rows, starts = None, None
    if units.order is not None:
        members, starts = units.members(targets)
        rows = Documents(take_rows(corpus.matrix, members), background, pool=pool)
    matrix = units.matrix if len(targets) == len(units) else rows_of(units.matrix, targets)
    return Documents(matrix, background, rows, starts, pool)


# A block's values and observables stay below this, so that a worker's memory does not depend on the corpus.
_BLOCK_BYTES = 64 * 2**20
_STATISTICS_GUESS = 8
# The family whose last bit depends on a document's place among others.
_BY_PLACE = "paper-blocks"
# Strata of blocks before the first look, where a part of the without runs is kept.
_FEWEST_STRATA = 4


@dataclass(frozen=True, eq=False)
class PlannedRuns:
    """The runs of an audit."""

    design: Design
    """Which documents are in which run, with the runs of a lane."""
    block_runs: int
    """Runs in a block."""
    looks: tuple[Look, ...]
    """When it decides, and at what level."""
    reading: RunSubsampling
    """Which part of the runs a document's tests read (`ksdp.audit.run_subsampling`)."""


def planned_runs(
    spec: Spec, design: Design, kept: Sequence[Release], statistics: Sequence[Statistic]
) -> PlannedRuns:
    """Decide blocks, looks and reading, and add the runs that reading a part of them costs."""
    block_runs = _block_runs(design, kept)
    every, drawn = _partly_read(spec, design, block_runs)
    looks = planned_looks(spec, drawn, block_runs * every)
    if _reads_all(statistics):
        return PlannedRuns(drawn, block_runs, looks, EVERY_RUN)
    # A first look of few blocks reads all of them.
    lumpy = len(looks) > 1 and looks[0].runs < _FEWEST_STRATA * every * block_runs
    return PlannedRuns(
        drawn, block_runs, looks, RunSubsampling(every, looks[0].runs if lumpy and every > 1 else 0)
    )


def _block_runs(design: Design, kept: Sequence[Release]) -> int:
    """Runs in a block: a power of two from the sizes alone, so that audits of the same runs share blocks."""
    audited = len(design.pool if isinstance(design, Shared) else design.targets(0)) + CONTROLS
    observables = sum(int(np.prod(a.shape)) for a in kept)
    fits = _BLOCK_BYTES // (4 * (audited * _STATISTICS_GUESS + observables))
    return int(2 ** np.clip(np.floor(np.log2(max(fits, 1))), 4, 8))


def _partly_read(spec: Spec, design: Design, block_runs: int) -> tuple[int, Design]:
    needed = spec.design.without_runs == "needed" and spec.design.unit == "document"
    if not (needed and isinstance(design, Shared)) or design.share >= 0.5:
        return 1, design
    every = best_every(design.share)
    # With few blocks the draw is lumpy, and there is little to save.
    while every > 1 and design.runs < _FEWEST_STRATA * every * block_runs:
        every //= 2
    if every == 1:
        return 1, design
    whole = every * block_runs
    runs = whole * math.ceil(design.runs * more_runs(design.share, every) / whole)
    return every, dataclasses.replace(design, runs=runs)


def _reads_all(statistics: Sequence[Statistic]) -> bool:
    by_place = any(statistic.family == _BY_PLACE for statistic in statistics)
    return by_place or not reads_one_document(statistics)


@dataclass(frozen=True, eq=False)
class PlannedStatistics:
    """The statistics of an audit; see `Plan`."""

    chosen: tuple[Statistic, ...]
    skipped: dict[str, str]
    default: tuple[str, ...]


def reads(statistic: Statistic, seen: Iterable[str]) -> frozenset[str]:
    """Names of the announced arrays that a statistic reads, where these are to be seen.

    All that it `needs`, the first one there is of `needs_any`, and what it says that it `reads` where it is there.
    """
    names = tuple(seen)
    more = statistic_traits(statistic)
    wanted = {*statistic.needs, *more.reads, *[name for name in more.needs_any if name in names][:1]}
    return frozenset(wanted & set(names))


def unweighed(
    announced: Iterable[Release], seen: Iterable[str], statistics: Iterable[Statistic]
) -> tuple[Release, ...]:
    """Arrays, those aside that everybody works out from others, of which no statistic weighs every number.

    One number is read whole by whatever reads it.
    """
    names = tuple(seen)
    weighing = (statistic for statistic in statistics if statistic_traits(statistic).weighs)
    weighed = {name for statistic in weighing for name in reads(statistic, names)}
    found = (a for a in announced if a.name not in weighed and not a.derived_from)
    return tuple(array for array in found if math.prod(array.shape) > 1)


def rounds_solved(mechanism: Mechanism, arrays: Iterable[Release], documents: int) -> bool:
    """Whether exact sums of rounds are among these arrays, and so many documents are solved for who was in."""
    exact = traits_of(mechanism).noise_free and any(array.early for array in arrays)
    return exact and fits_dense_solver(documents)


def planned_statistics(
    families: Sequence[str],
    names: Sequence[str],
    mechanism: Mechanism,
    shown: ReleaseSchema,
    held: Holdings,
    background: Mapping[str, Any],
    runs: int,
    margin: float,
) -> PlannedStatistics:
    """Those that a spec asks for and the mechanism's observables allow."""
    own = own_statistics(mechanism)
    others = default_statistics(shown.seen, background, own)
    dear = _left_out(others, shown, held.unknown)
    others = tuple(s for s in others if s.name not in dear)
    learnt, missing = _simulated(mechanism, shown, held, others, asked=SIMULATED in (*names, *families))
    brought: tuple[Statistic, ...] = () if missing else SIMULATIONS
    chosen, skipped = select_statistics(families, names, shown.seen, background, (*own, *brought))
    further = _further(mechanism, held, learnt, margin)
    chosen = tuple(s.over(learnt, runs, further) if isinstance(s, SimulatedStatistic) else s for s in chosen)
    needs = _left_out([s for s in chosen if s.name not in names], shown, held.unknown)
    needs |= {s.name: f"needs {missing}" for s in chosen if isinstance(s, SimulatedStatistic) and missing}
    chosen = tuple(s for s in chosen if s.name not in needs)
    skipped = skipped | needs
    if not chosen:
        raise SpecError(f"no statistic can be computed: {'; '.join(f'{n} {why}' for n, why in skipped.items())}.")
    if held.units.word == "group":
        solved = (OfGroups(statistic) for statistic in chosen if solves_groups(statistic))
        each = (GroupMean(statistic) for statistic in chosen if not isinstance(statistic, SimulatedStatistic))
        chosen = (*chosen, *each, *solved)
    # Arrays of a program's own function, or of recorded runs, may have the names of ours and be something else.
    if isinstance(mechanism, FunctionMechanism | RecordedRuns):
        others = ()
    default = (*others, *(s for s in brought if s.name not in needs))
    return PlannedStatistics(chosen, skipped, tuple(s.name for s in default))


MOST_LEARNT_OF, MOST_LEARNT_FROM = 2**13, 2**14
"""Documents, and announced numbers of a run, up to which runs of ksdp's own mechanisms are learnt from whole."""
_MOST_PRODUCT = 2**25
"""Of both."""
MOST_LEARNT_IN_PART = 2**15
"""Documents up to which arrays are learnt from that no other statistic weighs."""


def _simulated(
    mechanism: Mechanism, shown: ReleaseSchema, held: Holdings, others: Sequence[Statistic], *, asked: bool
) -> tuple[tuple[Release, ...], str]:
    """Arrays that the statistic learnt from simulated runs reads; where it is not tested, what it needs."""
    if untrained := _untrained(mechanism):
        return (), untrained
    if is_own(mechanism) or asked:  # of somebody's own mechanism no other statistic knows anything
        return shown.read, ""
    if rounds_solved(mechanism, shown.read, held.unknown):
        return (), "no equations that say who was in: these do"
    little = held.unknown * shown.numbers <= _MOST_PRODUCT
    if little and held.unknown <= MOST_LEARNT_OF and shown.numbers <= MOST_LEARNT_FROM:
        return shown.read, ""
    arrays = unweighed(shown.read, shown.seen, others)
    numbers = sum(math.prod(array.shape) for array in arrays)
    if arrays and numbers <= MOST_LEARNT_FROM and held.unknown <= MOST_LEARNT_IN_PART:
        return arrays, ""
    most = f"at most {MOST_LEARNT_OF:,} documents and {MOST_LEARNT_FROM:,} announced numbers"
    return (), f"{most}, or `statistics.names` to name it"


def _further(mechanism: Mechanism, held: Holdings, learnt: Sequence[Release], margin: float) -> int:
    """Training runs of one decomposition each; 0 of what takes longer."""
    own = own_mechanism(mechanism)
    if not isinstance(own, PDSVD) or own.solver != "limit":
        return 0
    numbers = numbers_and_products(learnt)
    return further_runs(int(held.units.sizes.sum()), held.units.matrix.shape[1], numbers, held.share, margin)


def _untrained(mechanism: Mechanism) -> str:
    recorded = isinstance(mechanism, RecordedRuns) and not mechanism.learnt
    return f"a mechanism that can be run, or {ENOUGH} recorded runs" if recorded else ""


def _left_out(statistics: Sequence[Statistic], shown: ReleaseSchema, documents: int) -> dict[str, str]:
    """Those that are not worth their time with so many documents (`Statistic`), and what they need."""
    shapes = {array.name: array.shape for array in shown.read}
    asked = {s.name: asks(shapes, documents) for s in statistics if (asks := statistic_traits(s).asks_for)}
    return {name: f"needs {what}" for name, what in asked.items() if what}


# Of the design, what no run depends on.
_NO_MATTER = {"with_runs", "looks", "stop_when_open", "fresh_runs", "without_runs", "absent"}
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
    """What somebody looks at who uses it, for people."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What an audit will do."""

    spec: Spec
    corpus: Corpus
    holdings: Holdings
    """Who holds which units."""
    mechanism: Mechanism
    announced: tuple[Release, ...]
    seen: tuple[str, ...]
    """Names of the observables that statistics may read: all, or the final output."""
    opened: tuple[str, ...]
    """Names of everything that a run shows the party whose view this is."""
    statistics: tuple[Statistic, ...]
    skipped: dict[str, str]
    """Statistics that the mechanism's observables do not allow, and what they miss."""
    design: Design
    background: dict[str, NDArray[Any]]
    """What the adversary knows besides the observables."""
    block_runs: int
    """Runs in a block."""
    looks: tuple[Look, ...]
    """When it decides, and at what level."""
    reading: RunSubsampling = EVERY_RUN
    """Which part of the runs a document's tests read (`ksdp.audit.run_subsampling`)."""
    default_columns: tuple[str, ...] = ()
    """Names of the statistics that an audit of this mechanism tests where its spec names none."""
    strongest: NDArray[np.int64] | None = None
    """Of each audited unit the one of `statistics` that is measured; None: all of them."""
    promise: Promise | None = None
    """What the mechanism's noise proves of every document, whatever a run shows."""
    known_pool: Pool | None = None
    """The parent plan's `pool`, so that its expectations are computed once for all stages."""
    leaks: tuple[ArrayLeak, ...] = ()
    """Planted in what runs announce."""
    absent: ProvedSensitive | None = None
    """Units that are proved sensitive before any run: in the pool as everybody, and not among the `audited`."""

    @property
    def proved(self) -> bool:
        """Whether every document is clear against every attack before any run."""
        return proved_before_runs(self.promise, self.spec)

    @property
    def units(self) -> Units:
        """What has a verdict and is in or out as a whole: the documents of the corpus, or its groups."""
        return self.holdings.units

    @property
    def read(self) -> tuple[Release, ...]:
        """Announced arrays that statistics may read."""
        return tuple(array for array in self.announced if array.name in self.seen)

    @property
    def kept(self) -> tuple[str, ...]:
        """Names of the observables that go to the store, where any do."""
        return tuple(a.name for a in kept_of(self.announced, self.spec.store.observables))

    @property
    def from_store(self) -> bool:
        """Whether stored observables are enough for every statistic; otherwise runs are computed again."""
        return frozenset[str]().union(*(reads(s, self.seen) for s in self.statistics)) <= set(self.kept)

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
        asked = self.spec.design.documents
        documents = asked if isinstance(asked, int) else len(self.holdings.victim)
        clear = self.spec.rule.for_clear / self.spec.rule.level
        return LowFpr.of(self.spec.rule, min(1.0, clear) * min(look.level for look in self.looks), documents)

    @property
    def fresh_runs(self) -> int:
        """Fresh runs of a lane for what was flagged; even, as the literal design deals runs in turn."""
        wanted = self.design.runs * self.spec.design.fresh_with_runs / self.spec.design.with_runs
        whole = 2 if self.reading.all else self.fresh_every * self.block_runs
        return whole * math.ceil(wanted / whole)

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
        numbers = np.concatenate([self.design.targets(block.lane), len(self.units) + np.arange(CONTROLS)])
        return inclusion | self._keeps(block, numbers)[:, None]

    def _keeps(self, block: Block, numbers: Rows) -> NDArray[np.bool_]:
        """Whether a block keeps the without runs of units and controls of these numbers."""
        population = len(self.units) + CONTROLS
        return kept_without(self.design.seed, block, numbers, population, self.block_runs, self.reading)

    def narrowed(self, stage: Stage) -> Plan:
        """The plan of one stage.

        Documents leave the tables in the shared design only: in the others, who is a target decides who is drawn.
        """
        fewer = {"audited": stage.rows} if isinstance(self.design, Shared) else {}
        chosen = tuple(s for s in self.statistics if s.name in stage.statistics)
        reading = RunSubsampling(self.fresh_every) if stage.name == FRESH else self.reading
        design = replace(cast(Any, self.design), runs=stage.runs, seed=stage.seed, **fewer)
        measured = replace(self, statistics=chosen, strongest=stage.strongest, known_pool=self.pool)
        return replace(measured, design=design, reading=reading)

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

        Double is taken where exact sums of rounds are solved for who was in. Each further round adds a little in
        digits that single precision rounds away and the wire, in multiples of 2^-31, keeps: D is up to 0.09
        larger, for ratings 0.24. For a final output, and for more documents, D is the same (decision 5).
        """
        documents = int(self.units.sizes[self.holdings.victim].sum())
        return "float64" if rounds_solved(self.mechanism, self.announced, documents) else self.spec.store.precision

    @property
    def bytes_a_value(self) -> int:
        """Of a stored value."""
        return np.dtype(self.spec.store.precision).itemsize

    @property
    def kept_bytes(self) -> int:
        """Of a run's observables that go to the store."""
        numbers = sum(math.prod(a.shape) for a in self.announced if a.name in self.kept)
        return numbers * np.dtype(self.precision).itemsize

    def documents(self, lane: int) -> Documents:
        """The lane's documents with the adversary's background knowledge."""
        return _documents(self, lane)

    def database(self, lane: int, run: int) -> Database:
        """The parties' matrices of a run."""
        if not self.holdings.drawn:
            return self.stacked(self.design.rows(lane, run))
        rng, honest = generator(self.design.seed, Purpose.OTHERS, lane, run), self.holdings.honest
        drawn = np.sort(rng.choice(honest, self.holdings.entering, replace=False, shuffle=False))
        return self.stacked(self.design.rows(lane, run), drawn)

    def stacked(self, units: NDArray[np.int64], honest: NDArray[np.int64] | None = None) -> Database:
        """The parties' matrices where the victim holds these units, and honest parties all of theirs or some."""
        held = self.units.rows(units)
        parties = [take_rows(self.corpus.matrix, held)]
        if honest is not None:
            parties.append(take_rows(self.corpus.matrix, self.units.rows(honest)))
        elif len(self.holdings.honest):
            parties.append(self._fixed[0])
        if colluding := len(self.holdings.coalition):
            parties.append(self._fixed[1])
        return Database(tuple(parties), frozenset({len(parties) - 1} if colluding else ()), held)

    @cached_property
    def pool(self) -> Pool:
        """What databases are drawn from."""
        return self.known_pool or pool_of(self)

    @cached_property
    def _fixed(self) -> tuple[sp.csr_array, sp.csr_array]:
        matrix, rows = self.corpus.matrix, self.units.rows
        return take_rows(matrix, rows(self.holdings.honest)), take_rows(matrix, rows(self.holdings.coalition))

    @cached_property
    def runs_identity(self) -> dict[str, Any]:
        """Everything a run's observables depend on: the key of its blocks.

        Audits that differ in the rest, and in the shared design in who is named, share blocks on purpose.
        """
        # Who is audited decides what is drawn in the balanced design, and lanes are numbered by it in the literal.
        free = {"documents"} if self.spec.design.kind == "shared" else set()
        design = self.spec.design.model_dump(mode="json", exclude=_NO_MATTER | free)
        # Stores of the last round and of every round differ; those of mechanisms with one round do not.
        keeps_early = self.spec.store.observables == "all" and any(a.early for a in self.announced)
        code, planted = own_code(self.spec.mechanism.model_dump(mode="json"), [self.mechanism]), self.spec.planted
        return (
            {
                "corpus": self.corpus.hash,
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
            | ({"planted": [one.model_dump(mode="json") for one in planted]} if planted else {})
        )


def proved_before_runs(promise: Promise | None, spec: Spec) -> bool:
    """Whether the draw or the mechanism's noise proves the margin of every document."""
    return spec.proved_by_draw or (promise is not None and spec.rule.accepts(promise.bound))


@lru_cache(maxsize=4)
def _documents(plan: Plan, lane: int) -> Documents:
    return built_documents(plan.corpus, plan.units, plan.design.targets(lane), plan.background, plan.pool)


Part = tuple[int, int]
"""Places of a stage's documents, the first and the one after the last."""

_SMALL = 512 * 2**20
# What a worker holds of one block: values run by run, and turned.
_HELD_BYTES = 512 * 2**20


def reads_one_document(statistics: Sequence[Statistic]) -> bool:
    """Whether no value can depend on which documents are measured beside it: that of the package's own statistics.

    Those of others may look at who else is measured, and so may one of ours that is made of theirs: a function
    that `ksdp.audit` was handed, or another package's statistic in one of several runs.
    """
    return all(map(_ours, statistics))


def _ours(part: Any) -> bool:
    """Whether a statistic, and all that it is made of, is of this package; what cannot be told is not."""
    if isinstance(part, str | int | float | None):
        return True
    if isinstance(part, tuple):
        return all(map(_ours, part))
    home = part if isinstance(part, FunctionType) else type(part)
    held = [getattr(part, field.name) for field in fields(part)] if is_dataclass(part) else []
    return home.__module__.startswith("ksdp.") and all(map(_ours, held))


def strongest_alone(plan: Plan, statistics: Sequence[str], columns: Sequence[str]) -> NDArray[np.int64] | None:
    """Of each document the place of its column among the statistics, where no other need be measured of it.

    None where one statistic is all there is, and where documents cannot be measured apart: those of designs that
    draw for them, groups, and under statistics of others.
    """
    apart = isinstance(plan.design, Shared) and plan.units.order is None and reads_one_document(plan.statistics)
    if not apart or len(statistics) < 2 or set(columns) - set(statistics):
        return None
    return np.array([statistics.index(column) for column in columns], dtype=np.int64)


def _columns(plan: Plan) -> int:
    """Stored of a document: the statistics, or the one of them that is measured, and the canary."""
    return 1 + (len(plan.statistics) if plan.strongest is None else 1)


def bytes_a_document(plan: Plan) -> float:
    """Of a document's stored values, canary and bits, about."""
    bits = 1 if plan.reading.all else 2
    return plan.design.runs * (plan.measured * _columns(plan) * plan.bytes_a_value + bits / 8)


def keeps_values(plan: Plan) -> bool:
    """Whether the values of an audit stay in the store when it is finished.

    Those of designs that draw for the documents they name always do: their documents cannot be measured apart.
    """
    asked = plan.spec.store.values
    if asked == "all" or not isinstance(plan.design, Shared) or not reads_one_document(plan.statistics):
        return True
    return asked == "small" and len(plan.audited) * bytes_a_document(plan) <= _SMALL


def document_parts(plan: Plan, together: int) -> list[Part]:
    """The parts of a stage's documents whose values are there at once, where they are not kept; one at least."""
    documents = len(plan.audited)
    fits = plan.spec.store.values_at_once * 2**30 / bytes_a_document(plan)
    turned = plan.block_runs * _columns(plan) * 2 * plan.bytes_a_value
    size = together * max(1, int(min(fits, _HELD_BYTES / turned) // together))
    return [(first, min(first + size, documents)) for first in range(0, documents, size)]
