"""The bound of one release, replayed: coverage, power, its controls and the interval of the area."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.mechanisms.released import ReleaseFinding, auc_interval, audit_release, compare_scores

pytestmark = pytest.mark.validity

REPLAYS = 1000


def low(found: ReleaseFinding) -> float:
    return 0.0 if found.bound is None else found.bound.epsilon_low


def corpus(rows: np.ndarray) -> Corpus:
    return Corpus(sp.csr_array(rows), np.arange(len(rows)).astype(np.str_))


@pytest.mark.parametrize(("members", "held_out"), [(60, 60), (50, 150)])
def test_a_release_that_says_nothing_has_no_bound(members: int, held_out: int) -> None:
    wrong = void = 0
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        rows = rng.poisson(0.7, (members + held_out, 20)) * rng.gamma(1.0, 1.0, (members + held_out, 1)) + 0.01
        directions = np.linalg.svd(rng.poisson(0.7, (40, 20)), full_matrices=False)[2][:4]
        found = audit_release({"V": directions}, corpus(rows[:members]), corpus(rows[members:]), rng)
        wrong, void = wrong + (low(found) > 0), void + (found.bound is None)
    print(f"{members} in, {held_out} held out: false bounds {wrong / REPLAYS}, void {void / REPLAYS}")
    assert wrong <= 0.05 * REPLAYS
    assert void <= 0.02 * REPLAYS


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("together", [False, True])
def test_an_epsilon_that_is_kept_is_not_exceeded(epsilon: float, together: bool) -> None:
    """Every bit of membership is told rightly with the odds e^epsilon: to replace one document changes two bits.

    `together`: one coin decides of all documents at once whether their bits are told at all, an odds of e^epsilon
    of any replacement at most; pooled rates of one release are then far from those of the mechanism.
    """
    wrong, bounds = 0, []
    for seed in range(REPLAYS):
        rng = np.random.default_rng(seed)
        bits = np.arange(600) < 300
        right = rng.random(600) < 1 / (1 + np.exp(-epsilon))
        told = np.where(right, bits, ~bits)
        if together and rng.random() < 0.5:
            told = rng.random(600) < 0.5
        bounds.append(low(compare_scores({"told": told.astype(float)}, 300, rng)))
        wrong += bounds[-1] > 2 * epsilon
    print(f"epsilon {2 * epsilon}: median bound {np.median(bounds):.2f}, above it {wrong / REPLAYS}")
    assert wrong <= 0.05 * REPLAYS
    assert together or np.median(bounds) > 0.8 * epsilon


def test_a_planted_leak_is_found() -> None:
    """Of one document in twenty, wholly; and of every one, a little."""
    few = every = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        values = rng.normal(size=2000)
        values[:50] += 6.0
        few += low(compare_scores({"score": values}, 1000, rng)) > 0
        moved = rng.normal(size=2000)
        moved[:1000] += 0.7
        every += low(compare_scores({"score": moved}, 1000, rng)) > 0
    print(f"found: of few documents {few / 200}, of all {every / 200}")
    assert min(few, every) > 0.95 * 200


def test_a_difference_of_the_files_is_no_bound() -> None:
    """Documents that were in are longer by a third, or lie along other directions; the release says nothing."""
    caught = np.zeros(2, np.int64)
    turned = np.diag(np.linspace(0.6, 1.6, 20))
    for seed in range(200):
        rng = np.random.default_rng(seed)
        rows, released = rng.normal(size=(400, 20)), np.linalg.svd(rng.normal(size=(40, 20)))[2][:4]
        for which, change in enumerate((1.33 * np.eye(20), turned)):
            members = corpus(rows[:200] @ change)
            caught[which] += audit_release({"V": released}, members, corpus(rows[200:]), rng).bound is None
    print(f"called void: longer {caught[0] / 200}, turned {caught[1] / 200}")
    assert caught.min() > 0.95 * 200


@pytest.mark.parametrize("area", [0.5, 0.8, 0.97])
@pytest.mark.parametrize("sizes", [(40, 40), (300, 100)])
def test_the_interval_of_the_area_covers(area: float, sizes: tuple[int, int]) -> None:
    rng, covered, apart = np.random.default_rng(1), 0, np.sqrt(2) * norm.ppf(area)
    for _ in range(REPLAYS):
        inside, free = rng.normal(apart, 1, sizes[0]), rng.normal(size=sizes[1])
        found = float(np.mean(inside[:, None] > free[None, :]))
        below, above = auc_interval(found, *sizes)
        covered += below <= area <= above
    print(f"area {area}, {sizes}: covered {covered / REPLAYS}")
    assert covered >= 0.93 * REPLAYS
