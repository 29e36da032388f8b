"""What announced counts of documents tell: in how many documents of a run each candidate column is (`counted`).

A count is a sum over the run's documents of 1 where the document has the column. So x adds its own row of zeros
and ones, known without doubt, and the counts are linear equations in who is in (`equations`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import betainc

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.contract import Documents, Pool, Statistic, TableStatistic
from ksdp.audit.statistics.equations import Equations, what_they_say
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.ruled_out import WithinColumns
from ksdp.audit.statistics.term_numbers import TermNumbers

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

    return cast(tuple[Floats, Floats], pool.derive("documents of columns", compute))


def expected_counts(pool: Pool) -> Floats:
    """The counts of all parties that are expected of a run, shape (d,)."""
    drawn, others = _of_pool(pool)
    return np.asarray(pool.share * drawn + pool.fixed_share * others)


def _apart(observables: Observables, pool: Pool) -> Floats:
    """The counts of the documents of which nobody knows whether they are in, as far as others are known."""
    counts = announced(observables, DOCUMENT_COUNTS).ravel()
    known = pool.fixed_share == 1.0 and pool.beside is not None
    return np.asarray(counts - _beside(pool)) if known else counts


def _beside(pool: Pool) -> Floats:
    """Documents that have each column, of others that stay in what the coalition sees."""
    beside = pool.beside
    if beside is None:
        return np.zeros(pool.drawn.shape[1])
    return cast(Floats, pool.derive("documents of columns beside", lambda: _columns(beside)))


def _within(observables: Observables, pool: Pool) -> WithinColumns:
    """Who has no column that none of the documents has of which nobody knows whether they are in."""
    return WithinColumns(np.asarray(_apart(observables, pool) > 0.5))


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
    covariance over databases: the log likelihood ratio of the linear, normal model (`equations`). A document with
    a column that no document has was not in, and is left out first.
    """
    counts, pool = announced(observables, DOCUMENT_COUNTS).ravel(), documents.made_of

    def terms(rows: sp.csr_array) -> Additive:
        return TermNumbers.plain(marked(rows), np.ones((rows.shape[0], 1)))

    possible = _within(observables, pool)
    known = Equations(counts, of_all=False, possible=possible)
    return what_they_say("counts-match", observables, documents, terms, known)


def fewest_count(observables: Observables, documents: Documents) -> Floats:
    """The smallest count among the document's columns, less others' documents that are known; 0 without any."""
    rows = documents.matrix
    indptr = np.asarray(rows.indptr)
    found, some = np.zeros(len(documents)), np.flatnonzero(np.diff(indptr))
    of_entries = np.where(
        np.asarray(rows.data) != 0, _apart(observables, documents.made_of)[np.asarray(rows.indices)], np.inf
    )
    if len(some):
        found[some] = np.minimum.reduceat(of_entries, indptr[:-1][some])
    return np.where(np.isfinite(found), found, 0.0)


def counts_above(observables: Observables, documents: Documents) -> Floats:
    """How far counts are above those expected in the document's columns, each by its own variance, added up."""
    pool = documents.made_of
    counts = announced(observables, DOCUMENT_COUNTS).ravel()
    drawn, others = _of_pool(pool)
    fixed = pool.fixed_share * _beside(pool)
    spread = pool.share * (1 - pool.share) * drawn + pool.fixed_share * (1 - pool.fixed_share) * others
    apart = counts - pool.share * drawn - fixed
    return _summed(documents, apart / np.maximum(spread, 1.0))


def columns_kept(observables: Observables, documents: Documents) -> Floats:
    """The log likelihood ratio of which columns stay, column by column: the document adds 1 to its own.

    sum over its columns of log P(stays | x is in) / P(stays | x is not), others in a binomial number.
    """
    pool = documents.made_of
    least = int(getattr(pool.mechanism, "at_least", 1))

    def chances() -> tuple[Floats, Floats]:
        drawn, others = _of_pool(pool)
        short = np.ceil(least - pool.fixed_share * others)
        # P(the other documents are `short` or more), and P(they are one fewer or more).
        tails: Any = [_more_than(short - by, np.maximum(drawn - 1.0, 0.0), pool.share) for by in (1, 2)]
        out, within = (np.clip(tail, _LEAST, 1 - _LEAST) for tail in tails)
        return np.log(within / out), np.log((1 - within) / (1 - out))

    stays, goes = cast(tuple[Floats, Floats], pool.derive(("chances to stay", least), chances))
    kept = announced(observables, KEPT_COLUMNS).ravel() > 0.5
    return _summed(documents, np.where(kept, stays, goes))


def _row(
    name: str, score: Callable[[Observables, Documents], Floats], sentence: str, needs: str = DOCUMENT_COUNTS
) -> TableStatistic:
    return TableStatistic(name, "counts", score, sentence, needs=(needs,), of_candidates=True)


COUNTS: tuple[Statistic, ...] = (
    _row(
        "counts-above", counts_above, "Whether more documents than expected have the document’s words or columns."
    ),
    _row(
        "counts-match",
        counts_match,
        "Whether the counts of documents hold what this document adds to them, best weighed.",
    ),
    _row("fewest-count", fewest_count, "How many documents have the rarest of the document’s words or columns."),
    _row(
        "kept-columns",
        columns_kept,
        "Whether those words or columns stayed that this document’s being in would have kept.",
        KEPT_COLUMNS,
    ),
)
"""What a mechanism brings that announces counts of documents."""
