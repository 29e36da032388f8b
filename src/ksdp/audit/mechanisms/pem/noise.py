"""PEM's noise: discrete Laplace, the sparse vector technique, and what a run may spend."""

from __future__ import annotations

import importlib.metadata
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ksdp.audit.errors import InputError


class Sampler(Protocol):
    """A function that draws the noise of a server."""

    @property
    def label(self) -> str:
        """Which it is, for every output."""

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        """Sums of `parties` independent discrete Laplace numbers each, shape (entries,); zeros for scale 0."""


def _check(scale: float, entries: int, parties: int) -> None:
    if not (math.isfinite(scale) and scale >= 0):
        raise InputError(f"`scale` must be finite and at least 0; got {scale}.")
    if entries < 0 or parties < 0:
        raise InputError(f"`entries` and `parties` must not be negative; got {entries} and {parties}.")


@lru_cache(maxsize=1)
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


@dataclass(frozen=True)
class Vetted:
    """OpenDP's discrete Laplace sampler: exact, from the operating system's randomness, about 10 us a number."""

    @property
    def label(self) -> str:
        """Which it is, with OpenDP's version."""
        return f"OpenDP {importlib.metadata.version('opendp')} (exact discrete Laplace)"

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        """Sums of `parties` independent numbers each, shape (entries,)."""
        _check(scale, entries, parties)
        total = np.zeros(entries, dtype=np.int64)
        if scale == 0 or not entries:
            return total
        dp = _opendp()
        measurement = dp.m.make_laplace(
            dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=float(scale)
        )
        for _ in range(parties):
            total += np.array(measurement([0] * entries), dtype=np.int64)
        return total


@dataclass(frozen=True, eq=False)
class Simulated:
    """NumPy's: repeatable, fast, floating point inside. It protects nothing outside a simulation.

    A discrete Laplace number is the difference of two geometric ones, so a sum of n of them is the difference of
    two negative binomial ones, drawn at once.
    """

    rng: np.random.Generator

    @property
    def label(self) -> str:
        """Which it is."""
        return "NumPy (simulation only, protects nothing)"

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        """Sums of `parties` independent numbers each, shape (entries,)."""
        _check(scale, entries, parties)
        if scale == 0 or not parties:
            return np.zeros(entries, dtype=np.int64)
        success = -math.expm1(-1.0 / scale)
        return self.rng.negative_binomial(parties, success, entries) - self.rng.negative_binomial(
            parties, success, entries
        )


def log_law(scale: float, numbers: NDArray[np.integer], parties: int = 1) -> NDArray[np.float64]:
    """Logarithms of the probabilities of integers under the law of a sum of `parties` independent numbers.

    With q = exp(-1 / scale), w = q^2 / (1 - q^2), n parties and k >= 0 they are, exactly::

        P(k) = ((1 - q) / (1 + q))^n q^k sum_{i < n} c_i w^i (k + i + 1) ... (k + n - 1),
        c_i = (n + i - 1)! / ((n - 1)! (n - 1 - i)! i!)

    which is the series of the convolution, sum_i C(n-1+k+i, n-1) C(n-1+i, n-1) q^(k+2i) (1-q)^(2n), after Pfaff's
    transformation of its 2F1: a polynomial with positive terms only, so nothing cancels.
    """
    if not (math.isfinite(scale) and scale > 0) or parties < 1:
        raise InputError(f"`scale` must be above 0 and `parties` at least 1; got {scale} and {parties}.")
    k = np.abs(np.asarray(numbers, dtype=np.float64))
    log_w = -2.0 / scale - math.log(-math.expm1(-2.0 / scale))
    tail, terms = np.zeros_like(k), []
    for i in range(parties - 1, -1, -1):
        log_c = math.lgamma(parties + i) - math.lgamma(parties) - math.lgamma(parties - i) - math.lgamma(i + 1)
        terms.append(log_c + i * log_w + tail)
        tail = tail + np.log(k + i) if i else tail
    head = parties * math.log(math.tanh(0.5 / scale)) - k / scale
    return np.asarray(head + logsumexp(terms, axis=0), dtype=np.float64)


