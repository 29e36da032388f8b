r"""A learner on the raw announcement: a matched filter with one covariance for all documents.

It knows nothing of documents, bases or sums: the announced arrays of run r are one vector a_r. For a document with
bits y, the filter is

.. math:: s(a) = (\mu_1 - \mu_0)^T (\Sigma + \lambda I)^{-1} (a - \tfrac12 (\mu_1 + \mu_0)),

Fisher's discriminant with a shrunk covariance. One document hardly moves the covariance, so that all documents
share the total one, and in the dual the filter is ridge regression of the bits on the Gram matrix K of runs: (K +
\lambda I) is factorised once a fold, for every document. Memory is runs x runs, whatever is announced.

**Validity** is that of `learned`: fold j is scored by a filter that saw folds 0 to j - 1 alone, their bits and
their announcements; scales come from fold 0, which is never tested. So given the folds before, the score of a run
is one fixed function of what it announces. Where a document leaves no trace its scores in the two arms of a fold
are one sample, and where it leaves one, TPR - FPR measures one attack: p-values and bands of `learned` hold.

**Threshold**: midway between the means of the arms' leave-one-out scores on the runs trained on, y - (y - H y) /
(1 - diag H) with H = K (K + \lambda I)^{-1}. Scores of those runs without leaving out would be too far apart.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Floats, Ints
from ksdp.audit.verdicts.folds import FOLDS, folds_of
from ksdp.audit.verdicts.learned import LearnedTests, scored_tests

RAW = "raw"
"""Name of the learner."""
SHRINKAGE = 0.1
"""lambda, as a part of the mean of K's diagonal; 0.03 to 0.3 give the same D to 0.01 on text."""
_CHUNK = 4096
_LEAST = 0.05
"""A coordinate's deviation counts as at least this quantile of all that vary: rare ones are not blown up."""


def gram_of_runs(announcements: NDArray[np.floating], first: Ints | None = None) -> Floats:
    """K, shape (n_runs, n_runs): inner products of announcements, each coordinate by its own deviation.

    Parameters
    ----------
    announcements : shape (n_runs, n_coordinates)
        All announced arrays of a run, one after the other.
    first : runs, optional
        Those that say where a coordinate's mean is and how much it deviates; fold 0 by default, which is never
        tested.

    Examples
    --------
    >>> gram_of_runs(np.array([[0.0, 5.0], [4.0, 5.0]]), first=np.array([0, 1]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    runs, coordinates = announcements.shape
    known = folds_of(runs)[0] if first is None else first
    chunks = [slice(at, at + _CHUNK) for at in range(0, coordinates, _CHUNK)]
    deviations = np.concatenate([announcements[known, chunk].std(axis=0, dtype=np.float64) for chunk in chunks])
    varies = deviations > 0
    least = float(np.quantile(deviations[varies], _LEAST)) if varies.any() else 1.0
    gram = np.zeros((runs, runs))
    for chunk in chunks:
        part = announcements[:, chunk].astype(np.float64)
        part -= part[known].mean(axis=0)
        part /= np.maximum(deviations[chunk], least)
        gram += part @ part.T
    return gram


def raw_scores(
    gram: Floats, inclusion: Bits, before: Ints, after: Ints, shrinkage: float = SHRINKAGE
) -> NDArray[np.float32]:
    """Scores of later runs under the filter of the earlier ones, shape (n_documents, len(after)); > 0 says "with".

    Parameters
    ----------
    gram : shape (n_runs, n_runs)
        Of `gram_of_runs`, or of any other kernel of runs that no bit went into.
    inclusion : bool, shape (n_documents, n_runs)
        Only that of the earlier runs is looked at.
    before, after : runs
    """
    inner, across = gram[np.ix_(before, before)], gram[np.ix_(after, before)]
    # Announcements less their mean over the runs trained on.
    means = inner.mean(axis=0)
    across = across - across.mean(axis=1, keepdims=True) - means + means.mean()
    inner = inner - means - means[:, None] + means.mean()
    ridge = shrinkage * (float(np.trace(inner)) / len(before) or 1.0)
    factor = scipy.linalg.cho_factor(inner + ridge * np.eye(len(before)), check_finite=False)
    inverse = scipy.linalg.cho_solve(factor, np.eye(len(before)), check_finite=False)
    bits = inclusion[:, before].T.astype(np.float64)
    centred = bits - bits.mean(axis=0)
    weights = inverse @ centred
    # K (K + l I)^-1 = I - l (K + l I)^-1, so that what leaving out leaves is weights / diag of the inverse.
    left_out = centred - weights / np.diag(inverse)[:, None]
    held = bits.sum(axis=0)
    mean_with = (left_out * bits).sum(axis=0) / np.maximum(held, 1)
    mean_without = (left_out * (1 - bits)).sum(axis=0) / np.maximum(len(before) - held, 1)
    scores = across @ weights - (mean_with + mean_without) / 2
    return np.ascontiguousarray(scores.T).astype(np.float32)


def filter_scores(
    gram: Floats, inclusion: Bits, folds: int = FOLDS, shrinkage: float = SHRINKAGE
) -> Iterator[tuple[Ints, list[NDArray[np.float32]]]]:
    """Runs of fold 1, 2, ..., and their scores by the folds before, shape (n_documents, len(runs))."""
    parts = folds_of(len(gram), folds)
    for j in range(1, folds):
        before = np.sort(np.concatenate(parts[:j]))
        yield parts[j], [raw_scores(gram, inclusion, before, parts[j], shrinkage)]


def raw_tests(gram: Floats, inclusion: Bits, folds: int = FOLDS, shrinkage: float = SHRINKAGE) -> LearnedTests:
    """Train and test the filter for every document.

    Raises
    ------
    ValueError
        If the shapes differ or a number is not finite.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> inclusion = rng.random((2, 400)) < 0.5
    >>> announced = rng.normal(size=(400, 30)) + np.outer(inclusion[1], np.full(30, 0.4))
    >>> raw_tests(gram_of_runs(announced), inclusion).distance.ravel().round(1)
    array([0. , 0.7])
    """
    if gram.shape != (inclusion.shape[1],) * 2:
        raise ValueError(f"`gram` must have shape {(inclusion.shape[1],) * 2}; got {gram.shape}.")
    if not np.isfinite(gram).all():
        raise ValueError("`gram` must be finite.")
    return scored_tests(RAW, filter_scores(gram, inclusion, folds, shrinkage), inclusion, folds)
