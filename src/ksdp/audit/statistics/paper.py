"""The paper's own statistics (PD-ML-Lite, sections 5.1 and 5.2).

**PD-NMF**: `sigma` = a . w^2, a document's mixture weighed by the announced weights of the topics.

**PD-SVD**: the adversary estimates S = X^T X by S_hat = V^T diag(lambda) V and compares it with the outer product
x x^T: W = |S_hat o x x^T| and D = |S_hat / |S_hat|_F - x x^T / |x||, d x d both (the norm of x is not squared in
D: that is how it is printed). Each is reduced to a number by its maximum, sum or sum of squares:

============  ==============  =======================================================================
form          printed as      computed as
============  ==============  =======================================================================
w-max         max_ab W_ab     max_a x_a^2 S_aa (W is that of a PSD matrix)
w-sum         sum_ab W_ab     on the m x m block of the document's support, outside of which W is zero
w-square-sum  sum_ab W_ab^2   sum_st lambda_s lambda_t (sum_a x_a^2 V_sa V_ta)^2
d-max         max_ab D_ab     on the block, outside and across, see below
d-sum         sum_ab D_ab     the sum of |S_ab| / |S|_F once a run, corrected on the block
d-square-sum  sum_ab D_ab^2   1 - 2 x^T S x / (|S|_F |x|) + |x|^2
============  ==============  =======================================================================

lambda is what makes the two settings: *hidden* (PD-SVD), the adversary scales its own squared singular values to
the size of everybody's data, lambda = (n_v + n_a) / n_a * adversary_sigma^2; *revealed* (`-revealed`), sigma is
announced and lambda = sigma^2. Where the run announces a mean as well (PCA), S_hat estimates the scatter about it,
and x - mu takes the place of x throughout. All hold for any V, orthonormal or not.

Closed forms (family `paper`) cost O(nnz k^2) at most. `w-sum`, `d-sum` and `d-max` (family `paper-blocks`) cost
sum m^2 k over the documents, plus d^2 k: on mail ten times all closed forms; with a mean, where x - mu has no
zeros, n d^2 k. The maximum of D is over three kinds of pairs. Both in the support: the block. Both outside: S_hat
restricted there is positive semi-definite, so its largest entry is on its diagonal, max_b S_bb. One in (a), one
out (b): |S_ab| <= sqrt(S_aa S_bb), so that a row a is looked at only while this bound, with b taken by falling
S_bb, exceeds the maximum so far; the rest cannot change it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.contract import Observables
from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Floats, Singles
from ksdp.audit.numeric.kernels import LINE, csr_times_panel, lined, panel_of
from ksdp.audit.statistic import Documents, TableStatistic
from ksdp.audit.statistics.boxed import box_least_squares
from ksdp.audit.statistics.products import (
    EntryColumns,
    announced,
    ask,
    basis_products,
    centred_squared_norms,
    csr_arrays,
    gram,
    has_mean,
    in_panel,
    over_entries,
    padded_basis,
    products,
    rows_times,
)

Ints = NDArray[Any]

BACKGROUND = ("adversary_sigma", "adversary_rows", "victim_rows")
"""Entries of `Documents.background` that the hidden forms need."""
_LANES = LINE // 4
"""Single-precision columns of a panel come in so many."""
_ROWS = 256
"""Rows of S_hat held at a time for its total."""
_ENTRIES = 2_000_000
"""Entries of centred documents held at a time."""


def sigma(observables: Observables, documents: Documents) -> Floats:
    """a . w^2 with a = argmin |x - u T|^2 over u in [0, 1]^k, exact to `boxed.TOLERANCE`; >= 0.

    w^2 are the announced denominators of Algorithm 1 (the squared lengths of the columns of W). Weak: on real
    corpora its median D is 0.06-0.09 where `row-space-energy` has 0.5-0.9. The weighted form for ratings
    announces a denominator an entry (k x d): w^2 of a topic is then the mean over the d features. The fit is over
    all entries, as printed, so that an unobserved rating counts as 0.
    """
    forms = gram(observables, "T")
    weights = announced(observables, "denominators")
    if weights.ndim not in (1, 2) or weights.shape[0] != forms.shape[0]:
        raise InputError(
            f"`denominators` must have shape (k,) or (k, d) with k = {forms.shape[0]}; got {weights.shape}."
        )
    if weights.ndim == 2:
        weights = weights.mean(axis=1)
    coefficients = box_least_squares(products(observables, documents, "T"), forms)
    return rows_times(coefficients, weights)


def spectrum(observables: Observables, documents: Documents, *, revealed: bool) -> Floats:
    """lambda, the adversary's estimate of the squared singular values, shape (k,), all >= 0."""
    rank = announced(observables, "V").shape[0]
    if revealed:
        name, sigma, scale = "sigma", announced(observables, "sigma").ravel(), 1.0
    else:
        missing = [key for key in BACKGROUND if key not in documents.background]
        if missing:
            raise InputError(f"`background` must hold `{missing[0]}` for the statistics with hidden sigma.")
        name = "adversary_sigma"
        sigma = np.asarray(documents.background[name], dtype=np.float64).ravel()
        own, victim = (
            float(np.asarray(documents.background[key]).item()) for key in ("adversary_rows", "victim_rows")
        )
        if not own > 0:
            raise InputError(f"`adversary_rows` must be at least 1; got {own:g}.")
        scale = (victim + own) / own
    if sigma.shape != (rank,):
        raise InputError(f"`{name}` must hold one value a row of V; got {sigma.size} for {rank}.")
    return scale * sigma**2


