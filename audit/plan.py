"""The plan of an audit: everything a spec and a corpus decide, before anything runs.

Workers rebuild the same plan from the stored spec and corpus, so nothing but block numbers travels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus import Corpus
from ksdp.audit.coverage import Coverage, observed_precision, planned_coverage, reads
from ksdp.audit.design import Block, Design, Literal, Shared
from ksdp.audit.groups import Units
from ksdp.audit.interim_looks import FRESH, Look, Stage
from ksdp.audit.kept_runs import kept_without
from ksdp.audit.measured_documents import measured_documents, pool_of
from ksdp.audit.mechanisms.contract import Announced, Database, Mechanism, kept_of
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.own_code import own_code
from ksdp.audit.party_view import Holdings, parties_key
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.reading import EVERY_RUN, Reading
from ksdp.audit.sparse_rows import take_rows
from ksdp.audit.spec import Spec
from ksdp.audit.statistics.contract import Documents, Pool, Statistic, sentence_of
from ksdp.audit.statistics.learned import LEARNED, LEARNED_PREFIX, LEARNED_SENTENCE
from ksdp.audit.statistics.plain import COEFFICIENTS

LEARNED_VERSION = 1
_NO_MATTER = {"with_runs", "looks", "fresh_runs", "without_runs"}  # of the design, what no run depends on
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
    announced: tuple[Announced, ...]
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
    learners: tuple[str, ...]
    """Learners that combine all columns."""
    block_runs: int
    """Runs in a block."""
    looks: tuple[Look, ...]
    """When it decides, and at what level."""
    population: NDArray[np.int64]
    """Units that stand for all audited ones, at every look (`Documents.population`)."""
    reading: Reading = EVERY_RUN
    """Which part of the runs a document's tests read (`ksdp.audit.kept_runs`)."""
    default_columns: tuple[str, ...] = ()
    """Names of the statistics that an audit of this mechanism tests where its spec names none."""
    strongest: NDArray[np.int64] | None = None
    """Of each audited unit the one of `statistics` that is measured; None: all of them."""
    known_pool: Pool | None = None
    """`pool`, of the plan that this is a stage of: what is expected of it is worked out once, not once a stage."""

    @property
    def units(self) -> Units:
        """What has a verdict and is in or out as a whole: the documents of the corpus, or its groups."""
        return self.holdings.units

    @property
    def tested(self) -> tuple[Statistic, ...]:
        """Statistics that are tested on their own."""
        return tuple(s for s in self.statistics if s.family != COEFFICIENTS)

    @property
    def read(self) -> tuple[Announced, ...]:
        """Announced arrays that statistics may read."""
        return tuple(array for array in self.announced if array.name in self.seen)

    @cached_property
    def coverage(self) -> Coverage:
        """Which announced arrays are read by which tested statistics."""
        return planned_coverage(self)

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
        """Columns of every table of tests, in order: the tested statistics, then the learners."""
        plain = [Column(s.name, s.version, s.family, sentence_of(s)) for s in self.tested]
        learned = (Column(LEARNED_PREFIX + n, LEARNED_VERSION, LEARNED, LEARNED_SENTENCE) for n in self.learners)
        return (*plain, *learned)

    @property
    def counted(self) -> int:
        """Documents that the corrections count: the whole pool where ids are named (see `LookScope`)."""
        named = isinstance(self.spec.design.documents, tuple)
        return len(self.design.pool if named and isinstance(self.design, Shared | Literal) else self.audited)

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
        count, seed = len(self.units), self.design.seed
        numbers = np.concatenate([self.design.targets(block.lane), count + np.arange(CONTROLS)])
        kept = kept_without(seed, block, numbers, count + CONTROLS, self.block_runs, self.reading)
        return inclusion | kept[:, None]

    def narrowed(self, stage: Stage) -> Plan:
        """The plan of one stage.

        Documents leave the tables in the shared design only: in the others, who is a target decides who is drawn.
        """
        fewer = {"audited": stage.rows} if isinstance(self.design, Shared) else {}
        chosen = tuple(s for s in self.statistics if s.name in stage.statistics)
        reading = Reading(self.fresh_every) if stage.name == FRESH else self.reading
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
        """Of observables, as statistics see them; of values it is `store.precision`."""
        return observed_precision(self)

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
        code = own_code(self.spec.mechanism.model_dump(mode="json"), [self.mechanism])
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
                "format": 3,
            }
            | ({"kept": "all"} if keeps_early else {})
            | ({"observed": self.precision} if self.precision != self.spec.store.precision else {})
            | ({"code": code} if code else {})
        )


@lru_cache(maxsize=4)
def _documents(plan: Plan, lane: int) -> Documents:
    known = (plan.population, plan.background, plan.pool)
    return measured_documents(plan.corpus, plan.units, plan.design.targets(lane), *known)
