"""Contributions of records to PEM's sums, and the pairs of records that are easiest to tell apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.pem.algorithm import clipped
from ksdp.audit.mechanisms.pem.functions import PemApriori, PemKMeans, PemLogistic
from ksdp.audit.mechanisms.pem.noise import Budget, VectorBlock
from ksdp.audit.numeric.array_types import Floats, Vector
from ksdp.audit.statistics.linear.operator import FactoredContributions


def noise_variance(block: VectorBlock, budget: Budget, servers: int) -> float:
    """Variance of so many servers' noise in an entry of a sum, in the block's units."""
    rate = 1 / budget.scale(block)
    return servers * 2 * math.exp(-rate) / math.expm1(-rate) ** 2 * 4.0**-block.fraction_bits


def added_to_clusters(algorithm: PemKMeans, centres: Floats, records: sp.csr_array) -> FactoredContributions:
    """The record in its cluster's sum, and a 1 in its cluster's count, for the centres of each iteration."""
    block = replace(algorithm.init().blocks[0], size=algorithm.features, share=1.0)
    steps = clipped(records, (block,))
    rows = sp.csr_array((steps.data * 2.0**-block.fraction_bits, steps.indices, steps.indptr), shape=steps.shape)
    own = np.hstack([np.eye(algorithm.clusters)[algorithm.nearest(records, now)] for now in centres])
    return FactoredContributions.plain(rows, own, own)


def added_to_gradients(algorithm: PemLogistic, weights: Floats, records: sp.csr_array) -> FactoredContributions:
    """The record's gradient at the weights of each iteration, shape (iterations, features)."""
    keep = np.ones(algorithm.features)
    keep[algorithm.label] = 0.0
    label = records @ (1.0 - keep)
    data = records.data * keep[records.indices]
    rows = sp.csr_array((data, records.indices, records.indptr), shape=records.shape)
    off = expit(records @ weights.T) - label[:, None]
    norms = np.abs(off) * np.abs(rows).sum(axis=1)[:, None]
    off *= np.divide(algorithm.bound, norms, out=np.ones_like(norms), where=norms > algorithm.bound)
    return FactoredContributions.plain(rows, off)


def added_to_counts(
    algorithm: PemApriori, counted: Sequence[NDArray[np.int64]], records: sp.csr_array
) -> FactoredContributions:
    """1 at every item that the record holds, then at every itemset of each table, shape (itemsets, length)."""
    items = sp.csc_array(algorithm.cut(records), dtype=np.float64)
    parts = [items]
    for table in counted:
        part = items[:, table[:, 0]]
        for column in table.T[1:]:
            part = sp.csc_array(part.multiply(items[:, column]))
        parts.append(part)
    rows = sp.csr_array(sp.hstack(parts, format="csr"))
    rows.sort_indices()
    return FactoredContributions.plain(rows, np.ones((rows.shape[0], 1)))


Pair = tuple[Database, Database]

_MOST = 20_000
"""Records of the coalition: more would only make an audit slower."""
_SPARE = 6
"""Columns that no record uses, from which k-means' start can keep two records apart."""


def _pair(first: Vector, second: Vector, others: sp.csr_array) -> Pair:
    coalition = frozenset({1})
    first_row, other = (sp.csr_array(record[None]) for record in (first, second))
    return Database((first_row, others), coalition), Database((other, others), coalition)


def _enough(noise: float) -> int:
    return int(min(_MOST, 10 + 20 * noise))


def _spread(budget: Budget, block: VectorBlock, servers: int) -> float:
    """Deviation of all servers' noise on an entry of a block, in its units and for the share that is sampled."""
    return math.sqrt(2 * servers) * budget.scale(block) * 2.0**-block.fraction_bits / budget.sampling


def kmeans_pair(mechanism: PemKMeans, budget: Budget, servers: int) -> Pair:
    """Records of the largest norm that share no column, and are in different clusters where the start has two."""
    cap = min(mechanism.high, mechanism.bound)
    entries = np.full(math.ceil(mechanism.bound / cap), cap)
    entries[-1] = mechanism.bound - cap * (len(entries) - 1)
    width = len(entries)
    algorithm = replace(mechanism, features=2 * width + _SPARE)
    start = algorithm.init()
    centres = start.arrays["centres"]
    vectors: list[Vector] = []
    for pull in (a - b for i, a in enumerate(centres) for b in centres[i + 1 :]):
        vectors = _along(np.argsort(-pull, kind="stable"), entries)
        if len(set(algorithm.nearest(sp.csr_array(np.stack(vectors)), centres).tolist())) == 2:
            break
    first, second = vectors or _along(np.arange(algorithm.features), entries)
    sums, counts = start.blocks
    noise = max(_spread(budget, sums, servers) / cap, _spread(budget, counts, servers))
    others = np.tile(np.stack((first, second)), (_enough(noise), 1))
    return _pair(first, second, sp.csr_array(others))


def _along(order: NDArray[np.int64], entries: Vector) -> list[Vector]:
    vectors = [np.zeros(len(order)), np.zeros(len(order))]
    vectors[0][order[: len(entries)]] = entries
    vectors[1][order[-len(entries) :]] = entries
    return vectors


def logistic_pair(mechanism: PemLogistic, budget: Budget, servers: int) -> Pair:
    """One record with either label: its gradient is clipped at the bound on either side, in a single entry."""
    label = mechanism.label % mechanism.features
    column = 0 if label else 1
    record = np.zeros(mechanism.features)
    record[column] = 2.5 * mechanism.bound  # half of it is the gradient at weight 0, with room for other weights
    other = record.copy()
    other[label] = 1.0
    (block,) = mechanism.init().blocks
    steps = math.sqrt(1 + math.log(budget.iterations))  # of the rates' squares, rate^2 / t
    noise = mechanism.rate * record[column] * _spread(budget, block, servers) * steps
    return _pair(record, other, sp.csr_array((_enough(noise), mechanism.features)))


def apriori_pair(mechanism: PemApriori, budget: Budget, servers: int) -> Pair:
    """A record with all items that there are and one with none: all counts of all lengths change by one."""
    blocks = (mechanism.block(length, 1) for length in range(1, mechanism.length + 1))
    room = max(1 - mechanism.support, 0.01)
    spread = max(_spread(budget, block, servers) for block in blocks)
    others = np.ones((_enough(spread / room), mechanism.items))
    return _pair(np.ones(mechanism.items), np.zeros(mechanism.items), sp.csr_array(others))
