"""PEM without the cryptography: what its aggregator learns, computed directly.

Shares are uniform and add up to the sum, so the sums with the servers' noise are all that anybody sees of them.
A test proves that the machines, given the same noise, announce the same numbers to the bit. This is what the
audit runs thousands of times, and what curves are drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, PemTotal, contribution
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler
from ksdp.audit.mechanisms.pem.sparse_vector import choose_large
from ksdp.audit.randomness import RandomBytes, os_random

Signed = NDArray[np.int64]


def sampled(records: sp.csr_array, rate: float, random: RandomBytes) -> sp.csr_array:
    """Each record with probability `rate` (to within 2^-53), by secret coins."""
    if rate == 1:
        return records
    words = np.frombuffer(random(8 * records.shape[0]), dtype="<u8")
    return records[np.flatnonzero((words >> np.uint64(11)) * 2.0**-53 < rate)]


def client_vector(
    algorithm: PemAlgorithm, records: sp.csr_array, state: PemState, budget: Budget, sampler: Sampler
) -> tuple[Signed, NDArray[np.int64] | None]:
    """One client's vector in steps, and which of its entries are sent; None: all of them.

    Raises
    ------
    InputError
        If sparse vectors are asked for where there is more than one block.
    """
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
    """What a run announced."""

    states: tuple[PemState, ...]
    """The start, and the state after each iteration."""
    totals: tuple[PemTotal, ...]
    """What the aggregator learned, iteration by iteration."""
    seen: tuple[PemTotal, ...]
    """The same to a coalition that has subtracted its own records and noise."""
    epsilon: float
    """What it cost a record."""
    sampler: str
    """What drew the noise."""

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
    """Run an algorithm on the ideal functionality.

    Parameters
    ----------
    parts : sequence of CSR
        The records of the clients that the coalition does not hold; one client each.
    sampler : Sampler
        Of the noise.
    noises : int
        How many add noise: the m servers; n for noise at every client (the baseline); 0 for none.
    known_noises : int
        Of these, those whose noise the coalition knows.
    known_parts : sequence of CSR
        The records of the coalition's own clients.
    random : callable
        Bytes for the sampling coins.

    Raises
    ------
    InputError
        If a coalition knows all noise, or the budget is of a stream.
    """
    if not 0 <= known_noises <= max(noises - 1, 0):
        raise InputError(f"`known_noises` must be below `noises` ({noises}); got {known_noises}.")
    if budget.stream:
        raise InputError("`stream` is for runs among servers: here the records of every iteration are the same.")
    if budget.sparse is None:  # records are clipped one by one: together is the same, and quicker
        parts, known_parts = _together(parts), _together(known_parts)
    state = algorithm.init()
    states, totals, seen = [state], [], []
    while not budget.over(state):

        def summed(clients: Sequence[sp.csr_array], state: PemState = state) -> Signed:
            total = np.zeros(state.entries, dtype=np.int64)
            for records in clients:
                chosen = sampled(records, budget.sampling, random)
                total += client_vector(algorithm, chosen, state, budget, sampler)[0]
            return total

        def noise(count: int, state: PemState = state) -> Signed:
            return np.concatenate([sampler.draw(budget.scale(b), b.size, count) for b in state.blocks])

        others, own = summed(parts), summed(known_parts)
        hidden, known = noise(noises - known_noises), noise(known_noises)
        rows = sum(part.shape[0] for part in (*parts, *known_parts))
        total = PemTotal.of(others + own + hidden + known, state.blocks, rows, budget.sampling)
        totals.append(total)
        seen.append(PemTotal.of(others + hidden, state.blocks, rows, budget.sampling))
        state = algorithm.reduce_in_aggregator(state, total)
        states.append(state)
    spent = budget.spent(len(totals)) if noises else math.inf
    return PemRun(tuple(states), tuple(totals), tuple(seen), spent, sampler.label if noises else "none")


def _together(parts: Sequence[sp.csr_array]) -> Sequence[sp.csr_array]:
    return parts if len(parts) < 2 else [sp.csr_array(sp.vstack(list(parts), format="csr"))]
