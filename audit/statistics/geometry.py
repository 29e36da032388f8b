"""Where a document lies relative to the announced subspace, or to the cone of the announced topics.

Most rest on P = X B^T, the product of the documents with the announced basis B (topics T or singular vectors V;
x - mu in place of x where PCA announces the mean mu), computed once a run. The squared residual |x|^2 - |P|^2 of V
is left out: for one document it falls as the energy grows, so that it would be the same test twice.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import eight_products
from ksdp.audit.statistics.boxed import box_least_squares
from ksdp.audit.statistics.contract import Documents, Statistic, TableStatistic
from ksdp.audit.statistics.linear.expected import FirstOrderBasis, FirstOrderMean, FirstOrderTopics
from ksdp.audit.statistics.linear.releases import LinearBasis
from ksdp.audit.statistics.products import (
    BASES,
    announced,
    basis_name,
    basis_products,
    centred_squared_norms,
    csr_arrays,
    gram,
    padded_basis,
    products,
    row_dots,
    row_largest,
    row_quadratic,
    rows_times,
)

Ints = NDArray[Any]

CUTOFF = 1e-10
"""Directions of the unit-length rows with an eigenvalue below this part of the largest do not count."""
RIDGE = 1e-9
"""Added to the diagonal of the coefficients' correlation matrix."""
SIGMA_FLOOR = 1e-6
"""A singular value counts as at least this part of the largest."""
FLOOR = 1e-12
"""Least probability of a feature under a mixture of topics."""
_TOGETHER = 256
"""Documents whose probabilities are worked out one after the other: few enough that they stay in the caches."""


def whitening(form: Floats) -> Floats:
    """Return R (k x r) such that p R R^T p^T = x^T B^T (B B^T)^+ B x for p = x B^T.

    Rows of B are brought to unit length first (zero rows drop out), so that the cutoff does not depend on
    their scale: an eigenvalue of their Gram matrix counts as zero below `CUTOFF` times the largest. That takes
    rows that are equal up to float32 rounding for one, and keeps two apart at an angle of more than some 2e-5.

    `form` is B B^T (k x k); r is the numerical rank, 0 for B = 0.

    Examples
    --------
    >>> twice = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    >>> root = whitening(twice @ twice.T)
    >>> root.shape, float(((np.array([[3.0, 4.0]]) @ twice.T @ root) ** 2).sum().round(12))
    ((3, 1), 9.0)
    """
    lengths = np.sqrt(np.maximum(np.diag(form), 0.0))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    values, vectors = np.linalg.eigh(form * inverse[:, None] * inverse)
    kept = values > CUTOFF * max(values[-1], 0.0) if len(values) else np.zeros(0, dtype=bool)
    return cast(Floats, inverse[:, None] * vectors[:, kept] / np.sqrt(values[kept]))


def _whitening(observables: Observables, name: str) -> Floats:
    return cast(Floats, observables.derive(("whitening", name), lambda: whitening(gram(observables, name))))


def row_space_energy(observables: Observables, documents: Documents) -> Floats:
    """Energy of the document in the row space of the basis: x^T B^T (B B^T)^+ B x.

    It is the squared length of x's projection. For V, whose rows are orthonormal, that is |P|^2; for T a
    pseudo-inverse with the cutoff of `whitening` serves, so that equal or empty topics count once or not at all.

    One number a document, between 0 and |x|^2.
    """
    rows = basis_products(observables, documents)
    if basis_name(observables) == "T":
        rows = rows_times(rows, _whitening(observables, "T"))
    return row_quadratic(rows)


def best_cosine(observables: Observables, documents: Documents) -> Floats:
    """max_t |cos(x, B_t)|; 0 for an empty document, and empty topics are never the best.

    One number a document, in [0, 1].
    """
    lengths = np.sqrt(np.diag(gram(observables, basis_name(observables))))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    largest = row_largest(basis_products(observables, documents), inverse)
    norms = np.sqrt(centred_squared_norms(observables, documents))
    cosines = np.divide(largest, norms, out=np.zeros_like(largest), where=norms > 0)
    return cast(Floats, np.minimum(cosines, 1.0))


def coefficient_mahalanobis(observables: Observables, documents: Documents) -> Floats:
    """Mahalanobis distance of the document's coefficients from those of the population in that run.

    The coefficients are P for V, and those of unconstrained least squares, P (T T^T)^+, for T. Their mean and
    covariance over `Documents.population` are the adversary's picture of everybody: some thousand of the audited
    documents, drawn from the seed, the same in every run. The covariance is brought to a correlation matrix C,
    and C + `RIDGE` I is inverted: directions without spread, and coefficients that never vary, add (next to)
    nothing.

    One number a document, >= 0; all 0 where the population is a single document.
    """
    population = documents.population or documents
    mean, whiten = observables.derive(
        ("population of coefficients", population), lambda: _spread_of(_coefficients(observables, population))
    )
    centred = _coefficients(observables, documents) - mean
    return np.sqrt(row_quadratic(rows_times(centred, whiten)))


