"""The paper's statistics for PD-SVD (PD-ML-Lite, section 5.2) that have closed forms.

The adversary estimates S = X^T X by S_hat = V^T diag(lambda) V and compares it with the outer product x x^T:
W = |S_hat o x x^T| and D = |S_hat / |S_hat|_F - x x^T / |x||, d x d both (the norm of x is not squared in D: that
is how it is printed). Each is reduced to a number by its maximum, sum or sum of squares; the sums of absolute
values and the maximum of D have no closed form and are in `paper_blocks`.

lambda is what makes the two settings: *hidden* (PD-SVD), the adversary scales its own squared singular values to
the size of everybody's data, lambda = (n_v + n_a) / n_a * adversary_sigma^2; *revealed* (`-revealed`), sigma is
announced and lambda = sigma^2.

Where the run announces a mean as well (PCA), S_hat estimates the scatter about it, and x - mu takes the place of x
throughout. All hold for any V, orthonormal or not, and cost O(nnz k^2) at most: nothing d x d is formed.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats, Singles
from ksdp.audit.kernels import csr_times_panel, lined
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import (
    announced,
    basis_products,
    centred_squared_norms,
    csr_arrays,
    has_mean,
    padded_basis,
    rows_times,
)
from ksdp.audit.statistics.scatter_estimate import feature_diagonal, scatter_norm, spectrum
from ksdp.audit.statistics.squared_entries import EntryColumns, ask, over_entries
from ksdp.audit.statistics.svd_form import BACKGROUND, SvdForm

Ints = NDArray[Any]

_LANES = 16
"""Single-precision columns of a panel come in so many."""


def _mean_or_zero(observables: Observables) -> Floats:
    if has_mean(observables):
        return announced(observables, "mean").ravel()
    return np.zeros(announced(observables, "V").shape[1])


def _settings(observables: Observables, documents: Documents, revealed: bool) -> tuple[bool, bool]:
    """The setting asked for, then the other where it can be had (else the same again): one pass for both."""
    other_known = "sigma" in observables if not revealed else set(BACKGROUND) <= set(documents.background)
    return revealed, (not revealed if other_known else revealed)


@njit(cache=True, nogil=True)
def _largest_diagonals(
    indptr: Ints, indices: Ints, data: Floats, mean: Floats, diagonals: Floats, absent: Floats, order: Ints
) -> Floats:
    """max_a (x_a - mean_a)^2 diagonals[a, q] for q = 0, 1, shape (n, 2).

    Features that are not in the document come by `order` (2 x d), largest `absent` first.
    """
    rows = indptr.shape[0] - 1
    out = np.empty((rows, 2))
    seen = np.full(diagonals.shape[0], -1)
    for i in range(rows):
        largest0 = largest1 = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            a = indices[j]
            x = data[j] - mean[a]
            x *= x
            largest0 = max(largest0, x * diagonals[a, 0])
            largest1 = max(largest1, x * diagonals[a, 1])
        out[i, 0] = largest0
        out[i, 1] = largest1
        for j in range(indptr[i], indptr[i + 1]):
            seen[indices[j]] = i
        for q in range(2):
            for a in order[q]:
                if absent[a, q] <= out[i, q]:
                    break
                if seen[a] != i:
                    out[i, q] = absent[a, q]
                    break
    return out


def _diagonals(
    observables: Observables, documents: Documents, kinds: tuple[bool, ...]
) -> tuple[tuple[bool, ...], Hashable, EntryColumns]:
    """The diagonal of S_hat in every setting, by order of the setting, as columns with their name."""
    different = tuple(sorted(dict.fromkeys(kinds)))
    spectra = [spectrum(observables, documents, revealed=kind) for kind in different]

    def fill(lanes: Singles) -> None:
        squares = announced(observables, "V") ** 2
        for q, values in enumerate(spectra):
            lanes[:, q] = values @ squares

    return (
        different,
        ("diagonals", *(values.tobytes() for values in spectra)),
        EntryColumns(len(different), fill, True),
    )


def _w_max(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    # S_hat is positive semi-definite, hence so is diag(x) S_hat diag(x): its largest entry is on the diagonal.
    def compute() -> dict[bool, Floats]:
        kinds = _settings(observables, documents, revealed)
        if not has_mean(observables):
            different, key, columns = _diagonals(observables, documents, kinds)
            found = over_entries(observables, documents, key, columns)
            return {kind: found[:, q].astype(np.float64) for q, kind in enumerate(different)}
        diagonals = np.stack([feature_diagonal(observables, documents, revealed=kind) for kind in kinds], axis=1)
        mean = _mean_or_zero(observables)
        absent = mean[:, None] ** 2 * diagonals
        order = np.ascontiguousarray(np.argsort(-absent, axis=0, kind="stable").T)
        largest = _largest_diagonals(*csr_arrays(documents), mean, diagonals, absent, order)
        return {kind: np.ascontiguousarray(largest[:, q]) for q, kind in enumerate(kinds)}

    return cast(dict[bool, Floats], observables.derive(("w-max", documents), compute))[revealed].copy()


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
    """out[i, q] = sum_p weights[q, p] (moments[i, p] + start[p])^2."""
    for i in range(moments.shape[0]):
        for q in range(weights.shape[0]):
            total = 0.0
            for p in range(moments.shape[1]):
                moment = moments[i, p] + start[p]
                total += weights[q, p] * moment * moment
            out[i, q] = total


def _pairs(observables: Observables) -> EntryColumns:
    """Products of two components of V at every feature, as columns."""
    rank = len(announced(observables, "V"))
    return EntryColumns(
        rank * (rank + 1) // 2, lambda lanes: _pair_panel(padded_basis(observables, "V"), rank, lanes)
    )


def _w_square_sums(observables: Observables, documents: Documents, spectra: Floats) -> Floats:
    """Sum of the squares of W for each lambda of `spectra` (q x k), shape (n, q).

    With M = sum_a x_a^2 v_a v_a^T (k x k, v_a the column a of V) it is |L^(1/2) M L^(1/2)|_F^2
    = sum_st lambda_s lambda_t M_st^2, and M is symmetric: k (k + 1) / 2 sums a document serve every lambda. The
    sums are in single precision, as stored values are: half the time, and 1e-6 of the value at most.
    """
    first, second = np.tril_indices(spectra.shape[1])
    weights = spectra[:, first] * spectra[:, second] * np.where(first == second, 1.0, 2.0)
    out = np.empty((len(documents), len(spectra)))
    if not has_mean(observables):
        plain = over_entries(observables, documents, "pairs", _pairs(observables))
        _weighted_squares(plain, np.zeros(len(first)), weights, out)
        return out
    (indptr, indices, data), mean = csr_arrays(documents), _mean_or_zero(observables)

    def panel() -> tuple[Singles, Floats]:
        pairs = lined((len(mean), -(-len(first) // _LANES) * _LANES), np.float32)
        _pair_panel(padded_basis(observables, "V"), spectra.shape[1], pairs)
        # What an empty document has, centred.
        start = np.einsum("a,al->l", mean**2, pairs)
        return pairs, start[: len(first)]

    pairs, start = observables.derive(("pair panel",), panel)
    squares = data * (data - 2.0 * mean[indices])
    moments = np.empty((len(documents), len(first)), dtype=np.float32)
    csr_times_panel(indptr, indices, squares, pairs, moments)
    _weighted_squares(moments, start, weights, out)
    return out


def _w_square_sum(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    def compute() -> dict[bool, Floats]:
        kinds = tuple(dict.fromkeys(_settings(observables, documents, revealed)))
        spectra = np.array([spectrum(observables, documents, revealed=kind) for kind in kinds])
        sums = _w_square_sums(observables, documents, spectra)
        return {kind: np.ascontiguousarray(sums[:, q]) for q, kind in enumerate(kinds)}

    return cast(dict[bool, Floats], observables.derive(("w-square-sum", documents), compute))[revealed].copy()


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


def _ask(observables: Observables, documents: Documents, form: str, revealed: bool) -> None:
    """Have what a form sums over entries in the next pass over the documents."""
    if has_mean(observables):
        return
    if form == "w-max":
        _, key, columns = _diagonals(observables, documents, _settings(observables, documents, revealed))
        ask(observables, documents, key, columns)
    if form == "w-square-sum":
        ask(observables, documents, "pairs", _pairs(observables))


_FORMS = {"w-max": _w_max, "w-square-sum": _w_square_sum, "d-square-sum": _d_square_sum}


@dataclass(frozen=True)
class ClosedForm(SvdForm):
    """One of the paper's reductions of W or D, with sigma hidden or revealed.

    ============  =====================================  ==================================================
    form          printed as                             computed as
    ============  =====================================  ==================================================
    w-max         max_ab W_ab                            max_a x_a^2 S_aa (W is that of a PSD matrix)
    w-square-sum  sum_ab W_ab^2                          sum_st lambda_s lambda_t (sum_a x_a^2 V_sa V_ta)^2
    d-square-sum  sum_ab D_ab^2                          1 - 2 x^T S x / (|S|_F |x|) + |x|^2
    ============  =====================================  ==================================================
    """

    form: Literal["w-max", "w-square-sum", "d-square-sum"]
    version: int = 2

    def ask(self, observables: Observables, documents: Documents) -> None:
        """Share a pass over the documents with others."""
        _ask(observables, documents, self.form, self.revealed)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), >= 0."""
        return _FORMS[self.form](observables, documents, self.revealed)


PAPER_SVD: tuple[Statistic, ...] = tuple(
    ClosedForm(form, revealed) for revealed in (False, True) for form in ("w-max", "w-square-sum", "d-square-sum")
)
