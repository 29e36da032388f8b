"""Tests of learned statistics (`ksdp.audit.statistics.learned`), and D without the bias of choosing.

A learner may look at the arms only in runs on which it is not tested. Runs are dealt into K folds by their
index alone; fold j is tested under the model trained on folds 0 to j - 1, so that fold 0 only trains and every
other run does both (the last one trains nothing). Going forward like this, instead of testing each fold under
all the others, is what makes the folds' p-values combine without loss:

**Validity.** Fix a document that leaves no trace, and its inclusion bits. Its rows of features are then
independent and identically distributed over runs. Given folds 0 to j - 1, the score of fold j is a fixed function
of a row, so that its scores in the two arms are one sample and the exact Kolmogorov-Smirnov law holds:
P(p_j <= u | folds before j) <= u for every u, with ties as well. By induction over the folds, -2 sum ln p_j is
stochastically at most a chi-squared variable with 2 (K - 1) degrees of freedom, so Fisher's combination

    p = P(chi2_{2 (K - 1)} >= -2 sum_j ln p_j) = L (1 + ln(1/L) + ... + ln(1/L)^(K - 2) / (K - 2)!),  L = prod p_j

is a valid p-value. It is conservative where folds are small, as the law of their distances is coarse: with 40
runs a fold some 2 to 4 % of documents that leave no trace have p <= 0.05.

p-values of folds tested under *all* the others depend on one another in both directions; what holds for any
dependence (K min p_j, 2 mean p_j, e times the geometric mean) has the power of one fold of R / K runs. The sum of
K - 1 logarithms has that of (K - 1) R / K runs.

**Advantage.** Scores are log likelihood ratios, so the learner says "with" above 0: direction and threshold are
both learnt in training. TPR_j - FPR_j of fold j is then an unbiased measurement of one attack's advantage, which
no maximum over thresholds inflates. `distance` is the positive part of sum_j v_j (TPR_j - FPR_j) with v_j
proportional to m_j n_j / (m_j + n_j) for arms of m_j and n_j runs. Given the bits, TPR and FPR are weighted sums
of martingale differences about the true ones of the attacks used. Hoeffding's inequality applies to them with the
effective arms `n_with` = 1 / (sum_j v_j^2 / m_j) and `n_without` = 1 / (sum_j v_j^2 / n_j), at most the tested
runs of each. Its constant is that of `ksdp.audit.verdicts.margins`: those bands hold for `distance` with these
arms. Their lower end bounds the total variation distance of the two distributions of features from below. Their
upper end bounds the advantage of these learnt attacks, not of better ones.

**D without the bias of choosing** (`held_out_advantage`). D is the largest of many gaps, over thresholds and
statistics, so it is too large on average: where nothing leaks it still measures some 0.1 with 400 runs. Here each
half of the runs chooses a statistic, a threshold and a side, and the other half says what an adversary with that
choice gains; the two answers are averaged. Given the choice the answer is unbiased for that adversary's advantage:
on average it is never above the true D, and 0 where nothing leaks. No verdict uses it.

Reference for the combination: Fisher (1925); Vovk & Wang (2020) for arbitrary dependence,
https://doi.org/10.1093/biomet/asaa027.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Bits, Floats, Ints, Singles
from ksdp.audit.statistics.learned import (
    BOOSTED,
    CHOSEN,
    GAUSSIAN,
    RAW,
    filter_scores,
    folds_of,
    learner_scores,
    trained_scores,
)
from ksdp.audit.verdicts.laws import ks_table


@dataclass(frozen=True, eq=False)
class LearnedTests:
    """Tests of some documents: one row a document, one column a learner, as `ArmTests`."""

    learners: tuple[str, ...]
    """Columns; `CHOSEN` comes last where it was asked for."""
    n_with: Ints
    """Effective size of the tested with-arm, shape (n_documents,)."""
    n_without: Ints
    distance: Floats
    """Measured advantage of the learned attack, in [0, 1]; NaN where no fold has both arms."""
    log10_p: Floats
    """Exact without ties, conservative with them; 0 where no fold has both arms."""


def fisher(log10_p: Floats) -> Floats:
    """Fisher's combination of m p-values (n_documents x m) on logarithms: log10 of P(chi2_{2 m} >= -2 sum ln p).

    Examples
    --------
    >>> fisher(np.log10([[0.05, 0.05], [1.0, 0.01]])).round(4).tolist()
    [-1.7575, -1.2514]
    """
    depth = -log10_p.sum(axis=1) * math.log(10)
    deep = np.log(np.maximum(depth, 1e-300))
    terms = np.stack([j * deep - math.lgamma(j + 1) for j in range(log10_p.shape[1])])
    return np.asarray(np.minimum((np.logaddexp.reduce(terms, axis=0) - depth) / math.log(10), 0.0))


def attack_scores(
    features: NDArray[np.floating], inclusion: Bits, learner: str, before: Ints, after: Ints
) -> Singles:
    """Scores of the runs `after` under a learner that saw the runs `before`, shape (n_documents, len(after)).

    Of `features` (documents, runs, columns) and `inclusion` (documents, runs), whose bits `after` are not looked
    at. `CHOSEN` is the one of `GAUSSIAN` with the smallest p in the runs `before`.
    """
    if learner == CHOSEN:
        earlier = learned_tests(features[:, before], inclusion[:, before], GAUSSIAN)
        best = earlier.log10_p.argmin(axis=1)
        scores = [attack_scores(features, inclusion, name, before, after) for name in GAUSSIAN]
        return np.asarray(np.stack(scores)[best, np.arange(len(best))])
    return trained_scores(features, inclusion, learner, before, after)


@dataclass(frozen=True, eq=False)
class _Fold:
    """One learner's test in one fold, an entry a document."""

    log10_p: Floats
    distance: Floats
    advantage: Floats


