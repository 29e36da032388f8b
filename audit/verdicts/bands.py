"""Confidence bands for D that hold whatever the two distributions are.

With F, G the true distribution functions and F_m, G_n the measured ones, D = sup |F - G| is above the measured one
by t only if F - G at the point where it is largest is above F_m - G_n there by t: two means of bounded variables,
so by Hoeffding's inequality with probability at most exp(-2 N t^2), N = m n / (m + n). The measured one is above D
by t with probability at most 2.4 exp(-2 N t^2), whatever D is (`ksdp.audit.verdicts.margin`, with c = D). The
half-width is the t at which both together are the level. (The law of equal distributions would be valid only where
they are equal, which is not what a band is for.)

Reference: Hoeffding (1963), https://doi.org/10.1080/01621459.1963.10500830
"""

from __future__ import annotations

import math

import numpy as np

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.verdicts.binomial_gap import LIKELY
from ksdp.audit.verdicts.margin import SIDES


def band_width(n_with: Ints | Floats, n_without: Ints | Floats, level: float) -> Floats:
    """Half-width of the band for D: P(|measured - true| <= width) >= 1 - level, any distributions.

    Parameters
    ----------
    n_with, n_without : shape (rows,)
        Sizes of the arms; infinite width where one is empty.
    level : float in (0, 1)
        Divide it beforehand by the number of bands that must hold together.

    Examples
    --------
    >>> band_width(np.array([200]), np.array([6500]), 0.05).round(3)
    array([0.104])
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    m, n = np.asarray(n_with, dtype=np.float64), np.asarray(n_without, dtype=np.float64)
    depth = max(math.log((SIDES + 1) / level), math.log(SIDES / LIKELY))
    with np.errstate(divide="ignore"):
        return np.asarray(np.sqrt(depth * (1 / m + 1 / n) / 2))


def distance_band(distance: Floats, n_with: Ints, n_without: Ints, level: float) -> tuple[Floats, Floats]:
    """Return (low, high), clipped to [0, 1]; (0, 1) where an arm is empty."""
    width = band_width(n_with, n_without, level)
    known = np.isfinite(width)
    low = np.where(known, np.clip(distance - width, 0, 1), 0.0)
    high = np.where(known, np.clip(distance + width, 0, 1), 1.0)
    return low, high
