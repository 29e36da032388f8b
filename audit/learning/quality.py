"""What protecting documents costs: how well the basis that is learnt then describes everybody's documents."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ksdp.audit.corpus import Corpus, restrict
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import mechanism_of
from ksdp.audit.results.parts import FORMAT
from ksdp.audit.spec import Spec
from ksdp.audit.statistics.products import BASES

MEASURE = "share of the whole corpus's energy outside the row space of the basis"
"""What `learnt_residual` is, in words."""


@dataclass(frozen=True, config=FORMAT)
class LearningCost:
    """Shares of the whole corpus's energy that each basis leaves out; less is better."""

    measure: str
    learnt_from_all: float
    learnt_from_cleared: float
    documents_all: int
    documents_cleared: int


@dataclass(frozen=True, config=FORMAT)
class NotLearnt:
    """The mechanism does not run on so few documents."""

    refused: str
    """Why."""


def residual_share(
    matrix: sp.csr_array, basis: NDArray[np.float64], mean: NDArray[np.float64] | None = None
) -> float:
    """Share of the documents' energy that lies outside the row space of a basis.

    With Q an orthonormal basis of the row space and X_c = X - 1 mean^T, this is 1 - |X_c Q|^2 / |X_c|^2: the
    relative squared error of the best linear reconstruction. For a nonnegative factorisation it is a lower bound
    of its own error, whose coefficients must not be negative.

    Parameters
    ----------
    matrix : shape (n_documents, n_features)
    basis : shape (k, n_features)
        Rows need not be independent.
    mean : shape (n_features,), optional
        Subtracted from every document first (PCA).

    Returns
    -------
    float in [0, 1]
        0 where there is no energy at all.

    Examples
    --------
    >>> residual_share(sp.csr_array(np.diag([3.0, 1.0, 1.0])), np.array([[1.0, 0, 0], [2, 0, 0]])).__round__(3)
    0.182
    """
    if basis.ndim != 2 or basis.shape[1] != matrix.shape[1]:
        raise ValueError(f"`basis` must have shape (k, {matrix.shape[1]}); got {basis.shape}.")
    _, singular, rows = np.linalg.svd(basis, full_matrices=False)
    tiny = np.finfo(np.float64).eps * max(basis.shape) * (singular[0] if len(singular) else 0.0)
    directions = rows[singular > tiny].T
    inside = np.asarray(matrix @ directions)
    total = float((matrix.data**2).sum())
    if mean is not None:
        inside = inside - mean @ directions
        sums = np.asarray(matrix.sum(axis=0)).ravel()
        total += matrix.shape[0] * float(mean @ mean) - 2 * float(sums @ mean)
    if total <= 0:
        return 0.0
    return float(np.clip(1 - (inside**2).sum() / total, 0.0, 1.0))


def learnt_residual(
    mechanism: Mechanism, corpus: Corpus, seed: int, *, kept: NDArray[np.int64] | None = None
) -> float | None:
    """`residual_share`, on the whole corpus, of the basis that one run of a mechanism learns from it.

    Parameters
    ----------
    seed : int
        Of the mechanism's own randomness.
    kept : int64, shape (n_kept,), optional
        Rows to learn from, in place of all; the basis is judged on all.

    Returns
    -------
    float or None
        None where the mechanism announces no basis.
    """
    matrix = corpus.matrix if kept is None else restrict(corpus, kept).matrix
    rng = generator(seed, Purpose.LEARNING)
    seen = mechanism.run(Database((matrix,)), rng)
    basis = [name for name in BASES if name in seen]
    if not basis:
        return None
    mean = np.asarray(seen["mean"], dtype=np.float64) if "mean" in seen else None
    return residual_share(corpus.matrix, np.asarray(seen[basis[0]], dtype=np.float64), mean)


def learning_cost(
    mechanism: Mechanism, corpus: Corpus, kept: NDArray[np.int64], seed: int
) -> LearningCost | NotLearnt | None:
    """Compare the bases that a mechanism learns from the whole corpus and from some of its documents.

    One run each, on one database with all those rows and with the same randomness; both bases are judged on the
    whole corpus, the documents left out included.

    Parameters
    ----------
    kept : int64, shape (n_kept,)
        Rows of the documents that stay.

    Returns
    -------
    LearningCost, NotLearnt or None
        None where the mechanism announces no basis.
    """
    try:
        from_all, from_cleared = (learnt_residual(mechanism, corpus, seed, kept=rows) for rows in (None, kept))
    except ValueError as error:
        return NotLearnt(str(error))
    if from_all is None or from_cleared is None:
        return None
    return LearningCost(MEASURE, from_all, from_cleared, documents_all=len(corpus), documents_cleared=len(kept))


def cost_of_leaving_out(spec: Spec, corpus: Corpus, kept: Iterable[str]) -> LearningCost | NotLearnt | None:
    """`learning_cost` of a spec's mechanism where the documents with these ids are kept."""
    mechanism = mechanism_of(spec.mechanism)
    return learning_cost(mechanism, corpus, np.flatnonzero(np.isin(corpus.ids, list(kept))), spec.seed)
