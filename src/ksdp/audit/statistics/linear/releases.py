"""The statistics that solve linear systems: of sums of rounds, of noisy releases and of singular vectors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import cast

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Mechanism, Observables, Release, Terms, traits_of
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.factorisation.pd_svd import EARLY, hidden_mean, numbers_of_basis
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Documents, Pool, Statistic, sentence_of
from ksdp.audit.statistics.linear.contributions import block_numbers, part_terms, row_products, sweep_numbers
from ksdp.audit.statistics.linear.groups import WrappedStatistic
from ksdp.audit.statistics.linear.operator import (
    LOST,
    ContributionOperator,
    FactoredContributions,
    RatingContributions,
    lost_of,
)
from ksdp.audit.statistics.linear.solve import MORE, MOST_SOLVED, fits_dense_solver, is_low_noise, lost
from ksdp.audit.statistics.linear.system import (
    Feasibility,
    FirstRatingsFeasible,
    FirstSumFeasible,
    LinearModel,
    LinearSystem,
    WithinBasis,
    WithinColumns,
    added_variance,
    membership_scores,
    own_mechanism,
)
from ksdp.audit.statistics.products import announced


class _Solved(ABC):
    """A statistic that takes releases for a linear system in who is in."""

    @property
    def weighs(self) -> bool:
        """Each number, by the equations."""
        return True

    @property
    @abstractmethod
    def name(self) -> str:
        """Under which it is asked for."""

    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Arrays that must be announced."""

    @abstractmethod
    def equations(self, observables: Observables, pool: Pool) -> LinearModel | None:
        """Return the contributions of documents to the sums of a run, and these sums; None if it looks at none."""

    def linear_model(self, observables: Observables, pool: Pool) -> LinearModel | None:
        """The equations, with the variance of what they miss where they hold about."""
        model = self.equations(observables, pool)
        if model is None or not model[1].about or pool.mechanism is None:
            return model
        terms, system = model
        key = (self.name, "what the equations miss", np.size(system.sums))
        missed = pool.derive(key, lambda: self._missed(observables, pool))
        return None if missed is None else (terms, replace(system, noise=np.maximum(system.noise, missed)))

    def worth(self, contributions: ContributionOperator, noise: Floats, share: float) -> bool:
        """Whether equations that miss so much of what all documents add are solved."""
        return True

    def _missed(self, observables: Observables, pool: Pool) -> Floats | None:
        """The variance of what documents do not add up to, alike in a row; None where nothing is to be solved."""
        assert pool.mechanism is not None
        rng, everybody = np.random.default_rng(0), replace(pool, colluding=False)
        kept = np.float32 if all(lost_of(observables[name]) == LOST for name in self.needs) else np.float64
        squares: list[Floats] = []
        for _ in range(4):
            taken = pool.one_draw(rng)
            try:
                ran = pool.mechanism.run(Database(taken), rng)
            except KsdpError:  # too few documents for its rank, say
                return None
            shown = [name for name in observables if name in ran]
            model = self.equations(
                Observables({n: np.asarray(ran[n], kept).astype(float) for n in shown}), everybody
            )
            if model is None:
                return None
            terms, system = model
            rows = sp.csr_array(sp.vstack(taken, format="csr"))
            made = cast(FactoredContributions | RatingContributions, terms(rows))
            wide, single = made.split(np.square(system.sums - made.rmatvec(np.ones(rows.shape[0]))))
            mean = wide.mean(axis=1, keepdims=True)
            squares.append(np.concatenate([np.broadcast_to(mean, wide.shape).ravel(), single]))
        noise = np.mean(squares, axis=0)
        hidden = hidden_mean(own_mechanism(pool.mechanism))
        return noise if hidden or self.worth(terms(pool.drawn), noise, pool.share) else None

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where there is no system."""
        model = self.linear_model(observables, documents.source_pool)
        if model is None:
            return np.zeros(len(documents))
        return membership_scores(self.name, observables, documents, *model)


@dataclass(frozen=True)
class LinearSums(_Solved):
    """Whether the sums of PD-NMF's first sweeps hold what the document would have added to them.

    <C^-1 (a_x - mean), Z - E Z>, with Z all sums of these sweeps, a_x what x adds to them given the topics that
    were announced before, E Z and C its mean and covariance over databases given these: the log likelihood ratio
    of the linear, normal model up to what is the same for all, added up over sweeps. Where exact sums are
    more numbers than the documents that may be in, of large corpora, it is each document's part in them
    (`coordinate_descent`).
    """

    sentence = "Whether the sums of early rounds hold what this document adds to them, best weighed."

    name: str = "linear-sums"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("topics", "sums", "weights")
    reads: tuple[str, ...] = ("sweeps",)

    def equations(self, observables: Observables, pool: Pool) -> LinearModel:
        """Return the contributions of documents to the sums of a run, and these sums."""
        topics, sums, weights = (announced(observables, name) for name in self.needs)
        exact, done = is_exact(pool), len(sums)
        before = int(observables["sweeps"].ravel()[0]) if "sweeps" in observables else done
        done = min(done, before) if exact else done  # later on the last sweep is repeated, with new noise
        done = _enough(pool, sums[0].size, done)
        given = given_fields(own_mechanism(pool.mechanism))
        gamma, delta = float(given.get("gamma", 0.0)), float(given.get("delta", 0.0))
        rated = weights.ndim == 3  # an entry has a weight of its own

        def terms(rows: sp.csr_array) -> ContributionOperator:
            if rated:
                return RatingContributions(rows, np.ascontiguousarray(topics[: done + 1]), gamma, delta)
            return sweep_numbers(rows, topics[: done + 1], gamma, delta)

        numbers = np.concatenate([sums[:done].ravel(), weights[:done].ravel()])
        noise: Floats | float = 0.0
        if not exact:
            noise = _added(pool, {"round_sums": sums[:done], "round_weights": weights[:done]})
        elif rated:
            noise = lost(numbers)
        possible: Feasibility | None = None
        if exact:
            first, total = np.ascontiguousarray(topics[0, 0]), sums[0, 0]
            if rated:
                possible = FirstRatingsFeasible(first, total, weights[0, 0], gamma, delta)
            else:
                possible = FirstSumFeasible(first, total, gamma, delta, "start" not in observables)
        system = LinearSystem(
            numbers, noise, of_all=False, exact=exact, lost=_lost(pool, sums), possible=possible, about=not exact
        )
        return terms, system


@dataclass(frozen=True)
class LinearBlocks(_Solved):
    """Whether the sums of PD-SVD's first iterations hold what the document would have added to them.

    As `LinearSums`, of X^T X V_{s-1}: of what lies outside of the released V_s, which is 0 over the run's
    documents, and of the sums' lengths where these are known (`PDSVD`). With a start of PD-NMF by such sums also
    of ``part_squares``, to which x adds the squares of its products with V, those above 0 and those below.
    """

    sentence = "Whether sums of early rounds, lengths included, hold what this document adds to them."

    name: str = "linear-blocks"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("first_blocks",)
    reads: tuple[str, ...] = ("block_sums", "mean", "part_squares")

    def equations(self, observables: Observables, pool: Pool) -> LinearModel:
        """Return the contributions of documents to the sums of a run, and these sums."""
        blocks, known_sums = announced(observables, "first_blocks"), "block_sums" in observables
        done = int(blocks[1:].any(axis=(1, 2)).sum())
        # With noise three: it also blurs what the later ones are products with.
        done = _enough(pool, blocks[0].size, done) if is_exact(pool) else min(done, EARLY)
        blocks = blocks[: 1 + done]
        mean = subtracted_mean(observables, pool)
        last = np.zeros(0 if mean is None else len(mean))
        parts = announced(observables, "part_squares") if "part_squares" in observables else np.zeros((2, 0))
        sums = announced(observables, "block_sums")[:done] if known_sums else None
        exact, units, lengths = is_exact(pool), None, np.zeros(0)
        if sums is not None and exact and pool.derive("even enough", lambda: _even_enough(pool.drawn)):
            lengths = np.linalg.norm(sums, axis=2)
            units = (
                np.einsum("std,sud->stu", sums, blocks[1:])
                / np.maximum(lengths, np.finfo(np.float64).tiny)[:, :, None]
            )

        def terms(rows: sp.csr_array) -> FactoredContributions:
            # What lies outside of V_s adds up to 0, which no rounding of large sums hides.
            made = block_numbers(rows, blocks, mean, outside=exact or sums is None)
            scalars = [_along_sums(made.numbers, units)] if units is not None else []
            scalars += [part_terms(rows, announced(observables, "V"))] if parts.size else []
            return replace(made, scalars=np.hstack(scalars)) if scalars else made

        heights = {"blocks": np.zeros_like(blocks[1:]), "": last, "lengths": lengths, "part_squares": parts}
        noise: Floats | float = 0.0
        if sums is not None and not exact:
            heights["blocks"] = sums
            noise = _added(pool, {name: array for name, array in heights.items() if name != "lengths"})
        numbers = np.concatenate([array.ravel() for array in heights.values()])
        possible = None
        if exact:  # nobody is in with entries only where all blocks, and the mean, are 0
            touched = np.asarray(blocks[1:].any(axis=(0, 1)) | (mean is not None and mean != 0.0))
            possible = None if touched.all() else WithinColumns(touched)
        system = LinearSystem(
            numbers, noise, exact=exact, lost=_lost(pool, blocks), possible=possible, about=not exact
        )
        return terms, system


def _even_enough(rows: sp.csr_array) -> bool:
    """Whether no document is so large that the sums' lengths would say nothing, but for rounding, of others."""
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return bool(squares.max(initial=0.0) < 1e5**2 * squares[squares > 0.0].min(initial=np.inf))


