"""The limit of a share, against something slower or older."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ksdp.audit.screening.rounds import fewest_drawn, most_allowed
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


def test_how_many_may_be_found() -> None:
    allowed = most_allowed(200, 0.01, 5000, 0.05)
    assert allowed is not None
    assert share_upper_limit(allowed, 200, 0.01, 5000) <= 0.05 < share_upper_limit(allowed + 1, 200, 0.01, 5000)
    assert most_allowed(20, 0.01, 5000, 0.05) is None
    assert most_allowed(20, 0.01, 20, 0.05) == 1  # everybody was asked


@given(population=st.integers(1, 80), level=st.floats(1e-4, 0.5), quota=st.floats(0.0, 1.0))
def test_the_fewest_that_can_show_a_share(population: int, level: float, quota: float) -> None:
    scanned = next(n for n in range(1, population + 1) if most_allowed(n, level, population, quota) is not None)
    assert fewest_drawn(level, population, quota) == scanned
