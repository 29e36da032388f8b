"""Counts of documents a column as linear systems, and the documents in the columns that a run kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betainc

from ksdp.audit.contract import (
    Database,
    Documents,
    Mechanism,
    Observables,
    Pool,
    Release,
    Statistic,
    TableStatistic,
    Traits,
    statistic_traits,
)
from ksdp.audit.mechanisms.schema import prefixed_runs
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import csr_times_panel, panel_of
from ksdp.audit.numeric.sparse_rows import emptied
from ksdp.audit.statistics.linear.operator import ContributionOperator, FactoredContributions
from ksdp.audit.statistics.linear.system import LinearSystem, WithinColumns, membership_scores
from ksdp.audit.statistics.products import announced

DOCUMENT_COUNTS, KEPT_COLUMNS = "document_counts", "kept_columns"
"""Names of the announced arrays, shape (features,) each."""
Allowed = Callable[[sp.csr_array], NDArray[np.bool_]]
"""Which documents a run may have held, each by itself, shape (n,)."""
_LEAST = 1e-9


def marked(rows: sp.csr_array) -> sp.csr_array:
    """1 where a document has a column."""
    found = sp.csr_array(rows.shape, dtype=np.float64)
    found.indptr, found.indices = rows.indptr, rows.indices
    found.data = (np.asarray(rows.data) != 0).astype(np.float64)
    return found


def _columns(rows: sp.csr_array) -> Floats:
    return np.bincount(np.asarray(rows.indices)[np.asarray(rows.data) != 0], minlength=rows.shape[1]).astype(float)


def _of_pool(pool: Pool) -> tuple[Floats, Floats]:
    """Documents of the pool that have each column: those that are drawn, and those of others; shape (d,) each."""

    def compute() -> tuple[Floats, Floats]:
        return _columns(pool.drawn), np.zeros(pool.drawn.shape[1]) if pool.fixed is None else _columns(pool.fixed)

    return pool.derive("documents of columns", compute)


def expected_counts(pool: Pool) -> Floats:
    """The counts of all parties that are expected of a run, shape (d,)."""
    drawn, others = _of_pool(pool)
    return np.asarray(pool.share * drawn + pool.fixed_share * others)


def _candidate_counts(observables: Observables, pool: Pool) -> Floats:
    """Column counts of the candidate documents, with known documents subtracted."""
    counts = announced(observables, DOCUMENT_COUNTS).ravel()
    known = pool.fixed_share == 1.0 and pool.remaining is not None
    return np.asarray(counts - _beside(pool)) if known else counts


def _beside(pool: Pool) -> Floats:
    """Documents that have each column, of others that stay in what the coalition sees."""
    beside = pool.remaining
    if beside is None:
        return np.zeros(pool.drawn.shape[1])
    return pool.derive("documents of columns beside", lambda: _columns(beside))


def _within(observables: Observables, pool: Pool) -> WithinColumns:
    """Candidates all of whose columns occur in some candidate of this run."""
    return WithinColumns(np.asarray(_candidate_counts(observables, pool) > 0.5))


def counts_allow(observables: Observables, pool: Pool) -> Allowed | None:
    """Which documents a run may have held by its counts, each by itself; None where no counts are to be seen."""
    if DOCUMENT_COUNTS not in observables:
        return None
    within = _within(observables, pool)
    return lambda rows: within(rows, lambda _, of: of(rows))


def _summed(documents: Documents, numbers: Floats) -> Floats:
    """The sum of a number a column over each document's columns; each by itself, to the last bit."""
    rows, found = marked(documents.matrix), np.empty((len(documents), 1))
    csr_times_panel(rows.indptr, rows.indices, rows.data, panel_of(numbers[None, :]), found)
    return found[:, 0]


def _more_than(count: Floats, of: Floats, share: float) -> Floats:
    """P(binomial of so many > count): what `scipy.stats` says, which takes half a second to import."""
    within = (count >= 0) & (count < of)
    tail = betainc(np.where(within, count + 1, 1.0), np.where(within, of - count, 1.0), share)
    return np.asarray(np.where(within, tail, np.where(count < 0, 1.0, 0.0)))


