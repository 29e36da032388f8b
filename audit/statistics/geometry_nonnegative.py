"""How a document looks from the cone of the announced topics (NMF): residual and density of its best mixture."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import eight_products
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.boxed import box_least_squares
from ksdp.audit.statistics.computed import Computed
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import (
    announced,
    csr_arrays,
    gram,
    padded_basis,
    products,
    row_dots,
    row_quadratic,
    rows_times,
)

Ints = NDArray[Any]

FLOOR = 1e-12
"""Least probability of a feature under a mixture of topics."""
_TOGETHER = 256
"""Documents whose probabilities are worked out one after the other: few enough that they stay in the caches."""


def nonnegative_coefficients(observables: Observables, documents: Documents) -> Floats:
    """Return argmin |x - u T|^2 over u >= 0 for every document, shape (n_documents, k); once a run."""

    def compute() -> Floats:
        return box_least_squares(products(observables, documents, "T"), gram(observables, "T"), upper=float("inf"))

    return cast(Floats, observables.derive(("nonnegative coefficients", documents), compute))


def nonnegative_residual(observables: Observables, documents: Documents) -> Floats:
    """min |x - u T|^2 over u >= 0: the squared distance of the document from the cone of the topics.

    One number a document, between 0 and |x|^2.
    """
    coefficients = nonnegative_coefficients(observables, documents)
    explained = row_quadratic(coefficients, gram(observables, "T"))
    crossed = row_dots(coefficients, products(observables, documents, "T"))
    return cast(Floats, np.maximum(documents.squared_norms - 2.0 * crossed + explained, 0.0))


@njit(cache=True, nogil=True)
def _probabilities(indptr: Ints, indices: Ints, mixtures: Floats, padded: Floats, floor: float) -> Floats:
    """Probability of each stored entry's feature under its document's mixture, at least `floor`.

    From the first entry of the first of some documents that follow one another to the last of the last. `mixtures`
    is n x k with rows of mass 1 (or 0), `padded` the topics by `padded_transpose`.
    """
    rank = mixtures.shape[1]
    width, begin = padded.shape[1], indptr[0]
    out = np.empty(indptr[-1] - begin)
    weights = np.zeros(width)
    for i in range(indptr.shape[0] - 1):
        weights[:rank] = mixtures[i]
        for first in range(0, width, 8):
            least = floor if first + 8 >= width else 0.0
            for j in range(indptr[i], indptr[i + 1]):
                so_far = out[j - begin] if first > 0 else 0.0
                out[j - begin] = max(so_far + eight_products(weights, padded, indices[j], first), least)
    return out


@njit(cache=True, nogil=True)
def _row_dots(indptr: Ints, data: Floats, other: Floats, out: Floats) -> None:
    """Of the same documents; `other` begins at the first entry of the first of them."""
    begin = indptr[0]
    for i in range(indptr.shape[0] - 1):
        even = odd = 0.0
        middle = indptr[i] + (indptr[i + 1] - indptr[i]) // 2 * 2
        for j in range(indptr[i], middle, 2):
            even += data[j] * other[j - begin]
            odd += data[j + 1] * other[j + 1 - begin]
        for j in range(middle, indptr[i + 1]):
            even += data[j] * other[j - begin]
        out[i] = even + odd


def mixture_log_density(observables: Observables, documents: Documents) -> Floats:
    """sum_j x_j log((a T)_j / sum_j' (a T)_j'), the document's log density under its own mixture of topics.

    `a` are the coefficients of nonnegative least squares. A probability counts as at least `FLOOR`, so that a
    feature in none of the topics costs x_j log `FLOOR` and a document without a mixture (a = 0) is finite as well.

    One number a document, <= 0 for nonnegative documents.
    """
    topics = announced(observables, "T")
    mixtures = nonnegative_coefficients(observables, documents)
    mass = rows_times(mixtures, topics.sum(axis=1))
    mixtures = mixtures * np.divide(1.0, mass, out=np.zeros_like(mass), where=mass > 0)[:, None]
    indptr, indices, data = csr_arrays(documents)
    padded, found = padded_basis(observables, "T"), np.empty(len(documents))
    for first in range(0, len(documents), _TOGETHER):
        some = slice(first, first + _TOGETHER)
        entries = indptr[first : first + _TOGETHER + 1]
        logs = _probabilities(entries, indices, mixtures[some], padded, FLOOR)
        np.log(logs, out=logs)  # NumPy's logarithm is vectorised: several times as fast as one in a kernel
        _row_dots(entries, data, logs, found[some])
    return found


GEOMETRY_NONNEGATIVE: tuple[Statistic, ...] = (
    Computed("nonnegative-residual", 1, "geometry", nonnegative_residual, needs=("T",)),
    Computed("mixture-log-density", 1, "geometry", mixture_log_density, needs=("T",)),
)
