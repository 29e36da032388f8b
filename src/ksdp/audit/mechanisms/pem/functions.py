"""PEM functions: k-means, logistic regression and Apriori."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemState, PemTotal
from ksdp.audit.mechanisms.pem.noise import VectorBlock

Items = NDArray[np.int16]
_CHUNK = 1 << 22
"""Bytes of bitmaps that are worked on at a time."""


def candidates(frequent: Items, items: int) -> Items:
    """apriori-gen: itemsets one longer, all of whose subsets one shorter are among `frequent`."""
    n, length = frequent.shape
    if not n:
        return np.zeros((0, length + 1), dtype=np.int16)
    new_prefix = np.ones(n, dtype=bool)
    new_prefix[1:] = (frequent[1:, :-1] != frequent[:-1, :-1]).any(axis=1)
    starts = np.flatnonzero(new_prefix)
    ends = np.repeat(np.append(starts[1:], n), np.diff(np.append(starts, n)))
    partners = ends - np.arange(n) - 1
    first = np.repeat(np.arange(n), partners)
    offset = np.arange(len(first)) - np.repeat(np.cumsum(partners) - partners, partners)
    joined = np.column_stack((frequent[first], frequent[first + 1 + offset, -1]))
    weights = items ** np.arange(length - 1, -1, -1, dtype=np.int64)
    numbers = frequent.astype(np.int64) @ weights
    for left_out in range(length - 1):  # without one of the last two it is one of the two that were joined
        codes = np.delete(joined, left_out, axis=1).astype(np.int64) @ weights
        joined = joined[numbers[np.minimum(np.searchsorted(numbers, codes), n - 1)] == codes]
    return joined.astype(np.int16)


def supports(records: sp.csr_array, itemsets: Items) -> NDArray[np.int64]:
    """How many records hold each itemset, shape (n,); a record holds the items of its nonzero entries."""
    words = -(-max(records.shape[0], 1) // 64)
    bits = np.zeros((records.shape[1], words * 64), dtype=bool)
    coo = records.tocoo()
    bits[coo.coords[1][coo.data != 0], coo.coords[0][coo.data != 0]] = True
    maps = np.packbits(bits, axis=1).view(np.uint64)
    counts = np.zeros(len(itemsets), dtype=np.int64)
    step = max(1, _CHUNK // (8 * words))
    for start in range(0, len(itemsets), step):
        part = itemsets[start : start + step]
        both = maps[part[:, 0]]
        for column in part.T[1:]:
            both &= maps[column]
        counts[start : start + step] = np.bitwise_count(both).sum(axis=1, dtype=np.int64)
    return counts


@dataclass(frozen=True)
class PemApriori:
    """Iteration t counts the candidates of length t; what is above the threshold with its noise is kept.

    A record of at most `longest` items holds at most C(longest, k) itemsets of length k, so replacing it changes
    at most L_k = min(2 C(longest, k), candidates) counts by one. Longer records are cut to their first `longest`
    items. `support` is a part of the records, in (0, 1]; `length` that of the longest itemsets. Pairs and longer
    ones with the largest noisy counts are kept, at most `keep` of one length, and as many as make at most `keep`
    candidates of the next: noise must not fill the memory.
    """

    name: ClassVar[str] = "Apriori"
    adds_up: ClassVar[bool] = True

    items: int
    longest: int
    support: float
    length: int = 4
    keep: int = 200_000

    def __post_init__(self) -> None:
        if not 1 <= self.items < 2**15:
            raise InputError(f"`items` must be 1 to {2**15 - 1}; got {self.items}.")
        if not 1 <= self.longest <= self.items or not 1 <= self.length <= self.longest:
            raise InputError("`length` must be 1 to `longest`, and that at most `items`.")
        if self.items**self.length >= 2**63:
            raise InputError("`items` ** `length` must be below 2^63.")
        if not 0 < self.support <= 1 or self.keep < 1:
            raise InputError("`support` must be in (0, 1], `keep` at least 1.")

    def _blocks(self, length: int, count: int) -> tuple[VectorBlock, ...]:
        if not count or length > self.length:
            return ()
        return (self.block(length, count),)

    def block(self, length: int, count: int) -> VectorBlock:
        """Return the block of the counts of so many candidates of a length."""
        return VectorBlock(count, float(math.comb(self.longest, length)), cap=1.0, nonnegative=True)

    def init(self) -> PemState:
        """Every item is a candidate."""
        return PemState(0, {}, self._blocks(1, self.items))

    def candidates_of(self, state: PemState) -> Items:
        """The itemsets that an iteration counts."""
        if state.iteration == 0:
            return np.arange(self.items, dtype=np.int16)[:, None]
        return candidates(np.asarray(state.arrays[f"items{state.iteration}"], dtype=np.int16), self.items)

    def map_in_client(self, records: sp.csr_array, state: PemState) -> NDArray[np.int64]:
        """Counts of the candidates, already added up; no record has more than `longest` items in them.

        `InputError` for a state that counts an itemset twice, one of another length, or with another bound.
        """
        counted = self.candidates_of(state)
        codes = counted.astype(np.int64) @ (self.items ** np.arange(counted.shape[1] - 1, -1, -1, dtype=np.int64))
        length = state.iteration + 1
        inside = counted.min(initial=0) >= 0 and counted.max(initial=0) < self.items
        distinct = inside and (np.diff(codes) > 0).all() and (np.diff(counted, axis=1) > 0).all()
        if not distinct or counted.shape[1] != length or state.blocks != self._blocks(length, len(counted)):
            raise InputError(
                f"The state of iteration {state.iteration} has itemsets that repeat, or bounds that are not those "
                "of its itemsets: the aggregator is not to be trusted."
            )
        return supports(self.cut(records), counted)

    def cut(self, records: sp.csr_array) -> sp.csr_array:
        """The items that each record counts with, bool."""
        items = sp.csr_array(records != 0)
        items.sort_indices()
        lengths = np.diff(items.indptr)
        if lengths.max(initial=0) <= self.longest:
            return items
        rank = np.arange(items.nnz) - np.repeat(items.indptr[:-1], lengths)
        kept = sp.csr_array((rank < self.longest, items.indices, items.indptr), shape=items.shape)
        kept.eliminate_zeros()
        return kept

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """Keep what is frequent with its noise, and make longer candidates from it."""
        length = state.iteration + 1
        counts = total.values[0] / total.sampling
        places = np.flatnonzero(counts >= self.support * total.rows)
        counted = self.candidates_of(state)
        if length > 1:
            places = places[np.argsort(-counts[places], kind="stable")[: self.keep]]

            def following(kept: int) -> int:
                return len(candidates(counted[np.sort(places[:kept])], self.items))

            if length < self.length and following(len(places)) > self.keep:
                places = places[: bisect_right(range(len(places)), self.keep, key=following) - 1]
            places = np.sort(places)
        frequent = counted[places]
        arrays: dict[str, NDArray[Any]] = {**state.arrays}
        arrays |= {f"items{length}": frequent, f"counts{length}": counts[places]}
        after = len(candidates(frequent, self.items)) if length < self.length else 0
        return PemState(length, arrays, self._blocks(length + 1, after))

    def found(self, state: PemState, shortest: int = 1) -> dict[tuple[int, ...], float]:
        """Itemset to (noisy) count, of all lengths from `shortest`."""
        return {
            tuple(int(i) for i in row): float(count)
            for length in range(shortest, state.iteration + 1)
            for row, count in zip(state.arrays[f"items{length}"], state.arrays[f"counts{length}"], strict=True)
        }


@dataclass(frozen=True)
class PemKMeans:
    """Lloyd's algorithm on noisy sums and counts.

    The start is drawn from a public seed, uniformly from the box of allowed values: records picked from the data
    would be a release of their own. Where a noisy count is below `least` the centre stays where it was. A centre
    is put back into the box. Both look at noisy numbers only and cost nothing. `bound` is the largest L1 norm of a
    record, `high` its largest entry, `share` the part of epsilon for the sums; the rest is for the counts.
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
        large_enough = counts >= self.least
        means = np.clip(sums / np.where(large_enough, counts, 1.0), 0.0, self.high)
        centres = np.where(large_enough, means, state.arrays["centres"])
        return PemState(state.iteration + 1, {"centres": centres}, state.blocks)


