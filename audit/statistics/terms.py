"""What every document adds to what the rounds of one run announce, and the filter for one of them.

Who sees every round knows all that a document's part depends on: topics, or the block before. So what x adds to
the sums is known, not to first order but as it is, a_x, and what is announced are linear equations in who is in:

    Z = sum over documents i of b_i a_i,   b_i 1 or 0.

With b_i of mean p and independent, normal of the same mean and covariance, the posterior mean of b_x is p plus

    p (1 - p) <C^-1 a_x, Z - p sum a_i>,   C = p (1 - p) sum (a_i - mean) (a_i - mean)^T,

a matched filter, and the likelihood ratio of "x is in". Rounds add up: the terms of a round are those given all
that was announced before, so that the ratio of all rounds is the product of the rounds' own, each given those
before; C's triangular factors are just that. As many numbers as there are documents tell who is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numba import njit

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, lined, one_thread, panel_of
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.filter_steps import approached, by_steps
from ksdp.audit.statistics.products import rows_times
from ksdp.audit.statistics.solved_filters import solved_filter
from ksdp.audit.statistics.term_numbers import SAMPLE, TermNumbers

SHRINK = 1e-5
"""Part of the mean variance that is added to every one: announcements are stored in single precision."""
DENSE = 2**31
"""Multiplications for a filter, up to which it is solved for; it is approached by steps beyond."""
WORK = 2**28
"""Multiplications for a run's filter by steps, about."""
FEWEST_STEPS, MOST_STEPS = 12, 60
WIDE = 64
"""Columns of weights that are written at a time, or those of one stage where these are more."""


@dataclass(frozen=True, eq=False)
class SumRows:
    """Some rows of an announced sum: terms w^T (x - shift - c B)."""

    weights: Floats
    """w, shape (n, r)."""
    coefficients: Floats
    """c, shape (n, k)."""
    basis: Floats
    """B, shape (k, d)."""
    shift: Floats | None = None
    """Shape (d,)."""

    def left(self, rows: Floats, step: int = 1) -> Floats:
        """x - shift - c B of every `step`-th document, shape (len(rows), d); `rows` are these documents."""
        left = rows - self.coefficients[::step] @ self.basis
        if self.shift is not None:
            left -= self.shift
        return left


