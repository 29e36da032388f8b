"""PEM: an iteration of clients, servers and an aggregator, on the ideal functionality."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.noise import Budget, Sampler, VectorBlock, choose_large
from ksdp.audit.numeric.sparse_rows import arrays_of
from ksdp.audit.randomness import RandomBytes, os_random

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PemState:
    """All that is public between two iterations; everybody has the same."""

    iteration: int
    """Number of the iteration that it is for, from 0."""
    arrays: Mapping[str, Array]
    """The model: float64, int64, int16 or bool."""
    blocks: tuple[VectorBlock, ...]
    """Shapes of this iteration's vectors; none: the algorithm has ended."""

    def __post_init__(self) -> None:
        total = math.fsum(block.share for block in self.blocks)
        if self.blocks and not 1 - 1e-9 <= total <= 1 + 1e-12:  # never above 1, but for rounding
            raise InputError(f"The blocks' shares of epsilon must add up to 1; got {total:.12g}.")

    def ends(self, budget: Budget) -> bool:
        """Whether no iteration is left: the algorithm has ended, or has had all."""
        return not self.blocks or self.iteration >= budget.iterations

    @property
    def entries(self) -> int:
        """Dimensions of the vectors of this iteration."""
        return sum(block.size for block in self.blocks)


@dataclass(frozen=True, eq=False)
class PemTotal:
    """The result of one iteration at the aggregator."""

    values: tuple[NDArray[np.float64], ...]
    """The noisy sum, one array a block, in the block's units."""
    rows: int
    """Records of the clients that took part: public."""
    sampling: float
    """The chance with which each of them is in the sum."""

    @classmethod
    def of(cls, steps: NDArray[np.int64], blocks: tuple[VectorBlock, ...], rows: int, sampling: float) -> PemTotal:
        """From the sum in steps."""
        values: list[NDArray[np.float64]] = []
        at = 0
        for block in blocks:
            part = steps[at : at + block.size].astype(np.float64)
            values.append(part * 2.0**-block.fraction_bits)
            at += block.size
        return cls(tuple(values), rows, sampling)


@runtime_checkable
class PemAlgorithm(Protocol):
    """Three functions; a frozen dataclass of public parameters, the same everywhere."""

    @property
    def name(self) -> str:
        """For messages and outputs."""

    def init(self) -> PemState:
        """The public start; drawn from nobody's data."""

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array | Array:
        """One row a record, shape (records, entries), which PEM clips and adds up."""

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """The next state. It sees the noisy sum only, so whatever it computes costs no more privacy."""


@runtime_checkable
class _AddsUp(Protocol):
    """One that adds up its records itself, and bounds each of them."""

    adds_up: ClassVar[bool]


