"""Gaussian learners of many documents at once: how to score a run, from the moments of the training runs.

All of them give log likelihood ratios (with against without) of Gaussians with equal weight on both arms, so
that arms of unlike sizes (200 and 6,500 runs) need nothing more, 0 is the natural threshold, and scores of
models trained on different runs are on one scale:

- ``matched-filter``: one diagonal covariance for both arms (difference of means over pooled variances).
- ``lda``: one full covariance for both, the pooled one S of n runs, shrunk in units of its standard deviations:
  correlations are multiplied by n / (n + p), the Bayes estimate from p runs of unit covariance.
- ``lira``: an own covariance for each arm, S_c shrunk towards the pooled one, (n_c S_c + 2 p S) / (n_c + 2 p).
  With one column it is LiRA's likelihood ratio (Carlini et al. 2022, "Membership inference attacks from first
  principles", https://arxiv.org/abs/2112.03570, Algorithm 1) with that shrinkage.

Moments are summed once for each fold of runs; training on several folds adds them up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Floats, Ints

GAUSSIAN = ("matched-filter", "lda", "lira")
"""Names of the learners."""

CLIP = 8.0
"""Standardised columns are cut here, so that heavy tails do not drown a covariance."""

# A within-arm variance counts as at least this part of the whole one: a column that separates perfectly is finite.
_LEAST = 1e-6
# A variance below this, in units of fold 0, is rounding of the moments.
_ROUNDING = 1e-8


@dataclass(frozen=True, eq=False)
class Standards:
    """Centre and inverse scale of each column of each document, both of shape (n_documents, n_features)."""

    centre: Floats
    inverse: Floats


@dataclass(frozen=True, eq=False)
class FoldMoments:
    """Sums over runs; the first axes are (document, arm), arm 0 without and arm 1 with the document."""

    count: Floats
    """Shape (n, 2)."""
    first: Floats
    """Shape (n, 2, p)."""
    second: Floats
    """Shape (n, 2, p, p)."""

    def __add__(self, other: FoldMoments) -> FoldMoments:
        return FoldMoments(self.count + other.count, self.first + other.first, self.second + other.second)


@dataclass(frozen=True, eq=False)
class Rule:
    """score = z^T quadratic z + linear . z + constant of the standardised columns z, one a document."""

    constant: Floats
    linear: Floats
    quadratic: Floats
    """Shape (n, p, p), or (n, 0, 0) for a linear rule."""


@njit(cache=True, nogil=True)
def _sum_standards(features: NDArray[Any], runs: Ints, centre: Floats, inverse: Floats) -> None:
    n, _, p = features.shape
    for i in range(n):
        for r in runs:
            for a in range(p):
                centre[i, a] += features[i, r, a]
        for a in range(p):
            centre[i, a] /= max(len(runs), 1)
        for r in runs:
            for a in range(p):
                inverse[i, a] += (features[i, r, a] - centre[i, a]) ** 2
        for a in range(p):
            spread = np.sqrt(inverse[i, a] / max(len(runs), 1))
            # Rounding of the sums is no spread.
            if spread <= 1e-12 * abs(centre[i, a]):
                spread = 0.0
            size = abs(centre[i, a])
            inverse[i, a] = 1.0 / spread if spread > 0.0 else (1.0 / size if size > 0.0 else 1.0)


def column_standards(features: NDArray[np.floating], runs: Ints) -> Standards:
    """Mean and inverse standard deviation of each column over some runs.

    A column that is constant there is measured in units of its size (of 1, where it is 0).

    Parameters
    ----------
    features : shape (n_documents, n_runs, n_features)
    runs : indices along the second axis
    """
    shape = (features.shape[0], features.shape[2])
    centre, inverse = np.zeros(shape), np.zeros(shape)
    _sum_standards(features, runs, centre, inverse)
    return Standards(centre, inverse)


@njit(cache=True, nogil=True)
def _standardise(row: NDArray[Any], centre: Floats, inverse: Floats, z: Floats) -> None:
    for a in range(len(z)):
        z[a] = min(max((row[a] - centre[a]) * inverse[a], -CLIP), CLIP)


@njit(cache=True, nogil=True)
def _sum_moments(
    features: NDArray[Any],
    inclusion: Bits,
    runs: Ints,
    centre: Floats,
    inverse: Floats,
    count: Floats,
    first: Floats,
    second: Floats,
) -> None:
    n, _, p = features.shape
    z = np.empty(p)
    for i in range(n):
        for r in runs:
            _standardise(features[i, r], centre[i], inverse[i], z)
            arm = 1 if inclusion[i, r] else 0
            count[i, arm] += 1.0
            into = second[i, arm]
            for a in range(p):
                first[i, arm, a] += z[a]
                for b in range(a + 1):
                    into[a, b] += z[a] * z[b]
        for arm in range(2):
            for a in range(p):
                for b in range(a):
                    second[i, arm, b, a] = second[i, arm, a, b]


def fold_moments(features: NDArray[np.floating], inclusion: Bits, runs: Ints, standards: Standards) -> FoldMoments:
    """Moments of the standardised columns over some runs; O(len(runs) p^2) a document.

    Parameters
    ----------
    features : shape (n_documents, n_runs, n_features)
    inclusion : bool, shape (n_documents, n_runs)
    runs : indices along the second axis
    """
    n, _, p = features.shape
    sums = FoldMoments(np.zeros((n, 2)), np.zeros((n, 2, p)), np.zeros((n, 2, p, p)))
    scale = standards.centre, standards.inverse
    _sum_moments(features, inclusion, runs, *scale, sums.count, sums.first, sums.second)
    return sums


@dataclass(frozen=True, eq=False)
class _Gaussians:
    """Means and covariances in units of `spread`, the pooled standard deviation of each column."""

    spread: Floats
    means: Floats
    arms: Floats
    pooled: Floats
    """Maximum likelihood, so that its diagonal is 1 save for columns that hardly vary within the arms."""
    count: Floats


def _gaussians(moments: FoldMoments) -> _Gaussians:
    count = np.maximum(moments.count, 1.0)
    means = moments.first / count[..., None]
    covariances = moments.second / count[..., None, None] - means[..., :, None] * means[..., None, :]
    share = count / count.sum(axis=1, keepdims=True)
    pooled = np.einsum("nc,ncab->nab", share, covariances)
    within = np.maximum(np.einsum("naa->na", pooled), 0.0)
    between = share.prod(axis=1)[:, None] * (means[:, 1] - means[:, 0]) ** 2
    # A constant column counts for nothing, in units of 1.
    whole = within + between
    varies = whole > _ROUNDING
    spread = np.sqrt(np.where(varies, np.maximum(within, np.maximum(_LEAST * whole, _ROUNDING)), 1.0))
    centre = means.mean(axis=1, keepdims=True)
    means = np.where(varies[:, None, :], means - centre, 0.0) / spread[:, None, :] + centre / spread[:, None, :]
    both = varies[:, :, None] & varies[:, None, :]
    units = spread[:, :, None] * spread[:, None, :]
    pooled = np.where(both, pooled / units, np.eye(pooled.shape[-1]))
    arms = np.where(both[:, None], covariances / units[:, None], np.eye(pooled.shape[-1]))
    return _Gaussians(spread, means, arms, pooled, moments.count)


def _linear(g: _Gaussians, weights: Floats) -> Rule:
    constant = -0.5 * np.einsum("na,na->n", weights, g.means.sum(axis=1))
    return Rule(constant, weights / g.spread, np.zeros((len(weights), 0, 0)))


def _shrunk(g: _Gaussians) -> Floats:
    p = g.pooled.shape[-1]
    part = np.asarray(p / (p + g.count.sum(axis=1)))[:, None, None]
    return np.asarray((1.0 - part) * g.pooled + part * np.eye(p))


def _lira(g: _Gaussians) -> Rule:
    shrunk = _shrunk(g)
    prior = 2.0 * shrunk.shape[-1]
    weight = np.asarray(g.count / (g.count + prior))[..., None, None]
    covariances = weight * g.arms + (1.0 - weight) * shrunk[:, None]
    precisions = np.linalg.inv(covariances)
    pulls = np.einsum("ncab,ncb->nca", precisions, g.means)
    halves = 0.5 * (np.linalg.slogdet(covariances)[1] + np.einsum("nca,nca->nc", pulls, g.means))
    units = g.spread[:, :, None] * g.spread[:, None, :]
    return Rule(
        halves[:, 0] - halves[:, 1],
        (pulls[:, 1] - pulls[:, 0]) / g.spread,
        0.5 * (precisions[:, 0] - precisions[:, 1]) / units,
    )


def fit(moments: FoldMoments, learner: str) -> Rule:
    """Learn how to score; a document with fewer than two training runs in an arm gets the constant 0.

    Parameters
    ----------
    moments : FoldMoments
        Of the training runs.
    learner : one of `GAUSSIAN`
    """
    g = _gaussians(moments)
    difference: Floats = g.means[:, 1] - g.means[:, 0]
    if learner == "matched-filter":
        rule = _linear(g, difference)
    elif learner == "lda":
        weights = np.linalg.solve(_shrunk(g), difference[..., None]).squeeze(-1)
        rule = _linear(g, cast(Floats, weights))
    elif learner == "lira":
        rule = _lira(g)
    else:
        raise ValueError(f"`learner` must be one of {', '.join(GAUSSIAN)}; got {learner!r}.")
    enough = np.asarray((moments.count >= 2).all(axis=1), dtype=np.float64)
    return Rule(rule.constant * enough, rule.linear * enough[:, None], rule.quadratic * enough[:, None, None])


@njit(cache=True, nogil=True)
def _scores(
    features: NDArray[Any],
    runs: Ints,
    centre: Floats,
    inverse: Floats,
    constant: Floats,
    linear: Floats,
    quadratic: Floats,
) -> Floats:
    """Every run goes through the same operations in the same order, so that equal rows give equal scores."""
    n, _, p = features.shape
    out = np.empty((n, len(runs)))
    z, pull = np.empty(p), np.empty(p)
    square = quadratic.shape[1] > 0
    for i in range(n):
        for at in range(len(runs)):
            _standardise(features[i, runs[at]], centre[i], inverse[i], z)
            pull[:] = linear[i]
            if square:
                for a in range(p):
                    for b in range(p):
                        pull[b] += z[a] * quadratic[i, a, b]
            total = constant[i]
            for a in range(p):
                total += pull[a] * z[a]
            out[i, at] = total
    return out


def score(features: NDArray[np.floating], runs: Ints, standards: Standards, rule: Rule) -> Floats:
    """Scores of some runs, shape (n_documents, len(runs)); larger means rather with the document."""
    return cast(
        Floats,
        _scores(features, runs, standards.centre, standards.inverse, rule.constant, rule.linear, rule.quadratic),
    )
