"""Shares with noise are whole numbers of steps, and bounded."""

import numpy as np
import pytest
from scipy.stats import kstest

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.privacy.noise import on_grid
from ksdp.protocols.programs.rounds import noised, vetted_noise

BOUND = 2.0**22


def test_the_noise_is_added_in_steps_of_the_grid() -> None:
    share = np.array([[0.1, -3.0], [2.0**21 + 0.3, 0.0]])
    found = noised(share, 0.5, BOUND, vetted_noise)
    assert np.array_equal(on_grid(found.values) - on_grid(share), found.noise), (
        "exactly, also where values are large"
    )
    assert found.noise.dtype == np.int64
    assert np.array_equal(found.values * 2.0**31, np.rint(found.values * 2.0**31))


def test_the_vetted_sampler_has_the_deviation_that_is_asked_for() -> None:
    found = noised(np.zeros(4000), 0.25, BOUND, vetted_noise)
    assert kstest(found.values / 0.25, "norm").pvalue > 1e-4


def test_no_deviation_rounds_only() -> None:
    found = noised(np.array([0.1]), 0.0, BOUND, vetted_noise)
    assert not found.noise.any()
    assert 0 < abs(found.values[0] - 0.1) <= 2.0**-32


@pytest.mark.parametrize(
    ("share", "noise", "message"),
    [
        (5.0, 0.0, "A share has an entry that is not finite, or larger than 4"),
        (np.nan, 0.0, "not finite"),
        (np.inf, 0.0, "not finite"),
        (3.0, 1.5, "A share with noise of deviation 0.5 has an entry larger than 4"),
        (-3.0, 5.0, "A share with noise of deviation 0.5 has an entry larger than 4"),
    ],
)
def test_what_leaves_the_bound_is_refused(share: float, noise: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        noised(np.array([0.0, share]), 0.5, 4.0, lambda shape, deviation: np.full(shape, noise))


def test_noise_too_fine_for_the_grid_is_refused() -> None:
    with pytest.raises(SpecError, match="too small for the grid"):
        noised(np.zeros(2), 1e-9, 4.0, vetted_noise)
