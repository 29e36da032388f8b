"""Confidence bands for D that hold whatever the two distributions are.

With F, G the true distribution functions and F_m, G_n the measured ones, D = sup |F - G| is above the measured one
by t only if F - G at the point where it is largest is above F_m - G_n there by t: two means of bounded variables,
so by Hoeffding's inequality with probability at most exp(-2 t^2 m n / (m + n)). The measured one is above D by t
only if sup (F_m - F) + sup (G - G_n) is at least t, or the same with the signs exchanged: twice the tail of a sum
that `margin.sum_of_suprema_log10_p` bounds by Massart's inequality. The half-width is the t at which both together
are the level. (A single two-sample constant would be valid only where both distributions are equal, which is not
what a band is for; a band of its own for each arm is valid too, and wider: both are rarely large together.)

References: Massart (1990), https://doi.org/10.1214/aop/1176990746; Hoeffding (1963),
https://doi.org/10.1080/01621459.1963.10500830
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.verdicts.margin import sum_of_suprema_log10_p

__all__ = ["band_width", "distance_band"]

Floats = NDArray[np.float64]


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
    array([0.108])
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    sizes, back = np.unique(np.stack([n_with, n_without]), axis=1, return_inverse=True)
    m, n = np.maximum(sizes, 1)
    effective = m * n / (m + n)
    low, high = np.zeros(len(m)), np.sqrt(np.log(2 / level) / 2) * (m**-0.5 + n**-0.5) * 2
    while (high - low).max(initial=0.0) > 1e-12:
        middle = (low + high) / 2
        outside = 10 ** sum_of_suprema_log10_p(middle, m, n) + np.exp(-2 * effective * middle**2)
        low, high = np.where(outside > level, middle, low), np.where(outside > level, high, middle)
    width = np.where(sizes.min(axis=0) > 0, high, math.inf)
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
