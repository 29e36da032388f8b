"""Confidence bands for D that hold whatever the two distributions are.

Each arm's distribution function lies within e(n, a) = sqrt(ln(2 / a) / (2 n)) of its empirical one with
probability 1 - a (Dvoretzky-Kiefer-Wolfowitz with Massart's constant, exact for every n), so D lies within
e(n_with, a) + e(n_without, b) of the measured one with probability 1 - a - b. The split of the level between
the arms is chosen from their sizes alone. (A single two-sample constant would be valid only where both
distributions are equal, which is not what a band is for.)

Reference: Massart (1990), https://doi.org/10.1214/aop/1176990746.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["band_width", "distance_band"]

Floats = NDArray[np.float64]
_SPLITS = np.linspace(0.02, 0.98, 49)


def band_width(n_with: NDArray[np.int64], n_without: NDArray[np.int64], level: float) -> Floats:
    """Half-width of the band for D: P(|measured - true| <= width) >= 1 - level, any distributions.

    Parameters
    ----------
    n_with, n_without : int, shape (rows,)
        Sizes of the arms; infinite width where one is empty.
    level : float in (0, 1)
        Divide it beforehand by the number of bands that must hold together.

    Examples
    --------
    >>> band_width(np.array([200]), np.array([6500]), 0.05).round(3)
    array([0.119])
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    sizes, back = np.unique(np.stack([n_with, n_without]), axis=1, return_inverse=True)
    first = np.sqrt(np.log(2 / (level * _SPLITS))[:, None] / (2 * np.maximum(sizes[0], 1)))
    second = np.sqrt(np.log(2 / (level * (1 - _SPLITS)))[:, None] / (2 * np.maximum(sizes[1], 1)))
    width = np.where(sizes.min(axis=0) > 0, (first + second).min(axis=0), math.inf)
    return np.asarray(width[back.ravel()], dtype=np.float64)


def distance_band(
    distance: Floats, n_with: NDArray[np.int64], n_without: NDArray[np.int64], level: float
) -> tuple[Floats, Floats]:
    """Return (low, high), clipped to [0, 1]; (0, 1) where an arm is empty."""
    width = band_width(n_with, n_without, level)
    known = np.isfinite(width)
    low = np.where(known, np.clip(distance - width, 0, 1), 0.0)
    high = np.where(known, np.clip(distance + width, 0, 1), 1.0)
    return low, high
