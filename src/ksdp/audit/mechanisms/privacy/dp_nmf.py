"""DP-NMF: RRI-NMF with Gaussian noise at every announced sum (PD-ML-Lite, figure 4c)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Guarantee, Noise, Observables, Release, Terms, Traits
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import CorpusError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import project_simplex
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.parameters import check_least, check_positive
from ksdp.audit.mechanisms.party_side import NoisySum, PartyProgram, PartyResult, noise_left
from ksdp.audit.mechanisms.privacy.noise import (
    adjacency_words,
    analytic_multiplier,
    check_adjacency,
    check_budget,
    rounded_sensitivity,
)
from ksdp.audit.mechanisms.privacy.transcript import Driven, GaussianBasis
from ksdp.audit.numeric.array_types import Matrix
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.contributions import clipped_sweeps
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.releases import Added, Adds, nothing_added
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.statistics.products import announced


@dataclass(frozen=True)
class DPNMF(GaussianBasis):
    r"""PD-NMF made differentially private: every announced sum carries Gaussian noise.

    For each sweep and each topic t the parties compute their :math:`W_t` as in PD-NMF and announce

    .. math:: \sum_i \mathrm{clip}_c\big(w_{it} (x_i - \sum_{u \ne t} w_{iu} T_u),\; w_{it}^2\big) + N(0,
    \sigma^2),

    one vector of d + 1 numbers: the numerator and the denominator of :math:`T_t`. What a record adds is scaled
    down to norm c where it is longer; rows are clipped to norm `row_bound` before. A record's coefficients
    follow from the record and from what is public, so that each release has L2 sensitivity c (a record comes or
    goes) or 2 c (it is replaced), and sigma is the analytic calibration for all sweeps times topics releases.
    The topics are projected on the simplex, which is post-processing. With `weighted`, stored entries are ratings
    and the rest is unknown: :math:`w_{it}^2` counts for every feature that the record has rated, in 2 d numbers,
    and nothing is projected.

    Announced: ``T``, shape (rank, features); where every round is opened also ``sums``, shape (sweeps, rank,
    features), and ``weights``, shape (sweeps, rank) or that of ``sums``, the numerators and denominators of every
    sweep, with noise, as the coalition sees them; ``denominators``, those of the last. The number of sweeps is
    public.

    Parameters
    ----------
    rank, sweeps : the number of sweeps is fixed: one more sweep is one more release of everything
    epsilon, delta : of all releases together; figure 4c has 0.25 and 0.01
    row_bound : rows are clipped to this norm
    contribution : c. With rows and topics of norm at most 1, coefficients are small numbers; larger ones are
        scaled down.
    adjacency : {"add-remove", "replace-one"}
    weighted : whether entries that are not stored are unknown, not zero
    colluders : parties whose noise may be known to whoever sees the sums
    start_seed : the start holds no data: uniform, rows of sum 1; with `weighted`, of mean 1
    sampler : {"fast", "discrete"}

    Notes
    -----
    The paper says no more than "Gaussian noise for generous parameters (epsilon = 0.25, delta = 0.01) is used
    inside the NMF algorithm"; sensitivity, clipping and composition are ours. A noisy denominator can be zero or
    negative: where it is below its own noise's deviation the topic stays as it was.
    """

    exact_ratio: ClassVar[bool] = True
    name: ClassVar[str] = "dp-nmf"

    delta: float = 0.01
    sweeps: int = 10
    epsilon: float = 0.25
    row_bound: float = 1.0
    contribution: float = 1.0
    adjacency: str = "add-remove"
    weighted: bool = False
    colluders: int = 0
    start_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_adjacency(self.adjacency)
        check_least(self, rank=1, sweeps=1, colluders=0, start_seed=0)
        check_positive(self, "row_bound", "contribution")

    @property
    def traits(self) -> Traits:
        """A corpus with negative entries is refused."""
        return replace(super().traits, nonnegative=True, weighted=self.weighted)

    @property
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, contributions clipped to norm {self.contribution:g}",
            trust=f"the secure sum, and that no more than {self.colluders} parties work with those who see it",
            source="PD-ML-Lite, figure 4c; sensitivity and composition derived here",
            epsilon=self.epsilon,
            delta=self.delta,
            sampler=self.sampler,
        )

    def releases(self, features: int) -> tuple[Release, ...]:
        """The last topics, and every sum where every round is opened."""
        noise = Noise("normal", "each party", self.deviation(features))
        last = Release("T", (self.rank, features), noise=noise, final=True)
        if self.opens == "final":
            return (last,)
        # No statistic solves the sums of ratings: with them only the noise can prove a document clear.
        terms = None if self.weighted else Terms("topics", equations=self.as_equations)
        given = partial(Release, noise=noise, terms=terms)
        below = (self.rank, features) if self.weighted else (self.rank,)
        return (
            last,
            Release("denominators", below, noise=noise, derived_from=("weights",)),
            given("sums", (self.sweeps, self.rank, features), early=True),
            given("weights", (self.sweeps, *below), early=self.weighted),
        )

    def sensitivity(self, features: int) -> float:
        """Sensitivity of one release to one record."""
        exact = self.contribution * (2.0 if self.adjacency == "replace-one" else 1.0)
        return rounded_sensitivity(exact, 2 * features if self.weighted else features + 1)

    def deviation(self, features: int) -> float:
        """Standard deviation of the noise per announced number."""
        return analytic_multiplier(self.epsilon, self.delta, self.rank * self.sweeps) * self.sensitivity(features)

    @property
    def holds_against(self) -> int:
        """The `colluders`."""
        return self.colluders

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over sensitivity of each release: all are the same."""
        return (analytic_multiplier(self.epsilon, self.delta, self.rank * self.sweeps),) * (
            self.rank * self.sweeps
        )

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The parameters: the noise is made to fit them."""
        return self.epsilon, self.delta

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Run all sweeps; see the class."""
        part = clip_rows(matrix, self.row_bound)
        if part.data.size and part.data.min() < 0:
            raise CorpusError("the matrix must be non-negative for a non-negative factorisation.")
        features = part.shape[1]
        deviation = self.deviation(features)
        T = random_topics(features, self.rank, self.start_seed) * (features if self.weighted else 1)
        W = np.zeros((part.shape[0], self.rank))
        squares, with_topic = _squared_norms(part), _with_rated_topic if self.weighted else _with_topic
        for _ in range(self.sweeps):
            for t in range(self.rank):
                share = self._rated(part, W, T, t) if self.weighted else self._share(part, W, squares, T, t)
                next_topic = partial(with_topic, T, t, deviation)
                T, _denominator = yield NoisySum(share, deviation, next_topic, self.colluders)
        return PartyResult({"T": T})

    def observed(self, driven: Driven) -> dict[str, Matrix]:
        """The sums as the coalition sees them."""
        seen = np.stack([announcement.seen for announcement in driven.transcript])
        seen = seen.reshape(self.sweeps, self.rank, -1)
        parts = np.split(seen, 2, axis=-1) if self.weighted else (seen[..., :-1], seen[..., -1])
        above, weights = map(np.ascontiguousarray, parts)
        sums = {"sums": above, "weights": weights, "denominators": weights[-1]}
        return {name: (driven.public | sums)[name] for name in self._names}

    def _share(self, part: sp.csr_array, W: Matrix, squares: Matrix, T: Matrix, t: int) -> Matrix:
        fits, gram = part @ T.T, T @ T.T
        W[:, t] = 0.0
        if gram[t, t] > 0:
            W[:, t] = np.maximum(fits[:, t] - W @ gram[t], 0.0) / gram[t, t]
        w = W[:, t].copy()
        others = W.copy()
        others[:, t] = 0.0
        # ||x - sum of others||^2 in Gram form, never below 0 but for rounding.
        residual = (
            squares - 2 * np.einsum("ik,ik->i", fits, others) + np.einsum("ik,kl,il->i", others, gram, others)
        )
        weights = w * self._scale(w * np.sqrt(np.maximum(residual, 0.0) + w**2))
        numerator = part.T @ weights - (others.T @ weights) @ T
        return np.append(numerator, weights @ w)

    def _rated(self, part: sp.csr_array, W: Matrix, T: Matrix, t: int) -> Matrix:
        users, topics = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr)), T[:, part.indices]
        W[:, t] = 0.0
        residual = part.data - np.einsum("it,ti->i", W[users], topics)
        fits, squares, length = (
            np.bincount(users, values, part.shape[0])
            for values in (residual * topics[t], topics[t] ** 2, residual**2)
        )
        w = W[:, t] = np.maximum(fits, 0.0) / np.where(squares > 0, squares, np.inf)
        weights = w * self._scale(w * np.sqrt(length + np.diff(part.indptr) * w**2))
        entries = (weights[users] * residual, (weights * w)[users])
        return np.concatenate([np.bincount(part.indices, values, part.shape[1]) for values in entries])

    def _scale(self, lengths: Matrix) -> Matrix:
        return np.where(lengths > self._bound, self._bound / np.where(lengths > 0, lengths, 1.0), 1.0)

    @property
    def _bound(self) -> float:
        return self.contribution * (1 - 1e-9)

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """w (x - other topics' part) and w^2 of each topic and sweep, clipped, and the noisy sums of these."""
        sums, weights = announced(observables, "sums"), announced(observables, "weights")
        known_rows = pool.drawn[:0] if pool.subtracted is None else pool.subtracted
        own = clip_rows(known_rows, self.row_bound)
        topics = self._topics(np.concatenate([sums, weights[..., None]], axis=2), own)
        sums_seen = np.concatenate([sums.ravel(), weights.ravel()])
        given = self.deviation(sums.shape[-1]), len(pool.sizes), self.colluders, int(pool.colluding)
        own_noise = noise_left(*given) ** 2
        parts = {"sums": sums, "weights": weights}
        noise = np.concatenate([np.full(a.size, own_noise + added(name, a)) for name, a in parts.items()])

        def adds(rows: sp.csr_array) -> FactoredContributions:
            return clipped_sweeps(clip_rows(rows, self.row_bound), topics, self._bound)

        return adds, LinearSystem(sums_seen, noise, of_all=False)

    def _topics(self, released: Matrix, own: sp.csr_array) -> Matrix:
        features = released.shape[-1] - 1
        T = random_topics(features, self.rank, self.start_seed)
        W, squares, topics = np.zeros((own.shape[0], self.rank)), _squared_norms(own), [T]
        for sweep in released:
            for t, seen in enumerate(sweep):
                total = seen + self._share(own, W, squares, T, t)
                T, _ = _with_topic(T, t, self.deviation(features), total)
            topics.append(T)
        return np.stack(topics)

    def neighbours(self) -> tuple[Database, Database]:
        """A record of all topics, or zeros in its place, among records of one topic each, which hold the topics.

        Topics of many features are short, so the record's coefficients are large whatever is announced, and what
        it adds reaches c: with two topics in every release, with 7 not in the first sweeps. Two records that are
        both there are not known to differ by 2 c (denominators are not negative): zeros do as well there.
        """
        width = 32 * math.ceil(min(self.contribution / self.row_bound**2, 16))
        features = width * self.rank
        # What they add, c each, is to be far above the noise that T is made from.
        rows = math.ceil(12 * self.deviation(features) / self.contribution)
        topics = np.repeat(np.eye(self.rank), width, axis=1) * (self.row_bound / math.sqrt(width))
        base = np.vstack(
            [np.full((1, features), self.row_bound / math.sqrt(features)), np.tile(topics, (rows, 1))]
        )
        other = base.copy()
        other[0] = 0.0
        return Database((sp.csr_array(base),)), Database((sp.csr_array(other),))


def _with_topic(T: Matrix, t: int, deviation: float, total: Matrix) -> tuple[Matrix, float]:
    """The topics after an announced sum, and its denominator; no topic is divided by what may be noise alone."""
    denominator = float(total[-1])
    if denominator > deviation:
        T = T.copy()
        T[t] = project_simplex(np.maximum(total[:-1], 0.0) / denominator)
    return T, denominator


def _with_rated_topic(T: Matrix, t: int, deviation: float, total: Matrix) -> tuple[Matrix, float]:
    above, below = np.split(total, 2)
    T = T.copy()
    T[t] = np.where(below > deviation, np.maximum(above, 0.0) / np.maximum(below, deviation), T[t])
    return T, float(below.sum())


def _squared_norms(matrix: sp.csr_array) -> Matrix:
    owners = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.asarray(np.bincount(owners, matrix.data**2, matrix.shape[0]), dtype=np.float64)