def _tested(scored: Iterable[tuple[Ints, list[Singles]]], inclusion: Bits, learners: int) -> list[list[_Fold]]:
    """One list of folds a learner, from what `learner_scores` yields."""
    tests: list[list[_Fold]] = [[] for _ in range(learners)]
    for runs, scores in scored:
        held = inclusion[:, runs]
        for done, values in zip(tests, scores, strict=True):
            table = ks_table(values, held)
            above = values > 0
            hits = (above & held).sum(axis=1) / np.maximum(table.n_with, 1)
            alarms = (above & ~held).sum(axis=1) / np.maximum(table.n_without, 1)
            done.append(_Fold(table.log10_p, np.nan_to_num(table.distance), hits - alarms))
    return tests


def _best_before(tests: list[list[_Fold]]) -> list[_Fold]:
    """In each fold the learner with the largest mean distance in the folds before."""
    chosen = []
    total = np.zeros((len(tests), len(tests[0][0].distance)))
    rows = np.arange(total.shape[1])
    for j in range(len(tests[0])):
        best = total.argmax(axis=0)

        def take(name: str, j: int = j, best: NDArray[np.intp] = best) -> Floats:
            return np.asarray(np.stack([getattr(t[j], name) for t in tests])[best, rows])

        chosen.append(_Fold(take("log10_p"), take("distance"), take("advantage")))
        total += np.stack([t[j].distance for t in tests])
    return chosen


def learned_tests(
    features: NDArray[np.floating], inclusion: Bits, learners: Iterable[str] = ("lda", "lira", CHOSEN)
) -> LearnedTests:
    """Train and test every learner for every document of a slice.

    Parameters
    ----------
    features : shape (n_documents, n_runs, n_features), float32 or float64
        Columns of each document in each run, finite. 4 R p bytes a document as float32 for R runs of p columns:
        what is computed besides takes about 20 R bytes more.
    inclusion : bool, shape (n_documents, n_runs)
    learners : names of `GAUSSIAN`, `BOOSTED`, and `CHOSEN` for the best of the others, judged by earlier folds

    Raises
    ------
    ValueError
        If the shapes differ, a number is not finite, or a learner is unknown.

    Examples
    --------
    >>> rng = np.random.default_rng(3)
    >>> inclusion = rng.random((2, 500)) < 0.5
    >>> features = rng.normal(size=(2, 500, 4)) + [[[0.0]], [[0.4]]] * inclusion[:, :, None]
    >>> tests = learned_tests(features, inclusion, ["lda"])
    >>> tests.log10_p.ravel().round(1)
    array([-0.1, -9.8])
    """
    if features.ndim != 3 or features.shape[:2] != inclusion.shape:
        raise ValueError(
            f"`features` must have shape (documents, runs, columns) with {inclusion.shape} like `inclusion`; "
            f"got {features.shape}."
        )
    if not np.isfinite(features).all():
        raise ValueError("`features` must be finite.")
    asked = tuple(dict.fromkeys(learners))
    unknown = [name for name in asked if name not in (*GAUSSIAN, BOOSTED, CHOSEN)]
    plain = [name for name in asked if name != CHOSEN]
    if unknown or not plain:
        known = ", ".join((*GAUSSIAN, BOOSTED, CHOSEN))
        raise ValueError(f"`learners` must be among {known}, and not {CHOSEN} alone; got {', '.join(asked)}.")
    tests = _tested(learner_scores(features, inclusion, plain), inclusion, len(plain))
    if CHOSEN in asked:
        tests.append(_best_before(tests))
    return _table((*plain, CHOSEN) if CHOSEN in asked else tuple(plain), tests, inclusion)


