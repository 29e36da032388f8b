"""Two-sample Kolmogorov-Smirnov distances of all documents at once.

D = sup_t |F_with(t) - F_without(t)| is the advantage (TPR - FPR) of the best adversary who compares the
statistic with a threshold. Each document splits the same runs into its own two arms, so the runs are sorted
once a document and only the smaller arm is looked up: O(R log R) with a small constant, and ties are exact
(both distribution functions are compared at distinct values only).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.verdicts.law import log10_p


@dataclass(frozen=True, eq=False)
class KSTable:
    """Distances and exact p-values, one entry a document."""

    n_with: NDArray[np.int64]
    n_without: NDArray[np.int64]
    distance: NDArray[np.float64]
    """D in [0, 1]; NaN where an arm is empty."""
    log10_p: NDArray[np.float64]
    """Exact without ties, conservative with them; 0 where an arm is empty."""

    def at(self, row: int) -> KSTable:
        """Of one document."""
        one = slice(row, row + 1)
        return KSTable(self.n_with[one], self.n_without[one], self.distance[one], self.log10_p[one])


@njit(cache=True, nogil=True)
def _distances(
    values: NDArray[np.float32],
    ordered: NDArray[np.float32],
    inclusion: NDArray[np.bool_],
    h: NDArray[np.int64],
) -> None:
    documents, runs = values.shape
    for row in range(documents):
        with_runs = inclusion[row].sum()
        pick = with_runs <= runs - with_runs  # look up the smaller arm
        m = with_runs if pick else runs - with_runs
        n = runs - m
        if m == 0:
            h[row] = 0
            continue
        arm = np.empty(m, values.dtype)
        at = 0
        for run in range(runs):
            if inclusion[row, run] == pick:
                arm[at] = values[row, run]
                at += 1
        arm.sort()
        best = 0
        start = below = 0
        everybody = ordered[row]
        while start < m:
            value = arm[start]
            end = start + 1
            while end < m and arm[end] == value:
                end += 1
            # Others strictly below this value, and at or below it: the two ends of the step.
            while everybody[below] < value:
                below += 1
            under = below - start
            while below < runs and everybody[below] == value:
                below += 1
            upto = below - end
            best = max(best, end * n - upto * m, under * m - start * n)
            start = end
        h[row] = best


def checked_order(
    values: NDArray[np.floating], inclusion: NDArray[np.bool_], ordered: NDArray[np.floating] | None = None
) -> NDArray[np.floating]:
    """Each document's values in order; refuses bits of another shape, and NaN (which sorts last)."""
    if values.shape != inclusion.shape:
        raise ValueError(f"`values` {values.shape} and `inclusion` {inclusion.shape} must have the same shape.")
    ordered = np.sort(values, axis=1) if ordered is None else ordered
    if ordered.shape[1] and np.isnan(ordered[:, -1]).any():
        raise ValueError("`values` must not hold NaN.")
    return ordered


def ks_distances(
    values: NDArray[np.floating], inclusion: NDArray[np.bool_], ordered: NDArray[np.floating] | None = None
) -> NDArray[np.int64]:
    """Return D of each document as an integer: h = D * n_with * n_without, exact.

    Parameters
    ----------
    values : shape (n_documents, n_runs)
        A statistic of each document in each run, without NaN.
    inclusion : bool, shape (n_documents, n_runs)
        Whether the run's database held the document.
    ordered : shape of `values`, optional
        `np.sort(values, axis=1)`, for who has it already: half of the work.
    """
    ordered = checked_order(values, inclusion, ordered)
    h = np.zeros(len(values), dtype=np.int64)
    _distances(np.ascontiguousarray(values), ordered, np.ascontiguousarray(inclusion), h)
    return h


def ks_table(
    values: NDArray[np.floating], inclusion: NDArray[np.bool_], ordered: NDArray[np.floating] | None = None
) -> KSTable:
    """Test every document: distance and exact log10 p of its arms; called as `ks_distances`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(7)
    >>> inclusion = rng.random((2, 400)) < 0.5
    >>> values = rng.normal(size=(2, 400)) + [[0.0], [1.0]] * inclusion
    >>> table = ks_table(values, inclusion)
    >>> table.distance.round(2)
    array([0.09, 0.35])
    >>> table.log10_p.round(1)
    array([ -0.4, -10.9])
    """
    return ks_tables([values], inclusion, None if ordered is None else [ordered])[0]


def ks_tables(
    columns: Sequence[NDArray[np.floating]],
    inclusion: NDArray[np.bool_],
    ordered: Sequence[NDArray[np.floating]] | None = None,
) -> list[KSTable]:
    """`ks_table` of several statistics of the same runs, whose p-values are worked out together: those of the same
    arms share their passes.

    Parameters
    ----------
    columns : each of shape (n_documents, n_runs)
    inclusion : bool, shape (n_documents, n_runs)
    ordered : each column in order, optional
    """
    orders = [None] * len(columns) if ordered is None else ordered
    h = np.array([ks_distances(v, inclusion, o) for v, o in zip(columns, orders, strict=True)], dtype=np.int64)
    n_with = inclusion.sum(axis=1, dtype=np.int64)
    n_without = inclusion.shape[1] - n_with
    pairs = n_with * n_without
    arms = (np.tile(arm, len(columns)) for arm in (n_with, n_without))
    log_p = log10_p(h.ravel(), *arms).reshape(h.shape)
    distance = np.divide(h, pairs, out=np.full(h.shape, np.nan), where=pairs > 0)
    return [KSTable(n_with, n_without, *found) for found in zip(distance, log_p, strict=True)]
