"""Learned statistics: how to score a run for one document, by models that saw other runs alone.

Runs are dealt into K folds by their index; fold j is scored by models trained on folds 0 to j - 1
(`ksdp.audit.verdicts.learned` says why that gives valid tests). Scores are log likelihood ratios, with against
without, so that 0 is the natural threshold.

**Gaussian learners**, of many documents at once, from the moments of the training runs, with equal weight on both
arms, so that arms of unlike sizes (200 and 6,500 runs) need nothing more. Moments are summed once for each fold;
training on several folds adds them up.

- ``matched-filter``: one diagonal covariance for both arms (difference of means over pooled variances).
- ``lda``: one full covariance for both, the pooled one S of n runs, shrunk in units of its standard deviations:
  correlations are multiplied by n / (n + p), the Bayes estimate from p runs of unit covariance.
- ``lira``: an own covariance for each arm, S_c shrunk towards the pooled one, (n_c S_c + 2 p S) / (n_c + 2 p).
  With one column it is LiRA's likelihood ratio (Carlini et al. 2022, "Membership inference attacks from first
  principles", https://arxiv.org/abs/2112.03570, Algorithm 1) with that shrinkage.

**Boosted trees**, one model a document: for leaks that no Gaussian sees, at a price.

**Raw announcements**, a matched filter with one covariance for all documents. It knows nothing of documents, bases
or sums: the announced arrays of run r are one vector a_r. For a document with bits y, the filter is s(a) = (mu_1 -
mu_0)^T (Sigma + lambda I)^-1 (a - (mu_1 + mu_0) / 2), Fisher's discriminant with a shrunk covariance. One document
hardly moves the covariance, so that all share the total one, and in the dual the filter is ridge regression of the
bits on the Gram matrix K of runs: (K + lambda I) is factorised once a fold, for every document. Its threshold is
midway between the means of the arms' leave-one-out scores on the runs trained on, y - (y - H y) / (1 - diag H)
with H = K (K + lambda I)^-1; without leaving out they would be too far apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.linalg
from numba import njit
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ksdp.audit.errors import SpecError
from ksdp.audit.numeric.array_types import Bits, Floats, Ints, Singles
from ksdp.audit.spec.models import StatisticsSpec

LEARNED = "learned"
"""The family of learned columns; their names begin with it."""
LEARNED_PREFIX = f"{LEARNED}-"
LEARNED_SENTENCE = "A small model, trained on other runs, that combines all statistics into one guess."
GAUSSIAN = ("matched-filter", "lda", "lira")
BOOSTED = "boosted"
"""Gradient-boosted trees, a model a document and fold: seconds where the others take milliseconds."""
CHOSEN = "chosen"
"""The learner with the largest D in the folds before; the first one named, in the first test."""
RAW = "raw"
"""The filter of raw announcements."""

FOLDS = 5
"""K. Of 2 to 12, 4 to 8 have the smallest p-values in simulations; 5 costs less than 8."""
CLIP = 8.0
"""Standardised columns are cut here, so that heavy tails do not drown a covariance."""
SHRINKAGE = 0.1
"""lambda, as a part of the mean of K's diagonal; 0.03 to 0.3 give the same D to 0.01 on text."""
# A within-arm variance counts as at least this part of the whole one: a column that separates perfectly is finite.
_LEAST = 1e-6
# A variance below this, in units of fold 0, is rounding of the moments.
_ROUNDING = 1e-8
_CHUNK = 4096
# Of raw coordinates, a deviation counts as at least this quantile of all that vary: rare ones are not blown up.
_LEAST_QUANTILE = 0.05


def requested_learners(spec: StatisticsSpec) -> tuple[list[str], tuple[str, ...]]:
    """The other families, and the learners asked for; refused where there is none such, or none to learn from."""
    families = [family for family in spec.families if family != LEARNED]
    asked = [n.removeprefix(LEARNED_PREFIX) for n in spec.names if n.startswith(LEARNED_PREFIX)]
    known = (*GAUSSIAN, CHOSEN, BOOSTED, RAW)
    unknown = [name for name in asked if name not in known]
    if unknown:
        names = ", ".join(LEARNED_PREFIX + name for name in known)
        raise SpecError(f"`statistics.names` must be among {names}; got {LEARNED_PREFIX + unknown[0]!r}.")
    wanted = {*asked, *((*GAUSSIAN, CHOSEN) if LEARNED in spec.families else ())}
    if wanted - {RAW} == {CHOSEN}:
        raise SpecError(f"`statistics.names` must name a learner beside {LEARNED_PREFIX}{CHOSEN}, to choose from.")
    if wanted and not families and len(asked) == len(spec.names):
        raise SpecError("`statistics` must hold others beside the learned ones, to learn from.")
    return families, tuple(name for name in (*GAUSSIAN, BOOSTED, CHOSEN, RAW) if name in wanted)


