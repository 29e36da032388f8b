"""Documents as a run had them that kept some of its columns: what a statistic is to look for in its announcements.

Which columns stay is decided by every run's own counts (`mechanisms.counted`). A document's entries in columns
that went were never added to anything: whoever looks for them rules everybody out. So statistics of what was
announced afterwards are given the documents, and what databases are made of, in the columns that this run kept.
What is expected of any run, before it, is worked out once, in the columns that are expected to stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Announced, Database, Mechanism, Observables, prefixed_runs
from ksdp.audit.sparse_rows import emptied
from ksdp.audit.statistics.contract import Documents, Pool, Statistic
from ksdp.audit.statistics.document_counts import (
    DOCUMENT_COUNTS,
    KEPT_COLUMNS,
    Allowed,
    counts_allow,
    expected_counts,
)
from ksdp.audit.statistics.products import announced

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
    noise_free: bool = True

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

    def observables(self, features: int) -> Any:
        """Of the mechanism inside."""
        return self.inner.observables(features)

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
    of: Any = getattr(statistic, "statistic", statistic)
    if KEPT_COLUMNS not in observables or getattr(of, "of_candidates", False):
        return documents
    if getattr(of, "of_expected", False):
        return _expected(documents) if isinstance(documents.made_of.mechanism, _Cuts) else documents
    kept = announced(observables, KEPT_COLUMNS).ravel() > 0.5
    if kept.shape != documents.matrix.shape[1:]:  # somebody's own array of that name
        return documents

    def compute() -> Documents:
        possible = counts_allow(observables, documents.made_of)
        counts = announced(observables, DOCUMENT_COUNTS).ravel() * kept if DOCUMENT_COUNTS in observables else None

        def pool_of(pool: Pool) -> Pool:
            return cast(Pool, observables.derive(("kept", pool), lambda: _pool(pool, kept, possible, counts)))

        return _cut(documents, kept, pool_of, possible)

    return cast(Documents, observables.derive(("kept", documents), compute))


class _Planned(Protocol):
    """A plan, as far as it is looked at here."""

    @property
    def announced(self) -> Sequence[Announced]:
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


def expected_shapes(plan: _Planned) -> tuple[Announced, ...]:
    """What is announced, in the columns that are expected to stay: how many numbers there are to learn from.

    Of a mechanism that keeps all columns, as it is.
    """
    found = tuple(plan.announced)
    for prefix, one in prefixed_runs(plan.mechanism):
        if isinstance(one, _Cuts):
            kept = _stay(replace(plan.pool, mechanism=cast(Any, one)) if prefix else plan.pool)
            found = tuple(_narrower(a, kept) if a.name.startswith(prefix) else a for a in found)
    return found


def _narrower(announced: Announced, kept: Kept) -> Announced:
    """In the columns that are kept, where it has one number or more for each."""
    wide = announced.shape[-1:] == (len(kept),)
    return replace(announced, shape=(*announced.shape[:-1], int(kept.sum()))) if wide else announced


def _expected(documents: Documents) -> Documents:
    if documents.taken_from is not None:
        whole, places = documents.taken_from
        return cast(Documents, documents.derive("expected columns", lambda: _expected(whole).at(places)))

    def compute() -> Documents:
        kept = _stay(documents.made_of)
        return _cut(documents, kept, lambda pool: pool.derive("expected columns", lambda: _pool(pool, kept)))

    return cast(Documents, documents.derive("expected columns", compute))


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
    """The same documents, population and groups without what stands in other columns."""

    def cut(some: Documents | None) -> Documents | None:
        if some is None:
            return None
        pool = None if some.pool is None else pool_of(some.pool)
        return Documents(
            emptied(some.matrix, kept),
            some.background,
            cut(some.rows),
            some.starts,
            cut(some.population),
            pool,
            possible=None if possible is None else possible(some.matrix),
        )

    found = cut(documents)
    assert found is not None
    if found.pool is None:
        found = replace(found, pool=pool_of(documents.made_of))
    return found