def contribution(algorithm: PemAlgorithm, records: sp.csr_array, state: PemState) -> NDArray[np.int64]:
    """One client's vector in steps, shape (entries,): its records' vectors, clipped and rounded, added up."""
    mapped = algorithm.map_in_client(records, state)
    if mapped.ndim == 1 and isinstance(algorithm, _AddsUp):
        return np.asarray(mapped, dtype=np.int64)
    if mapped.shape != (records.shape[0], state.entries):
        raise InputError(
            f"`map_in_client` must return shape {(records.shape[0], state.entries)}; got {mapped.shape}."
        )
    rows = sp.csr_array(mapped, dtype=np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()  # it may share its arrays with the records
        rows.sum_duplicates()
    return np.asarray(clipped(rows, state.blocks).sum(axis=0), dtype=np.int64).reshape(-1)  # in integers: exact


_HUGE = 1e250
"""Steps of an entry that is as good as infinite."""


def clipped(rows: sp.csr_array, blocks: tuple[VectorBlock, ...]) -> sp.csr_array:
    """Every row's part of every block, clipped and rounded to whole steps, int64."""
    if np.isnan(rows.data).any():
        raise InputError("`map_in_client` returned NaN.")
    block_of = np.repeat(np.arange(len(blocks)), [block.size for block in blocks])
    # Without a cap, scaling alone bounds an entry: it has to be finite, and so have sums of them.
    highest = np.array([_HUGE if block.cap is None else block.cap_steps for block in blocks])
    lowest = np.where([block.nonnegative for block in blocks], 0.0, -highest)
    scales = np.array([2.0**block.fraction_bits for block in blocks])
    bounds = np.array([float(block.bound_steps) for block in blocks])
    if rows.shape[0] * max((block.cap_steps for block in blocks), default=0) >= 2**62:
        raise InputError("The sum of so many records may leave 64 bits: ask for fewer fraction bits.")
    steps = _steps(*arrays_of(rows), block_of, np.array([lowest, highest, scales, bounds]))
    return sp.csr_array((steps, rows.indices, rows.indptr), shape=rows.shape)


@njit(cache=True, nogil=True)
def _steps(indptr: Array, indices: Array, data: Array, block_of: Array, limits: Array) -> NDArray[np.int64]:
    """Entries in steps; `limits` has lowest, highest, scale and bound of every block."""
    steps, norms = np.empty(len(data)), np.empty(limits.shape[1])
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        norms[:] = 0.0
        for at in range(start, stop):
            block = block_of[indices[at]]
            lowest, highest, scale = limits[0, block], limits[1, block], limits[2, block]
            steps[at] = min(max(data[at] * scale, lowest), highest)
            norms[block] += abs(steps[at])
        for at in range(start, stop):
            block = block_of[indices[at]]
            if norms[block] > limits[3, block]:
                steps[at] *= limits[3, block] / norms[block]
            steps[at] = np.trunc(steps[at])
        over = True
        while over:  # rounding errors may leave a step or so above a bound
            norms[:] = 0.0
            for at in range(start, stop):
                norms[block_of[indices[at]]] += abs(steps[at])
            over = False
            for at in range(start, stop):
                block = block_of[indices[at]]
                if norms[block] > limits[3, block] and steps[at] != 0.0:
                    steps[at] -= np.sign(steps[at])
                    over = True
    return steps.astype(np.int64)


def sampled(records: sp.csr_array, rate: float, random: RandomBytes) -> sp.csr_array:
    """Each record with probability `rate` (to within 2^-53), by secret coins."""
    if rate == 1:
        return records
    words = np.frombuffer(random(8 * records.shape[0]), dtype="<u8")
    return records[np.flatnonzero((words >> np.uint64(11)) * 2.0**-53 < rate)]


def client_vector(
    algorithm: PemAlgorithm, records: sp.csr_array, state: PemState, budget: Budget, sampler: Sampler
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """One client's vector in steps, and which of its entries are sent; None: all of them."""
    steps = contribution(algorithm, records, state)
    sparse = budget.sparse
    if sparse is None:
        return steps, None
    if len(state.blocks) != 1:
        raise InputError(f"Sparse vectors need exactly one block; {algorithm.name} has {len(state.blocks)}.")
    block = state.blocks[0]
    threshold = math.ceil(sparse.threshold * 2.0**block.fraction_bits)
    order = np.random.default_rng(state.iteration).permutation(len(steps))  # public; no place is always first
    places = choose_large(
        np.abs(steps[order]), threshold, sparse.most, block.entry_sensitivity, budget.of_selection, sampler.draw
    )
    chosen = np.sort(order[places])
    kept = np.zeros_like(steps)
    kept[chosen] = steps[chosen]
    return kept, chosen


@dataclass(frozen=True, eq=False)
class PemRun:
    """The result of a run."""

    states: tuple[PemState, ...]
    """The start, and the state after each iteration."""
    totals: tuple[PemTotal, ...]
    """Results of the iterations at the aggregator."""
    seen: tuple[PemTotal, ...]
    """The same to a coalition that has subtracted its own records and noise."""
    epsilon: float
    """Epsilon that the run cost a record."""
    sampler: str
    """Sampler of the noise."""

    @property
    def final(self) -> PemState:
        """The last state."""
        return self.states[-1]


def run_ideal(
    algorithm: PemAlgorithm,
    parts: Sequence[sp.csr_array],
    budget: Budget,
    sampler: Sampler,
    *,
    noises: int = 2,
    known_noises: int = 0,
    known_parts: Sequence[sp.csr_array] = (),
    random: RandomBytes = os_random,
) -> PemRun:
    """Run an algorithm on the ideal functionality."""
    if not 0 <= known_noises <= max(noises - 1, 0):
        raise InputError(f"`known_noises` must be below `noises` ({noises}); got {known_noises}.")
    if budget.stream:
        raise InputError("`stream` is for runs among servers: here the records of every iteration are the same.")
    if budget.sparse is None:  # records are clipped one by one: together is the same, and quicker
        parts, known_parts = _together(parts), _together(known_parts)
    state = algorithm.init()
    states, totals, seen = [state], [], []
    while not state.ends(budget):

        def summed(clients: Sequence[sp.csr_array], state: PemState = state) -> NDArray[np.int64]:
            total = np.zeros(state.entries, dtype=np.int64)
            for records in clients:
                chosen = sampled(records, budget.sampling, random)
                total += client_vector(algorithm, chosen, state, budget, sampler)[0]
            return total

        def noise(count: int, state: PemState = state) -> NDArray[np.int64]:
            return np.concatenate([sampler.draw(budget.scale(b), b.size, count) for b in state.blocks])

        others, own = summed(parts), summed(known_parts)
        hidden, known_noise = noise(noises - known_noises), noise(known_noises)
        rows = sum(part.shape[0] for part in (*parts, *known_parts))
        total = PemTotal.of(others + own + hidden + known_noise, state.blocks, rows, budget.sampling)
        totals.append(total)
        seen.append(PemTotal.of(others + hidden, state.blocks, rows, budget.sampling))
        state = algorithm.reduce_in_aggregator(state, total)
        states.append(state)
    spent = budget.spent(len(totals)) if noises else math.inf
    return PemRun(tuple(states), tuple(totals), tuple(seen), spent, sampler.label if noises else "none")


def _together(parts: Sequence[sp.csr_array]) -> Sequence[sp.csr_array]:
    return parts if len(parts) < 2 else [sp.csr_array(sp.vstack(list(parts), format="csr"))]
