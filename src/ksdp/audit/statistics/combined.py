"""All other statistics in one: the weighted sum of their values that tells a document apart in simulated runs.

What several runs say together stands in no column. The weights of a document are Fisher's linear discriminant,
S^-1 (mean with - mean without), with S the covariance of the standardised values within both arms, shrunk in units
of its deviations: correlations are multiplied by n / (n + p), as p further runs of unit covariance would have it.

Reference: Fisher, The use of multiple measurements in taxonomic problems, 1936.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np

from ksdp.audit.contract import Documents, Observables, Statistic
from ksdp.audit.numeric.array_types import Bits, Floats
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.statistics.products import row_dots
from ksdp.audit.statistics.simulated import places_in_pool, simulated_runs

COMBINED = "combined"
"""The family, and its statistic."""
_RUNS = 500
"""Training runs; each is looked at by all statistics."""
_MOST = 2**25
"""Documents times the square of the statistics, at most: numbers that are held in memory."""
_SEED = 0x5EED_0F_5025
_SCALED_BY = 64
"""Training runs by which values are standardised."""
_CLIP = 8.0
_LEAST = 1e-6
"""Part of the whole variance that the one within the arms counts as, at least."""


@dataclass(frozen=True, eq=False)
class Discriminants:
    """One linear rule a document: of values less `centre`, over `deviation`, cut at 8."""

    centre: Floats
    """Shape (n_documents, n_statistics), as the others."""
    deviation: Floats
    weights: Floats

    def standardised(self, values: Floats) -> Floats:
        """Of all documents."""
        return np.clip((values - self.centre) / self.deviation, -_CLIP, _CLIP)


def discriminants(runs: Iterable[tuple[Floats, Bits]]) -> Discriminants:
    """Learn the weights.

    Parameters
    ----------
    runs : values of all documents under all statistics, shape (n_documents, n_statistics), and who was in
    """
    runs = iter(runs)
    first = list(islice(runs, _SCALED_BY))
    known = np.stack([values for values, _ in first])
    centre, deviation = known.mean(axis=0), known.std(axis=0)
    constant = deviation <= 1e-12 * np.abs(centre)
    plain = Discriminants(centre, np.where(constant, np.inf, deviation), np.zeros(0))
    count, shape = 0, centre.shape
    held, sums, square = np.zeros((2, shape[0])), np.zeros((2, *shape)), np.zeros((*shape, shape[1]))
    for values, bits in chain(first, runs):
        z, count = plain.standardised(values), count + 1
        for arm, mine in enumerate((~bits, bits)):
            held[arm] += mine
            sums[arm] += np.where(mine[:, None], z, 0.0)
        square += z[:, :, None] * z[:, None, :]
    means = sums / np.maximum(held, 1.0)[:, :, None]
    whole = np.einsum("ijj->ij", square) / count - np.square(sums.sum(axis=0) / count)
    within = (square - np.einsum("ai,aij,aik->ijk", held, means, means)) / count
    spread = np.sqrt(np.maximum(np.einsum("ijj->ij", within), _LEAST * np.where(whole > _LEAST, whole, np.inf)))
    within *= (count / (count + shape[1])) / (spread[:, :, None] * spread[:, None, :])
    places = np.arange(shape[1])
    within[:, places, places] = 1.0
    with one_thread():
        weights = np.linalg.solve(within, ((means[1] - means[0]) / spread)[:, :, None])[:, :, 0] / spread
    told = np.asarray((held > 0).all(axis=0), np.float64)
    return replace(plain, weights=weights * told[:, None])


@dataclass(frozen=True)
class CombinedStatistic:
    """The weighted sum of what others say of a document."""

    name: str = COMBINED
    sentence: str = field(default="All other statistics together, weighed as simulated runs teach.", compare=False)
    others: tuple[Statistic, ...] = ()
    reads: tuple[str, ...] = ()
    """Arrays that these read."""
    family: str = COMBINED
    needs: tuple[str, ...] = ()
    version: int = 1

    def over(self, others: Sequence[Statistic], reads: Iterable[str]) -> CombinedStatistic:
        """The same, of these others, which read these arrays."""
        return replace(self, others=tuple(others), reads=tuple(sorted(reads)))

    def asks_for(self, shapes: Mapping[str, tuple[int, ...]], documents: int) -> str:
        """Others, and documents that fit into memory."""
        if len(self.others) < 2:
            return "two other statistics, or more"
        most = _MOST // len(self.others) ** 2
        return "" if documents <= most else f"at most {most:,} documents with so many statistics"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        pool = documents.source_pool
        shapes = {name: observables[name].shape for name in self.reads}

        def learn() -> Discriminants:
            everybody, rng = Documents(pool.drawn, documents.background, pool=pool), np.random.default_rng(_SEED)

            def of_runs() -> Iterable[tuple[Floats, Bits]]:
                for places, seen in simulated_runs(pool, shapes, _RUNS, rng):
                    yield self._values(seen, everybody), np.isin(np.arange(len(everybody)), places)

            return discriminants(of_runs())

        found = pool.derive((COMBINED, tuple(one.name for one in self.others)), learn)
        places = places_in_pool(documents)
        mine = Discriminants(found.centre[places], found.deviation[places], found.weights[places])
        return row_dots(mine.standardised(self._values(observables, documents)), mine.weights)

    def _values(self, observables: Observables, documents: Documents) -> Floats:
        return np.stack([one.evaluate(observables, documents) for one in self.others], axis=1)


STATISTICS = (CombinedStatistic(),)
