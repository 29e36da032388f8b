"""A bound on the advantage of *every* attack, where noise of known size is added to what is announced.

Take a run with document x and one without it that has the same other documents, and let y and y' be what the
two would announce without noise. N(y, Sigma) and N(y', Sigma) have total variation 2 Phi(|Sigma^(-1/2) (y -
y')| / 2) - 1, and no attack on this pair has a larger TPR - FPR. The laws of all runs with x and of all runs
without it are mixtures of such pairs, and total variation is jointly convex: so the *mean* over pairs bounds
the advantage of every attack, those that nobody has thought of included. It holds whatever the coupling of the
pairs, for any post-processing of the noisy announcement, and on average also against somebody who knows all
other documents. Sigma must be public and fixed before the run: where it depends on the data, its size is a
channel that this does not count.

The mean is estimated from independent pairs by betting (Waudby-Smith & Ramdas 2024,
https://arxiv.org/abs/2010.09686, theorem 3): were the mean at least m, whoever bets that the next value is below m
would multiply what they have by K with probability 1 / K at most, whenever they stop (Ville's inequality). Several
stakes share what is bet: small ones do what empirical Bernstein does, large ones what Chernoff's bound does near
0. So the bound holds at every number of pairs at once: adding pairs because it was not small enough costs nothing.
Over documents the level is divided, so that all bounds hold together.

A bound on the advantage of *every* attack on a document that has copies: which of them was in, no run shows.

The law of what a mechanism announces that sees contents alone depends on how many of the copies were in, and not
on which. Let c be the number of copies in a run, the document included, where g of the N documents that may be in
are copies of each other, and a run holds m. Given c, the contents of the run have the same law whether or not the
document is one of them. So no attack of any kind, whoever makes it, has a larger TPR - FPR than somebody who is
told c: the total variation between c with the document, 1 + H(N - 1, g - 1, m - 1), and without it,
H(N - 1, g - 1, m), H hypergeometric. Where documents are in independently, each with probability q, these are
1 + B(g - 1, q) and B(g - 1, q), B binomial.

The bound is exact, and nothing is estimated: it holds at no level, for documents measured or not. It is about who
takes the others of a run for random, as every number of an audit is; who knows all others counts the copies.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

from ksdp.audit.numeric.array_types import Floats

_STEPS = 32
_CHUNK = 2**15
"""Advantages at once."""
STAKES = np.array([*(2.0 ** -np.arange(1, 8)), *(1 - 2.0 ** -np.arange(2, 11))])
"""Stakes, as shares of all that can be lost without ruin; each begins with an equal share."""


def pair_advantage(distance: NDArray[np.floating] | float) -> Floats:
    """Total variation of two normals of one covariance whose means are this far apart, in standard deviations."""
    return np.asarray(2 * ndtr(np.asarray(distance, dtype=np.float64) / 2) - 1, dtype=np.float64)


def knows_all_others(largest_distance: float | None) -> float:
    """The advantage of knowing all other documents of the run: exact for a fixed shift, 1 without noise."""
    return 1.0 if largest_distance is None else float(pair_advantage(largest_distance))


def certified_bound(advantages: Floats, level: float, documents: int) -> Floats:
    """Upper bounds of the mean advantage of each document's pairs, shape (n_documents,).

    All of them hold together, at every number of pairs, with probability at least 1 - level.
    """
    values = np.asarray(advantages, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < 1:
        raise ValueError(f"`advantages` must have a pair of each document at least; got shape {values.shape}.")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError("`advantages` must be in [0, 1].")
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    if documents < len(values):
        raise ValueError(f"`documents` must be at least {len(values)}; got {documents}.")
    enough = math.log(documents / level)
    at_once = max(1, _CHUNK // values.shape[1])
    parts = [_bet(values[first : first + at_once], enough) for first in range(0, len(values), at_once)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _bet(advantages: Floats, enough: float) -> Floats:
    """The smallest m at which betting against a mean of m wins e^enough, to the safe side, by bisection."""
    low, high = advantages.mean(axis=1), np.ones(len(advantages))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        won = _log_wealth(advantages, middle) >= enough
        low, high = np.where(won, low, middle), np.where(won, middle, high)
    return high


def _log_wealth(advantages: Floats, mean: Floats) -> Floats:
    gain = (mean[:, None] - advantages) / np.maximum(1 - mean, np.finfo(np.float64).tiny)[:, None]
    each = np.log1p(STAKES[:, None, None] * gain).sum(axis=2)
    return np.asarray(logsumexp(each, axis=0) - math.log(len(STAKES)))


def told_by_count(copies: int, documents: int, size: int) -> float:
    """Advantage of the number of a document's copies in a run, itself included: the variation of its two laws.

    Every run holds `size` of the documents.
    """
    from scipy.stats import hypergeom  # half a second of imports, which who has no copies need not wait for

    count = np.arange(copies + 1)
    included = hypergeom(documents - 1, copies - 1, size - 1).pmf(count - 1)
    return _variation(included, hypergeom(documents - 1, copies - 1, size).pmf(count))


def told_by_independent_count(copies: int, share: float) -> float:
    """The same where each document is in with probability `share`, independently."""
    from scipy.stats import binom

    count = np.arange(copies + 1)
    return _variation(binom(copies - 1, share).pmf(count - 1), binom(copies - 1, share).pmf(count))


def _variation(included: Floats, left_out: Floats) -> float:
    return float(np.clip(np.abs(included - left_out).sum() / 2, 0.0, 1.0))
