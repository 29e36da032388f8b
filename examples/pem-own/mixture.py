"""EM for a mixture of spherical normal laws, as three functions of PEM.

Records lie between 0 and 1 and add up to at most `bound`. A run needs `epsilon` for sums, counts and squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from ksdp.audit.mechanisms.pem.algorithm import PemState, PemTotal
from ksdp.audit.mechanisms.pem.noise import VectorBlock


@dataclass(frozen=True)
class Mixture:
    """Means, parts and variances of so many clusters."""

    clusters: int
    features: int
    bound: float
    seed: int = 0
    name: ClassVar[str] = "mixture of normal laws"

    def init(self) -> PemState:
        """Means from a public seed; half of epsilon is for the sums."""
        k, d = self.clusters, self.features
        sums = VectorBlock(k * d, self.bound, 0.5, cap=1.0, nonnegative=True, fraction_bits=16)
        chances = VectorBlock(k, 1.0, 0.25, nonnegative=True, fraction_bits=16)
        squares = VectorBlock(k, self.bound, 0.25, nonnegative=True, fraction_bits=16)
        means = np.random.default_rng(self.seed).random((k, d))
        return PemState(
            0, {"means": means, "parts": np.full(k, 1 / k), "variances": np.full(k, 0.1)}, (sums, chances, squares)
        )

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array:
        """Each record times the chance of each cluster, the chances, and its square times these."""
        x, means, variances = records.toarray(), state.arrays["means"], state.arrays["variances"]
        gaps = ((x[:, None] - means) ** 2).sum(axis=2) / variances + self.features * np.log(variances)
        chances = softmax(np.log(state.arrays["parts"]) - gaps / 2, axis=1)
        sums = (chances[:, :, None] * x[:, None]).reshape(len(x), -1)
        return sp.csr_array(np.hstack([sums, chances, chances * (x**2).sum(axis=1, keepdims=True)]))

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """The means, parts and variances that the noisy sums say, within what records can have."""
        sums, counts, squares = total.values
        counts = np.maximum(counts, 1.0)
        means = np.clip(sums.reshape(self.clusters, self.features) / counts[:, None], 0.0, 1.0)
        variances = np.clip((squares / counts - (means**2).sum(axis=1)) / self.features, 1e-3, 1.0)
        arrays = {"means": means, "parts": counts / counts.sum(), "variances": variances}
        return PemState(state.iteration + 1, arrays, state.blocks)


digits = Mixture(clusters=2, features=64, bound=30.0)
