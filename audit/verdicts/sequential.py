"""Looking at an audit while it runs, without losing its level.

- **Planned looks**: a spending function says how much of the level is spent by the time that a part of the runs is
  done; each look decides, with `decide`, at what was newly spent. By the union bound all looks together keep the
  level, for rejections (any correction) and for bands alike. Exact Kolmogorov-Smirnov p-values at each look;
  conservative, because looks share runs and the union bound ignores that. The looks' shares of the runs are
  planned: they must not depend on what was seen.
- **Any moment**: a band around D that holds at all numbers of runs at once, so that one may stop for any reason.
  Two one-sample bands of Howard & Ramdas; nearly twice as wide as a band for one moment (level 0.05), so prefer
  planned looks for fewer than some thousands of them.

References: Lan & DeMets (1983), https://doi.org/10.1093/biomet/70.3.659 (spending functions);
Howard & Ramdas (2022), https://doi.org/10.3150/21-BEJ1388, theorem 2 (the band).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ksdp.audit.array_types import Floats

Spending = Literal["obrien-fleming", "pocock"]


def spent(fraction: Floats | float, level: float, spending: Spending = "obrien-fleming") -> Floats:
    """Level spent when a fraction of the runs is done; all of it at 1, nothing at 0.

    O'Brien-Fleming-like, 2 (1 - Phi(z / sqrt(t))) with z the upper level / 2 quantile, keeps nearly everything for
    the end; Pocock-like, level ln(1 + (e - 1) t), spends evenly.

    Parameters
    ----------
    fraction : in [0, 1]
    level : float in (0, 1)
    spending : {"obrien-fleming", "pocock"}
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    done = np.asarray(fraction, dtype=np.float64)
    if not ((done >= 0) & (done <= 1)).all():
        raise ValueError("`fraction` must be in [0, 1].")
    if spending == "obrien-fleming":
        with np.errstate(divide="ignore"):
            return np.asarray(2 * ndtr(ndtri(level / 2) / np.sqrt(done)))
    if spending == "pocock":
        return np.asarray(level * np.log1p((math.e - 1) * done))
    raise ValueError(f"`spending` must be obrien-fleming or pocock; got {spending!r}.")


def look_levels(
    fractions: Sequence[float], level: float, spending: Spending = "obrien-fleming"
) -> NDArray[np.float64]:
    """The level at which each planned look decides; they add up to at most `level`.

    Parameters
    ----------
    fractions : ascending, in (0, 1]
        Part of all runs that is done at each look. Smaller arms grow at the same rate.
    level : float in (0, 1)
    spending : {"obrien-fleming", "pocock"}

    Examples
    --------
    >>> look_levels([0.25, 0.5, 1.0], 0.05).round(4)
    array([0.0001, 0.0055, 0.0444])
    >>> look_levels([0.25, 0.5, 1.0], 0.05, "pocock").round(4)
    array([0.0179, 0.0131, 0.019 ])
    """
    done = np.asarray(fractions, dtype=np.float64)
    if len(done) == 0 or not (np.diff(done, prepend=0.0) > 0).all() or done[-1] > 1:
        raise ValueError("`fractions` must ascend in (0, 1].")
    return np.diff(spent(done, level, spending), prepend=0.0)


def anytime_band_width(
    n_with: NDArray[np.int64], n_without: NDArray[np.int64], level: float, first: int = 32
) -> Floats:
    """Half-width of a band for D that holds at all numbers of runs together, with probability 1 - level.

    0.85 sqrt((ln(1 + ln(n / first)) + 0.8 ln(1612 / a)) / n) for each arm, at a = level / 2; infinite while an arm
    holds fewer than `first` runs.

    Parameters
    ----------
    n_with, n_without : int, shape (rows,)
    level : float in (0, 1)
        Divide it beforehand by the number of bands that must hold together.
    first : int
        Runs of an arm before which nobody looks; fixed beforehand.

    Examples
    --------
    >>> anytime_band_width(np.array([200, 2000]), np.array([6500, 65000]), 0.05).round(3)
    array([0.224, 0.073])
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    if first < 1:
        raise ValueError(f"`first` must be at least 1; got {first}.")
    return _anytime_width(n_with, n_without, np.array(math.log(2 * _HOWARD_RAMDAS / level)), first)


def anytime_log10_p(
    distance: Floats, n_with: NDArray[np.int64], n_without: NDArray[np.int64], first: int = 32
) -> Floats:
    """Log10 of a p-value that holds at all numbers of runs together: the level whose band just leaves out 0.

    P(p <= a at any number of runs) <= a where both arms have one distribution. Small p-values are those of the
    band, so larger than the exact ones by far: the price of stopping at will.

    Parameters
    ----------
    distance : in [0, 1], NaN where an arm is empty
    n_with, n_without : int, of the same shape
    first : int
        As for `anytime_band_width`.

    Examples
    --------
    >>> anytime_log10_p(np.array([0.224, 0.5]), np.array([200, 200]), np.array([6500, 6500])).round(1)
    array([ -1.3, -23.1])
    """
    if first < 1:
        raise ValueError(f"`first` must be at least 1; got {first}.")
    measured = np.nan_to_num(np.asarray(distance, dtype=np.float64))
    # The width grows with ln(2 * 1612 / level), so the largest that stays within D is found by halving.
    low = np.full(measured.shape, math.log(2 * _HOWARD_RAMDAS))
    high = low + 2.0 * np.maximum(n_with, n_without) + 1.0
    for _ in range(60):
        middle = (low + high) / 2
        fits = _anytime_width(n_with, n_without, middle, first) <= measured
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return np.asarray((math.log(2 * _HOWARD_RAMDAS) - low) / math.log(10))


_HOWARD_RAMDAS = 1612
"""The constant of their theorem 2."""


def _anytime_width(
    n_with: NDArray[np.int64], n_without: NDArray[np.int64], log_odds: Floats, first: int
) -> Floats:
    """Half-width with ln(2 * 1612 / level) given."""
    total = np.zeros(np.broadcast(n_with, log_odds).shape)
    for arm in (n_with, n_without):
        n = np.maximum(np.asarray(arm, dtype=np.float64), first)
        radius = 0.85 * np.sqrt((np.log1p(np.log(n / first)) + 0.8 * log_odds) / n)
        total = total + np.where(np.asarray(arm) >= first, radius, math.inf)
    return np.asarray(total, dtype=np.float64)