def _table(learners: tuple[str, ...], tests: list[list[_Fold]], inclusion: Bits) -> LearnedTests:
    parts = folds_of(inclusion.shape[1])[1:]
    n_with = np.stack([inclusion[:, runs].sum(axis=1) for runs in parts], axis=1).astype(np.float64)
    n_without = np.array([len(runs) for runs in parts]) - n_with
    size = n_with * n_without / np.maximum(n_with + n_without, 1)
    weights = size / np.maximum(size.sum(axis=1, keepdims=True), 1e-300)
    empty = weights.sum(axis=1) == 0

    def effective(sizes: Floats) -> Ints:
        total = (weights**2 / np.maximum(sizes, 1)).sum(axis=1)
        inverse = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(np.floor(inverse + 1e-9), dtype=np.int64)

    def weighted(name: str) -> Floats:
        mean = np.stack([(weights.T * [getattr(f, name) for f in t]).sum(axis=0) for t in tests], axis=1)
        mean[empty] = np.nan
        return np.asarray(mean)

    return LearnedTests(
        learners=learners,
        n_with=effective(n_with),
        n_without=effective(n_without),
        distance=np.clip(weighted("advantage"), 0.0, 1.0),
        log10_p=np.stack([fisher(np.stack([f.log10_p for f in t], axis=1)) for t in tests], axis=1),
    )


def raw_tests(gram: Floats, inclusion: Bits) -> LearnedTests:
    """Train and test the filter of raw announcements for every document, from `gram_of_runs`.

    Raises
    ------
    ValueError
        If the shapes differ or a number is not finite.
    """
    if gram.shape != (inclusion.shape[1],) * 2:
        raise ValueError(f"`gram` must have shape {(inclusion.shape[1],) * 2}; got {gram.shape}.")
    if not np.isfinite(gram).all():
        raise ValueError("`gram` must be finite.")
    return _table((RAW,), _tested(filter_scores(gram, inclusion), inclusion, 1), inclusion)


def _chosen(values: Floats, held: Bits) -> tuple[int, float, float]:
    """(statistic, threshold, sign) of the largest gap between the two arms' shares at or below a threshold."""
    best, choice = -1.0, (0, 0.0, 1.0)
    steps = np.where(held, 1 / held.sum(), -1 / (~held).sum())
    for number, row in enumerate(values):
        order = np.argsort(row, kind="stable")
        ascending, gaps = row[order], np.cumsum(steps[order])
        gaps[:-1][ascending[:-1] == ascending[1:]] = 0.0  # between equal values there is no threshold
        at = int(np.argmax(np.abs(gaps)))
        if abs(gaps[at]) > best:
            best, choice = abs(gaps[at]), (number, float(ascending[at]), float(np.sign(gaps[at]) or 1.0))
    return choice


def held_out_advantage(values: Floats, held: Bits) -> float:
    """The advantage of an adversary who chose on one half of the runs, measured on the other; both ways, averaged.

    Of values (statistics, runs) and the runs that held the document, bool. Runs are independent, so that every
    second one of each arm is a fair half. In [-1, 1], below 0 by chance alone; NaN where an arm has fewer than two
    runs.
    """
    if min(held.sum(), (~held).sum()) < 2:
        return float("nan")
    first = np.zeros(len(held), dtype=bool)
    for arm in (held, ~held):
        first[np.flatnonzero(arm)[::2]] = True
    found = []
    for chooses, measures in ((first, ~first), (~first, first)):
        statistic, threshold, sign = _chosen(values[:, chooses], held[chooses])
        below, arm = values[statistic, measures] <= threshold, held[measures]
        found.append(sign * (below[arm].mean() - below[~arm].mean()))
    return float(np.mean(found))