def reach(scale: float, entries: int, parties: int, chance: float = 2.0**-60) -> int:
    """A size that no entry of the noise passes, but with probability `chance`.

    Some of `parties` numbers is larger than t in size with probability at most parties * 2 q^(t+1) / (1 + q),
    and unless one is, their sum is at most parties * t: a union bound over parties and entries.
    """
    _check(scale, entries, parties)
    if scale == 0 or not entries or not parties:
        return 0
    return parties * math.ceil(scale * math.log(2 * parties * entries / chance))


def choose_large(
    answers: NDArray[np.int64],
    threshold: int,
    most: int,
    sensitivity: int,
    epsilon: float,
    draw: Callable[[float, int], NDArray[np.int64]],
) -> NDArray[np.int64]:
    """Places of the answers that are above a threshold, noisily, ascending; asked in their order."""
    if most < 1 or sensitivity < 1:
        raise InputError(f"`most` and `sensitivity` must be at least 1; got {most} and {sensitivity}.")
    if not epsilon > 0:
        raise InputError(f"`epsilon` must be above 0; got {epsilon}.")
    rho = int(draw(2 * sensitivity / epsilon, 1)[0])
    noisy = np.asarray(answers, dtype=np.int64) + draw(4 * most * sensitivity / epsilon, len(answers))
    return np.flatnonzero(noisy >= threshold + rho)[:most]


def before_sampling(epsilon: float, rate: float) -> float:
    """The epsilon of a step that costs `epsilon` on a sample of this rate: ln(1 + (e^epsilon - 1) / rate)."""
    if not 0 < rate <= 1:
        raise InputError(f"`rate` must be in (0, 1]; got {rate}.")
    if rate == 1 or math.isinf(epsilon):
        return epsilon
    if epsilon > 30:
        return epsilon + math.log((1 - (1 - rate) * math.exp(-epsilon)) / rate)
    return math.log1p(math.expm1(epsilon) / rate)


@dataclass(frozen=True)
class Sparse:
    """The sparse vector technique at the clients: send only entries that are large, and say which.

    A client sends at most `most` entries above `threshold`; choosing them may cost `part` of an iteration's
    epsilon, in (0, 1), and the rest is for their sums.
    """

    threshold: float
    most: int
    part: float = 0.5

    def __post_init__(self) -> None:
        if not (math.isfinite(self.threshold) and self.threshold >= 0):
            raise InputError(f"`threshold` must be at least 0; got {self.threshold}.")
        if self.most < 1:
            raise InputError(f"`most` must be at least 1; got {self.most}.")
        if not 0 < self.part < 1:
            raise InputError(f"`part` must be in (0, 1); got {self.part}.")


@dataclass(frozen=True)
class VectorBlock:
    """Some dimensions of the vectors that share a bound and a part of epsilon.

    Parameters
    ----------
    size : dimensions
    bound : largest L1 norm of one record's part; longer ones are scaled down
    share : of the iteration's epsilon, in (0, 1]; those of all blocks add up to 1
    cap : largest size of one entry, larger ones are cut; `bound` unless given
    nonnegative : entries below 0 are cut
    fraction_bits : f: entries are whole multiples (steps) of 2^-f, rounded towards zero: with 0, a record of small
        entries that is longer than `bound` is scaled down to nothing

    >>> VectorBlock(4, bound=3.0, cap=1.0, nonnegative=True).sensitivity  # at most all four entries change by one
    4
    """

    size: int
    bound: float
    share: float = 1.0
    cap: float | None = None
    nonnegative: bool = False
    fraction_bits: int = 0

    def __post_init__(self) -> None:
        if self.size < 1:
            raise InputError(f"`size` must be at least 1; got {self.size}.")
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise InputError(f"`bound` must be positive and finite; got {self.bound}.")
        if not 0 < self.share <= 1:
            raise InputError(f"`share` must be in (0, 1]; got {self.share}.")
        if self.cap is not None and not 0 < self.cap <= self.bound:
            raise InputError(f"`cap` must be in (0, {self.bound:g}], the bound; got {self.cap}.")
        if not 0 <= self.fraction_bits <= 40:
            raise InputError(f"`fraction_bits` must be 0 to 40; got {self.fraction_bits}.")
        if self.bound_steps < 1 or self.cap_steps < 1:
            raise InputError("`bound` and `cap` must be at least one step of 2^-`fraction_bits`.")
        if self.bound_steps > 2**52:
            raise InputError("`bound` has too many steps: ask for fewer fraction bits.")

    @property
    def bound_steps(self) -> int:
        """`bound` in steps, rounded down."""
        return math.floor(self.bound * 2.0**self.fraction_bits)

    @property
    def cap_steps(self) -> int:
        """`cap` in steps, rounded down."""
        return math.floor((self.bound if self.cap is None else self.cap) * 2.0**self.fraction_bits)

    @property
    def entry_sensitivity(self) -> int:
        """By how many steps one entry of a sum can change when one record is replaced."""
        return self.cap_steps if self.nonnegative else min(2 * self.cap_steps, 2 * self.bound_steps)

    @property
    def sensitivity(self) -> int:
        """L in steps: by how much (L1) the sum can change when one record is replaced."""
        return min(2 * self.bound_steps, self.size * self.entry_sensitivity)


