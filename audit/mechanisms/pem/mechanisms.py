"""PEM's three algorithms as mechanisms: what its aggregator learns, iteration by iteration.

What they have in common, and who looks: `base.py`. Their parameters: `parameters.py`. Databases on which their
claim is tight: `worst_pairs.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.contract import Announced, Array, Database, Observables
from ksdp.audit.mechanisms.pem.added import added_to_clusters, added_to_counts, added_to_gradients
from ksdp.audit.mechanisms.pem.apriori import PemApriori, candidates
from ksdp.audit.mechanisms.pem.base import PemMechanism
from ksdp.audit.mechanisms.pem.logistic import PemLogistic
from ksdp.audit.mechanisms.pem.parameters import (
    AprioriParameters,
    KMeansParameters,
    LogisticParameters,
    Number,
    Positive,
)
from ksdp.audit.mechanisms.pem.worst_pairs import apriori_pair, kmeans_pair, logistic_pair
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.equations import Equations
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.releases_match import Added, Adds, nothing_added


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else np.eye(1, len(vector))[0]


@dataclass(frozen=True, kw_only=True)
class PEMKMeans(KMeansParameters, PemMechanism):
    """PEM's k-means.

    Announces ``sums`` (iterations, clusters, features), ``counts`` (iterations, clusters),
    ``centres`` (iterations, clusters, features), those that the sums were taken with, and ``T`` (clusters,
    features), the last ones.

    Parameters
    ----------
    bound : float
        Largest L1 norm of a record; longer ones are scaled down.
    high : float
        Largest entry of a record; larger ones are cut.
    share : float
        Part of epsilon for the sums.
    start_seed : int
        What the parties agreed to draw the start from.

    Examples
    --------
    >>> records = sp.csr_array(np.eye(4)[np.arange(40) % 4])
    >>> mechanism = PEMKMeans(clusters=2, iterations=3, bound=1.0, epsilon=100.0)
    >>> seen = mechanism.run(Database((records,)), np.random.default_rng(0))
    >>> seen["sums"].shape, seen["counts"].sum(axis=1).round()
    ((3, 2, 4), array([40., 40., 40.]))
    """

    name: ClassVar[str] = "pem-kmeans"
    summed: ClassVar[tuple[str, ...]] = ("sums", "counts", "centres")
    version: ClassVar[int] = 1

    clusters: Number = 5
    iterations: Number = 10
    bound: Positive = 1.0

    @property
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""
        return self.iterations

    def check(self) -> None:
        """Refuse parameters of the algorithm."""
        self.algorithm(1)

    def neighbours(self) -> tuple[Database, Database]:
        """Two records in different clusters, which share no column."""
        return kmeans_pair(self.algorithm(1), self.budget(), self.servers)

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces."""
        each = (self.iterations, self.clusters, features)
        last = Announced("T", (self.clusters, features))
        return Announced("sums", each), Announced("counts", each[:2]), Announced("centres", each), last

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; noise and coins come from `rng` unless the sampler is vetted."""
        features = database.parties[0].shape[1]
        run = self.ideal(database, rng)
        sums = [total.values[0].reshape(self.clusters, features) for total in run.seen]
        arrays = {
            "sums": np.array(sums),
            "counts": np.array([total.values[1] for total in run.seen]),
            "centres": np.array([state.arrays["centres"] for state in run.states[:-1]]),
            "T": run.final.arrays["centres"],
        }
        return Observables(arrays)

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, Equations]:
        """Of all sums, then of all counts."""
        sums, counts = announced(observables, "sums"), announced(observables, "counts")
        algorithm, centres = self.algorithm(sums.shape[-1]), announced(observables, "centres")
        of_sums, of_counts = algorithm.init().blocks
        both = [(sums, of_sums, added("sums", sums)), (counts, of_counts, added("counts", counts))]
        known = self.equations(both, pool.share)
        return lambda records: added_to_clusters(algorithm, centres, records), known


@dataclass(frozen=True, kw_only=True)
class PEMLogistic(LogisticParameters, PemMechanism):
    """PEM's logistic regression.

    Announces ``gradients`` and ``weights``, both (iterations, features): the noisy sums and the weights that they
    were taken at; ``label`` (1,): the label's column; and ``V`` (1, features): the last weights, of unit length.

    Parameters
    ----------
    bound : float
        Largest L1 norm of one record's gradient.
    label : int
        Column of the label, 0 or 1; the last by default.
    """

    name: ClassVar[str] = "pem-logistic"
    summed: ClassVar[tuple[str, ...]] = ("gradients", "weights")
    version: ClassVar[int] = 1

    iterations: Number = 50
    bound: Positive = 1.0
    label: int = -1

    @property
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""
        return self.iterations

    def check(self) -> None:
        """Refuse parameters of the algorithm."""
        self.algorithm(self._least_features)

    @property
    def _least_features(self) -> int:
        return max(self.label + 1, -self.label, 2)

    def algorithm(self, features: int) -> PemLogistic:
        """The three functions."""
        return self.logistic(features)

    def neighbours(self) -> tuple[Database, Database]:
        """One record with either label, whose gradient is as large as it may be on either side."""
        return logistic_pair(self.algorithm(self._least_features), self.budget(), self.servers)

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces."""
        try:
            self.algorithm(features)
        except InputError as error:
            raise SpecError(str(error)) from error
        each = (self.iterations, features)
        last = Announced("V", (1, features))
        return Announced("gradients", each), Announced("weights", each), Announced("label", (1,)), last

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; noise and coins come from `rng` unless the sampler is vetted."""
        run = self.ideal(database, rng)
        arrays = {
            "gradients": np.array([total.values[0] for total in run.seen]),
            "weights": np.array([state.arrays["w"] for state in run.states[:-1]]),
            "label": np.array([float(self.label % database.parties[0].shape[1])]),
            "V": _unit(run.final.arrays["w"])[None],
        }
        return Observables(arrays)

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, Equations]:
        """Of the gradients of all iterations."""
        gradients, weights = announced(observables, "gradients"), announced(observables, "weights")
        algorithm = self.algorithm(gradients.shape[-1])
        one = (gradients, algorithm.init().blocks[0], added("gradients", gradients))
        known = self.equations([one], pool.share)
        return lambda records: added_to_gradients(algorithm, weights, records), known


@dataclass(frozen=True, kw_only=True)
class PEMApriori(AprioriParameters, PemMechanism):
    """PEM's Apriori for single items and pairs.

    Announces ``items`` (features,): their noisy counts; ``pairs``
    (features, features): those of the candidate pairs, above the diagonal, 0 elsewhere; and ``T`` (1, features):
    the counts of items that are not below 0, as parts of the records.

    How many longer candidates there are depends on the data; a schema is fixed before any run, so they are left
    out.

    Parameters
    ----------
    longest : int
        Most items that one record counts with.
    support : float
        Smallest part of the records for an item to enter pairs.
    """

    name: ClassVar[str] = "pem-apriori"
    summed: ClassVar[tuple[str, ...]] = ("items", "pairs", "T")
    version: ClassVar[int] = 1

    longest: Number = 20
    support: float = 0.01

    @property
    def rounds(self) -> int:
        """Iterations that epsilon is split over."""
        return 2

    def check(self) -> None:
        """Refuse parameters of the algorithm."""
        self.algorithm(max(self.longest, 2))

    def algorithm(self, features: int) -> PemApriori:
        """The three functions."""
        return PemApriori(features, min(self.longest, features), self.support, length=2)

    def neighbours(self) -> tuple[Database, Database]:
        """All items or none, of two: every count changes, and the pair's as well."""
        return apriori_pair(self.algorithm(2), self.budget(), self.servers)

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces."""
        return (
            Announced("items", (features,)),
            Announced("pairs", (features, features)),
            Announced("T", (1, features)),
        )

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; noise and coins come from `rng` unless the sampler is vetted."""
        features = database.parties[0].shape[1]
        algorithm = self.algorithm(features)
        run = self.ideal(database, rng)
        pairs = sp.coo_array((features, features))
        if len(run.seen) > 1:
            places = algorithm.candidates_of(run.states[1]).astype(np.int64)
            pairs = sp.coo_array((run.seen[1].values[0], (places[:, 0], places[:, 1])), shape=pairs.shape)
        items = run.seen[0].values[0]
        shares = np.maximum(run.totals[0].values[0], 0.0) / max(run.totals[0].rows, 1)
        return Observables({"items": items, "pairs": pairs.toarray(), "T": shares[None]})

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, Equations]:
        """Of the counts of all items, then of the pairs that were counted."""
        items, counted = announced(observables, "items"), self._counted(observables)
        algorithm = self.algorithm(len(items))
        parts = [(items, algorithm.init().blocks[0], added("items", items))]
        if len(counted):
            pairs = announced(observables, "pairs")[tuple(counted.T)]
            parts.append((pairs, algorithm.block(2, len(counted)), added("pairs", pairs)))
        return lambda records: added_to_counts(algorithm, counted, records), self.equations(parts, pool.share)

    def _counted(self, observables: Observables) -> NDArray[np.int64]:
        """The pairs that were counted: those of frequent items, shape (pairs, 2)."""
        shares = announced(observables, "T")[0]
        lowest = self.support * self.sampling * (1 - 1e-6)  # stored in single precision
        frequent = np.flatnonzero(shares >= lowest).astype(np.int16)[:, None]
        return candidates(frequent, len(shares)).astype(np.int64)
