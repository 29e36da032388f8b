"""PEM's mechanisms as an audit runs them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from pydantic import Field

from ksdp.audit.contract import EXACT, Array, Database, Guarantee, Noise, Observables, Release, Terms, Traits
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.parameters import check_least
from ksdp.audit.mechanisms.pem.added import (
    added_to_clusters,
    added_to_counts,
    added_to_gradients,
    apriori_pair,
    kmeans_pair,
    logistic_pair,
    noise_variance,
)
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemRun, PemState, PemTotal, contribution, run_ideal
from ksdp.audit.mechanisms.pem.functions import PemApriori, PemKMeans, PemLogistic, candidates
from ksdp.audit.mechanisms.pem.noise import Budget, Sampler, Simulated, VectorBlock, Vetted, log_law, tight_epsilon
from ksdp.audit.mechanisms.privacy.noise import PrivacyCost, adjacency_words, check_sampler
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.whole_numbers import Whole
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.releases import Added, Adds, LinearReleases, nothing_added, statistics_of_sums
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.statistics.products import announced

NOISE = Noise("laplace", "server")
"""Discrete Laplace noise, all of it by each server."""
_WIDE = 2**20
"""Columns of which names are asked, where none are known."""
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
    """Common part of the three PEM mechanisms.

    Parameters
    ----------
    epsilon : of the whole run; finite
    servers : m, at least 2; each adds all of the noise
    colluding : servers whose noise the coalition knows, below m
    sampling : chance of a record to enter an iteration
    sampler : a simulation (`fast`), or the vetted sampler (`discrete`), which no seed gives back
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    gaussian: ClassVar[bool] = False
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
            self.algorithm(self._least_features)
        except InputError as error:
            raise SpecError(str(error)) from error

    @property
    def traits(self) -> Traits:
        """The order of records does not matter."""
        return Traits(order_free=True)

    @property
    @abstractmethod
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""

    @property
    def _least_features(self) -> int:
        return 1

    @abstractmethod
    def algorithm(self, features: int) -> PemAlgorithm:
        """The three functions."""

    @abstractmethod
    def releases(self, features: int) -> tuple[Release, ...]:
        """All that a run shows the aggregator."""

    @abstractmethod
    def arrays(self, run: PemRun) -> dict[str, Array]:
        """Return the releases of a run."""

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; noise and coins come from `rng`, noise of the vetted sampler does not."""
        return Observables(self.arrays(self.transcript(database, rng)))

    @abstractmethod
    def neighbours(self) -> tuple[Database, Database]:
        """A worst case: two databases that differ in one record; the coalition holds all the others."""

    @abstractmethod
    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """Return what records add to all sums of a run, and these sums (`statistics.linear.releases`)."""

    def summed_release(self, name: str, shape: tuple[int, ...], *given: str) -> Release:
        """A noisy sum of what records add, given other arrays."""
        return Release(name, shape, Terms("sums", equations=self.as_equations, depends_on=given), NOISE)

    @property
    def statistics(self) -> tuple[LinearReleases, ...]:
        """The attack of the aggregator, which solves all sums together."""
        return statistics_of_sums(self.releases(_WIDE))

    def equations(self, parts: Sequence[tuple[Floats, VectorBlock, float]], share: float) -> LinearSystem:
        """Announced sums, where a database holds a record with probability `share`."""
        hidden, rate = self.servers - self.colluding, self.sampling
        sums = np.concatenate([values.ravel() / rate for values, _, _ in parts])
        noise = [
            np.full(values.size, (noise_variance(block, self.budget(), hidden) + more) / rate**2)
            for values, block, more in parts
        ]
        coins = (1 - rate) / rate / max(1 - share, 1e-3)
        return LinearSystem(sums, np.concatenate(noise), of_all=False, shrink=coins)

    @property
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""
        sampled = ", on samples that only the record's own client knows" if self.sampling < 1 else ""
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words('replace-one')}{sampled}; how many records each client has is public",
            trust="one of the servers, and that everybody keeps to the protocol; protects from the aggregator, "
            f"the other clients and all but one of the {self.servers} servers together",
            source="PEM; every server adds discrete Laplace noise for all of epsilon (decision 24)",
            epsilon=self.epsilon,
            delta=0.0,
            sampler=self.sampler,
            notes="Nothing is promised once all servers work together, or one leaves its noise out.",
        )

    def budget(self) -> Budget:
        """The epsilon that a run may cost a record."""
        return Budget(self.epsilon, self.rounds, sampling=self.sampling)

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) of the whole run: the parameter, and 0."""
        return self.epsilon, 0.0

    def counts(self, sizes: Sequence[int], features: int) -> tuple[PrivacyCost, ...]:
        """Epsilon of all iterations together: added up, as claimed, and by the best composition at a delta."""
        budget = self.budget()
        added = PrivacyCost("added up", budget.spent(budget.iterations), 0.0)
        return added, PrivacyCost("tightest", tight_epsilon(budget, _DELTA), _DELTA)

    def transcript(self, database: Database, rng: np.random.Generator) -> PemRun:
        """One run of the ideal functionality, with all that the coalition sees of it."""
        sampler: Sampler = Simulated(rng) if self.sampler == "fast" else Vetted()
        inside = [part for i, part in enumerate(database.parties) if i in database.coalition]
        outside = [database.parties[i] for i in database.outside]
        return run_ideal(
            self.algorithm(database.parties[0].shape[1]), outside, self.budget(),
            _Weakened(sampler, self.noise_factor),
            noises=self.servers, known_noises=self.colluding, known_parts=inside, random=rng.bytes,
        )  # fmt: skip

    def log_likelihood_ratio(self, transcript: PemRun, pair: tuple[Database, Database]) -> float:
        """ln of P(transcript | first database) / P(transcript | second), exactly."""
        first, second = (_hidden_record(database) for database in pair)
        algorithm = self.algorithm(first.shape[1])
        states = transcript.states[: len(transcript.seen)]
        return math.fsum(
            self._gain(algorithm, first, state, total) - self._gain(algorithm, second, state, total)
            for state, total in zip(states, transcript.seen, strict=True)
        )

    def _gain(self, algorithm: PemAlgorithm, record: sp.csr_array, state: PemState, total: PemTotal) -> float:
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


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Part = Annotated[float, Field(gt=0, lt=1, strict=True)]
Number = Annotated[int, Whole(1)]
_MOST_COLUMNS = 2**31
Bits = Annotated[int, Whole(0, 40)]


