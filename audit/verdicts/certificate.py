"""A bound on the advantage of *every* attack, where noise of known size is added to what is announced.

Take a run with document x and one without it that has the same other documents, and let y and y' be what the
two would announce without noise. N(y, Sigma) and N(y', Sigma) have total variation 2 Phi(|Sigma^(-1/2) (y -
y')| / 2) - 1, and no attack on this pair has a larger TPR - FPR. The laws of all runs with x and of all runs
without it are mixtures of such pairs, and total variation is jointly convex: so the *mean* over pairs bounds
the advantage of every attack, those that nobody has thought of included. It holds whatever the coupling of the
pairs, for any post-processing of the noisy announcement, and on average also against somebody who knows all
other documents. Sigma must be public and fixed before the run: where it depends on the data, its size is a
channel that this does not count.

The mean is estimated from independent pairs. Two bounds share the error: empirical Bernstein (Maurer & Pontil
2009, https://arxiv.org/abs/0907.3740, theorem 4), good where the pairs are alike, and Chernoff's for means of
values in [0, 1] (Hoeffding 1963, https://doi.org/10.1080/01621459.1963.10500830, equation 2.1), good near 0.
Over documents the level is divided, so that all bounds hold together.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, rel_entr

__all__ = ["certified_bound", "knows_all_others", "pair_advantage"]

Floats = NDArray[np.float64]

_STEPS = 60


def pair_advantage(distance: NDArray[np.floating] | float) -> Floats:
    """Total variation of two normals of one covariance whose means are this far apart, in standard deviations.

    Examples
    --------
    >>> pair_advantage(np.array([0.0, 0.507, np.inf])).round(3)
    array([0. , 0.2, 1. ])
    """
    return np.asarray(2 * ndtr(np.asarray(distance, dtype=np.float64) / 2) - 1, dtype=np.float64)


def knows_all_others(largest_distance: float | None) -> float:
    """The advantage of whoever knows all other documents of the run: exact for a fixed shift, 1 without noise.

    Parameters
    ----------
    largest_distance : float or None
        Of what is announced with and without the document, at its largest over databases, in standard deviations
        of noise of public, fixed size; None where there is no noise.
    """
    return 1.0 if largest_distance is None else float(pair_advantage(largest_distance))


def certified_bound(advantages: Floats, level: float, documents: int) -> Floats:
    """Upper bounds of the mean advantage of each document's pairs, shape (n_documents,).

    All of them hold together with probability at least 1 - level.

    Parameters
    ----------
    advantages : shape (n_documents, n_pairs)
        Of independent pairs of runs, each in [0, 1].
    level : float in (0, 1)
    documents : int
        All that are certified together; at least those that are given here.

    Raises
    ------
    ValueError
        If an advantage is outside [0, 1], there are fewer than two pairs, or another argument is out of range.

    Examples
    --------
    >>> rng = np.random.default_rng(7)
    >>> certified_bound(0.1 + 0.03 * rng.uniform(-1, 1, (1, 800)), 0.05, 1).round(3)
    array([0.114])
    """
    found = np.asarray(advantages, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] < 2:
        raise ValueError(f"`advantages` must have two pairs of each document at least; got shape {found.shape}.")
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError("`advantages` must be in [0, 1].")
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    if documents < len(found):
        raise ValueError(f"`documents` must be at least {len(found)}; got {documents}.")
    pairs, each = found.shape[1], level / documents / 2
    mean = found.mean(axis=1)
    bernstein = mean + np.sqrt(2 * found.var(axis=1, ddof=1) * math.log(2 / each) / pairs)
    bernstein += 7 * math.log(2 / each) / (3 * (pairs - 1))
    return np.asarray(np.minimum(np.minimum(bernstein, _chernoff(mean, math.log(1 / each) / pairs)), 1.0))


def _chernoff(mean: Floats, room: float) -> Floats:
    """The largest u with KL(mean, u) <= room, to the safe side, by bisection."""
    low, high = mean.copy(), np.ones_like(mean)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        inside = rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle) <= room
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return high
