"""Learned statistics: their level where nothing leaks, their power where the best attack is known.

Slow on purpose (`make validity`). Each test prints the figure that it checks.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, multivariate_normal, norm

from ksdp.audit.statistics.learned import (
    BOOSTED,
    CHOSEN,
    GAUSSIAN,
    column_standards,
    fit,
    fold_moments,
    folds_of,
    gram_of_runs,
    score,
)
from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.learned import learned_tests, raw_tests
from ksdp.audit.verdicts.margins import distance_band

from .null_audits import shared_inclusion

pytestmark = pytest.mark.validity

DOCUMENTS = 6000
LEARNERS = (*GAUSSIAN, CHOSEN)


def null_features(rng: np.random.Generator, kind: str, n: int, runs: int, p: int = 6) -> np.ndarray:
    """Features that know nothing of the bits, dependent among columns and, by a common part, among documents."""
    common = rng.normal(size=(1, runs, 1))
    own = rng.normal(size=(n, runs, p)) @ rng.normal(size=(p, p)) + common
    if kind == "heavy tails":
        own = own * (1 / rng.random((n, runs, 1)) ** 2)  # no mean, no variance
    elif kind == "ties":
        own = np.round(own / 3)
    elif kind == "rare":
        own = (rng.random((n, runs, p)) < 0.01) * own
    elif kind == "nonlinear":
        own = np.concatenate([own, (own**2).sum(axis=2, keepdims=True)], axis=2)
    return own.astype(np.float32)


def bits(rng: np.random.Generator, design: str, n: int, runs: int, share: float) -> np.ndarray:
    if design == "literal":
        return np.broadcast_to(np.arange(runs) % 2 == 0, (n, runs)).copy()
    if design == "shared":
        return shared_inclusion(rng, n, runs, share)
    return rng.random((n, runs)) < share


@pytest.mark.parametrize("kind", ["gaussian", "heavy tails", "ties", "rare", "nonlinear"])
@pytest.mark.parametrize(
    ("design", "runs", "share"), [("balanced", 200, 0.5), ("shared", 1200, 0.05), ("literal", 200, 0.5)]
)
def test_documents_that_leak_nothing_have_valid_p_values(kind: str, design: str, runs: int, share: float) -> None:
    """In batches with a common part of their own, so that rates average over it."""
    rng = np.random.default_rng([len(kind), len(design), runs])
    log10_p, distance = [], []
    for _ in range(60):
        n = DOCUMENTS // 60
        inclusion = bits(rng, design, n, runs, share)
        found = learned_tests(null_features(rng, kind, n, runs), inclusion, LEARNERS)
        log10_p.append(found.log10_p)
        distance.append(distance_band(found.distance.max(axis=1), found.n_with, found.n_without, 0.05 / 4)[0] > 0)
    p = 10 ** np.concatenate(log10_p)
    for level in (0.05, 0.001):
        rates = (p <= level).mean(axis=0)
        print(f"{kind}, {design}: p <= {level}:", dict(zip(LEARNERS, rates.round(5).tolist(), strict=True)))
        # By the binomial law (a normal one is too narrow for 6 expected); 120 rates are compared in all.
        assert (rates <= binom.ppf(1 - 1e-5, DOCUMENTS, level) / DOCUMENTS).all()
    wrong = np.concatenate(distance).mean()
    print("lower end of a 95 % band above the true advantage 0:", wrong)
    assert wrong <= 0.05
    if kind in ("gaussian", "heavy tails", "nonlinear"):
        # Not vacuous: short of 0.05 by the coarse law of folds of some 40 runs.
        assert ((p <= 0.05).mean(axis=0) > 0.008).all()


def test_the_boosted_learner_has_valid_p_values() -> None:
    rng = np.random.default_rng(5)
    inclusion = bits(rng, "balanced", 150, 150, 0.5)
    found = learned_tests(null_features(rng, "ties", 150, 150), inclusion, [BOOSTED])
    rate = float((found.log10_p <= np.log10(0.05)).mean())
    print("boosted, ties: p <= 0.05:", rate)
    assert rate <= binom.ppf(1 - 1e-5, 150, 0.05) / 150


@pytest.mark.parametrize("kind", ["gaussian", "heavy tails", "ties"])
@pytest.mark.parametrize(("design", "runs", "share"), [("balanced", 200, 0.5), ("shared", 600, 0.05)])
def test_the_filter_on_raw_announcements_has_valid_p_values(
    kind: str, design: str, runs: int, share: float
) -> None:
    """Announcements hold five documents, and nothing of the others; in batches, each with runs of its own."""
    rng = np.random.default_rng([len(kind), len(design), runs, 1])
    n, log10_p, wrong = 100, [], []
    for _ in range(60):
        inclusion = bits(rng, design, n + 5, runs, share)
        announced = null_features(rng, kind, 1, runs, 40)[0]
        announced += inclusion[n:].T @ rng.normal(size=(5, announced.shape[1]))
        found = raw_tests(gram_of_runs(announced), inclusion)
        if design == "balanced":  # bits of documents are independent: the five say nothing of the others
            log10_p.append(found.log10_p[:n, 0])
            arms = found.n_with[:n], found.n_without[:n]
            wrong.append(distance_band(found.distance[:n, 0], *arms, 0.05)[0] > 0)
            continue
        # A fixed party size ties bits together, so that a document outside says that others are in: none leaks.
        blind = raw_tests(gram_of_runs(null_features(rng, kind, 1, runs, 40)[0]), inclusion[:n])
        log10_p.append(blind.log10_p[:, 0])
        wrong.append(distance_band(blind.distance[:, 0], blind.n_with, blind.n_without, 0.05)[0] > 0)
    p = 10 ** np.concatenate(log10_p)
    for level in (0.05, 0.001):
        rate = float((p <= level).mean())
        print(f"raw, {kind}, {design}: p <= {level}: {rate:.5f}")
        assert rate <= binom.ppf(1 - 1e-5, len(p), level) / len(p)
    print("lower end of a 95 % band above the true advantage 0:", np.concatenate(wrong).mean())
    assert np.concatenate(wrong).mean() <= 0.05
    if kind == "gaussian":
        assert (p <= 0.05).mean() > 0.008  # not vacuous


def test_bands_of_the_filter_on_raw_announcements_hold_below_the_best_attack() -> None:
    """One direction of 30 tells the arms apart; its advantage bounds every filter's."""
    rng = np.random.default_rng(11)
    best = 2 * norm.cdf(0.6) - 1
    above, measured = [], []
    for _ in range(300):
        inclusion = rng.random((1, 600)) < 0.4
        announced = rng.normal(size=(600, 30))
        announced[:, 0] += 1.2 * inclusion[0]
        found = raw_tests(gram_of_runs(announced), inclusion)
        above.append(distance_band(found.distance[:, 0], found.n_with, found.n_without, 0.05)[0] > best)
        measured.append(found.distance[0, 0])
    print(f"best D {best:.3f}, measured {np.mean(measured):.3f}; band wrong {np.mean(above):.4f}")
    assert np.mean(above) <= 0.05
    assert best - 0.1 < np.mean(measured) < best + 0.01