@dataclass(frozen=True)
class PemLogistic:
    """w <- w - rate / sqrt(t) (g / n + penalty w), g being the noisy sum of the records' gradients.

    A record's gradient is (sigma(w^T x) - y) x. It is clipped to the L1 norm `bound`, and its entries to `cap`.
    The column `label` of the records is y, 0 or 1; its weight is always 0. The penalty is the aggregator's, so it
    costs no privacy.
    """

    name: ClassVar[str] = "logistic regression"

    features: int
    bound: float
    label: int = -1
    cap: float | None = None
    rate: float = 1.0
    penalty: float = 0.0
    fraction_bits: int = 16

    def __post_init__(self) -> None:
        if self.features < 2:
            raise InputError(f"`features` must be at least 2, a label and another; got {self.features}.")
        if not -self.features <= self.label < self.features:
            raise InputError(f"`label` must be a column from 0 to {self.features - 1}; got {self.label}.")
        if not self.rate > 0 or not self.penalty >= 0:
            raise InputError(f"`rate` must be above 0, `penalty` at least 0; got {self.rate}, {self.penalty}.")
        self._blocks()

    def _blocks(self) -> tuple[VectorBlock, ...]:
        return (VectorBlock(self.features, self.bound, cap=self.cap, fraction_bits=self.fraction_bits),)

    def init(self) -> PemState:
        """All weights 0."""
        return PemState(0, {"w": np.zeros(self.features)}, self._blocks())

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array:
        """The gradient of every record at w; 0 in the label's place."""
        keep = np.ones(self.features)
        keep[self.label] = 0.0
        y = records @ (1.0 - keep)
        off = expit(np.nan_to_num(records @ state.arrays["w"])) - y  # NaN: weights of any size, and their sums
        data = records.data * keep[records.indices] * np.repeat(off, np.diff(records.indptr))
        return sp.csr_array((data, records.indices, records.indptr), shape=records.shape)

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """One step against the mean gradient."""
        w = state.arrays["w"]
        mean = total.values[0] / (max(total.rows, 1) * total.sampling)
        w = w - self.rate / np.sqrt(state.iteration + 1) * (mean + self.penalty * w)
        w[self.label] = 0.0
        return PemState(state.iteration + 1, {"w": w}, state.blocks)

    def accuracy(self, state: PemState, records: sp.csr_array) -> float:
        """Part of the records whose label is the likelier one."""
        only_label = np.zeros(self.features)
        only_label[self.label] = 1.0
        guessed: NDArray[Any] = records @ state.arrays["w"] > 0
        return float(cast(float, (guessed == (records @ only_label > 0.5)).mean()))