def _feature_diagonal(observables: Observables, documents: Documents, *, revealed: bool) -> Floats:
    def compute() -> Floats:
        return spectrum(observables, documents, revealed=revealed) @ announced(observables, "V") ** 2

    return observables.derive(("feature diagonal", documents, revealed), compute)


def scatter_norm(observables: Observables, documents: Documents, *, revealed: bool) -> float:
    """|S_hat|_F; from the Gram matrix of V, so that rounding of a stored V does not count as structure."""
    eigenvalues = spectrum(observables, documents, revealed=revealed)
    return float(np.sqrt(eigenvalues @ gram(observables, "V") ** 2 @ eigenvalues))


@njit(cache=True, nogil=True)
def _largest_centred(
    indptr: Ints, indices: Ints, data: Floats, mean: Floats, diagonal: Floats, absent: Floats, order: Ints
) -> Floats:
    """max_a (x_a - mean_a)^2 diagonal_a; features outside of the document by `order`, largest `absent` first."""
    out = np.zeros(indptr.shape[0] - 1)
    seen = np.full(diagonal.shape[0], -1)
    for i in range(len(out)):
        for j in range(indptr[i], indptr[i + 1]):
            a = indices[j]
            x = data[j] - mean[a]
            out[i] = max(out[i], x * x * diagonal[a])
            seen[a] = i
        for a in order:
            if absent[a] <= out[i]:
                break
            if seen[a] != i:
                out[i] = absent[a]
                break
    return out


def _diagonal_column(
    observables: Observables, documents: Documents, revealed: bool
) -> tuple[Hashable, EntryColumns]:
    diagonal = in_panel(_feature_diagonal(observables, documents, revealed=revealed), documents)

    def fill(lanes: Singles) -> None:
        lanes[:, 0] = diagonal

    key = ("diagonal", spectrum(observables, documents, revealed=revealed).tobytes())
    return key, EntryColumns(1, fill, largest=True)


