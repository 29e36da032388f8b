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

from typing import Any, cast

import numpy as np
import scipy.linalg

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import one_thread
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.filter_steps import approached, by_steps
from ksdp.audit.statistics.solved_filters import solved_filter
from ksdp.audit.statistics.term_numbers import TermNumbers

SHRINK = 1e-5
"""Part of the mean variance that is added to every one: announcements are stored in single precision."""
DENSE = 2**31
"""Multiplications for a filter, up to which it is solved for; it is approached by steps beyond."""
WORK = 2**28
"""Multiplications for a run's filter by steps, about."""
FEWEST_STEPS, MOST_STEPS = 12, 60


def filtered(terms: Additive, apart: Floats, noise: Floats | float = 0.0, work: int | None = None) -> Floats:
    """C^-1 apart, C the sum of (a - mean) (a - mean)^T over the documents, shrunk, and of noise; shape (entries,).

    Zeros where all documents add the same.

    Parameters
    ----------
    terms : of all that databases are drawn from
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
        if solved_for(terms.rows.shape[0], terms.entries):
            return _solved(terms, apart, noise)
        if isinstance(terms, TermNumbers):
            ridge = _ridge(float(terms.variances.sum()), noise, len(apart))
            return approached(terms, apart, ridge, _steps(terms.work if work is None else work))
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