@dataclass(frozen=True)
class Budget:
    """Cost limit of a run for a record, and the noise that follows from it.

    Parameters
    ----------
    epsilon : of the whole run; infinity means no noise and no privacy
    iterations : T, the most that may be run; fewer cost less, nothing is redistributed
    sampling : q in (0, 1], the chance of a record to enter an iteration
    stream : every record enters one iteration at most, which may then spend all of `epsilon`
    sparse : clients send large entries only

    >>> Budget(epsilon=1.0, iterations=50).scale(VectorBlock(27, bound=8.0, share=0.5))  # T L / (epsilon / 2)
    1600.0
    """

    epsilon: float
    iterations: int
    sampling: float = 1.0
    stream: bool = False
    sparse: Sparse | None = None

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InputError(f"`epsilon` must be above 0; got {self.epsilon}.")
        if self.iterations < 1:
            raise InputError(f"`iterations` must be at least 1; got {self.iterations}.")
        if not 0 < self.sampling <= 1:
            raise InputError(f"`sampling` must be in (0, 1]; got {self.sampling}.")

    @property
    def of_iteration(self) -> float:
        """Epsilon of one iteration for a record that may be in it."""
        return self.epsilon if self.stream else self.epsilon / self.iterations

    @property
    def on_sample(self) -> float:
        """Epsilon of one iteration for a record that is known to be in it: larger if records are sampled."""
        return before_sampling(self.of_iteration, self.sampling)

    @property
    def of_selection(self) -> float:
        """The part of `on_sample` for the sparse vector technique."""
        return self.on_sample * self.sparse.part if self.sparse else 0.0

    def of_block(self, block: VectorBlock) -> float:
        """The part of `on_sample` for the sum of a block."""
        remaining = self.on_sample * (1 - self.sparse.part) if self.sparse else self.on_sample
        return remaining * block.share

    def scale(self, block: VectorBlock) -> float:
        """lambda: scale of each server's noise on a block, in the block's steps; 0 where epsilon is infinite."""
        return block.sensitivity / self.of_block(block)

    def spent(self, iterations: int) -> float:
        """Epsilon that so many iterations have cost a record."""
        if not 0 <= iterations <= self.iterations:
            raise InputError(f"`iterations` must be 0 to {self.iterations}; got {iterations}.")
        if self.stream:
            return self.epsilon if iterations else 0.0
        return self.of_iteration * iterations if iterations else 0.0


def tight_epsilon(budget: Budget, delta: float, iterations: int | None = None) -> float:
    """epsilon at `delta` of the iterations together, by the best composition that holds for any pure mechanism.

    The paper adds the iterations' epsilons up. At a small delta far less is spent: each iteration is dominated by
    randomised response with its epsilon, whose privacy losses are convolved (Kairouz, Oh, Viswanath 2015), here
    with dp-accounting, pessimistically. It is never above the sum. `iterations` are those done so far; all by
    default.
    """
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    done = budget.iterations if iterations is None else iterations
    if not 0 < delta < 1:
        raise InputError(f"`delta` must be in (0, 1); got {delta}.")
    linear = budget.spent(done)
    if not linear or math.isinf(linear) or budget.stream:
        return linear
    each = budget.of_iteration
    if each > 50:  # beyond this e^-each is below any delta, and the library overflows
        return linear
    step = max(1e-4, each * done / 1e6)  # keeps the convolution's array within some millions of entries
    loss = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(each, 0.0), value_discretization_interval=min(step, each)
    )
    return min(linear, float(loss.self_compose(done).get_epsilon_for_delta(delta)))
