"""The least favourable pair of "above the margin", counted path by path, and the bound that is used in its place.

A share c of the runs with the document lies below all others, a share c of those without it above all others, and
between them both are one law: given how many lie outside, every order of what lies between is equally likely.
"""

import functools
import itertools
import math

import numpy as np
import pytest
from numba import njit
from scipy.stats import binom

from ksdp.audit.verdicts.margins import over_log10_p

pytestmark = pytest.mark.validity

GAPS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)
FINE = tuple(np.arange(200) / 200)


@njit(cache=True)
def _reached(m: int, n: int, least: int, low: tuple[int, int], of: tuple[np.ndarray, np.ndarray]) -> float:
    """P(n i - m j >= least somewhere on the path), from (a, 0) to (m, n - b), a and b binomial."""
    total = 0.0
    chance = np.zeros(m + 1)
    for at in range(len(of[1])):
        last = n - low[1] - at
        for j in range(last, -1, -1):
            for i in range(m, -1, -1):
                left = m - i + last - j
                if n * i - m * j >= least:
                    chance[i] = 1.0
                elif left == 0:
                    chance[i] = 0.0
                else:
                    right = (m - i) * chance[i + 1] if i < m else 0.0
                    chance[i] = (right + ((last - j) * chance[i] if j < last else 0.0)) / left
        total += of[1][at] * (of[0] * chance[low[0] : low[0] + len(of[0])]).sum()
    return total


@functools.cache
def outside(runs: int, gap: float) -> tuple[int, np.ndarray]:
    """How many lie outside, from the fewest on, with their chances; what lies beyond 1e-13 is left out."""
    first = max(int(binom.ppf(1e-13, runs, gap)), 0)
    return first, binom.pmf(np.arange(first, int(binom.isf(1e-13, runs, gap)) + 1), runs, gap)


def flat_tail(m: int, n: int, gap: float, least: int) -> float:
    """P(sup (F_m - G_n) >= least / (m n)) for the flat pair."""
    (a, of_a), (b, of_b) = outside(m, gap), outside(n, gap)
    return _reached(m, n, least, (a, b), (of_a, of_b))


def largest_ratio(m: int, n: int, gaps: tuple[float, ...], most: int) -> float:
    """Of the chance of both signs to the bound, over distances that can be measured; 0 where all are called 1."""
    steps = np.unique([i * n - j * m for i in range(m + 1) for j in range(n + 1)])
    worst = 0.0
    for gap in gaps:
        over = steps / (m * n) - gap
        log10_p = over_log10_p(over, np.full(len(steps), m), np.full(len(steps), n))
        asked = np.flatnonzero((log10_p < 0) & (log10_p > -14))
        if len(asked) > most:
            asked = asked[np.linspace(0, len(asked) - 1, most).astype(int)]
        for k in asked:
            both = flat_tail(m, n, gap, int(steps[k])) + flat_tail(n, m, gap, int(steps[k]))
            worst = max(worst, both / 10 ** log10_p[k])
    return worst


def test_the_count_is_what_is_drawn() -> None:
    rng = np.random.default_rng(1)
    m, n, gap, replays = 12, 20, 0.2, 40_000
    held = np.where(rng.random((replays, m)) < gap, -1.0, rng.random((replays, m)))
    free = np.where(rng.random((replays, n)) < gap, 2.0, rng.random((replays, n)))
    at = np.concatenate([held, free], axis=1)
    apart = (held[:, None] <= at[..., None]).mean(axis=2) - (free[:, None] <= at[..., None]).mean(axis=2)
    for least in (90, 120, 150):
        share = (apart.max(axis=1) * m * n >= least - 1e-6).mean()
        assert share == pytest.approx(flat_tail(m, n, gap, least), abs=5 * math.sqrt(0.25 / replays))


def test_the_bound_holds_for_all_small_arms() -> None:
    ratios = {}
    for m, n in itertools.combinations_with_replacement(range(1, 17), 2):
        gaps = FINE if m <= 6 and n <= 8 else GAPS
        ratios[m, n] = largest_ratio(m, n, gaps, 40)
    worst = max(ratios, key=ratios.__getitem__)
    print(f"largest ratio to the bound: {ratios[worst]:.3f}, arms {worst}")
    assert ratios[worst] <= 1


@pytest.mark.parametrize(
    ("m", "n"),
    [
        (20, 20),
        (40, 40),
        (100, 100),
        (300, 300),
        (20, 40),
        (40, 120),
        (25, 100),
        (100, 150),
        (60, 61),
        (200, 500),
        (9, 900),
    ],
)
def test_the_bound_holds_for_larger_arms(m: int, n: int) -> None:
    ratio = largest_ratio(m, n, (0.0, 0.001, 0.02, 0.1, 0.2), 8)
    print(f"arms {m}, {n}: largest ratio to the bound {ratio:.3f}")
    assert 0.3 < ratio <= 1