@dataclass(frozen=True, kw_only=True)
class KMeansParameters:
    """Parameters of k-means."""

    clusters: Number
    """How many centres."""
    iterations: Number
    """How many times the centres are moved."""
    bound: Positive
    """Largest L1 norm of a record; longer ones are scaled down."""
    high: Positive = 1.0
    """Largest entry of a record; larger ones are cut."""
    share: Part = 0.5
    """Part of epsilon for the sums; the rest is for the counts."""
    start_seed: Annotated[int, Whole(0)] = 0
    """Agreed seed of the start."""
    fraction_bits: Bits = 16
    """Sums are whole multiples of 2^-fraction_bits."""

    def algorithm(self, features: int) -> PemKMeans:
        """The three functions, for records of so many columns."""
        return PemKMeans(
            self.clusters, features, self.bound, self.high, self.share,
            start_seed=self.start_seed, fraction_bits=self.fraction_bits,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LogisticParameters:
    """Parameters of logistic regression."""

    iterations: Number
    """How many steps of the gradient."""
    bound: Positive
    """Largest L1 norm of one record's gradient."""
    label: Annotated[int, Whole(-_MOST_COLUMNS, _MOST_COLUMNS)] | None = None
    """Column of the label, from 0; the last unless given."""
    rate: Positive = 1.0
    """Length of a step."""
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """Weight of the squared coefficients in the loss."""
    fraction_bits: Bits = 16
    """Gradients are whole multiples of 2^-fraction_bits."""

    def logistic(self, features: int, cap: float | None = None) -> PemLogistic:
        """The three functions, for records of so many columns."""
        label = -1 if self.label is None else self.label
        return PemLogistic(features, self.bound, label, cap, self.rate, self.penalty, self.fraction_bits)


@dataclass(frozen=True, kw_only=True)
class AprioriParameters:
    """Parameters of frequent itemsets."""

    longest: Number
    """Most items that one record counts with."""
    support: Annotated[float, Field(gt=0, le=1)]
    """Smallest part of the records for an itemset to be frequent."""


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else np.eye(1, len(vector))[0]


@dataclass(frozen=True, kw_only=True)
class PEMKMeans(KMeansParameters, PemMechanism):
    """Centres of clusters of the records of many clients, by k-means of PEM.

    Releases ``sums`` (iterations, clusters, features) and ``counts`` (iterations, clusters) with noise;
    ``centres``, those that each sum was taken with; and ``T`` (clusters, features), the last ones.

    >>> records = sp.csr_array(np.eye(4)[np.arange(40) % 4])
    >>> mechanism = PEMKMeans(clusters=2, iterations=3, bound=1.0, epsilon=100.0)
    >>> seen = mechanism.run(Database((records,)), np.random.default_rng(0))
    >>> seen["sums"].shape, seen["counts"].sum(axis=1).round()
    ((3, 2, 4), array([40., 40., 40.]))
    """

    name: ClassVar[str] = "pem-kmeans"
    version: ClassVar[int] = 1

    clusters: Number = 5
    iterations: Number = 10
    bound: Positive = 1.0

    @property
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""
        return self.iterations

    def neighbours(self) -> tuple[Database, Database]:
        """Two records in different clusters, which share no column."""
        return kmeans_pair(self.algorithm(1), self.budget(), self.servers)

    def releases(self, features: int) -> tuple[Release, ...]:
        """Sums and counts of every round, the centres before it, and the last ones."""
        each = (self.iterations, self.clusters, features)
        return (
            self.summed_release("sums", each, "centres"),
            self.summed_release("counts", each[:2], "centres"),
            Release("centres", each, noise=NOISE, derived_from=("sums", "counts")),
            Release("T", each[1:], noise=NOISE, derived_from=("sums", "counts")),
        )

    def arrays(self, run: PemRun) -> dict[str, Array]:
        """Sums and counts of every round, the centres before it, and the last ones."""
        return {
            "sums": np.array([total.values[0].reshape(self.clusters, -1) for total in run.seen]),
            "counts": np.array([total.values[1] for total in run.seen]),
            "centres": np.array([state.arrays["centres"] for state in run.states[:-1]]),
            "T": run.final.arrays["centres"],
        }

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """Return the equations of all sums, then of all counts."""
        sums, counts = announced(observables, "sums"), announced(observables, "counts")
        algorithm, centres = self.algorithm(sums.shape[-1]), announced(observables, "centres")
        of_sums, of_counts = algorithm.init().blocks
        both = [(sums, of_sums, added("sums", sums)), (counts, of_counts, added("counts", counts))]
        system = self.equations(both, pool.share)
        return lambda records: added_to_clusters(algorithm, centres, records), system


@dataclass(frozen=True, kw_only=True)
class PEMLogistic(LogisticParameters, PemMechanism):
    """Weights of a logistic regression on the records of many clients, by PEM.

    Releases ``gradients`` (iterations, features), noisy sums; ``weights``, those that each was taken at; ``label``
    (1,), the label's column; and ``V`` (1, features), the last weights, of unit length.
    """

    name: ClassVar[str] = "pem-logistic"
    version: ClassVar[int] = 1

    iterations: Number = 50
    bound: Positive = 1.0
    label: int = -1

    @property
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""
        return self.iterations

    @property
    def _least_features(self) -> int:
        return max(self.label + 1, -self.label, 2)

    def algorithm(self, features: int) -> PemLogistic:
        """The three functions."""
        return self.logistic(features)

    def neighbours(self) -> tuple[Database, Database]:
        """One record with either label, whose gradient is as large as it may be on either side."""
        return logistic_pair(self.algorithm(self._least_features), self.budget(), self.servers)

    def releases(self, features: int) -> tuple[Release, ...]:
        """Gradients of every round, the weights before it, the label's column and the last weights."""
        try:
            self.algorithm(features)
        except InputError as error:
            raise SpecError(str(error)) from error
        each = (self.iterations, features)
        return (
            self.summed_release("gradients", each, "weights", "label"),
            Release("weights", each, noise=NOISE, derived_from=("gradients",)),
            Release("label", (1,), noise=EXACT),
            Release("V", (1, features), noise=NOISE, derived_from=("gradients",)),
        )

    def arrays(self, run: PemRun) -> dict[str, Array]:
        """Gradients of every round, the weights before it, the label's column and the last weights."""
        weights = run.final.arrays["w"]
        return {
            "gradients": np.array([total.values[0] for total in run.seen]),
            "weights": np.array([state.arrays["w"] for state in run.states[:-1]]),
            "label": np.array([float(self.label % len(weights))]),
            "V": _unit(weights)[None],
        }

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """Return the equations of the gradients of all iterations."""
        gradients, weights = announced(observables, "gradients"), announced(observables, "weights")
        algorithm = self.algorithm(gradients.shape[-1])
        part = (gradients, algorithm.init().blocks[0], added("gradients", gradients))
        system = self.equations([part], pool.share)
        return lambda records: added_to_gradients(algorithm, weights, records), system


@dataclass(frozen=True, kw_only=True)
class PEMApriori(AprioriParameters, PemMechanism):
    """Itemsets that are frequent in the records of many clients, by Apriori of PEM.

    Releases ``items`` (features,), their noisy counts; ``pairs`` (features, features), those of the candidate
    pairs, above the diagonal, 0 elsewhere; and ``T`` (1, features), the items' counts as parts of the records. How
    many longer candidates there are depends on the data; of each length ``itemsets`` has their items, counted from
    1, in `keep` rows of which some are 0, and ``longer`` their noisy counts.
    """

    name: ClassVar[str] = "pem-apriori"
    version: ClassVar[int] = 2

    longest: Number = 20
    support: float = 0.01
    length: Number = 4
    keep: Number = 1000

    @property
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""
        return min(self.length, self.longest)

    @property
    def _least_features(self) -> int:
        return max(self.longest, 2)

    def algorithm(self, features: int) -> PemApriori:
        """The three functions."""
        longest = min(self.longest, features)
        return PemApriori(features, longest, self.support, min(self.length, longest), self.keep)

    def neighbours(self) -> tuple[Database, Database]:
        """All items or none, of as many as make one longest itemset: every count changes."""
        return apriori_pair(self.algorithm(max(self.rounds, 2)), self.budget(), self.servers)

    def releases(self, features: int) -> tuple[Release, ...]:
        """Counts of items, of pairs and of longer itemsets, and the items' shares."""
        arrays = [
            self.summed_release("items", (features,)),
            Release("T", (1, features), noise=NOISE, derived_from=("items",)),
        ]
        lengths = min(self.rounds, features)
        if lengths > 1:
            arrays.insert(1, self.summed_release("pairs", (features, features), "T"))
        if lengths > 2:
            shape = (lengths - 2, self.keep)
            arrays.append(self.summed_release("longer", shape, "itemsets"))
            arrays.append(Release("itemsets", (*shape, lengths), noise=NOISE, derived_from=("pairs", "longer")))
        return tuple(arrays)

    def arrays(self, run: PemRun) -> dict[str, Array]:
        """Counts of items, of pairs and of longer itemsets, and the items' shares."""
        seen: dict[str, Array] = {"items": run.seen[0].values[0]}
        features = len(seen["items"])
        algorithm = self.algorithm(features)
        seen["T"] = np.maximum(run.totals[0].values[0], 0.0)[None] / max(run.totals[0].rows, 1)
        if algorithm.length > 1:
            seen["pairs"] = np.zeros((features, features))
        if algorithm.length > 2:
            seen["longer"] = np.zeros((algorithm.length - 2, self.keep))
            seen["itemsets"] = np.zeros((algorithm.length - 2, self.keep, algorithm.length))
        for before, state, total in zip(range(len(run.seen)), run.states, run.seen, strict=False):
            places = algorithm.candidates_of(state).astype(np.int64)
            if before == 1:
                seen["pairs"][tuple(places.T)] = total.values[0]
            elif before > 1:
                seen["longer"][before - 2, : len(places)] = total.values[0]
                seen["itemsets"][before - 2, : len(places), : before + 1] = places + 1
        return seen

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """Return the equations of the counts of all items, then of the counted pairs and longer itemsets."""
        items, counted = announced(observables, "items"), []
        algorithm = self.algorithm(len(items))
        parts = [(items, algorithm.init().blocks[0], added("items", items))]
        for name, of in self._counted(observables, algorithm):
            counts = announced(observables, name)
            counts = counts[tuple(of.T)] if name == "pairs" else counts[of.shape[1] - 3, : len(of)]
            if len(of):
                parts.append((counts, algorithm.block(of.shape[1], len(of)), added(name, counts)))
                counted.append(of)
        return lambda records: added_to_counts(algorithm, counted, records), self.equations(parts, pool.share)

    def _counted(self, observables: Observables, algorithm: PemApriori) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """The itemsets that were counted, of each length from 2, beside the release of their counts."""
        if algorithm.length > 1:
            shares = announced(observables, "T")[0]
            lowest = self.support * self.sampling * (1 - 1e-6)  # stored in single precision
            frequent = np.flatnonzero(shares >= lowest).astype(np.int16)[:, None]
            yield "pairs", candidates(frequent, len(shares)).astype(np.int64)
        for length in range(3, algorithm.length + 1):
            table = announced(observables, "itemsets")[length - 3, :, :length]
            yield "longer", np.rint(table[table[:, 0] > 0]).astype(np.int64) - 1