def _along_sums(products: Floats, units: Floats) -> Floats:
    """<x, v> <x, S / |S|> of each document, v a row of a block and S its sum, shape (n, rounds rank)."""
    rounds, rank, _ = units.shape
    blocks = products[:, : (rounds + 1) * rank].reshape(len(products), rounds + 1, rank)
    along = np.einsum("nsu,stu->nst", blocks[:, 1:], units)
    return np.asarray((blocks[:, :-1] * along).reshape(len(products), rounds * rank))


def _lost(pool: Pool, numbers: Floats) -> float:
    return lost_of(numbers) if is_exact(pool) and fits_dense_solver(pool.drawn.shape[0]) else LOST


def _added(pool: Pool, arrays: dict[str, Floats]) -> Floats:
    """The variance of what was added to the numbers of some arrays, one after the other; of "" nothing was."""
    variances = [added_variance(pool.mechanism, n, a) if n else 0.0 for n, a in arrays.items()]
    return np.repeat(variances, [a.size for a in arrays.values()])


def is_exact(pool: Pool) -> bool:
    """Whether equations in who is in are known to hold exactly: then documents are ruled out."""
    return traits_of(pool.mechanism).noise_free and not hidden_mean(pool.mechanism)


def _enough(pool: Pool, numbers: int, done: int) -> int:
    """How many of the rounds are looked at, given the numbers of each: as many as have `MORE` a document."""
    # Exact sums of one round say as much as those of three (17,706 mails, PD-NMF: 0.899, 0.897), in half the time.
    documents = pool.drawn.shape[0] + (0 if pool.fixed is None or pool.fixed_share == 1.0 else pool.fixed.shape[0])
    return min(done, max(1 if is_exact(pool) else EARLY, math.ceil(MORE * int(documents) / numbers)))


