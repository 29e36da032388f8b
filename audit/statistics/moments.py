"""What announced second moments say of a document: quadratic forms x^T Q x, Q made of the announced S once a run.

S is the sum of z z^T over the run's documents, with or without noise. A document in the run adds x x^T to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import numpy as np
import scipy.linalg

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.computed import Computed
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import announced, row_dots, rows_times

__all__ = ["MOMENTS", "moment_energy", "moment_leverage", "moment_match"]


_FLOOR = 1e-6
"""Of the largest eigenvalue: smaller ones, and the negative ones that noise makes, count as this."""
_SHRINK = 0.05
"""Part of the mean variance that is added to every one: noise that the adversary does not know the size of."""
_ROWS = 3
"""Documents looked at for a covariance, at most this many times its size."""


def moment_energy(observables: Observables, documents: Documents) -> Floats:
    """x^T S x: how much of what was announced lies along the document."""
    return _form(documents, _symmetric(observables))


def moment_leverage(observables: Observables, documents: Documents) -> Floats:
    """x^T S^-1 x: the document's leverage among the run's, eigenvalues floored."""
    values, vectors = np.linalg.eigh(_symmetric(observables))
    floor = max(float(np.abs(values).max(initial=0.0)) * _FLOOR, np.finfo(np.float64).tiny)
    return _form(documents, (vectors / np.maximum(values, floor)) @ vectors.T)


def moment_match(observables: Observables, documents: Documents) -> Floats:
    """The matched filter <C^-1 triu(x x^T), triu(S)>, C the covariance of triu(z z^T) over `Documents.population`.

    The best linear test of whether x is in the sum, for an adversary who knows the population: it looks where the
    other documents vary least.
    """
    triangle = announced(observables, "moments").ravel()
    weights = _whitener(documents.population or documents)(triangle)
    features = _features(len(triangle))
    form = np.zeros((features, features))
    # Off the diagonal a weight counts once in the triangle, and twice in the form.
    form[np.triu_indices(features)] = weights
    return _form(documents, (form + form.T) / 2)


def _features(entries: int) -> int:
    return (math.isqrt(8 * entries + 1) - 1) // 2


def _symmetric(observables: Observables) -> Floats:
    def compute() -> Floats:
        triangle = announced(observables, "moments").ravel()
        features = _features(len(triangle))
        found = np.zeros((features, features))
        found[np.triu_indices(features)] = triangle
        return found + np.triu(found, 1).T

    return cast(Floats, observables.derive(("moments",), compute))


@lru_cache(maxsize=4)
def _dense(documents: Documents) -> Floats:
    return np.asarray(documents.matrix.toarray())


def _form(documents: Documents, form: Floats) -> Floats:
    rows = _dense(documents)
    return row_dots(rows_times(rows, form), rows)


@lru_cache(maxsize=4)
def _whitener(documents: Documents) -> Callable[[Floats], Floats]:
    """Solve with the covariance of triu(z z^T), shrunk; of documents at even steps, where there are many."""
    rows = _dense(documents)
    upper = np.triu_indices(rows.shape[1])
    chosen = rows[:: max(1, len(rows) // (_ROWS * len(upper[0])))]
    products = chosen[:, upper[0]] * chosen[:, upper[1]]
    products -= products.mean(axis=0)
    covariance = products.T @ products / max(len(products) - 1, 1)
    mean = float(np.trace(covariance)) / len(covariance)
    covariance[np.diag_indices_from(covariance)] += max(_SHRINK * mean, np.finfo(np.float64).tiny)
    factor = scipy.linalg.cho_factor(covariance, check_finite=False)

    def solve(triangle: Floats) -> Floats:
        return np.asarray(scipy.linalg.cho_solve(cast(Any, factor), triangle, check_finite=False))

    return solve


MOMENTS: tuple[Statistic, ...] = (
    Computed("moment-energy", 1, "geometry", moment_energy, needs=("moments",)),
    Computed("moment-leverage", 1, "geometry", moment_leverage, needs=("moments",)),
    Computed("moment-match", 1, "geometry", moment_match, needs=("moments",)),
)
