"""How many runs tests read, and how many must be done for so many to be read: counted run by run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.run_subsampling import EVERY_RUN, Reading


def counted(reading: Reading, done: int, block: int) -> int:
    """One block of each stratum after the early runs, and all of those."""
    return sum(run < reading.early or (run // block) % reading.every == 0 for run in range(done))


@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 3), st.integers(1, 6), st.sampled_from([1, 16]))
def test_read_runs_are_those_that_are_counted(every: int, early: int, strata: int, block: int) -> None:
    whole = every * block
    reading, done = Reading(every, early * whole), strata * whole
    assert reading.runs(done) == counted(reading, done, block)
    assert reading.total(np.array([float(reading.runs(done))])).tolist() == [done]


def test_no_number_of_runs_stays_none() -> None:
    for reading in (EVERY_RUN, Reading(4), Reading(4, 64)):
        assert reading.total(np.array([np.inf])).tolist() == [np.inf]
        assert np.isnan(reading.total(np.array([np.nan]))).all()


def test_arms_and_what_is_measured() -> None:
    reading = Reading(every=4, early=1000)
    assert reading.arms(5000, 0.1) == (500, 1500)
    assert reading.measured(5000, 0.1) == pytest.approx((1000 + 4000 * (0.1 + 0.9 / 4)) / 5000)
    assert EVERY_RUN.all
    assert not reading.all
