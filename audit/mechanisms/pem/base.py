"""What PEM's mechanisms have in common: the noise, the adversary, and the claim that can be refuted.

Runs are those of the ideal functionality (`ideal.py`); a test proves that the machines announce
the same. The coalition is the aggregator, `colluding` of the servers, and the parties that the database names:
it has subtracted those servers' noise and those parties' records from every sum. With colluding = servers - 1
one server's noise is left, which is what epsilon is stated for.

**The likelihood ratio** of a transcript is a product over iterations, given the states, which are public. A state
says what the one record that the coalition does not hold would put into the sum; what is left of the sum is the
hidden servers' noise, whose law is known exactly. Where records are sampled, each law is a mixture of "drawn" and
"not drawn": the coins of an iteration are tossed anew, and only the record's owner sees them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.checks import check_least
from ksdp.audit.mechanisms.contract import Announced, Database, Observables
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.pem.added import noise_variance
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, PemTotal, VectorBlock, contribution
from ksdp.audit.mechanisms.pem.budget import Budget, tight_epsilon
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Simulated, Vetted, log_law
from ksdp.audit.mechanisms.pem.ideal import PemRun, run_ideal
from ksdp.audit.mechanisms.privacy.noise import PrivacyCost, check_sampler
from ksdp.audit.mechanisms.privacy.record_bounds import adjacency_words
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.equations import Equations
from ksdp.audit.statistics.releases_match import Added, Adds, ReleasesMatch, nothing_added

_DELTA = 1e-5
"""At which the tighter count is given beside the claim, whose delta is 0."""


@dataclass(frozen=True, eq=False)
class _Weakened:
    """A sampler whose noise is multiplied: by 1, but in a mechanism that is broken on purpose."""

    sampler: Sampler
    factor: float

    @property
    def label(self) -> str:
        return self.sampler.label

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        return self.sampler.draw(scale * self.factor, entries, parties)


_WHOLE = {
    "colluding": 0,
    "clusters": 1,
    "iterations": 1,
    "start_seed": 0,
    "fraction_bits": 0,
    "longest": 1,
    "length": 1,
    "keep": 1,
    "label": -(2**31),
}
"""Whole numbers of the mechanisms, with the least that each may be."""


@dataclass(frozen=True, kw_only=True)
class PemMechanism(ABC):
    """What the three have in common.

    Parameters
    ----------
    epsilon : float
        Of the whole run; finite.
    servers : int
        m, at least 2; each adds all of the noise.
    colluding : int
        Servers whose noise the coalition knows, below m.
    sampling : float
        Chance of a record to enter an iteration.
    sampler : {"fast", "discrete"}
        Who draws the noise: a simulation, so that an audit can be replayed, or the vetted sampler, which no seed
        gives back and which a run among real parties uses.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    gaussian: ClassVar[bool] = False
    order_free: ClassVar[bool] = True
    summed: ClassVar[tuple[str, ...]]
    """The observables that `as_equations` reads."""
    noise_factor: ClassVar[float] = 1.0
    """1; a control that is broken on purpose has less."""

    epsilon: float = 1.0
    servers: int = 2
    colluding: int = 1
    sampling: float = 1.0
    sampler: str = "fast"

    def __post_init__(self) -> None:
        check_least(self, servers=2, **{name: least for name, least in _WHOLE.items() if hasattr(self, name)})
        if not self.colluding < self.servers:
            raise SpecError(f"`colluding` must be 0 to {self.servers - 1}; got {self.colluding}.")
        check_sampler(self.sampler)
        if not math.isfinite(self.epsilon):
            raise SpecError(f"`epsilon` must be positive and finite; got {self.epsilon}.")
        try:
            self.budget()
            self.check()
        except InputError as error:
            raise SpecError(str(error)) from error

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""

    @abstractmethod
    def check(self) -> None:
        """Refuse parameters of the algorithm."""

    @abstractmethod
    def algorithm(self, features: int) -> PemAlgorithm:
        """The three functions."""

    @abstractmethod
    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces."""

    @abstractmethod
    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; noise and coins come from `rng`, noise of the vetted sampler does not."""

    @abstractmethod
    def neighbours(self) -> tuple[Database, Database]:
        """A worst case: two databases that differ in one record; the coalition holds all the others."""

    @abstractmethod
    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, Equations]:
        """What records add to all sums of a run, and these sums (`statistics.releases_match`)."""

    @property
    def statistics(self) -> tuple[ReleasesMatch, ...]:
        """What the aggregator can look at as well: what all sums together hold of a record."""
        return (ReleasesMatch(self.summed),)

    def equations(self, parts: Sequence[tuple[Floats, VectorBlock, float]], share: float) -> Equations:
        """Announced sums, where a database holds a record with probability `share`.

        Each with its block, and the variance of what was added to it besides the servers' noise.
        A record that is sampled is in a sum by a coin of its own, which is as good as noise of its terms' size.
        """
        hidden, rate = self.servers - self.colluding, self.sampling
        sums = np.concatenate([values.ravel() / rate for values, _, _ in parts])
        noise = [
            np.full(values.size, (noise_variance(block, self.budget(), hidden) + more) / rate**2)
            for values, block, more in parts
        ]
        coins = (1 - rate) / rate / max(1 - share, 1e-3)
        return Equations(sums, np.concatenate(noise), of_all=False, shrink=coins)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom."""
        sampled = ", on samples that only the record's own client knows" if self.sampling < 1 else ""
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words('replace-one')}{sampled}; how many records each client has is public",
            trust=f"the aggregator, the other clients and all but one of the {self.servers} servers together; "
            "everybody keeps to the protocol",
            source="PEM; every server adds discrete Laplace noise for all of epsilon (decision 0015)",
            epsilon=self.epsilon,
            delta=0.0,
            sampler=self.sampler,
            notes="Nothing is promised once all servers work together, or one leaves its noise out.",
        )

    def budget(self) -> Budget:
        """What a run may cost a record."""
        return Budget(self.epsilon, self.rounds, sampling=self.sampling)

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) of the whole run: the parameter, and 0."""
        return self.epsilon, 0.0

    def counts(self, sizes: Sequence[int], features: int) -> tuple[PrivacyCost, ...]:
        """Epsilon of all iterations together: added up, as claimed, and by the best composition at a delta."""
        budget = self.budget()
        added = PrivacyCost("added up", budget.spent(budget.iterations), 0.0)
        return added, PrivacyCost("tightest", tight_epsilon(budget, _DELTA), _DELTA)

    def ideal(self, database: Database, rng: np.random.Generator) -> PemRun:
        """One run of the ideal functionality, with all that the coalition sees of it."""
        sampler: Sampler = Simulated(rng) if self.sampler == "fast" else Vetted()
        inside = [part for i, part in enumerate(database.parties) if i in database.coalition]
        outside = [database.parties[i] for i in database.outside]
        return run_ideal(
            self.algorithm(database.parties[0].shape[1]), outside, self.budget(),
            _Weakened(sampler, self.noise_factor),
            noises=self.servers, known_noises=self.colluding, known_parts=inside, random=rng.bytes,
        )  # fmt: skip

    def transcript(self, database: Database, rng: np.random.Generator) -> PemRun:
        """Everything that one run announces, with the states that it went through."""
        return self.ideal(database, rng)

    def log_likelihood_ratio(self, transcript: PemRun, pair: tuple[Database, Database]) -> float:
        """ln of P(transcript | first database) / P(transcript | second), exactly.

        Raises
        ------
        SpecError
            If more than one record is outside the coalition.
        """
        first, second = (_hidden_record(database) for database in pair)
        algorithm = self.algorithm(first.shape[1])
        states = transcript.states[: len(transcript.seen)]
        return math.fsum(
            self._gain(algorithm, first, state, total) - self._gain(algorithm, second, state, total)
            for state, total in zip(states, transcript.seen, strict=True)
        )

    def _gain(self, algorithm: PemAlgorithm, record: sp.csr_array, state: PemState, total: PemTotal) -> float:
        """ln of P(sum | the record) / P(sum | nothing)."""
        hidden, at, gain = self.servers - self.colluding, 0, 0.0
        budget, steps = self.budget(), contribution(algorithm, record, state)
        for block, values in zip(state.blocks, total.values, strict=True):
            moved = steps[at : at + block.size]
            at += block.size
            places = np.flatnonzero(moved)
            seen = np.rint(values[places] * 2.0**block.fraction_bits).astype(np.int64)
            scale = budget.scale(block) * self.noise_factor
            with_record, without = log_law(scale, np.stack((seen - moved[places], seen)), hidden)
            gain += float((with_record - without).sum())
        if self.sampling == 1:
            return gain
        return float(np.logaddexp(math.log1p(-self.sampling), math.log(self.sampling) + gain))


def _hidden_record(database: Database) -> sp.csr_array:
    outside = [database.parties[i] for i in database.outside]
    if len(outside) != 1 or outside[0].shape[0] != 1:
        raise SpecError("a likelihood ratio of PEM needs a coalition that holds all records but one.")
    return outside[0]