def test_testing_where_one_trained_would_be_wrong() -> None:
    """Not vacuous: the same learner on its own training runs finds leaks everywhere."""
    rng = np.random.default_rng(6)
    inclusion = bits(rng, "balanced", 200, 200, 0.5)
    features = null_features(rng, "gaussian", 200, 200)
    every = np.arange(200)
    framed = column_standards(features, every)
    own = score(features, every, framed, fit(fold_moments(features, inclusion, every, framed), "lda"))
    rate = float((ks_table(own, inclusion).log10_p <= np.log10(0.05)).mean())
    print("p <= 0.05 on the training runs themselves:", rate)
    assert rate > 0.4


def gaussians(rng: np.random.Generator, p: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance with the document, covariance without it (its mean is 0)."""
    a, b = rng.normal(size=(2, p, p)) / np.sqrt(p)
    without = a @ a.T + 0.5 * np.eye(p)
    held = 0.7 * without + 0.3 * (b @ b.T + 0.5 * np.eye(p))
    mean = rng.normal(size=p)
    return mean / np.sqrt(mean @ np.linalg.solve(without, mean)), held, without


@pytest.mark.parametrize(("runs", "share", "n"), [(800, 0.5, 200), (6700, 0.03, 60)], ids=["400/400", "200/6500"])
def test_learners_come_near_the_best_attack(runs: int, share: float, n: int) -> None:
    """Gaussians of unequal covariance, 10 columns: the likelihood ratio's advantage is the total variation."""
    rng = np.random.default_rng(7)
    mean, held, without = gaussians(rng, 10)
    inclusion = rng.random((n, runs)) < share
    for size in (0.3, 0.6, 1.2):
        shift = size * mean
        roots = np.linalg.cholesky(held), np.linalg.cholesky(without)
        draws = rng.normal(size=(n, runs, 10))
        features = np.where(inclusion[..., None], draws @ roots[0].T + shift, draws @ roots[1].T).astype(
            np.float32
        )
        sample = rng.normal(size=(2, 100_000, 10))
        cases = sample[0] @ roots[0].T + shift, sample[1] @ roots[1].T
        rates = [
            np.mean(
                multivariate_normal(shift, held).logpdf(x) > multivariate_normal(np.zeros(10), without).logpdf(x)
            )
            for x in cases
        ]
        best = float(rates[0] - rates[1])
        found = learned_tests(features, inclusion, LEARNERS)
        measured = np.median(found.distance, axis=0).round(3).tolist()
        print(f"{runs} runs, shift {size}: best D {best:.3f}, learned", dict(zip(LEARNERS, measured, strict=True)))
        print("  median log10 p", np.median(found.log10_p, axis=0).round(1).tolist())
        low, _ = distance_band(found.distance[:, 2], found.n_with, found.n_without, 0.05)
        assert (low > best + 0.005).mean() <= 0.05  # a lower bound, the best attack included
        # Measured 0.17-0.2 below at shift 0.3, where 10 means and 110 covariances are learnt from some 100 runs.
        assert np.median(found.distance[:, 2]) > best - 0.2
        if size == 1.2:
            assert np.median(found.distance[:, 2]) > best - 0.1
            assert np.median(found.log10_p[:, 2]) < -20


def test_going_forward_beats_what_holds_under_any_dependence() -> None:
    """Why the folds are tested in order: twice the smaller p of two crossed halves has less power."""
    rng = np.random.default_rng(8)
    inclusion = rng.random((200, 400)) < 0.5
    features = (rng.normal(size=(200, 400, 8)) + 0.4 * inclusion[..., None]).astype(np.float32)
    halves = folds_of(400, 2)
    crossed = []
    for train, test in (halves, halves[::-1]):
        framed = column_standards(features, train)
        rule = fit(fold_moments(features, inclusion, train, framed), "lda")
        crossed.append(ks_table(score(features, test, framed, rule), inclusion[:, test]).log10_p)
    either = np.minimum(np.min(crossed, axis=0) + np.log10(2), 0)
    forward = {k: learned_tests(features, inclusion, ["lda"], k).log10_p[:, 0] for k in (2, 3, 5, 8, 12)}
    medians = {k: round(float(np.median(v)), 2) for k, v in forward.items()}
    print("median log10 p: forward by folds", medians, "- crossed halves", round(float(np.median(either)), 2))
    level = -14
    power = {k: float((v <= level).mean()) for k, v in forward.items()}
    print("power at 1e-14: forward", power, "- crossed", float((either <= level).mean()))
    assert power[5] > (either <= level).mean() + 0.1
    assert medians[5] < medians[2]
