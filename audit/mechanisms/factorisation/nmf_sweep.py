"""One sweep of RRI-NMF over stacked CSR rows, in Gram form.

Party by party: each computes its share from its own rows and the public T only, and the shares are summed, as a
secure sum would. One party is the centralised algorithm.

Columns that no row touches ("silent") are not computed one by one. Their numerators hold no data, so that after
its first update a topic is constant on them: they are carried as one class, exactly. A sample of a few per cent
of a corpus leaves half of the vocabulary silent.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.mechanisms.factorisation.nmf_kernels import (
    Factors,
    Penalties,
    Rows,
    Silent,
    Sums,
    SweepSpace,
    TopicShare,
    dot,
    product,
)
from ksdp.audit.mechanisms.factorisation.simplex import simplex_threshold

LARGE = 1e6


@njit(cache=True, nogil=True)
def share_of(
    rows: Rows,
    party: int,
    t: int,
    factors: Factors,
    fits: Matrix,
    penalties: Penalties,
    own: TopicShare,
) -> None:
    """Update column t of W on one party's rows, and fill its `own` share of the sums (Algorithm 1, lines 5 to 8).

    R_t never exists: W_t^T R_t = X^T W_t - sum over u != t of (W^T W_t)_u T_u.
    """
    T, W, gram = factors.T, factors.W, factors.gram[t]
    share, overlaps = own
    share[:] = 0.0
    overlaps[:] = 0.0
    topics = T.shape[0]
    denominator = gram[t] + penalties.delta
    for i in range(rows.bounds[party], rows.bounds[party + 1]):
        w = fits[i, t] - penalties.gamma
        W[i, t] = 0.0
        for u in range(topics):
            w -= W[i, u] * gram[u]
        w = w / denominator if w > 0.0 and denominator > 0.0 else 0.0
        W[i, t] = w
        if w > 0.0:
            for p in range(rows.indptr[i], rows.indptr[i + 1]):
                share[rows.columns[p]] += w * rows.data[p]
            for u in range(topics):
                overlaps[u] += w * W[i, u]
    for u in range(topics):
        if u != t and overlaps[u] != 0.0:
            other = T[u]
            for j in range(share.size):
                share[j] -= overlaps[u] * other[j]


@njit(cache=True, nogil=True)
def _add(sums: Sums, t: int, share: TopicShare, silent: Silent) -> None:
    """Add an outside party's share to what the coalition sees."""
    numerator, overlaps = share
    sums.numerators[t] += numerator
    sums.denominators[t] += overlaps[t]
    for u in range(overlaps.size):
        if u != t:
            if silent.fresh[u]:
                sums.mix[t, u] -= overlaps[u]
            else:
                sums.offset[t] -= overlaps[u] * silent.level[u]


@njit(cache=True, nogil=True)
def next_topic(
    t: int,
    topic: Vector,
    denominator: float,
    width: int,
    penalties: Penalties,
    simplex: bool,
    thresholds: Vector,
) -> float:
    """Turn the announced sums (numerators in `topic`) into T_t, line 10; return its height on silent columns."""
    for j in range(topic.size):
        topic[j] = max(topic[j] - penalties.alpha, 0.0) / denominator
    if not simplex:
        return 0.0  # a silent column's numerator is at most 0
    theta = simplex_threshold(topic, width, thresholds[t])
    thresholds[t] = theta
    if theta > LARGE:  # far from 1, rounding matters: project after moving the largest entry to 0
        topic -= topic.max()
        theta = simplex_threshold(topic, 0, -1.0)
    for j in range(topic.size):
        topic[j] = max(topic[j] - theta, 0.0)
    return max(-theta, 0.0) if thresholds[t] < 0.0 else 0.0


@njit(cache=True, nogil=True)
def replace_topic(t: int, topic: Vector, height: float, T: Matrix, gram: Matrix, silent: Silent) -> float:
    """Put `topic` (and `height` on the silent columns) in row t of T; return the squared norm of the change."""
    old = T[t]
    for j in range(topic.size):
        old[j] -= topic[j]
    change: float = dot(old, old)
    if silent.fresh[t]:
        change += max(silent.gram[t, t] - 2.0 * height * silent.sums[t] + silent.width * height * height, 0.0)
    else:
        change += silent.width * (height - silent.level[t]) ** 2
    old[:] = topic
    silent.fresh[t] = False
    silent.level[t] = height
    silent.sums[t] = silent.width * height
    for u in range(T.shape[0]):
        inner = height * silent.sums[u]
        silent.gram[t, u] = inner
        silent.gram[u, t] = inner
        inner += dot(topic, T[u])
        gram[t, u] = inner
        gram[u, t] = inner
    return change


@njit(cache=True, nogil=True)
def sweep(
    rows: Rows,
    factors: Factors,
    silent: Silent,
    sums: Sums,
    penalties: Penalties,
    simplex: bool,
    space: SweepSpace,
) -> tuple[float, float]:
    """Run one sweep: for each topic t, every party's W_t, the sums, then T_t (Algorithm 1, lines 4 to 10).

    Parameters
    ----------
    rows, penalties
        Input.
    factors, silent
        Changed in place.
    sums
        Filled.
    simplex
        Project the rows of T on the unit simplex.
    space
        Its thresholds are taken as guesses; all of it is overwritten.

    Returns
    -------
    squared norm of the change of T, squared norm of T before, over all columns
    """
    T, gram = factors.T, factors.gram
    topics, touched = T.shape
    topic = np.empty(touched)
    share = TopicShare(np.empty(touched), np.empty(topics))
    changed = 0.0
    before = 0.0
    for t in range(topics):
        before += gram[t, t]
    product(rows, T, space.interleaved, space.fits)  # all at once: T_t does not change before W_t has used it
    sums.numerators[:] = 0.0
    sums.denominators[:] = 0.0
    sums.mix[:] = 0.0
    sums.offset[:] = 0.0
    for t in range(topics):
        topic[:] = 0.0
        denominator = penalties.beta
        for party in range(rows.outside.size):
            share_of(rows, party, t, factors, space.fits, penalties, share)
            topic += share.numerator
            denominator += share.overlaps[t]
            if rows.outside[party]:
                _add(sums, t, share, silent)
        if denominator <= 0.0:
            continue  # an empty topic stays as it was
        height = next_topic(t, topic, denominator, silent.width, penalties, simplex, space.thresholds)
        changed += replace_topic(t, topic, height, T, gram, silent)
    return changed, before