def subtracted_mean(observables: Observables, pool: Pool) -> Floats | None:
    """What documents enter less: the released mean, or what is expected of a hidden one; None without."""
    if "mean" in observables:
        return mean_of_all(announced(observables, "mean").ravel(), pool)
    if not hidden_mean(own_mechanism(pool.mechanism)):
        return None
    return pool.derive("expected mean", lambda: np.asarray(pool.drawn.mean(axis=0)).ravel())


def mean_of_all(mean: Floats, pool: Pool) -> Floats:
    """Return the mean that is subtracted from all rows; the coalition sees the others' and knows its own."""
    if pool.subtracted is None:
        return mean
    outside = pool.share * pool.drawn.shape[0] + (0 if pool.remaining is None else pool.remaining.shape[0])
    own = np.asarray(pool.subtracted.sum(axis=0)).ravel()
    return np.asarray((mean * outside + own) / (outside + pool.subtracted.shape[0]))


LINEAR: tuple[Statistic, ...] = (LinearBlocks(), LinearSums())
"""Statistics that the entry point gives."""


Added = Callable[[str, Floats], float]
"""The variance of what `noisy` added to each entry of an announced array, given its name and the array."""

Adds = Callable[[sp.csr_array], FactoredContributions]
"""Contributions of each document to the sums of a run."""


Solvable = Callable[[Observables, Pool, Added], tuple[Adds, LinearSystem]]
"""`Terms.equations` as this module solves them."""


