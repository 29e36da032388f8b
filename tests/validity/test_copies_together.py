"""Copies tested together: levels at the margin, coverage of bands, and what they gain over each copy by itself.

Values depend on how many of the copies a run holds, in ways whose D is known: every replay draws runs, counts
copies and thins as an audit does.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from ksdp.audit.decision_spec import DecisionSpec
from ksdp.audit.verdicts.bands import band_width
from ksdp.audit.verdicts.copies import CountLaws, count_laws
from ksdp.audit.verdicts.count_arms import CountTests, thinning
from ksdp.audit.verdicts.ks import ks_table

pytestmark = pytest.mark.validity

REPLAYS = 1000
LEVEL = 0.05
MOST = math.ceil(REPLAYS * LEVEL + 3 * math.sqrt(REPLAYS * LEVEL * (1 - LEVEL)))
DOCUMENTS, SIZE, RUNS = 2000, 60, 3000
GRID = np.linspace(-12, 30, 200_001)


def rising(rng: np.random.Generator, held: np.ndarray) -> np.ndarray:
    """A normal that rises with the number of copies."""
    return rng.normal(size=held.shape) + 0.9 * held


def plain(rng: np.random.Generator, held: np.ndarray) -> np.ndarray:
    """The number itself: all that can be told."""
    return held.astype(np.float64)


def any_of_them(rng: np.random.Generator, held: np.ndarray) -> np.ndarray:
    """Whether any is there, now and then."""
    return ((held > 0) & (rng.random(held.shape) < 0.8)).astype(np.float64)


def law_of(look: Callable[..., np.ndarray], copies: int) -> np.ndarray:
    """F_j on the grid, one row a number of copies, in closed form."""
    from scipy.special import ndtr

    if look is rising:
        return np.stack([ndtr(GRID - 0.9 * j) for j in range(copies + 1)])
    if look is plain:
        return np.stack([(j <= GRID).astype(float) for j in range(copies + 1)])
    return np.stack(
        [np.where(GRID < 0, 0.0, np.where(GRID < 1, 1 - 0.8 * (j > 0), 1.0)) for j in range(copies + 1)]
    )


def true_d(look: Callable[..., np.ndarray], laws: CountLaws, copies: int) -> float:
    return float(np.abs((laws.held - laws.left_out) @ law_of(look, copies)).max())


def replay(rng: np.random.Generator, look: Callable[..., np.ndarray], laws: CountLaws, copies: int) -> CountTests:
    """One audit: how many copies each run holds, what it shows, and the tests of all copies together."""
    held = rng.hypergeometric(copies, DOCUMENTS - copies, SIZE, size=RUNS)
    values = look(rng, held)
    found = thinning(laws)
    block = np.repeat(rng.random(RUNS // 50) < 0.6, 50)  # blocks of which some copy has all values
    many, few = found.arms(held, rng.random(RUNS), block)
    taken = many | few
    distance = ks_table(np.ascontiguousarray(values[None, taken]), many[None, taken]).distance
    return CountTests(
        rows=np.array([0]),
        copies=np.array([copies]),
        distance=found.told * np.reshape(distance, (1, 1)),
        told=np.array([found.told]),
        n_many=np.array([many.sum()]),
        n_few=np.array([few.sum()]),
    )


@pytest.mark.parametrize("copies", [8, 40, 120])
@pytest.mark.parametrize("look", [rising, plain, any_of_them])
def test_levels_at_the_margin_and_coverage(look: Callable[..., np.ndarray], copies: int) -> None:
    laws = count_laws(copies, DOCUMENTS, SIZE)
    truth = true_d(look, laws, copies)
    assert truth > 0.015
    rule = DecisionSpec(margin=truth)
    above = below = missed = 0
    for seed in range(REPLAYS):
        tests = replay(np.random.default_rng([copies, seed]), look, laws, copies)
        above += tests.log10_above(rule)[0, 0] <= math.log10(LEVEL)
        below += tests.log10_below(rule)[0, 0] <= math.log10(LEVEL)
        low, high = tests.bands(LEVEL)
        missed += not low[0, 0] <= truth <= high[0, 0]
    print(f"{look.__name__} {copies} copies, D {truth:.3f}: above {above}, below {below}, missed {missed}")
    assert max(above, below, missed) <= MOST


@pytest.mark.parametrize(("copies", "least"), [(8, 1.2), (40, 3.0), (120, 6.0)])
def test_bands_are_narrower_than_a_copys_own_and_errors_smaller(copies: int, least: float) -> None:
    """By the stated factor, beside arms of a copy's own with all runs; and so is what is really missed."""
    laws = count_laws(copies, DOCUMENTS, SIZE)
    truth = true_d(rising, laws, copies)
    alone, together, widths = [], [], []
    for seed in range(200):
        rng = np.random.default_rng([copies, seed, 1])
        held = rng.hypergeometric(copies, DOCUMENTS - copies, SIZE, size=RUNS)
        mine = rng.random(RUNS) < held / copies  # one of them, given how many are in
        own = ks_table(rising(rng, held)[None], mine[None]).distance
        alone.append(own[0] - truth)
        tests = replay(rng, rising, laws, copies)
        together.append(tests.distance[0, 0] - truth)
        width = band_width(np.array([mine.sum()]), np.array([(~mine).sum()]), 0.01)[0]
        low, high = tests.bands(0.01)
        widths.append(2 * width / (high[0, 0] - low[0, 0]))
    gain = np.std(alone) / np.std(together)
    print(f"{copies} copies: bands {np.median(widths):.1f} times narrower, errors {gain:.1f} times smaller")
    assert np.median(widths) >= least
    assert gain >= 0.7 * least
