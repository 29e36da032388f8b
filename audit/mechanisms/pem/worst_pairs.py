"""Databases on which PEM's claims are as tight as they get: two that differ in one record, whatever comes next.

The record is the victim's only one. All others are the coalition's: it knows them, and takes them off every sum.
They are there for what the algorithm needs to stay where one record matters most: centres that keep apart, items
that stay frequent, weights that stay small.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.array_types import Vector
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.pem.algorithm import VectorBlock
from ksdp.audit.mechanisms.pem.apriori import PemApriori
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.kmeans import PemKMeans
from ksdp.audit.mechanisms.pem.logistic import PemLogistic

Pair = tuple[Database, Database]

_MOST = 20_000
"""Records of the coalition: more would only make an audit slower."""
_SPARE = 6
"""Columns that no record uses, from which k-means' start can keep two records apart."""


def _pair(first: Vector, second: Vector, others: sp.csr_array) -> Pair:
    coalition = frozenset({1})
    one, other = (sp.csr_array(record[None]) for record in (first, second))
    return Database((one, others), coalition), Database((other, others), coalition)


def _enough(noise: float) -> int:
    """Records among which noise of this deviation, in records, is small."""
    return int(min(_MOST, 10 + 20 * noise))


def _spread(budget: Budget, block: VectorBlock, servers: int) -> float:
    """Deviation of all servers' noise on an entry of a block, in its units and for the share that is sampled."""
    return math.sqrt(2 * servers) * budget.scale(block) * 2.0**-block.fraction_bits / budget.sampling


def kmeans_pair(mechanism: PemKMeans, budget: Budget, servers: int) -> Pair:
    """Records of the largest norm that share no column, and are in different clusters where the start has two.

    Parameters
    ----------
    mechanism : PemKMeans
        Its number of features is not looked at.
    """
    cap = min(mechanism.high, mechanism.bound)
    entries = np.full(math.ceil(mechanism.bound / cap), cap)
    entries[-1] = mechanism.bound - cap * (len(entries) - 1)
    width = len(entries)
    algorithm = replace(mechanism, features=2 * width + _SPARE)
    start = algorithm.init()
    centres = start.arrays["centres"]
    found: list[Vector] = []
    for pull in (a - b for i, a in enumerate(centres) for b in centres[i + 1 :]):
        found = _along(np.argsort(-pull, kind="stable"), entries)
        if len(set(algorithm.nearest(sp.csr_array(np.stack(found)), centres).tolist())) == 2:
            break
    first, second = found or _along(np.arange(algorithm.features), entries)
    sums, counts = start.blocks
    noise = max(_spread(budget, sums, servers) / cap, _spread(budget, counts, servers))
    others = np.tile(np.stack((first, second)), (_enough(noise), 1))
    return _pair(first, second, sp.csr_array(others))


def _along(order: NDArray[np.int64], entries: Vector) -> list[Vector]:
    """The same entries in the first columns of an order, and in the last."""
    found = [np.zeros(len(order)), np.zeros(len(order))]
    found[0][order[: len(entries)]] = entries
    found[1][order[-len(entries) :]] = entries
    return found


def logistic_pair(mechanism: PemLogistic, budget: Budget, servers: int) -> Pair:
    """One record with either label: its gradient is clipped at the bound on either side, in a single entry.

    The others are zeros. They add nothing to any sum; there are so many that the mean gradient, noise and all,
    moves the weights too little for the record's side to be sure.

    Parameters
    ----------
    mechanism : PemLogistic
        With as few features as its label's column allows.
    """
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
    """A record with two items, all there are, and one with none: both counts and the pair's change by one.

    Parameters
    ----------
    mechanism : PemApriori
        With two items.
    """
    (block,) = mechanism.init().blocks
    room = max(1 - mechanism.support, 0.01)
    others = np.ones((_enough(_spread(budget, block, servers) / room), mechanism.items))
    return _pair(np.ones(mechanism.items), np.zeros(mechanism.items), sp.csr_array(others))