def counts_match(observables: Observables, documents: Documents) -> Floats:
    """Whether the counts hold what the document adds to them, best weighed.

    <C^-1 (a_x - mean), c - E c>, a_x the document's row of zeros and ones, c the counts, E c and C their mean and
    covariance over databases: the log likelihood ratio of the linear, normal model (`system`). A document with
    a column that no document has was not in, and is left out first.
    """
    counts, pool = announced(observables, DOCUMENT_COUNTS).ravel(), documents.source_pool

    def terms(rows: sp.csr_array) -> ContributionOperator:
        return FactoredContributions.plain(marked(rows), np.ones((rows.shape[0], 1)))

    possible = _within(observables, pool)
    known = LinearSystem(counts, of_all=False, possible=possible)
    return membership_scores("linear-counts", observables, documents, terms, known)


def columns_kept(observables: Observables, documents: Documents) -> Floats:
    """The log likelihood ratio of which columns stay, column by column: the document adds 1 to its own.

    sum over its columns of log P(stays | x is in) / P(stays | x is not), others in a binomial number.
    """
    pool = documents.source_pool
    least = pool.mechanism.at_least if isinstance(pool.mechanism, _Cuts) else 1

    def chances() -> tuple[Floats, Floats]:
        drawn, others = _of_pool(pool)
        short = np.ceil(least - pool.fixed_share * others)
        # P(the other documents are `short` or more), and P(they are one fewer or more).
        tails: Any = [_more_than(short - by, np.maximum(drawn - 1.0, 0.0), pool.share) for by in (1, 2)]
        out, within = (np.clip(tail, _LEAST, 1 - _LEAST) for tail in tails)
        return np.log(within / out), np.log((1 - within) / (1 - out))

    stays, goes = pool.derive(("chances to stay", least), chances)
    kept = announced(observables, KEPT_COLUMNS).ravel() > 0.5
    return _summed(documents, np.where(kept, stays, goes))


def _row(
    name: str, score: Callable[[Observables, Documents], Floats], sentence: str, needs: str = DOCUMENT_COUNTS
) -> TableStatistic:
    weighs = score in (counts_match, columns_kept)
    return TableStatistic(name, "counts", score, sentence, needs=(needs,), of_candidates=True, weighs=weighs)


COUNTS: tuple[Statistic, ...] = (
    _row(
        "linear-counts",
        counts_match,
        "Whether the counts of documents hold what this document adds to them, best weighed.",
    ),
    _row(
        "kept-columns",
        columns_kept,
        "Whether those words or columns stayed that this document’s being in would have kept.",
        KEPT_COLUMNS,
    ),
)
"""What a mechanism brings that announces counts of documents."""


Kept = NDArray[np.bool_]


@runtime_checkable
class _Cuts(Protocol):
    """A mechanism that keeps columns by counts."""

    at_least: int
    inner: Mechanism

    def within(self, database: Database, kept: Kept, rng: np.random.Generator) -> Observables:
        """What the mechanism inside announces of these columns."""
        ...


