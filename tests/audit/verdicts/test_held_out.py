from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp, norm

from ksdp.audit.verdicts.held_out import held_out_advantage


def replays(shift: float, audits: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(held-out D, largest D) of audits of one document: three statistics, the first of which moves by `shift`."""
    rng = np.random.default_rng(seed)
    held = np.arange(200) < 80
    ours, largest = [], []
    for _ in range(audits):
        values = rng.normal(size=(3, 200))
        values[0, held] += shift
        ours.append(held_out_advantage(values, held))
        largest.append(max(ks_2samp(row[held], row[~held]).statistic for row in values))
    return np.array(ours), np.array(largest)


def test_where_nothing_leaks_it_is_zero_on_average_and_d_is_not() -> None:
    ours, largest = replays(0.0, 400, 5)
    assert abs(ours.mean()) < 4 * ours.std() / 20
    assert largest.mean() > 0.15


@pytest.mark.parametrize("shift", [0.3, 1.0, 2.0])
def test_it_is_never_above_the_true_advantage_on_average_and_near_it(shift: float) -> None:
    true = 2 * norm.cdf(shift / 2) - 1
    ours, largest = replays(shift, 400, 6)
    assert ours.mean() < true + 4 * ours.std() / 20
    assert ours.mean() > true - 0.12
    assert largest.mean() > true + 0.02


def test_a_leak_to_one_side_is_found_whatever_the_side_and_ties_are_no_thresholds() -> None:
    held = np.arange(40) % 2 == 0
    values = np.where(held, 1.0, 2.0)[None]
    assert held_out_advantage(values, held) == held_out_advantage(-values, held) == 1.0
    assert held_out_advantage(np.zeros((2, 40)), held) == 0.0
    assert np.isnan(held_out_advantage(values, np.arange(40) == 0))
