"""k-means, as three PEM functions (the paper's Algorithm 2): sums and counts with a part of epsilon each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemState, PemTotal, VectorBlock


@dataclass(frozen=True)
class PemKMeans:
    """Lloyd's algorithm on noisy sums and counts.

    The start is drawn from a public seed, uniformly from the box of allowed values: records picked from the data
    would be a release of their own. A noisy count may be small, zero or negative; below `least` the centre stays
    where it was. A centre is put back into the box. Both look at noisy numbers only and cost nothing.

    Parameters
    ----------
    bound : float
        L_x: largest L1 norm of a record; for one-hot rows the number of attributes.
    high : float
        Records' entries are from 0 to `high`; others are cut.
    share : float
        Of epsilon for the sums; the rest is for the counts.
    least : float
        A noisy count below this is not divided by.
    fraction_bits : int
        Sums are whole multiples of 2^-fraction_bits; 0 for records of whole numbers.
    """

    name: ClassVar[str] = "k-means"

    clusters: int
    features: int
    bound: float
    high: float = 1.0
    share: float = 0.5
    least: float = 1.0
    start_seed: int = 0
    fraction_bits: int = 16

    def __post_init__(self) -> None:
        if self.clusters < 1 or self.features < 1:
            raise InputError(
                f"`clusters` and `features` must be at least 1; got {self.clusters}, {self.features}."
            )
        if not self.high > 0 or not 0 < self.share < 1 or not self.least > 0:
            raise InputError("`high` and `least` must be above 0, `share` in (0, 1).")
        if self.start_seed < 0:
            raise InputError(f"`start_seed` must not be negative; got {self.start_seed}.")
        self._blocks()

    def _blocks(self) -> tuple[VectorBlock, ...]:
        cap = min(self.high, self.bound)
        size = self.clusters * self.features
        sums = VectorBlock(size, self.bound, self.share, cap, nonnegative=True, fraction_bits=self.fraction_bits)
        return sums, VectorBlock(self.clusters, 1.0, 1.0 - self.share, nonnegative=True)

    def init(self) -> PemState:
        """Centres from the seed."""
        rng = np.random.default_rng(self.start_seed)
        return PemState(0, {"centres": rng.random((self.clusters, self.features)) * self.high}, self._blocks())

    def nearest(self, records: sp.csr_array, centres: NDArray[np.float64]) -> NDArray[np.int64]:
        """The nearest centre of every record; the first of equally near ones."""
        return np.asarray(np.argmin((centres**2).sum(axis=1) - 2.0 * (records @ centres.T), axis=1))

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array:
        """Every record in the place of its cluster, and a 1 in the place of its cluster's count."""
        own = self.nearest(records, state.arrays["centres"])
        places = records.indices + np.repeat(own * self.features, np.diff(records.indptr))
        ends = records.indptr[1:]
        indices = np.insert(places, ends, self.clusters * self.features + own)
        data = np.insert(records.data, ends, 1.0)
        indptr = records.indptr + np.arange(records.shape[0] + 1)
        return sp.csr_array((data, indices, indptr), shape=(records.shape[0], state.entries))

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """Each centre becomes its records' mean, as far as the noise lets one tell."""
        sums, counts = total.values[0].reshape(self.clusters, self.features), total.values[1][:, None]
        known = counts >= self.least
        means = np.clip(sums / np.where(known, counts, 1.0), 0.0, self.high)
        centres = np.where(known, means, state.arrays["centres"])
        return PemState(state.iteration + 1, {"centres": centres}, state.blocks)

    def loss(self, state: PemState, records: sp.csr_array) -> float:
        """Sum of the records' squared distances to their nearest centre."""
        centres: NDArray[Any] = state.arrays["centres"]
        squares = float(records.multiply(records).sum())
        return squares + float(((centres**2).sum(axis=1) - 2.0 * (records @ centres.T)).min(axis=1).sum())