@dataclass(frozen=True, eq=False)
class _Within:
    """The mechanism inside, on columns that are decided."""

    whole: _Cuts
    kept: Kept

    @property
    def traits(self) -> Traits:
        """Exact."""
        return Traits(noise_free=True)

    @property
    def inner(self) -> Mechanism:
        """With its parameters, for statistics that ask for them."""
        return self.whole.inner

    @property
    def name(self) -> str:
        """Of the mechanism inside."""
        return self.inner.name

    @property
    def version(self) -> int:
        """Of the mechanism inside."""
        return self.inner.version

    def releases(self, features: int) -> tuple[Release, ...]:
        """Of the mechanism inside."""
        return self.inner.releases(features)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run the mechanism inside."""
        return self.whole.within(database, self.kept, rng)


def evaluated(statistic: Statistic, observables: Observables, documents: Documents) -> NDArray[np.float64]:
    """One number a document, as by `Statistic.evaluate`, of the documents as the run had them."""
    return statistic.evaluate(observables, as_in_run(statistic, observables, documents))


def as_in_run(statistic: Statistic, observables: Observables, documents: Documents) -> Documents:
    """The documents as this statistic should have them in this run.

    As they are, where no columns were kept by counts, or the statistic is of the counts themselves
    (`of_candidates`); in the columns that are expected to stay, where it compares with what is expected of any run
    (`of_expected`); in those that this run kept, of all others.
    """
    if KEPT_COLUMNS not in observables or (of := statistic_traits(statistic)).of_candidates:
        return documents
    if of.of_expected:
        return _expected(documents) if isinstance(documents.source_pool.mechanism, _Cuts) else documents
    kept = announced(observables, KEPT_COLUMNS).ravel() > 0.5
    if kept.shape != documents.matrix.shape[1:]:  # somebody's own array of that name
        return documents

    def compute() -> Documents:
        possible = counts_allow(observables, documents.source_pool)
        counts = announced(observables, DOCUMENT_COUNTS).ravel() * kept if DOCUMENT_COUNTS in observables else None

        def pool_of(pool: Pool) -> Pool:
            return observables.derive(("kept", pool), lambda: _pool(pool, kept, possible, counts))

        return _cut(documents, kept, pool_of, possible)

    return observables.derive(("kept", documents), compute)


class _Planned(Protocol):
    """A plan, as far as it is looked at here."""

    @property
    def announced(self) -> Sequence[Release]:
        """What its mechanism announces."""
        ...

    @property
    def mechanism(self) -> Mechanism:
        """What is audited."""
        ...

    @property
    def pool(self) -> Pool:
        """What databases are drawn from."""
        ...


def expected_shapes(plan: _Planned) -> tuple[Release, ...]:
    """What is announced, in the columns that are expected to stay: how many numbers there are to learn from.

    Of a mechanism that keeps all columns, as it is.
    """
    found = tuple(plan.announced)
    for prefix, one in prefixed_runs(plan.mechanism):
        if isinstance(one, _Cuts):
            kept = _stay(replace(plan.pool, mechanism=cast(Any, one)) if prefix else plan.pool)
            found = tuple(_narrower(a, kept) if a.name.startswith(prefix) else a for a in found)
    return found


def _narrower(announced: Release, kept: Kept) -> Release:
    """In the columns that are kept, where it has one number or more for each."""
    wide = announced.shape[-1:] == (len(kept),)
    return replace(announced, shape=(*announced.shape[:-1], int(kept.sum()))) if wide else announced


def _expected(documents: Documents) -> Documents:
    if documents.taken_from is not None:
        whole, places = documents.taken_from
        return documents.derive("expected columns", lambda: _expected(whole).at(places))

    def compute() -> Documents:
        kept = _stay(documents.source_pool)
        return _cut(documents, kept, lambda pool: pool.derive("expected columns", lambda: _pool(pool, kept)))

    return documents.derive("expected columns", compute)


def _stay(pool: Pool) -> Kept:
    """Columns that are expected to stay: all, where that is none."""
    assert isinstance(pool.mechanism, _Cuts)
    kept = np.asarray(expected_counts(pool) >= pool.mechanism.at_least)
    return kept if kept.any() else np.ones_like(kept)


def _pool(
    pool: Pool, kept: Kept, possible: Allowed | None = None, counts: NDArray[np.float64] | None = None
) -> Pool:
    own = pool.mechanism
    inside = _Within(own, kept) if isinstance(own, _Cuts) else own  # nobody can run what was recorded

    def emptied_too(rows: sp.csr_array | None) -> sp.csr_array | None:
        return None if rows is None else emptied(rows, kept)

    may = None if possible is None else possible(pool.drawn)
    return replace(
        pool,
        drawn=emptied(pool.drawn, kept),
        fixed=emptied_too(pool.fixed),
        honest=emptied_too(pool.honest),
        coalition=emptied_too(pool.coalition),
        mechanism=inside,
        possible=may,
        counts=counts,
    )


def _cut(
    documents: Documents, kept: Kept, pool_of: Callable[[Pool], Pool], possible: Allowed | None = None
) -> Documents:
    """The same documents and groups without what stands in other columns."""

    def cut(some: Documents | None) -> Documents | None:
        if some is None:
            return None
        pool = None if some.pool is None else pool_of(some.pool)
        return Documents(
            emptied(some.matrix, kept),
            some.background,
            cut(some.rows),
            some.starts,
            pool,
            possible=None if possible is None else possible(some.matrix),
        )

    found = cut(documents)
    assert found is not None
    if found.pool is None:
        found = replace(found, pool=pool_of(documents.source_pool))
    return found