def _coefficients(observables: Observables, documents: Documents) -> Floats:
    rows = basis_products(observables, documents)
    if basis_name(observables) != "T":
        return rows
    root = _whitening(observables, "T")
    return rows_times(rows, root @ root.T)


def _spread_of(coefficients: Floats) -> tuple[Floats, Floats]:
    """Mean and whitening W of some rows: |(c - mean) W| is the Mahalanobis distance of c from them."""
    mean = coefficients.mean(axis=0)
    centred = coefficients - mean
    spread = np.sqrt(np.einsum("ij,ij->j", centred, centred) / len(centred))
    # Spread that is rounding of large equal coefficients is no spread.
    varies = spread > 1e-12 * np.abs(coefficients).max(axis=0, initial=0.0)
    scaled = centred[:, varies] / spread[varies]
    correlation = scaled.T @ scaled / len(scaled)
    correlation[np.diag_indices_from(correlation)] += RIDGE
    inverse = solve_triangular(np.linalg.cholesky(correlation), np.eye(len(correlation)), lower=True)
    whiten = np.zeros((len(mean), len(correlation)))
    whiten[varies] = inverse.T / spread[varies][:, None]
    return mean, whiten


def leverage_revealed(observables: Observables, documents: Documents) -> Floats:
    """sum_t P_t^2 / sigma_t^2, the document's leverage where sigma is announced with V.

    A singular value counts as at least `SIGMA_FLOOR` times the largest: energy in a direction that the data
    do not have is then large, which is telling, and finite. All sigma 0: 0.

    One number a document, >= 0.
    """
    rows = basis_products(observables, documents)
    sigma = np.abs(announced(observables, "sigma").ravel())
    if sigma.shape != rows.shape[1:]:
        raise InputError(f"`sigma` must hold one value a row of V; got {sigma.size} for {rows.shape[1]}.")
    largest = sigma.max(initial=0.0)
    if largest == 0.0:
        return np.zeros(len(rows))
    return row_quadratic(rows / np.maximum(sigma, SIGMA_FLOOR * largest))


def numerator_energy(observables: Observables, documents: Documents) -> Floats:
    """Energy of the document in the row space of the announced numerators, as `row_space_energy` for topics.

    The numerators of Algorithm 1 are W^T X less what the other topics explain: sums over documents before any
    clipping.

    One number a document, between 0 and |x|^2.
    """
    rows = products(observables, documents, "numerators")
    return row_quadratic(rows_times(rows, _whitening(observables, "numerators")))


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
    """Probability of each stored entry's feature under its document's mixture, at least `floor`."""
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
def _entry_dots(indptr: Ints, data: Floats, other: Floats, out: Floats) -> None:
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
    padded, densities = padded_basis(observables, "T"), np.empty(len(documents))
    for first in range(0, len(documents), _TOGETHER):
        some = slice(first, first + _TOGETHER)
        entries = indptr[first : first + _TOGETHER + 1]
        logs = _probabilities(entries, indices, mixtures[some], padded, FLOOR)
        np.log(logs, out=logs)  # NumPy's logarithm is vectorised: several times as fast as one in a kernel
        _entry_dots(entries, data, logs, densities[some])
    return densities


GEOMETRY: tuple[Statistic, ...] = (
    TableStatistic(
        "row-space-energy",
        "geometry",
        row_space_energy,
        "How much of the document the announced directions or topics explain.",
        needs_any=BASES,
    ),
    TableStatistic(
        "best-cosine",
        "geometry",
        best_cosine,
        "How alike the document and the nearest announced topic or direction are.",
        needs_any=BASES,
    ),
    TableStatistic(
        "coefficient-mahalanobis",
        "geometry",
        coefficient_mahalanobis,
        "How unusual the document’s weights on the announced topics or directions are.",
        needs_any=BASES,
    ),
    TableStatistic(
        "leverage-revealed",
        "geometry",
        leverage_revealed,
        "How strongly the document pulls at the announced directions, their strengths known.",
        needs=("V", "sigma"),
    ),
    TableStatistic(
        "numerator-energy",
        "geometry",
        numerator_energy,
        "How much of the document is explained by the announced sums that topics are made of.",
        needs=("numerators",),
    ),
    TableStatistic(
        "nonnegative-residual",
        "geometry",
        nonnegative_residual,
        "What is left of the document when it is rebuilt from the announced topics.",
        needs=("T",),
    ),
    TableStatistic(
        "mixture-log-density",
        "geometry",
        mixture_log_density,
        "How likely the document’s own words are under the announced topics.",
        needs=("T",),
    ),
    LinearBasis(),
    FirstOrderMean(),
    FirstOrderBasis(),
    FirstOrderTopics(),
)
