"""What every NMF is tried on: penalties, none, each one alone and all together; documents of a few topics."""

from itertools import pairwise

import numpy as np
import scipy.sparse as sp

PENALTIES = [
    {},
    {"alpha": 0.3},
    {"beta": 0.5},
    {"gamma": 0.2},
    {"delta": 0.7},
    {"alpha": 0.05, "beta": 0.1, "gamma": 0.02, "delta": 0.2},
]


def synthetic(n: int, d: int, seed: int) -> sp.csr_array:
    """Counts of documents that mix four topics; rare words are in no document."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(d, 0.1), size=4)
    return sp.csr_array(rng.poisson(40 * rng.dirichlet(np.full(4, 0.3), size=n) @ words).astype(float))


def split(matrix: sp.csr_array, *cuts: int) -> tuple[sp.csr_array, ...]:
    return tuple(sp.csr_array(matrix[a:b]) for a, b in pairwise([0, *cuts, matrix.shape[0]]))
