"""The contract of statistics, and the documents that they are evaluated for.

A **statistic** (`Statistic`) is a function of (observables, document) to a real number: what an adversary would
look at. It is evaluated for many `Documents` at once, one or more calls a run.

A document's value depends on the run and on the document, bit for bit: never on which others are evaluated beside
it, or in which place. An audit may measure a document beside others in the runs that held it than in those that
did not, and a difference in the last bit would then look like a leak. (BLAS rounds a row by its place, and so may
a sum that casts; `products.rows_times` and `products.row_squares` do not.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Made, Mechanism, Observables
from ksdp.audit.mechanisms.planted import ArrayLeak
from ksdp.audit.numeric.array_types import Vector
from ksdp.audit.numeric.sparse_rows import take_rows


class _Remembers:
    """Results worked out from a value, kept as long as the value is."""

    def derive(self, key: Hashable, compute: Callable[[], Made]) -> Made:
        """Return what `compute` gives, computed once for this value and key."""
        derived = self.__dict__.setdefault("_derived", {})
        if key not in derived:
            derived[key] = compute()
        return cast(Made, derived[key])


@dataclass(frozen=True, eq=False)
class Pool(_Remembers):
    """Documents that databases are drawn from: an adversary who can run the mechanism knows them."""

    drawn: sp.csr_array
    """Documents that the victim's part is drawn from, shape (n, n_features), canonical."""
    share: float = 0.5
    """Probability that a run holds one of them."""
    fixed: sp.csr_array | None = None
    """Documents of other parties, the same in every run (or half of them, where these are drawn)."""
    mechanism: Mechanism | None = None
    """Mechanism that runs on them; None if nobody can run it."""
    fixed_share: float = 1.0
    """Probability that a run holds one of the `fixed`."""
    colluding: bool = False
    """Whether the `fixed` are the coalition's, who subtract their own share of a sum."""
    group: NDArray[np.int64] | None = None
    """Number of the group of each of `drawn`, from 0, shape (n,): in or out together; None: each by itself."""
    honest: sp.csr_array | None = None
    """Fixed documents of honest parties, only if a coalition also owns some; they remain in the sums."""
    coalition: sp.csr_array | None = None
    """The coalition's, where there are `honest` ones."""
    leaks: tuple[ArrayLeak, ...] = ()
    """Planted in what runs announce; their units are places in `drawn`, or numbers of groups."""
    corpus_rows: NDArray[np.int64] | None = None
    """Which rows of the corpus `drawn` are; None: all."""

    @property
    def subtracted(self) -> sp.csr_array | None:
        """Documents that the coalition subtracts from a sum, as they are its own."""
        return (self.fixed if self.coalition is None else self.coalition) if self.colluding else None

    @property
    def remaining(self) -> sp.csr_array | None:
        """Others' documents that stay in a sum that the coalition has subtracted its own from."""
        return self.honest if self.colluding else self.fixed

    @property
    def others(self) -> tuple[sp.csr_array, ...]:
        """Documents of other parties, party by party, the coalition's last."""
        if self.honest is not None and self.coalition is not None:
            return self.honest, self.coalition
        return () if self.fixed is None else (self.fixed,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the victim's part in a run, and of others', where there are any."""
        parts = [(self.drawn, self.share), *((rows, self.fixed_share) for rows in self.others)]
        return tuple(max(round(share * rows.shape[0]), 1) for rows, share in parts)

    @property
    def units(self) -> int:
        """Documents that the victim's part is drawn from, or groups."""
        return self.drawn.shape[0] if self.group is None else int(self.group.max()) + 1

    @property
    def units_held(self) -> int:
        """How many of them a run holds."""
        return max(round(self.share * self.units), 1)

    def places_of(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in `drawn` of documents, or of all that some groups have."""
        return np.sort(units) if self.group is None else np.flatnonzero(np.isin(self.group, units))

    def one_choice(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], tuple[sp.csr_array, ...]]:
        """Places in `drawn` of one database's documents, and the rows of all its parts, the victim's first."""
        parts = (self.drawn, *self.others)
        chosen = [
            np.sort(rng.choice(rows.shape[0], size, replace=False))
            for rows, size in zip(parts, self.sizes, strict=True)
        ]
        if self.group is not None:  # as many groups as a run holds, with all of their documents
            chosen[0] = self.places_of(rng.choice(self.units, self.units_held, replace=False))
        return chosen[0], tuple(take_rows(rows, places) for rows, places in zip(parts, chosen, strict=True))

    def one_draw(self, rng: np.random.Generator) -> tuple[sp.csr_array, ...]:
        """The rows of one database: of the victim's part, and of others', where there are any."""
        return self.one_choice(rng)[1]


@dataclass(frozen=True, eq=False)
class UsedColumns:
    """Columns in which some documents have entries."""

    used: NDArray[np.int64]
    places: NDArray[np.int32]
    """Place of each column among these, shape (n_features,); 0 of the others."""


@dataclass(frozen=True, eq=False)
class Documents(_Remembers):
    """The audited documents (or groups), as the adversary who suspects them knows them."""

    matrix: sp.csr_array
    """float64 CSR of shape (n_documents, n_features), canonical."""
    background: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Knowledge of the adversary besides: `adversary_sigma` (its own singular values), `victim_rows`, ..."""
    rows: Documents | None = None
    """The documents of all groups, group after group, if a row of `matrix` is a group."""
    starts: NDArray[np.int64] | None = None
    """Where each group begins in `rows`, and the end, shape (n_groups + 1,)."""
    pool: Pool | None = None
    """Documents that databases are drawn from; None: these."""
    taken_from: tuple[Documents, NDArray[np.int64]] | None = None
    """Others that these are some of, and their places there; see `of_each`."""

    def at(self, places: NDArray[np.int64]) -> Documents:
        """Some of the documents, in this order, of the same pool. Not for groups."""
        matrix = take_rows(self.matrix, places)
        return Documents(matrix, self.background, pool=self.source_pool, taken_from=(self, places))

    def of_each(self, key: Hashable, compute: Callable[[Documents], NDArray[Any]]) -> NDArray[Any]:
        """Return the values of `compute` for each document (first axis), once for all documents of the parent.

        For what depends on nothing but the document: not on a run, nor on who stands beside it.
        """
        if self.taken_from is None:
            return self.derive(key, lambda: compute(self))
        parent, places = self.taken_from
        return self.derive(key, lambda: parent.of_each(key, compute)[places])

    @cached_property
    def columns(self) -> UsedColumns | None:
        """Columns that a pass over these, or over others of the same parent, reads; None: most columns."""
        if self.taken_from is not None:
            return self.taken_from[0].columns
        features = self.matrix.shape[1]
        is_used = np.zeros(features, np.bool_)
        is_used[self.matrix.indices] = True
        used = np.flatnonzero(is_used)
        if 2 * len(used) > features:
            return None
        places = np.zeros(features, np.int32)
        places[used] = np.arange(len(used))
        return UsedColumns(used, places)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @cached_property
    def source_pool(self) -> Pool:
        """Documents that databases are drawn from; these if nothing else is stated."""
        return Pool(self.matrix) if self.pool is None else self.pool

    @cached_property
    def squared_norms(self) -> Vector:
        """Squared Euclidean norm of each document, shape (n_documents,)."""
        return self.of_each("squared norms", _squared_norms)


def _squared_norms(documents: Documents) -> Vector:
    matrix = documents.matrix
    return np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel()


@runtime_checkable
class Statistic(Protocol):
    """A statistic: a frozen dataclass with an `evaluate`; ours are rows of tables.

    One may also have attributes named as those of `StatisticTraits`.

    Versions never change meaning, and results of different versions are never compared.
    """

    @property
    def name(self) -> str:
        """Name in specs and reports."""

    @property
    def version(self) -> int:
        """Version of what `evaluate` computes."""

    @property
    def family(self) -> str:
        """Family in specs."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Observables it reads; where a mechanism does not announce them it is skipped, and the report says so."""

    def evaluate(self, observables: Observables, documents: Documents) -> Vector:
        """One number a document, shape (n_documents,)."""


@runtime_checkable
class Explained(Protocol):
    """A statistic with a sentence for people."""

    @property
    def sentence(self) -> str:
        """A plain sentence about what the adversary looks at."""


def sentence_of(statistic: Statistic) -> str:
    """The sentence that explains a statistic; empty where its author wrote none."""
    return statistic.sentence if isinstance(statistic, Explained) else ""


@dataclass(frozen=True, kw_only=True)
class StatisticTraits:
    """Attributes that a statistic may have, with their defaults."""

    needs_any: tuple[str, ...] = ()
    """It reads the first of these that the mechanism announces; one at least must be there."""
    reads: tuple[str, ...] = ()
    """Further arrays, where they are announced."""
    needs_background: tuple[str, ...] = ()
    """Names of the adversary's background knowledge that it reads."""
    weighs: bool = False
    """It reads every number, each by what a document would move it: an attack on the raw numbers, as norms, counts
    and energies are not. Without one of them nobody is called clear (`coverage`)."""
    ask: Callable[[Observables, Documents], None] | None = None
    """Called before any is evaluated, to say what it will look for in a pass over the documents that several share
    (`products.over_entries`). It changes no value."""
    asks_for: Callable[[Mapping[str, tuple[int, ...]], int], str] | None = None
    """Requirement in words that a run with arrays of these shapes, of so many documents, lacks for it to be worth
    its time; empty if it lacks none. Audits leave it out then, unless it is named."""


@dataclass(frozen=True)
class TableStatistic(StatisticTraits):
    """A statistic as a row of its family's table."""

    name: str
    family: str
    score: Callable[[Observables, Documents], Vector]
    """One number a document, shape (n_documents,): a function, or a frozen dataclass that can be called."""
    sentence: str = field(compare=False)
    """A sentence for people about what the adversary looks at; true of the formula."""
    needs: tuple[str, ...] = ()
    version: int = 1

    def evaluate(self, observables: Observables, documents: Documents) -> Vector:
        """One number a document, shape (n_documents,)."""
        return self.score(observables, documents)


def statistic_traits(statistic: object) -> StatisticTraits:
    """Return the attributes of a statistic, defaults filled in."""
    names = (field.name for field in fields(StatisticTraits))
    return StatisticTraits(**{name: getattr(statistic, name) for name in names if hasattr(statistic, name)})


@runtime_checkable
class BringsStatistics(Protocol):
    """A mechanism with statistics of its own."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Tried besides those that a spec names."""


def own_statistics(mechanism: object) -> tuple[Statistic, ...]:
    """Statistics that a mechanism brings."""
    return tuple(mechanism.statistics) if isinstance(mechanism, BringsStatistics) else ()
