"""Folds of runs, and Fisher's combination of their tests. `ksdp.audit.verdicts.learned` says why it holds."""

from __future__ import annotations

import math

import numpy as np

from ksdp.audit.array_types import Floats, Ints

FOLDS = 5
"""K. Of 2 to 12, 4 to 8 have the smallest p-values in simulations; 5 costs less than 8."""


def folds_of(runs: int, folds: int = FOLDS) -> list[Ints]:
    """Deal runs into folds, two neighbours at a time: (run // 2) mod K.

    By the index alone, so that the folds depend on nothing that was drawn; in pairs, because the literal design
    has the document in every other run.

    Examples
    --------
    >>> [fold.tolist() for fold in folds_of(11, 3)]
    [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10]]
    """
    if folds < 2:
        raise ValueError(f"`folds` must be at least 2; got {folds}.")
    index = np.arange(runs, dtype=np.int64)
    return [index[index // 2 % folds == j] for j in range(folds)]


def fisher(log10_p: Floats) -> Floats:
    """Combine p-values by Fisher's method, on logarithms: log10 of P(chi2_{2 m} >= -2 sum ln p).

    Valid where each p-value is one given those before it (see above).

    Parameters
    ----------
    log10_p : shape (n_documents, m)
        The p-values of m tests, in the order of testing.

    Examples
    --------
    >>> fisher(np.log10([[0.05, 0.05], [1.0, 0.01]])).round(4).tolist()
    [-1.7575, -1.2514]
    """
    depth = -log10_p.sum(axis=1) * math.log(10)
    deep = np.log(np.maximum(depth, 1e-300))
    terms = np.stack([j * deep - math.lgamma(j + 1) for j in range(log10_p.shape[1])])
    return np.asarray(np.minimum((np.logaddexp.reduce(terms, axis=0) - depth) / math.log(10), 0.0))
