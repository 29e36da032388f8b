"""Kernels of NMF: products, the simplex, and one sweep over stacked rows in Gram form."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Matrix, Vector
from ksdp.audit.numeric.kernels import row_times_panel


@njit(cache=True, nogil=True)
def total(v: NDArray[np.float64]) -> float:
    """Sum in four fixed lanes."""
    s0 = s1 = s2 = s3 = 0.0
    blocks = v.size // 4 * 4
    for j in range(0, blocks, 4):
        s0 += v[j]
        s1 += v[j + 1]
        s2 += v[j + 2]
        s3 += v[j + 3]
    for j in range(blocks, v.size):
        s0 += v[j]
    return (s0 + s1) + (s2 + s3)


@njit(cache=True, nogil=True)
def _excess(v: NDArray[np.float64], zeros: int, theta: float) -> tuple[float, int]:
    """Return the sum of max(v_j - theta, 0) and how many v_j are above theta, `zeros` zeros included."""
    half = v.size // 2
    upper = v[half : 2 * half]
    part = np.empty(half)
    count = 0
    for j in range(half):  # this shape vectorises without fastmath
        part[j] = max(v[j] - theta, 0.0) + max(upper[j] - theta, 0.0)
        count += (v[j] > theta) + (upper[j] > theta)
    excess = total(part)
    if v.size % 2 == 1 and v[v.size - 1] > theta:
        excess += v[v.size - 1] - theta
        count += 1
    if theta < 0.0:
        excess -= zeros * theta
        count += zeros
    return excess, count


@njit(cache=True, nogil=True)
def simplex_threshold(v: NDArray[np.float64], zeros: int, guess: float) -> float:
    """theta with sum_j max(v_j - theta, 0) = 1, for `v` followed by so many `zeros`, which are not stored."""
    theta = guess
    excess, count = _excess(v, zeros, theta)
    if count == 0:  # right of everything: start left of the root instead
        top = 0.0 if zeros > 0 else v[0]
        for j in range(v.size):
            top = max(top, v[j])
        theta = top - max(1.0, 1e-12 * abs(top))
        excess, count = _excess(v, zeros, theta)
    for step in range(v.size + zeros + 2):
        theta += (excess - 1.0) / count
        before = count
        excess, count = _excess(v, zeros, theta)
        # Sets of entries above a threshold are nested, so equal counts are equal sets. From the second step on
        # sets only shrink; rounding alone could make them grow again, and that is the end, too.
        if count == before or count == 0 or (step > 0 and count > before):
            break
    return theta


@njit(cache=True, nogil=True)
def _project_rows(rows: NDArray[np.float64]) -> None:
    for i in range(rows.shape[0]):
        rows[i] -= rows[i].max()  # changes nothing but the rounding: the entries that stay are within 1 of it
        theta = simplex_threshold(rows[i], 0, -1.0)
        for j in range(rows.shape[1]):
            rows[i, j] = max(rows[i, j] - theta, 0.0)


def project_simplex(vectors: ArrayLike) -> NDArray[np.float64]:
    r"""Project a vector, or each row, on the unit simplex: :math:`\arg\min_{x \ge 0, \|x\|_1 = 1} \|x - v\|_2`."""
    array = np.array(vectors, dtype=np.float64, order="C")
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise InputError(f"`vectors` must have shape (d,) or (k, d) with d at least 1; got {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError("`vectors` must be finite; got NaN or infinity.")
    _project_rows(array.reshape(-1, array.shape[-1]))
    return array


class Rows(NamedTuple):
    """CSR rows of all parties, one party after the other."""

    data: Vector
    columns: NDArray[np.uint32]
    """Unsigned: a third faster, as no index can count from the end."""
    indptr: NDArray[np.int64]
    bounds: NDArray[np.int64]
    """Shape (parties + 1,): rows of party p are bounds[p] to bounds[p + 1]."""
    outside: NDArray[np.bool_]
    """Shape (parties,): whose shares the coalition cannot subtract."""


class Factors(NamedTuple):
    """X ~ W T while it is sought, over the touched columns; changed in place."""

    T: Matrix
    """Shape (k, touched)."""
    W: Matrix
    """Shape (n, k)."""
    gram: Matrix
    """T T^T over all columns, shape (k, k)."""


class Silent(NamedTuple):
    """The columns of T that no row has, by the few numbers that a sweep needs of them."""

    width: int
    """How many."""
    gram: Matrix
    """T T^T over these columns, shape (k, k)."""
    sums: Vector
    """Row sums of T over these columns."""
    level: Vector
    """The constant of each topic, once it has been updated."""
    fresh: NDArray[np.bool_]
    """Whether a topic still holds its start."""


class Sums(NamedTuple):
    """Sums of one sweep over the parties outside the coalition, as the coalition sees them."""

    numerators: Matrix
    """W_t^T R_t on the touched columns, shape (k, touched)."""
    denominators: Vector
    mix: Matrix
    offset: Vector
    """On the silent columns the numerators are offset + mix @ start."""


class TopicShare(NamedTuple):
    """Contribution of one party to the sums of a topic t."""

    numerator: Vector
    """W_t^T R_t over the touched columns."""
    overlaps: Vector
    """W^T W_t, whose entry t is the denominator."""


class SweepSpace(NamedTuple):
    """Buffers of a sweep, which are handed to the next."""

    thresholds: Vector
    """Thresholds of the last projections, the guesses for the next, shape (k,)."""
    fits: Matrix
    """X T^T, shape (n, k)."""
    interleaved: Matrix
    """Columns of `product` interleaved, shape (touched, 8)."""


class Penalties(NamedTuple):
    """The regularisers of equation 3: weights of ||T||_1, ||T||_F^2 / 2, ||W||_1 and ||W||_F^2 / 2."""

    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    delta: float = 0.0


PLAIN = Penalties()
"""No regulariser."""


@njit(cache=True, nogil=True)
def dot(a: Vector, b: Vector) -> float:
    """Inner product, added up in one fixed order that vectorises without fastmath."""
    quarter = a.size // 4
    a1, a2, a3 = a[quarter : 2 * quarter], a[2 * quarter : 3 * quarter], a[3 * quarter : 4 * quarter]
    b1, b2, b3 = b[quarter : 2 * quarter], b[2 * quarter : 3 * quarter], b[3 * quarter : 4 * quarter]
    part = np.empty(quarter)
    for j in range(quarter):
        part[j] = (a[j] * b[j] + a1[j] * b1[j]) + (a2[j] * b2[j] + a3[j] * b3[j])
    rest = 0.0
    for j in range(4 * quarter, a.size):
        rest += a[j] * b[j]
    total_sum: float = total(part) + rest
    return total_sum


@njit(cache=True, nogil=True)
def gram_rows(T: Matrix) -> Matrix:
    """Return T T^T."""
    gram = np.empty((T.shape[0], T.shape[0]))
    for t in range(T.shape[0]):
        for u in range(t + 1):
            gram[t, u] = dot(T[t], T[u])
            gram[u, t] = gram[t, u]
    return gram


@njit(cache=True, nogil=True)
def column_map(indices: NDArray[np.int32], features: int) -> tuple[NDArray[np.int32], NDArray[np.uint32]]:
    """Number the touched columns 0, 1, ... in order."""
    position = np.full(features, -1, np.int32)
    for p in range(indices.size):
        position[indices[p]] = 0
    touched = 0
    for j in range(features):
        if position[j] == 0:
            position[j] = touched
            touched += 1
    compact = np.empty(indices.size, np.uint32)
    for p in range(indices.size):
        compact[p] = position[indices[p]]
    return position, compact


@njit(cache=True, nogil=True)
def expand(touched: Matrix, level: Vector, mix: Matrix, start: Matrix, position: NDArray[np.int32]) -> Matrix:
    """Return T or sums over all columns: `touched` on the touched ones, level + mix @ start on the silent ones."""
    topics, features = start.shape
    full = np.empty((topics, features))
    for t in range(topics):
        mixed = mix[t].any()
        for j in range(features):
            if position[j] >= 0:
                full[t, j] = touched[t, position[j]]
            else:
                full[t, j] = level[t]
                if mixed:
                    for u in range(topics):
                        full[t, j] += mix[t, u] * start[u, j]
    return full


@njit(cache=True, nogil=True)
def product(rows: Rows, T: Matrix, interleaved: Matrix, result: Matrix) -> None:
    """Fill `result` with X T^T, eight topics at a time."""
    topics = T.shape[0]
    sums = np.empty(8)
    for first in range(0, topics, 8):
        block = min(8, topics - first)
        for j in range(T.shape[1]):  # line by line: topic by topic each line would be written eight times
            for u in range(block):
                interleaved[j, u] = T[first + u, j]
            for u in range(block, 8):
                interleaved[j, u] = 0.0
        for i in range(result.shape[0]):
            row_times_panel(rows.columns, rows.data, interleaved, rows.indptr[i], rows.indptr[i + 1], sums)
            for u in range(block):
                result[i, first + u] = sums[u]


@njit(cache=True, nogil=True)
def descend(
    fits: Matrix, gram: Matrix, gamma: float, delta: float, W: Matrix, sweeps: int, tolerance: float
) -> int:
    """Fill W >= 0 with argmin 0.5 ||X - W T||^2 + gamma ||W||_1 + 0.5 delta ||W||^2, given X T^T and T T^T."""
    topics = gram.shape[0]
    unfinished = 0
    for i in range(W.shape[0]):
        done = False
        for _ in range(sweeps):
            largest = 0.0
            moved = 0.0
            for t in range(topics):
                curvature = gram[t, t] + delta
                if curvature <= 0.0:
                    W[i, t] = 0.0
                    continue
                slope = fits[i, t] - gamma - delta * W[i, t]
                for u in range(topics):
                    slope -= W[i, u] * gram[u, t]
                w = max(W[i, t] + slope / curvature, 0.0)
                moved = max(moved, abs(w - W[i, t]))
                largest = max(largest, w)
                W[i, t] = w
            if moved <= tolerance * largest:
                done = True
                break
        if not done:
            unfinished += 1
    return unfinished


LARGE = 1e6


@njit(cache=True, nogil=True)
def share_of(
    rows: Rows, party: int, t: int, factors: Factors, fits: Matrix, penalties: Penalties, own: TopicShare
) -> None:
    """Update column t of W on a party's rows, and fill its `own` share of the sums (Algorithm 1, lines 5-8)."""
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
    t: int, topic: Vector, denominator: float, width: int, penalties: Penalties, simplex: bool, thresholds: Vector
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
    """One sweep: for each topic t, every party's W_t, the sums, then T_t (Algorithm 1, lines 4 to 10)."""
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
