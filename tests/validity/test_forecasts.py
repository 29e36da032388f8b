"""Forecast runs against the runs that simulated audits need. Each test prints the figures that it checks."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.laws import ks_distances, ks_table
from ksdp.audit.verdicts.margins import largest_log10_tail
from ksdp.audit.verdicts.multiplicity import strictest_distance_log10_p
from ksdp.audit.verdicts.power import Leak, _clearing_level, minimal_detectable, runs_for_margin

pytestmark = pytest.mark.validity

RULE = DecisionSpec()
CELLS = 12_000_000
"""Values drawn for each point of a power curve: some 2 % of standard error in runs."""


def draw(rng: np.random.Generator, share: float, runs: int) -> tuple[np.ndarray, np.ndarray]:
    """Bits as in the shared design (each run holds the document with the same chance), and standard normals."""
    documents = int(np.clip(CELLS // runs, 400, 6000))
    return rng.random((documents, runs)) < share, rng.normal(size=(documents, runs))


def runs_needed(rates: list[tuple[int, float]], power: float) -> float:
    """Where a straight line through the probits of the rates reaches the power, in the square root of runs."""
    root = np.sqrt([runs for runs, _ in rates])
    slope, start = np.polyfit(root, ndtri(np.clip([rate for _, rate in rates], 1e-3, 1 - 1e-3)), 1)
    return float(((ndtri(power) - start) / slope) ** 2)


def runs_detecting(share: float, advantage: float, documents: int, statistics: int, leak: Leak = "shift") -> int:
    """The fewest runs whose smallest detectable advantage is no larger, to one in 500."""
    low, high = 8, 10**6
    while high - low > high // 500 + 1:
        runs = (low + high) // 2
        held = round(share * runs)
        found = minimal_detectable(held, runs - held, documents, statistics, RULE, leak=leak)
        low, high = (low, runs) if found <= advantage else (runs, high)
    return high


@pytest.mark.parametrize(
    ("share", "advantage", "documents", "statistics"),
    [(0.5, 0.1, 1, 1), (0.5, 0.2, 1000, 8), (0.2, 0.25, 5000, 4), (0.05, 0.3, 17706, 8), (0.5, 0.4, 100, 2)],
)
def test_runs_that_detect_a_shift(share: float, advantage: float, documents: int, statistics: int) -> None:
    rng = np.random.default_rng(31)
    forecast = runs_detecting(share, advantage, documents, statistics)
    bar = strictest_distance_log10_p(RULE.level, documents, statistics, RULE.error)
    rates = []
    for factor in (0.85, 0.95, 1.05, 1.15):
        runs = round(factor * forecast)
        inclusion, values = draw(rng, share, runs)
        values += 2 * ndtri((1 + advantage) / 2) * inclusion
        rates.append((runs, float((ks_table(values, inclusion).log10_p <= bar).mean())))
    needed = runs_needed(rates, 0.8)
    print(f"D = {advantage}, share {share}: forecast {forecast} runs, simulation {needed:.0f}")
    assert forecast == pytest.approx(needed, rel=0.05)


@pytest.mark.parametrize(
    ("share", "advantage", "documents", "statistics"),
    [(0.5, 0.2, 1, 1), (0.3, 0.3, 1000, 8), (0.1, 0.4, 17706, 8)],
)
def test_runs_that_detect_the_hardest_leak(
    share: float, advantage: float, documents: int, statistics: int
) -> None:
    """An event with the chances (1 + D) / 2 and (1 - D) / 2."""
    rng = np.random.default_rng(33)
    forecast = runs_detecting(share, advantage, documents, statistics, leak="event")
    bar = strictest_distance_log10_p(RULE.level, documents, statistics, RULE.error)
    rates = []
    for factor in (0.85, 0.95, 1.05, 1.15):
        runs = round(factor * forecast)
        inclusion, _ = draw(rng, share, runs)
        event = rng.random(inclusion.shape) < np.where(inclusion, (1 + advantage) / 2, (1 - advantage) / 2)
        rates.append((runs, float((ks_table(event.astype(np.float32), inclusion).log10_p <= bar).mean())))
    needed = runs_needed(rates, 0.8)
    print(f"event of D = {advantage}, share {share}: forecast {forecast} runs, simulation {needed:.0f}")
    assert forecast == pytest.approx(needed, rel=0.05)


@pytest.mark.parametrize(
    ("share", "margin", "documents", "statistics"),
    [(0.5, 0.2, 1, 1), (0.5, 0.3, 1000, 8), (0.2, 0.3, 5000, 4), (0.05, 0.4, 17706, 1)],
)
def test_runs_for_margin(share: float, margin: float, documents: int, statistics: int) -> None:
    rng = np.random.default_rng(32)
    forecast = runs_for_margin(share, margin, documents, statistics, RULE)
    rates = []
    for factor in (0.9, 0.97, 1.03, 1.1):
        runs = round(factor * forecast)
        highest = np.full(1, -np.inf)
        for _ in range(statistics):
            inclusion, values = draw(rng, share, runs)
            held = inclusion.sum(axis=1)
            free = runs - held
            distance = ks_distances(values, inclusion) / np.maximum(held * free, 1)
            highest = np.maximum(highest, largest_log10_tail(distance, held, free, margin))
        rates.append((runs, float(np.mean(highest <= math.log10(_clearing_level(RULE, documents, 0.8))))))
    needed = runs_needed(rates, 0.8)
    print(f"margin {margin}, share {share}: forecast {forecast} runs, simulation {needed:.0f}")
    # The first case is 7.4 % above, on average of six seeds, which differ by 0.4 %.
    assert forecast == pytest.approx(needed, rel=0.09)