@dataclass(frozen=True, eq=False)
class Terms:
    """What documents add to the sums of one run."""

    rows: sp.csr_array
    """Documents, shape (n, d), canonical."""
    stages: tuple[SumRows, ...]
    scalars: Floats
    """What they add to single numbers, shape (n, m)."""
    turned: sp.csr_array | None = None
    """The documents' transpose, shape (d, n), where somebody has it."""

    @property
    def lengths(self) -> list[int]:
        """Rows of each stage."""
        return [stage.weights.shape[1] for stage in self.stages]

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        return int(sum(self.lengths) * self.rows.shape[1] + self.scalars.shape[1])

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        return 2 * int(self.rows.nnz) * sum(self.lengths)

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit.

        Parameters
        ----------
        direction : shape (entries,)
        """
        parts, single = self._apart(direction)
        found = np.empty((self.rows.shape[0], len(parts)))
        csr_times_panel(self.rows.indptr, self.rows.indices, self.rows.data, panel_of(parts), found)
        total = rows_times(self.scalars, single) if len(single) else np.zeros(len(found))
        for stage, at in self._places():
            less = np.zeros(len(parts[at])) if stage.shift is None else parts[at] @ stage.shift
            _add_along(stage.weights, stage.coefficients, stage.basis @ parts[at].T, found[:, at], less, total)
        return total

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        turned = self._across
        sums = np.empty((sum(self.lengths), turned.shape[0]))
        for some in self._at_a_time():
            first, last = some[0][1].start, some[-1][1].stop
            weighed = lined((self.rows.shape[0], -(-(last - first) // 8) * 8))
            found = np.empty((turned.shape[0], last - first))
            for stage, at in some:
                np.multiply(stage.weights, shares[:, None], out=weighed[:, at.start - first : at.stop - first])
            csr_times_panel(turned.indptr, turned.indices, turned.data, weighed, found)
            sums[first:last] = found.T
            for stage, at in some:
                mine = weighed[:, at.start - first : at.stop - first]
                sums[at] -= (mine.T @ stage.coefficients) @ stage.basis
                if stage.shift is not None:
                    sums[at] -= np.outer(mine.sum(axis=0), stage.shift)
        return np.concatenate([sums.ravel(), shares @ self.scalars])

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        dense, at = self.rows.toarray(), 0
        found = np.empty((dense.shape[0], self.entries))
        for stage in self.stages:
            left = stage.left(dense)
            for r in range(stage.weights.shape[1]):
                np.multiply(stage.weights[:, [r]], left, out=found[:, at : at + left.shape[1]])
                at += left.shape[1]
        found[:, at:] = self.scalars
        return found

    @cached_property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents, from some of these; shape (entries,)."""
        found, step = [], max(1, self.rows.shape[0] // SAMPLE)
        some = self.rows[::step].toarray()
        for stage in self.stages:
            left = stage.left(some, step)
            found.append((np.square(stage.weights[::step]).T @ np.square(left)).ravel() * step)
        return np.concatenate([*found, np.square(self.scalars).sum(axis=0)])

    @cached_property
    def _across(self) -> sp.csr_array:
        return sp.csr_array(self.rows.T.tocsr()) if self.turned is None else self.turned

    def _places(self) -> Iterator[tuple[SumRows, slice]]:
        start = 0
        for stage in self.stages:
            yield stage, slice(start, start + stage.weights.shape[1])
            start += stage.weights.shape[1]

    def _at_a_time(self) -> Iterator[list[tuple[SumRows, slice]]]:
        """Stages with their places, so many that their columns are `WIDE` or fewer."""
        some: list[tuple[SumRows, slice]] = []
        for stage, at in self._places():
            if some and at.stop - some[0][1].start > WIDE:
                yield some
                some = []
            some.append((stage, at))
        if some:
            yield some

    def _apart(self, direction: Floats) -> tuple[Floats, Floats]:
        wide = sum(self.lengths) * self.rows.shape[1]
        return direction[:wide].reshape(-1, self.rows.shape[1]), direction[wide:]


@njit(cache=True, nogil=True)
def _add_along(weights: Any, coefficients: Any, form: Any, found: Any, less: Any, total: Any) -> None:
    """total += the products of each document's weights with found - coefficients @ form - less."""
    for i in range(total.shape[0]):
        for r in range(weights.shape[1]):
            left = found[i, r] - less[r]
            for t in range(form.shape[0]):
                left -= coefficients[i, t] * form[t, r]
            total[i] += weights[i, r] * left


def filtered(terms: Additive, apart: Floats, noise: Floats | float = 0.0, work: int | None = None) -> Floats:
    """C^-1 apart, C the sum of (a - mean) (a - mean)^T over the documents, shrunk, and of noise; shape (entries,).

    Zeros where all documents add the same.

    Parameters
    ----------
    terms : of all that databases are drawn from; `TermNumbers` are approached, whatever their size
    apart : the announced sums less what is expected of them
    noise : shape (entries,)
        Its variance, over p (1 - p).
    work : int, optional
        What the number of steps goes by; the terms' own by default.
    """
    with one_thread():
        exactly = solved_filter(terms, apart, np.broadcast_to(np.asarray(noise, np.float64), apart.shape))
        if exactly is not None:
            return exactly
        if isinstance(terms, TermNumbers):
            ridge = _ridge(float(terms.variances.sum()), noise, len(apart))
            return approached(terms, apart, ridge, _steps(terms.work if work is None else work))
        if solved_for(terms.rows.shape[0], terms.entries):
            return _solved(terms, apart, noise)
        return _approached(terms, apart, noise)


def solved_for(n: int, entries: int) -> bool:
    """Whether so many documents' equations for so many numbers are solved, and not approached by steps."""
    return n * entries * min(n, entries) <= DENSE


def _steps(work: int) -> int:
    return int(np.clip(WORK // max(work, 1), FEWEST_STEPS, MOST_STEPS))


def _ridge(total: float, noise: Floats | float, entries: int) -> Floats:
    least = max(SHRINK * total / max(entries, 1), float(np.finfo(np.float32).tiny))
    return np.asarray(np.full(entries, least) + noise)


def _solved(terms: Additive, apart: Floats, noise: Floats | float) -> Floats:
    written = terms.written()
    written -= written.mean(axis=0)
    total = float(np.square(written).sum())
    if not total > 0.0:
        return np.zeros_like(apart)
    root = np.sqrt(_ridge(total, noise, written.shape[1]))
    written /= root
    scaled = apart / root
    tall = len(written) >= written.shape[1]
    gram = written.T @ written if tall else written @ written.T
    gram[np.diag_indices_from(gram)] += 1.0
    factor = cast(Any, scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False))
    if tall:
        return np.asarray(scipy.linalg.cho_solve(factor, scaled, check_finite=False) / root)
    inside = scipy.linalg.cho_solve(factor, written @ scaled, check_finite=False)
    return np.asarray((scaled - written.T @ inside) / root)


def _approached(terms: Additive, apart: Floats, noise: Floats | float) -> Floats:
    """By conjugate gradients, preconditioned by the variances."""
    ridge = _ridge(float(terms.variances.sum()), noise, terms.entries)
    scale = 1.0 / np.sqrt(terms.variances + ridge)

    def times(direction: Floats) -> Floats:
        along = terms.along(scale * direction)
        return scale * (terms.summed(along - along.mean()) + ridge * scale * direction)

    return np.asarray(scale * by_steps(times, scale * apart, _steps(terms.work)))
