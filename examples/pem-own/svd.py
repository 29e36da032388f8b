"""The leading right singular vectors by block power iteration, as three functions of PEM.

A record x adds <x, v> x for each vector v, clipped to `bound` in L1 norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.mechanisms.pem.algorithm import PemState, PemTotal
from ksdp.audit.mechanisms.pem.noise import VectorBlock


@dataclass(frozen=True)
class PowerIteration:
    """So many vectors, one a row."""

    rank: int
    features: int
    bound: float
    seed: int = 0
    name: ClassVar[str] = "power iteration"

    def init(self) -> PemState:
        """Orthonormal vectors from a public seed."""
        start = np.random.default_rng(self.seed).normal(size=(self.features, self.rank))
        block = VectorBlock(self.rank * self.features, self.bound, fraction_bits=16)
        return PemState(0, {"V": np.linalg.qr(start)[0].T}, (block,))

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array:
        """<x, v> x of each record, for one vector after the other."""
        products = records @ state.arrays["V"].T
        return sp.csr_array(sp.hstack([sp.diags_array(column) @ records for column in products.T], format="csr"))

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """The noisy sums, orthonormal."""
        V = np.linalg.qr(total.values[0].reshape(self.rank, self.features).T)[0].T
        return PemState(state.iteration + 1, {"V": V}, state.blocks)


digits = PowerIteration(rank=1, features=64, bound=150.0)
