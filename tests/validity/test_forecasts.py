"""Forecast runs against the runs that simulated audits need. Each test prints the figures that it checks."""

import math
from collections.abc import Callable

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


def runs_needed(forecast: int, factors: tuple[float, ...], rate: Callable[[int], float]) -> float:
    """Where a straight line through the probits of the rates reaches 0.8, in the square root of runs."""
    runs = [round(factor * forecast) for factor in factors]
    rates = np.clip([rate(each) for each in runs], 1e-3, 1 - 1e-3)
    slope, start = np.polyfit(np.sqrt(runs), ndtri(rates), 1)
    return float(((ndtri(0.8) - start) / slope) ** 2)


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
    ("leak", "share", "advantage", "documents", "statistics"),
    [
        ("shift", 0.5, 0.1, 1, 1),
        ("shift", 0.5, 0.2, 1000, 8),
        ("shift", 0.2, 0.25, 5000, 4),
        ("shift", 0.05, 0.3, 17706, 8),
        ("shift", 0.5, 0.4, 100, 2),
        ("event", 0.5, 0.2, 1, 1),
        ("event", 0.3, 0.3, 1000, 8),
        ("event", 0.1, 0.4, 17706, 8),
    ],
)
def test_runs_that_detect_a_shift_or_the_hardest_leak(
    leak: Leak, share: float, advantage: float, documents: int, statistics: int
) -> None:
    """The hardest is an event with the chances (1 + D) / 2 and (1 - D) / 2."""
    rng = np.random.default_rng({"shift": 31, "event": 33}[leak])
    forecast = runs_detecting(share, advantage, documents, statistics, leak)
    bar = strictest_distance_log10_p(RULE.level, documents, statistics, RULE.error)

    def detected(runs: int) -> float:
        inclusion, values = draw(rng, share, runs)
        values += 2 * ndtri((1 + advantage) / 2) * inclusion
        if leak == "event":
            chance = np.where(inclusion, (1 + advantage) / 2, (1 - advantage) / 2)
            values = (rng.random(inclusion.shape) < chance).astype(np.float32)
        return float((ks_table(values, inclusion).log10_p <= bar).mean())

    needed = runs_needed(forecast, (0.85, 0.95, 1.05, 1.15), detected)
    print(f"{leak} of D = {advantage}, share {share}: forecast {forecast} runs, simulation {needed:.0f}")
    assert forecast == pytest.approx(needed, rel=0.05)


@pytest.mark.parametrize(
    ("share", "margin", "documents", "statistics"),
    [(0.5, 0.2, 1, 1), (0.5, 0.3, 1000, 8), (0.2, 0.3, 5000, 4), (0.05, 0.4, 17706, 1)],
)
def test_runs_for_margin(share: float, margin: float, documents: int, statistics: int) -> None:
    rng = np.random.default_rng(32)
    forecast = runs_for_margin(share, margin, documents, statistics, RULE)

    def cleared(runs: int) -> float:
        highest = np.full(1, -np.inf)
        for _ in range(statistics):
            inclusion, values = draw(rng, share, runs)
            held = inclusion.sum(axis=1)
            free = runs - held
            distance = ks_distances(values, inclusion) / np.maximum(held * free, 1)
            highest = np.maximum(highest, largest_log10_tail(distance, held, free, margin))
        return float(np.mean(highest <= math.log10(_clearing_level(RULE, documents, 0.8))))

    needed = runs_needed(forecast, (0.9, 0.97, 1.03, 1.1), cleared)
    print(f"margin {margin}, share {share}: forecast {forecast} runs, simulation {needed:.0f}")
    # The first case is 7.4 % above, on average of six seeds, which differ by 0.4 %.
    assert forecast == pytest.approx(needed, rel=0.09)
