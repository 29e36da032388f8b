"""A weighted sum that is learnt from as many simulated runs as it needs, where runs are cheap.

Such a sum of m numbers, learnt from T runs, holds 1 / (1 + m / (T p q d^2)) of the squared distance d between the
arms of a document that a run holds with probability p: of 150 numbers and 2,000 runs four fifths of what makes an
advantage of 0.4. So many runs are made that it holds 95 %. They cost their number times m^2, where the rules that
weigh runs (`ksdp.audit.statistics.simulated`) cost the cube of their number. With the numbers stand products of
two columns of a basis whose signs or rotation are left open: V^T V, which has neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ksdp.audit.contract import Alignment, Release
from ksdp.audit.numeric.array_types import Floats, Ints, Singles
from ksdp.audit.numeric.kernels import one_thread

_RIDGES = (1e-4, 1e-2, 1.0)
"""In units of the mean eigenvalue."""
_TIMES, MOST_RUNS = 20.0, 2**15
"""Runs, in units of m / (p q d^2), and at most."""
_MOST_NUMBERS, _MOST_IN_ALL = 2**10, 2**23
"""Most numbers of a run, whose cube is the cost of a solution, and most numbers of all runs in memory."""
_CHEAP = 2**14
"""Entries of a database that is decomposed within a millisecond."""
_TURNED = ("signs", "rotation")
_AT_ONCE = 256
_CLIP = 8.0


def products_of(array: Floats, alignment: Alignment) -> Floats:
    """Products of two columns, summed over rows whose signs or rotation are left open; none of other arrays."""
    if alignment not in _TURNED:
        return np.zeros(0)
    products = np.swapaxes(array, -1, -2) @ array
    return np.asarray(products[..., *np.triu_indices(array.shape[-1])].ravel())


def numbers_and_products(releases: Sequence[Release]) -> int:
    """How many numbers and `products_of` arrays there are."""
    turned = (release.shape for release in releases if release.alignment in _TURNED)
    products = sum(math.prod(shape[:-2]) * math.comb(shape[-1] + 1, 2) for shape in turned)
    return products + sum(math.prod(release.shape) for release in releases)


def further_runs(rows: int, features: int, numbers: int, share: float, margin: float) -> int:
    """Runs that teach a weighted sum nearly all that makes an advantage of the margin; 0 where they take long."""
    if share * rows * features > _CHEAP or numbers > _MOST_NUMBERS or not 0.5 < (1.0 + margin) / 2.0 < 1.0:
        return 0
    distance = 2.0 * NormalDist().inv_cdf((1.0 + margin) / 2.0)
    wanted = _TIMES * numbers / (share * (1.0 - share) * distance**2)
    return min(round(wanted), MOST_RUNS, _MOST_IN_ALL // max(numbers, 1))


def correlations(guess: NDArray[np.floating], bits: NDArray[np.floating]) -> Floats:
    """Column by column; 0 where one does not vary."""
    guess = guess - guess.mean(axis=0)
    sizes = np.sqrt((guess**2).sum(axis=0) * (bits**2).sum(axis=0))
    return np.asarray((guess * bits).sum(axis=0) / np.maximum(sizes, np.finfo(float).tiny))


@dataclass(frozen=True, eq=False)
class Scale:
    """How a vector is standardised: those of its numbers that vary, less their means, over their deviations."""

    varies: Ints
    centre: Floats
    deviation: Floats

    @classmethod
    def of(cls, vectors: Floats) -> Scale:
        """Return the scale of training runs, shape (n_runs, n_numbers)."""
        centre, deviation = vectors.mean(axis=0), vectors.std(axis=0)
        varies = np.flatnonzero(deviation > 1e-12 * np.abs(centre))
        return cls(varies, centre[varies], deviation[varies])

    def __call__(self, vectors: Floats) -> Singles:
        """Scale vectors along the last axis, cut at 8 deviations."""
        z = (vectors[..., self.varies] - self.centre) / self.deviation
        return np.clip(z, -_CLIP, _CLIP).astype(np.float32)


@dataclass(frozen=True, eq=False)
class LinearRule:
    """A weighted sum of standardised numbers, of some documents."""

    scale: Scale
    documents: Ints
    weights: Floats
    """Shape (n_numbers, n_documents)."""

    @classmethod
    def of(cls, numbers: Floats, bits: Floats, least: Floats) -> LinearRule:
        """Learn the documents whose bits in left-out runs it tells with a correlation above `least`, one each."""
        scale, best = Scale.of(numbers), least.copy()
        z = scale(numbers).astype(np.float64)
        weights = np.zeros((z.shape[1], len(best)))
        with one_thread():
            values, axes = scipy.linalg.eigh(z.T @ z, check_finite=False)
            turned, unit = z @ axes, float(values.mean()) or 1.0
            for start in range(0, len(best), _AT_ONCE):
                part = slice(start, start + _AT_ONCE)
                centred = bits[:, part] - bits[:, part].mean(axis=0)
                along = turned.T @ centred
                for ridge in _RIDGES:
                    inverse = 1.0 / (np.maximum(values, 0.0) + ridge * unit)
                    residual = centred - turned @ (along * inverse[:, None])
                    guess = centred - residual / (1.0 - turned**2 @ inverse)[:, None]
                    gain = correlations(guess, centred)
                    better = np.flatnonzero(gain > best[part])
                    weights[:, start + better] = axes @ (along[:, better] * inverse[:, None])
                    best[start + better] = gain[better]
        mine = np.flatnonzero(best > least)
        return cls(scale, mine, np.ascontiguousarray(weights[:, mine]))
