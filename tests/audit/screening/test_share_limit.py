"""The limit of a share, against something slower or older."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from ksdp.audit.verdicts.multiplicity import share_upper_limit


@pytest.mark.parametrize(("found", "drawn"), [(0, 30), (3, 200), (17, 20)])
def test_of_a_large_population_it_is_clopper_and_pearsons(found: int, drawn: int) -> None:
    interval = binomtest(found, drawn, alternative="less").proportion_ci(0.99, method="exact")
    limit = share_upper_limit(found, drawn, 0.01, 2_000_000)
    assert limit == pytest.approx(interval.high, abs=1e-4)
    assert share_upper_limit(found, drawn, 0.01, drawn + 5) < interval.high


def test_the_limit_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    population, truly, drawn, level = 300, 24, 60, 0.1
    found = rng.hypergeometric(truly, population - truly, drawn, size=4000)
    limits = {int(f): share_upper_limit(int(f), drawn, level, population) for f in np.unique(found)}
    missed = np.mean([limits[int(f)] < truly / population for f in found])
    assert 0.02 < missed <= level + 0.015


@pytest.mark.parametrize(
    ("found", "drawn", "level", "population"),
    [(-1, 5, 0.05, 9), (6, 5, 0.05, 9), (0, 0, 0.05, 9), (1, 5, 1.0, 9), (1, 5, 0.5, 4)],
)
def test_no_limit(found: int, drawn: int, level: float, population: int) -> None:
    with pytest.raises(ValueError, match="found <= drawn <= population"):
        share_upper_limit(found, drawn, level, population)