def nothing_added(name: str, array: Floats) -> float:
    """The variance of what was added to an array, where nobody added anything."""
    return 0.0


@dataclass(frozen=True)
class LinearReleases(_Solved):
    """Whether the noisy sums of all iterations hold what the document would have added to them.

    As `LinearSums`: what an iteration is computed from was announced before, so that a document adds what its
    party would have, as it is; of noise the size is public.

    Parameters
    ----------
    needs : tuple of str
        The sums whose `Terms.equations` it solves, and what these depend on.
    """

    sentence = "Whether the noisy sums hold what this document adds to them, best weighed."

    needs: tuple[str, ...] = ("sums",)
    name: str = "linear-releases"
    version: int = 1
    family: str = "rounds"

    def equations(self, observables: Observables, pool: Pool) -> LinearModel:
        """Return the contributions of documents to the sums of a run, and these sums."""
        own = cast(Mechanism, own_mechanism(pool.mechanism))
        given = _with_equations(own.releases(pool.drawn.shape[1]))
        equations = cast(Solvable, next(given[name] for name in self.needs if name in given).equations)

        def added(name: str, array: Floats) -> float:
            return added_variance(pool.mechanism, name, array)

        def made() -> tuple[Adds, LinearSystem]:
            adds, system = equations(observables, pool, added)
            noise = system.noise + LOST * float(np.square(system.sums).mean())
            return adds, replace(system, noise=noise, about=own is not pool.mechanism)

        adds, system = observables.derive((self.name, "equations", pool), made)

        def terms(rows: sp.csr_array) -> FactoredContributions:
            return adds(rows)

        return terms, system


def _with_equations(releases: Iterable[Release]) -> dict[str, Terms]:
    """The terms of the noisy sums whose equations a mechanism gives, by name."""
    return {a.name: a.terms for a in releases if a.terms and a.terms.equations}


def statistics_of_sums(releases: Sequence[Release]) -> tuple[LinearReleases, ...]:
    """One row for the sums whose equations a mechanism gives and all that these depend on; none without any."""
    needed = {needed for name, terms in _with_equations(releases).items() for needed in (name, *terms.depends_on)}
    return (LinearReleases(tuple(a.name for a in releases if a.name in needed)),) if needed else ()


def moment_numbers(rows: sp.csr_array, blocks: Floats) -> FactoredContributions:
    """x <x, z> of each document, for the rows z of each block in turn."""
    flat = np.ascontiguousarray(blocks.reshape(-1, blocks.shape[-1]))
    return FactoredContributions.plain(rows, row_products(rows, flat))


FEWEST = 1 / 16
"""Numbers a document, of more documents than are solved for, where it is named: with fewer, what is expected of V
says as much, and is worked out once (17,678 mails of 500 terms, rank 7, a third, 0.2 numbers a mail: D of all in
one run against all out 0.29 by `FirstOrderBasis` and 0.30 by these; solved, ten seconds a run, 0.34)."""


@dataclass(frozen=True)
class LinearBasis(_Solved):
    """Score who was in a run by the equations that its singular vectors solve.

    As `LinearBlocks`, of the final V alone. Where a run stopped before it had converged, or there is noise, what
    the equations miss is taken from one run on what databases are drawn from; where that is not small beside what
    documents add, all is 0, and `FirstOrderBasis` says as much.
    """

    sentence = "Whether the document is among those whose sums would give exactly the announced directions."

    name: str = "linear-basis"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("V",)

    def asks_for(self, arrays: Mapping[str, tuple[int, ...]], documents: int) -> str:
        """The condition that is missing for the statistic to be worth its time; empty if none is."""
        if arrays.keys() & {"first_blocks", "block_sums", "sums", "uploads", "P"}:
            return "a run that shows its V alone: sums of rounds say more"
        if len(arrays["V"]) != 2:
            return "a V of rows"
        if fits_dense_solver(documents):
            return ""
        return f"{MOST_SOLVED:,} documents or fewer, or to be named: of more it only proves leaks, and is dear"

    def equations(self, observables: Observables, pool: Pool) -> LinearModel | None:
        """Return the contributions of documents to the sums that V leaves, and these sums; None if too few."""
        V = np.ascontiguousarray(announced(observables, "V"))
        others = 0 if pool.fixed is None or pool.fixed_share == 1.0 else pool.fixed.shape[0]
        numbers, documents = numbers_of_basis(*V.shape), pool.drawn.shape[0] + others
        enough = fits_dense_solver(documents) or numbers >= FEWEST * documents
        if pool.mechanism is None or not enough:
            return None
        exact = is_exact(pool) and given_fields(own_mechanism(pool.mechanism)).get("solver") == "limit"
        mean = subtracted_mean(observables, pool)
        sigma = announced(observables, "sigma").ravel() if "sigma" in observables else None

        def terms(rows: sp.csr_array) -> FactoredContributions:
            return _terms(rows, V, mean, sigma is not None)

        possible = _possible(V, mean, pool) if exact else None
        system = LinearSystem(_sums(V, mean, sigma), exact=exact, about=not exact, possible=possible)
        return terms, system

    def worth(self, contributions: ContributionOperator, noise: Floats, share: float) -> bool:
        """Whether what the equations miss is small beside what documents add."""
        return is_low_noise(
            contributions, np.maximum(noise, np.finfo(np.float64).tiny) / max(share * (1 - share), 1e-3)
        )