def _w_max(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    # S_hat is positive semi-definite, hence so is diag(x) S_hat diag(x): its largest entry is on the diagonal.
    if not has_mean(observables):
        column = _diagonal_column(observables, documents, revealed)
        return over_entries(observables, documents, *column)[:, 0].astype(np.float64)
    mean = announced(observables, "mean").ravel()
    diagonal = _feature_diagonal(observables, documents, revealed=revealed)
    absent = mean**2 * diagonal
    order = np.argsort(-absent, kind="stable")
    return cast(Floats, _largest_centred(*csr_arrays(documents), mean, diagonal, absent, order))


@njit(cache=True, nogil=True)
def _pair_panel(padded: Floats, rank: int, panel: Singles) -> None:
    """Products of two components at every feature, in the order of `np.tril_indices`; zeros in the other lanes."""
    for a in range(padded.shape[0]):
        p = 0
        for s in range(rank):
            x = padded[a, s]
            for t in range(s + 1):
                panel[a, p + t] = x * padded[a, t]
            p += s + 1
        panel[a, p:] = 0.0


@njit(cache=True, nogil=True)
def _weighted_squares(moments: Singles, start: Floats, weights: Floats, out: Floats) -> None:
    for i in range(moments.shape[0]):
        total = 0.0
        for p in range(moments.shape[1]):
            moment = moments[i, p] + start[p]
            total += weights[p] * moment * moment
        out[i] = total


def _pairs(observables: Observables, padded: Floats) -> EntryColumns:
    rank = len(announced(observables, "V"))
    return EntryColumns(rank * (rank + 1) // 2, lambda lanes: _pair_panel(padded, rank, lanes))


def _pair_moments(observables: Observables, documents: Documents) -> tuple[Singles, Floats]:
    if not has_mean(observables):
        columns = _pairs(observables, padded_basis(observables, documents, "V"))
        return over_entries(observables, documents, "pairs", columns), np.zeros(columns.count)
    columns = _pairs(observables, panel_of(announced(observables, "V")))
    mean = announced(observables, "mean").ravel()

    def panel() -> tuple[Singles, Floats]:
        pairs = lined((len(mean), -(-columns.count // _LANES) * _LANES), np.float32)
        columns.fill(pairs)
        # What an empty document has, centred.
        return pairs, np.einsum("a,al->l", mean**2, pairs)[: columns.count]

    def compute() -> tuple[Singles, Floats]:
        pairs, start = observables.derive(("pair panel",), panel)
        indptr, indices, data = csr_arrays(documents)
        moments = np.empty((len(documents), columns.count), dtype=np.float32)
        csr_times_panel(indptr, indices, data * (data - 2.0 * mean[indices]), pairs, moments)
        return moments, start

    return observables.derive(("pair moments", documents), compute)


def _w_square_sum(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    # With M = sum_a x_a^2 v_a v_a^T (k x k, v_a the column a of V) it is |L^(1/2) M L^(1/2)|_F^2
    # = sum_st lambda_s lambda_t M_st^2, and M is symmetric: k (k + 1) / 2 sums a document serve every lambda.
    values = spectrum(observables, documents, revealed=revealed)
    first, second = np.tril_indices(len(values))
    weights = values[first] * values[second] * np.where(first == second, 1.0, 2.0)
    out = np.empty(len(documents))
    _weighted_squares(*_pair_moments(observables, documents), weights, out)
    return out


def _d_square_sum(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    # |S/f - x x^T/|x||_F^2 = |S/f|_F^2 - 2 x^T S x / (f |x|) + |x|^2, with x^T S x = sum_t lambda_t <x, V_t>^2;
    # x = 0 leaves the first term, S_hat = 0 the last.
    norm = scatter_norm(observables, documents, revealed=revealed)
    squared = centred_squared_norms(observables, documents)
    if norm == 0.0:
        return squared.copy()
    lengths = np.sqrt(squared)
    squares = basis_products(observables, documents) ** 2
    energies = rows_times(squares, spectrum(observables, documents, revealed=revealed))
    cross = np.divide(energies, norm * lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return np.maximum(1.0 - 2.0 * cross + squared, 0.0)


def _ask_w_max(observables: Observables, documents: Documents, revealed: bool) -> None:
    if not has_mean(observables):
        ask(observables, documents, *_diagonal_column(observables, documents, revealed))


def _ask_w_square_sum(observables: Observables, documents: Documents, _: bool) -> None:
    if not has_mean(observables):
        ask(observables, documents, "pairs", _pairs(observables, padded_basis(observables, documents, "V")))


@njit(cache=True, nogil=True)
def _within(
    data: Floats, own: Floats, block: Floats, inverse: float, scale: float, scratch: Floats
) -> tuple[float, float, float]:
    """Sum of W, sum of D less its part of the total, and maximum of D, over the features of one document."""
    m, rank = len(data), block.shape[0]
    entries, sizes, w_part, d_part, d_most = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for b in range(m):
        sizes[b] = abs(data[b])
        w_part[b] = d_part[b] = d_most[b] = 0.0
    w_sum = d_sum = largest = 0.0
    for a in range(m):
        x = data[a]
        size = sizes[a]
        outer = x * inverse
        for b in range(a):
            entries[b] = block[0, a] * block[0, b]
        for t in range(1, rank):
            v = block[t, a]
            for b in range(a):
                entries[b] += v * block[t, b]
        for b in range(a):
            s = abs(entries[b])
            e = abs(entries[b] * scale - outer * data[b])
            w_part[b] += size * s
            d_part[b] += e - s * scale
            d_most[b] = e if e > d_most[b] else d_most[b]
        s = own[a]
        e = abs(s * scale - outer * x)
        w_sum += size * size * s
        d_sum += e - s * scale
        largest = max(largest, e)
    for b in range(m):
        w_sum += 2.0 * sizes[b] * w_part[b]
        d_sum += 2.0 * d_part[b]
        largest = max(largest, d_most[b])
    return w_sum, d_sum, largest


@njit(cache=True, nogil=True)
def _beyond(
    largest: float,
    indices: Ints,
    seen: Ints,
    row: int,
    features: Floats,
    diagonal: Floats,
    order: Ints,
    scale: float,
) -> float:
    """The largest D over entries with a feature outside of document `row`, or `largest` where that is larger."""
    for f in order:
        if seen[f] != row:
            largest = max(largest, diagonal[f] * scale)
            break
    for f in indices:
        for g in order:
            if np.sqrt(diagonal[f] * diagonal[g]) * scale <= largest:
                break
            if seen[g] != row:
                s = 0.0
                for t in range(features.shape[1]):
                    s += features[f, t] * features[g, t]
                largest = max(largest, abs(s) * scale)
    return largest


@njit(cache=True, nogil=True)
def _passes(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    lengths: Floats,
    features: Floats,
    diagonal: Floats,
    order: Ints,
    norm: float,
) -> Floats:
    rows, rank = indptr.shape[0] - 1, features.shape[1]
    scale = 1.0 / norm if norm > 0.0 else 0.0
    longest = 0
    for i in range(rows):
        longest = max(longest, indptr[i + 1] - indptr[i])
    block, own, scratch = np.empty((rank, longest)), np.empty(longest), np.empty((5, longest))
    seen = np.full(diagonal.shape[0], -1)
    out = np.empty((rows, 3))
    for i in range(rows):
        inside = indices[indptr[i] : indptr[i + 1]]
        for b, f in enumerate(inside):
            seen[f] = i
            own[b] = diagonal[f]
            for t in range(rank):
                block[t, b] = features[f, t]
        inverse = 1.0 / lengths[i] if lengths[i] > 0.0 else 0.0
        w_sum, d_sum, largest = _within(data[indptr[i] : indptr[i + 1]], own, block, inverse, scale, scratch)
        out[i, 0], out[i, 1] = w_sum, d_sum
        out[i, 2] = _beyond(largest, inside, seen, i, features, diagonal, order, scale)
    return out


def _total(features: Floats) -> float:
    """Sum over a, b of |S_ab| for S = F F^T, F (d x k), by row blocks of the upper triangle."""
    features, total = features[features.any(axis=1)], 0.0  # a column that no record of the run has adds nothing
    for at in range(0, len(features), _ROWS):
        rows = features[at : at + _ROWS]
        entries = rows @ features[at:].T
        np.abs(entries, out=entries)
        total += 2.0 * float(entries.sum()) - float(entries[:, : len(rows)].sum())
    return total


def _supports(observables: Observables, documents: Documents) -> Iterator[tuple[slice, Ints, Ints, Floats]]:
    matrix = documents.matrix
    if not has_mean(observables):
        yield slice(0, matrix.shape[0]), *csr_arrays(documents)
        return
    mean = announced(observables, "mean").ravel()
    n, d = matrix.shape
    step = max(1, _ENTRIES // d)
    for at in range(0, n, step):
        part = matrix[at : at + step].toarray() - mean
        indptr = np.arange(0, part.size + 1, d, dtype=matrix.indptr.dtype)
        indices = np.tile(np.arange(d, dtype=matrix.indices.dtype), len(part))
        yield slice(at, at + len(part)), indptr, indices, part.ravel()


def _all_forms(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    """Sum of W, sum of D and maximum of D, shape (n, 3); one pass over the documents serves all three."""

    def compute() -> Floats:
        roots = np.sqrt(spectrum(observables, documents, revealed=revealed))
        features = np.ascontiguousarray((roots[:, None] * announced(observables, "V")).T)
        diagonal = _feature_diagonal(observables, documents, revealed=revealed)
        order = np.argsort(-diagonal, kind="stable")
        norm = scatter_norm(observables, documents, revealed=revealed)
        lengths = np.sqrt(centred_squared_norms(observables, documents))
        out = np.empty((len(documents), 3))
        for part, indptr, indices, data in _supports(observables, documents):
            out[part] = _passes(indptr, indices, data, lengths[part], features, diagonal, order, norm)
        if norm > 0.0:
            out[:, 1] += _total(features) / norm
        return out

    return observables.derive(("paper blocks", documents, revealed), compute)


@dataclass(frozen=True)
class _InSetting:
    """A reduction of W or D, with sigma hidden or revealed."""

    compute: Callable[[Observables, Documents, bool], Any]
    revealed: bool

    def __call__(self, observables: Observables, documents: Documents) -> Any:
        return self.compute(observables, documents, self.revealed)


def _w_sum(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    return np.ascontiguousarray(_all_forms(observables, documents, revealed)[:, 0])


def _d_sum(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    return np.ascontiguousarray(_all_forms(observables, documents, revealed)[:, 1])


def _d_max(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    return np.ascontiguousarray(_all_forms(observables, documents, revealed)[:, 2])


def _in_both_settings(
    name: str,
    family: str,
    compute: Callable[[Observables, Documents, bool], Floats],
    sentence: str,
    shares: Callable[[Observables, Documents, bool], Any] | None = None,
) -> tuple[TableStatistic, TableStatistic]:
    def row(revealed: bool) -> TableStatistic:
        return TableStatistic(
            f"{name}-revealed" if revealed else name,
            family,
            _InSetting(compute, revealed),
            f"The paper’s, with the announced strengths of the directions: {sentence}"
            if revealed
            else f"The paper’s: {sentence}",
            needs=("V", "sigma") if revealed else ("V",),
            needs_background=() if revealed else BACKGROUND,
            ask=None if shares is None else _InSetting(shares, revealed),
        )

    return row(False), row(True)


PAPER: tuple[TableStatistic, ...] = (
    TableStatistic(
        "sigma",
        "paper",
        sigma,
        "The paper’s: the announced weights of the topics, added up by how much of each the document holds.",
        needs=("T", "denominators"),
    ),
    *_in_both_settings(
        "w-max",
        "paper",
        _w_max,
        "the largest product, over words or columns, of the document’s squared entry and the sum of everybody’s "
        "squared entries there, as the announcement estimates it.",
        _ask_w_max,
    ),
    *_in_both_settings(
        "w-sum",
        "paper-blocks",
        _w_sum,
        "the sum, over pairs of words or columns, of everybody’s estimated product times the document’s own, "
        "without signs.",
    ),
    *_in_both_settings(
        "w-square-sum",
        "paper",
        _w_square_sum,
        "the sum, over pairs of words or columns, of the squares of these numbers: everybody’s estimated product "
        "times the document’s own.",
        _ask_w_square_sum,
    ),
    *_in_both_settings(
        "d-max",
        "paper-blocks",
        _d_max,
        "the largest difference, over pairs of words or columns, between everybody’s estimated products, scaled "
        "to length 1, and the document’s own, divided by its length.",
    ),
    *_in_both_settings(
        "d-sum",
        "paper-blocks",
        _d_sum,
        "the sum, over pairs of words or columns, of the differences, without signs, between everybody’s "
        "estimated products, scaled to length 1, and the document’s own, divided by its length.",
    ),
    *_in_both_settings(
        "d-square-sum",
        "paper",
        _d_square_sum,
        "the sum, over pairs of words or columns, of the squared differences between everybody’s estimated "
        "products, scaled to length 1, and the document’s own, divided by its length.",
    ),
)
