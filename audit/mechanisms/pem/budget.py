"""What epsilon buys: splitting, sensitivity, sampling, and the noise that follows.

A run of T iterations with privacy parameter epsilon spends epsilon / T an iteration; an iteration whose vector
has blocks of dimensions gives block g its share w_g of that, with the w_g adding up to 1. A block whose sum
changes by at most L_g (L1, when one record is replaced) gets noise of scale L_g / (w_g epsilon / T) at every
server. L_g may change from iteration to iteration. These are PEM's lambda = T L / epsilon, T L_k / epsilon_k and
T L(t) / epsilon.

**Neighbours** differ in one record's values (replace-one): how many records a client has is public.

**Sampling.** If every record enters an iteration with probability q, by coins that only its client sees, an
iteration that would be e-private is ln(1 + q (e^e - 1))-private. So noise for e = ln(1 + (e^(epsilon/T) - 1) /
q) is enough. This is stated for add/remove neighbours (Balle, Barthe, Gaboardi 2018, Theorem 8). For
replace-one, let a, b, b' be the likelihoods without the record, with it, and with the other one; removing a
record moves no further than replacing it, so each is at most e^e times any other. The ratio is 1 + q (b - b') /
((1-q) a + q b'). If a >= b', the denominator is at least b' and b - b' <= (e^e - 1) b'; if a < b', it is at
least a and b - b' <= (e^e - 1) a.

**Streams.** If no record enters more than one iteration, every iteration may spend all of epsilon (parallel
composition).

**Who is protected against whom.** Every server adds all of the noise, so epsilon holds against the aggregator,
the other clients and all servers but one together. (The paper asks for two servers that do
not collude: each of the two is then protected from the other.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ksdp.audit.errors import InputError

if TYPE_CHECKING:
    from ksdp.audit.mechanisms.pem.algorithm import PemState, VectorBlock


def before_sampling(epsilon: float, rate: float) -> float:
    """The epsilon of a step that costs `epsilon` on a sample of this rate: ln(1 + (e^epsilon - 1) / rate).

    Examples
    --------
    >>> round(before_sampling(1.0, 0.1), 4)
    2.9005
    """
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

    Parameters
    ----------
    threshold : float
        tau, in the units of the vector.
    most : int
        c: a client sends at most so many entries.
    part : float
        Of an iteration's epsilon, in (0, 1): what choosing the entries may cost. The rest is for their sums.
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
class Budget:
    """What a run may cost a record, and the noise that follows from it.

    Parameters
    ----------
    epsilon : float
        Of the whole run; infinity means no noise and no privacy.
    iterations : int
        T, the most that may be run. Fewer cost less: nothing is redistributed.
    sampling : float
        q in (0, 1], the chance of a record to enter an iteration.
    stream : bool
        Every record enters one iteration at most, which may then spend all of `epsilon`.
    sparse : Sparse, optional
        Clients send large entries only.

    Examples
    --------
    >>> from ksdp.audit.mechanisms.pem.algorithm import VectorBlock
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
        """What one iteration costs a record that may be in it."""
        return self.epsilon if self.stream else self.epsilon / self.iterations

    @property
    def on_sample(self) -> float:
        """What one iteration costs a record that is known to be in it: larger where records are sampled."""
        return before_sampling(self.of_iteration, self.sampling)

    @property
    def of_selection(self) -> float:
        """Of `on_sample`, what the sparse vector technique takes."""
        return self.on_sample * self.sparse.part if self.sparse else 0.0

    def of_block(self, block: VectorBlock) -> float:
        """Of `on_sample`, what the sum of a block takes."""
        left = self.on_sample * (1 - self.sparse.part) if self.sparse else self.on_sample
        return left * block.share

    def scale(self, block: VectorBlock) -> float:
        """lambda: scale of each server's noise on a block, in the block's steps; 0 where epsilon is infinite."""
        return block.sensitivity / self.of_block(block)

    def over(self, state: PemState) -> bool:
        """Whether no iteration is left: the algorithm has ended, or has had all."""
        return not state.blocks or state.iteration >= self.iterations

    def spent(self, iterations: int) -> float:
        """What so many iterations have cost a record.

        Raises
        ------
        InputError
            If they are more than were planned.
        """
        if not 0 <= iterations <= self.iterations:
            raise InputError(f"`iterations` must be 0 to {self.iterations}; got {iterations}.")
        if self.stream:
            return self.epsilon if iterations else 0.0
        return self.of_iteration * iterations if iterations else 0.0


def tight_epsilon(budget: Budget, delta: float, iterations: int | None = None) -> float:
    """epsilon at `delta` of the iterations together, by the best composition that holds for any pure mechanism.

    The paper adds the iterations' epsilons up. At a small delta far less is spent: each iteration is dominated
    by randomised response with its epsilon, whose privacy losses are convolved (Kairouz, Oh, Viswanath 2015),
    here with dp-accounting, pessimistically. It is never above the sum.

    Parameters
    ----------
    delta : float
        In (0, 1).
    iterations : int, optional
        Done so far; all by default.
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
    one = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(each, 0.0), value_discretization_interval=min(step, each)
    )
    return min(linear, float(one.self_compose(done).get_epsilon_for_delta(delta)))
