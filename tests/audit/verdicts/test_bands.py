"""Bands against their formula, and their coverage where the two distributions differ."""

from __future__ import annotations

import numpy as np
import pytest

from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.margins import band_width, distance_band


@pytest.mark.parametrize("level", [0.2, 0.01, 1e-6, 1e-12])
@pytest.mark.parametrize(("n", "m"), [(200, 6500), (500, 500), (20, 50), (2, 3), (223, 1633)])
def test_width_is_below_two_bands_and_above_what_a_known_threshold_needs(n: int, m: int, level: float) -> None:
    got = band_width(np.array([n]), np.array([m]), level)[0]
    splits = np.linspace(1e-4, 1 - 1e-4, 20_001)
    both = np.sqrt(np.log(2 / (level * splits)) / (2 * n)) + np.sqrt(np.log(2 / (level * (1 - splits))) / (2 * m))
    known = np.sqrt(np.log(2 / level) * (n + m) / (2 * n * m))
    assert known < got < both.min()
    assert got < 1.12 * known


def test_an_empty_arm_leaves_everything_open() -> None:
    low, high = distance_band(np.array([0.4]), np.array([0]), np.array([10]), 0.05)
    assert (low[0], high[0]) == (0.0, 1.0)


def test_refuses_a_level_outside_the_open_interval() -> None:
    with pytest.raises(ValueError, match=r"`level` must be in \(0, 1\)"):
        band_width(np.array([5]), np.array([5]), 1.0)


def test_covers_a_known_distance() -> None:
    """Uniform against uniform shifted by 0.3 has D = 0.3."""
    rng = np.random.default_rng(5)
    inclusion = rng.random((2000, 400)) < 0.3
    values = rng.random((2000, 400)) + 0.3 * inclusion
    table = ks_table(values, inclusion)
    low, high = distance_band(table.distance, table.n_with, table.n_without, 0.05)
    assert ((low <= 0.3) & (high >= 0.3)).mean() >= 0.95
