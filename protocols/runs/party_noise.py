"""What a party of a run, or its server, adds noise to: on the grid of the secure sums, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS, draw, on_grid
from ksdp.audit.numeric.array_types import Floats

NoiseSource = Callable[[tuple[int, ...], float], Floats]
"""Asked for a shape and a deviation, it gives noise in multiples of 2^-31."""
_STEP = 2.0**-FRACTION_BITS


def vetted_noise(shape: tuple[int, ...], deviation: float) -> Floats:
    """Noise by the vetted sampler; what every run uses unless a test injects another source."""
    return draw("discrete", shape, deviation, np.random.default_rng())


@dataclass(frozen=True, eq=False)
class Noised:
    """An array with noise, and the noise."""

    values: Floats
    """Multiples of 2^-31, each exactly a step plus a step of noise."""
    noise: NDArray[np.int64]
    """In steps of 2^-31."""


def noised(share: Floats, deviation: float, bound: float, source: NoiseSource) -> Noised:
    """Round a share to the grid and add noise to it, in whole numbers.

    Parameters
    ----------
    deviation : float
        Of the noise, per entry; 0 adds none.
    bound : float
        Of the share, of the noise, and of both together; at most 2^22.

    Raises
    ------
    InputError
        If something is larger, or not finite.
    SpecError
        If the deviation is too small for the grid.
    """
    array = np.asarray(share, dtype=np.float64)
    _check(array, bound, f"A share has an entry that is not finite, or larger than {bound:g}")
    drawn = source(array.shape, deviation)
    too_large = f"A share with noise of deviation {deviation:.3g} has an entry larger than {bound:g}"
    _check(drawn, bound, too_large)
    noise = on_grid(drawn)
    values = np.asarray((on_grid(array) + noise) * _STEP, dtype=np.float64)
    _check(values, bound, too_large)
    return Noised(values, noise)


def _check(array: Floats, bound: float, what: str) -> None:
    if array.size and not float(np.abs(array).max()) <= bound:  # a NaN is not
        raise InputError(f"{what} (`precision.bound`): the run cannot go on.")
