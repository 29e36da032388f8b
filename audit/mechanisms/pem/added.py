"""What each record adds to PEM's sums, given the states that were announced, and how much noise is in these.

As `algorithm.contribution`, record by record and as products, which a matched filter solves for; but for the
rounding of a logistic gradient, less than a step of 2^-fraction_bits.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.pem.algorithm import VectorBlock, clipped
from ksdp.audit.mechanisms.pem.apriori import PemApriori
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.kmeans import PemKMeans
from ksdp.audit.mechanisms.pem.logistic import PemLogistic
from ksdp.audit.statistics.term_numbers import TermNumbers


def noise_variance(block: VectorBlock, budget: Budget, servers: int) -> float:
    """Variance of so many servers' noise in an entry of a sum, in the block's units.

    Of discrete Laplace noise of scale s it is 2 q / (1 - q)^2 for q = exp(-1 / s), in steps, exactly.
    """
    rate = 1 / budget.scale(block)
    return servers * 2 * math.exp(-rate) / math.expm1(-rate) ** 2 * 4.0**-block.fraction_bits


def added_to_clusters(algorithm: PemKMeans, centres: Floats, records: sp.csr_array) -> TermNumbers:
    """The record in its cluster's sum, and a 1 in its cluster's count, for the centres of each iteration.

    Parameters
    ----------
    centres : shape (iterations, clusters, features)

    Returns
    -------
    TermNumbers
        Of all sums, then of all counts.
    """
    block = replace(algorithm.init().blocks[0], size=algorithm.features, share=1.0)
    rows = _in_units(clipped(records, (block,)), block)
    own = np.hstack([np.eye(algorithm.clusters)[algorithm.nearest(records, now)] for now in centres])
    return TermNumbers.plain(rows, own, own)


def added_to_gradients(algorithm: PemLogistic, weights: Floats, records: sp.csr_array) -> TermNumbers:
    """The record's gradient at the weights of each iteration, shape (iterations, features)."""
    keep = np.ones(algorithm.features)
    keep[algorithm.label] = 0.0
    label = records @ (1.0 - keep)
    data = records.data * keep[records.indices]
    rows = sp.csr_array((data, records.indices, records.indptr), shape=records.shape)
    off = expit(records @ weights.T) - label[:, None]
    norms = np.abs(off) * np.abs(rows).sum(axis=1)[:, None]
    off *= np.divide(algorithm.bound, norms, out=np.ones_like(norms), where=norms > algorithm.bound)
    return TermNumbers.plain(rows, off)


def added_to_counts(algorithm: PemApriori, pairs: np.ndarray, records: sp.csr_array) -> TermNumbers:
    """1 at every item that the record holds, then at every pair, of those counted: shape (pairs, 2)."""
    held = sp.csc_array(algorithm.cut(records), dtype=np.float64)
    both = held[:, pairs[:, 0]].multiply(held[:, pairs[:, 1]])
    rows = sp.csr_array(sp.hstack([held, both], format="csr"))
    rows.sort_indices()
    return TermNumbers.plain(rows, np.ones((rows.shape[0], 1)))


def _in_units(steps: sp.csr_array, block: VectorBlock) -> sp.csr_array:
    data = steps.data * 2.0**-block.fraction_bits
    return sp.csr_array((data, steps.indices, steps.indptr), shape=steps.shape)