def _terms(rows: sp.csr_array, V: Floats, mean: Floats | None, squares: bool) -> FactoredContributions:
    made = block_numbers(rows, np.stack([V, V]), mean)
    pairs = _pairs(len(V), squares)
    within = made.numbers[:, : len(V)]
    return replace(made, scalars=within[:, pairs[:, 0]] * within[:, pairs[:, 1]])


def _pairs(rank: int, squares: bool) -> np.ndarray:
    """Places of the products of two vectors' that are known; of one with itself where singular values are."""
    pairs = [(t, u) for t, u in combinations_with_replacement(range(rank), 2) if squares or t != u]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _sums(V: Floats, mean: Floats | None, sigma: Floats | None) -> Floats:
    outside = np.zeros(V.size + (0 if mean is None else len(mean)))
    pairs = _pairs(len(V), sigma is not None)
    within = np.zeros(len(pairs))
    if sigma is not None:
        own = pairs[:, 0] == pairs[:, 1]
        within[own] = np.square(sigma[pairs[own, 0]])
    return np.concatenate([outside, within])


def _possible(V: Floats, mean: Floats | None, pool: Pool) -> Feasibility | None:
    if mean is not None or any(
        part is not None and part.data.min(initial=0.0) < 0.0 for part in (pool.drawn, pool.fixed)
    ):
        return None
    touched = np.asarray(V.any(axis=0))
    return None if touched.all() else WithinBasis(touched, V[0])


_FIRST_ROUND = {
    "linear-sums": {"topics": 2, "sums": 1, "weights": 1},
    "linear-blocks": {"first_blocks": 2, "block_sums": 1},
    "linear-releases": dict.fromkeys(("sums", "weights", "means", "uploads", "counts", "centres", "gradients"), 1),
}
"""Filters of rounds, to the arrays that have a round after the other, and how many of each say the first round:
two where what is there before it comes first."""


def first_rounds(statistics: Iterable[Statistic]) -> tuple[OfFirstRound, ...]:
    """The filters of rounds among these, of the first round alone."""
    return tuple(
        OfFirstRound(statistic)
        for statistic in statistics
        if isinstance(statistic, _Solved) and _FIRST_ROUND.get(statistic.name, {}).keys() & set(statistic.needs)
    )


@dataclass(frozen=True)
class OfFirstRound(WrappedStatistic, _Solved):
    """A filter of rounds, given the first one alone: of noisy ratings it sees 8 % more than all of them."""

    statistic: Statistic
    """One of the filters of rounds."""

    @property
    def name(self) -> str:
        """The statistic's, and that it is of the first round."""
        return f"{self.statistic.name}-first-round"

    @property
    def sentence(self) -> str:
        """Sentence of the statistic, for the first round."""
        return f"Of the first round alone: {sentence_of(self.statistic)}"

    @property
    def family(self) -> str:
        """Family of the statistic."""
        return self.statistic.family

    def equations(self, observables: Observables, pool: Pool) -> LinearModel | None:
        """Return the equations of the statistic, of the first round."""

        def cut() -> Observables:
            of_first = {
                name: np.asarray(observables[name])[:rounds]
                for name, rounds in _FIRST_ROUND[self.statistic.name].items()
                if name in observables
            }
            return Observables({**observables, **of_first})

        first: Observables = observables.derive(("first round", self.statistic.name), cut)
        return cast(_Solved, self.statistic).equations(first, pool)