def folds_of(runs: int, folds: int = FOLDS) -> list[Ints]:
    """Deal runs into folds, two neighbours at a time: (run // 2) mod K.

    By the index alone, so that the folds depend on nothing that was drawn; in pairs, because the literal design
    has the document in every other run.

    Examples
    --------
    >>> [fold.tolist() for fold in folds_of(11, 3)]
    [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10]]
    """
    index = np.arange(runs, dtype=np.int64)
    return [index[index // 2 % folds == j] for j in range(folds)]


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
    """Mean and inverse standard deviation of each column of `features` (documents, runs, columns) over some runs.

    A column that is constant there is measured in units of its size (of 1, where it is 0).
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
    """Moments of the standardised columns over some runs; O(len(runs) p^2) a document."""
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
    """How one of `GAUSSIAN` scores; a document with fewer than two training runs in an arm gets the constant 0."""
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


def boosted_scores(features: NDArray[np.floating], inclusion: Bits, training: Ints, testing: Ints) -> Floats:
    """Log odds of the test runs under small boosted trees, arms weighted alike, shape (n_documents, len(testing)).

    scikit-learn's HistGradientBoostingClassifier with 40 trees of at most 8 leaves, learning rate 0.1, no early
    stopping and a fixed seed; one thread, as workers are processes. A document with fewer than two training runs
    in an arm gets 0.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    out = np.zeros((len(features), len(testing)))
    with threadpool_limits(1):
        for i, (rows, bits) in enumerate(zip(features, inclusion, strict=True)):
            arm = bits[training]
            if min(arm.sum(), (~arm).sum()) < 2:
                continue
            smallest = int(min(20, max(2, min(arm.sum(), (~arm).sum()) // 4)))
            model: Any = HistGradientBoostingClassifier(
                max_iter=40,
                max_leaf_nodes=8,
                min_samples_leaf=smallest,
                class_weight="balanced",
                early_stopping=False,
                random_state=0,
            )
            model.fit(rows[training], arm)
            out[i] = model.decision_function(rows[testing])
    return out


def learner_scores(
    features: NDArray[np.floating], inclusion: Bits, learners: Sequence[str]
) -> Iterator[tuple[Ints, list[Singles]]]:
    """Runs of fold 1, 2, ..., and each learner's scores of them, shape (n_documents, len(runs)).

    Each fold is scored under the folds before it. Columns are standardised by fold 0, which is never tested.
    Scores are rounded to float32, so that rounding does not break ties.

    Parameters
    ----------
    features : shape (n_documents, n_runs, n_features)
        Finite.
    inclusion : bool, shape (n_documents, n_runs)
    learners : names of `GAUSSIAN`, or `BOOSTED`
    """
    features, inclusion = np.ascontiguousarray(features), np.ascontiguousarray(inclusion)
    parts = folds_of(features.shape[1])
    standards = column_standards(features, parts[0])
    moments = fold_moments(features, inclusion, parts[0], standards)
    for j in range(1, FOLDS):
        scores = []
        for name in learners:
            if name == BOOSTED:
                before = np.sort(np.concatenate(parts[:j]))
                scores.append(_rounded(boosted_scores(features, inclusion, before, parts[j])))
            else:
                scores.append(_rounded(score(features, parts[j], standards, fit(moments, name))))
        yield parts[j], scores
        if j + 1 < FOLDS:
            moments = moments + fold_moments(features, inclusion, parts[j], standards)


def trained_scores(
    features: NDArray[np.floating], inclusion: Bits, learner: str, before: Ints, after: Ints
) -> Singles:
    """Scores of later runs under one learner trained on all earlier ones, shape (n_documents, len(after))."""
    features = np.ascontiguousarray(features)
    if learner == BOOSTED:
        return _rounded(boosted_scores(features, inclusion, before, after))
    standards = column_standards(features, before)
    moments = fold_moments(features, inclusion, before, standards)
    return _rounded(score(features, after, standards, fit(moments, learner)))


def _rounded(scores: Floats) -> Singles:
    limit = float(np.finfo(np.float32).max)
    return np.clip(scores, -limit, limit).astype(np.float32)


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
    least = float(np.quantile(deviations[varies], _LEAST_QUANTILE)) if varies.any() else 1.0
    gram = np.zeros((runs, runs))
    for chunk in chunks:
        part = announcements[:, chunk].astype(np.float64)
        part -= part[known].mean(axis=0)
        part /= np.maximum(deviations[chunk], least)
        gram += part @ part.T
    return gram


def raw_scores(gram: Floats, inclusion: Bits, before: Ints, after: Ints) -> Singles:
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
    ridge = SHRINKAGE * (float(np.trace(inner)) / len(before) or 1.0)
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


def filter_scores(gram: Floats, inclusion: Bits) -> Iterator[tuple[Ints, list[Singles]]]:
    """Runs of fold 1, 2, ..., and their scores by the folds before, shape (n_documents, len(runs))."""
    parts = folds_of(len(gram))
    for j in range(1, FOLDS):
        before = np.sort(np.concatenate(parts[:j]))
        yield parts[j], [raw_scores(gram, inclusion, before, parts[j])]
