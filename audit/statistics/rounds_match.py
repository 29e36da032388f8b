"""Matched filters on what single rounds announce: sums of PD-NMF's sweeps, blocks of PD-SVD's iterations.

What a document adds to them is known as it is (`round_terms`), so that they are linear equations in who is in
(`equations`): one column for all rounds, which add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.mechanisms.factorisation.pd_svd import EARLY
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.beside_counts import beside_counts
from ksdp.audit.statistics.contract import Documents, Pool, Statistic
from ksdp.audit.statistics.equations import (
    Equations,
    added_variance,
    own_mechanism,
    what_they_say,
)
from ksdp.audit.statistics.exact_sums import MORE
from ksdp.audit.statistics.expected import expected
from ksdp.audit.statistics.little_noise import Equated
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.rated_terms import RatedTerms
from ksdp.audit.statistics.round_terms import (
    block_numbers,
    part_terms,
    sweep_numbers,
)
from ksdp.audit.statistics.ruled_out import FitsRatings, FitsSum, Possible, WithinColumns
from ksdp.audit.statistics.solved_filters import lost
from ksdp.audit.statistics.solved_parts import few_enough
from ksdp.audit.statistics.term_products import LOST, lost_of


@dataclass(frozen=True)
class SumsMatch:
    """Whether the sums of PD-NMF's first sweeps hold what the document would have added to them.

    <C^-1 (a_x - mean), Z - E Z>, with Z all sums of these sweeps, a_x what x adds to them given the topics that
    were announced before, E Z and C its mean and covariance over databases given these: the log likelihood ratio
    of the linear, normal model up to what is the same for all, added up over sweeps. Where exact sums are more
    numbers than the documents that may be in, of large corpora, it is each document's part in them (`one_by_one`).
    """

    sentence = "Whether the sums of early rounds hold what this document adds to them, best weighed."

    name: str = "sums-match"
    version: int = 13
    family: str = "rounds"
    needs: tuple[str, ...] = ("topics", "sums", "weights")
    reads: tuple[str, ...] = ("sweeps",)

    def equations_of(self, observables: Observables, pool: Pool) -> Equated:
        """What documents add to the sums of a run, and these sums."""
        topics, sums, weights = (announced(observables, name) for name in self.needs)
        done = len(sums)
        if "sweeps" in observables:  # a run that has converged before repeats its last sweep
            done = min(done, int(observables["sweeps"].ravel()[0]))
        done = _enough(pool, sums[0].size, done)
        own = own_mechanism(pool.mechanism)
        gamma, delta = float(getattr(own, "gamma", 0.0)), float(getattr(own, "delta", 0.0))
        rated = weights.ndim == 3  # an entry has a weight of its own

        def terms(rows: sp.csr_array) -> Additive:
            if rated:
                return RatedTerms(rows, np.ascontiguousarray(topics[: done + 1]), gamma, delta)
            return sweep_numbers(rows, topics[: done + 1], gamma, delta)

        whole = np.concatenate([sums[:done].ravel(), weights[:done].ravel()])
        exact = is_exact(pool)
        noise: Floats | float = 0.0
        if not exact:
            noise = _added(pool, {"round_sums": sums[:done], "round_weights": weights[:done]})
        elif rated:
            noise = lost(whole)
        possible: Possible | None = None
        if exact:
            first, total = np.ascontiguousarray(topics[0, 0]), sums[0, 0]
            if rated:
                possible = FitsRatings(first, total, weights[0, 0], gamma, delta)
            else:
                possible = FitsSum(first, total, gamma, delta, "start" not in observables)
        known = Equations(whole, noise, of_all=False, exact=exact, lost=_lost(pool, sums), possible=possible)
        return beside_counts(pool, terms, known)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return what_they_say(self.name, observables, documents, *self.equations_of(observables, documents.made_of))


@dataclass(frozen=True)
class BlocksMatch:
    """Whether the blocks of PD-SVD's first iterations turned as the document would have turned them.

    As `SumsMatch`, of what of X^T X V_{s-1} lies outside of the announced V_s: 0 over the run's documents.
    """

    sentence = "Whether what each early round announced turned as this document would turn it, best weighed."

    name: str = "blocks-match"
    version: int = 13
    family: str = "rounds"
    needs: tuple[str, ...] = ("first_blocks",)
    reads: tuple[str, ...] = ("mean",)

    def equations_of(self, observables: Observables, pool: Pool) -> Equated:
        """What documents add to the sums of a run, and these sums."""
        blocks = announced(observables, "first_blocks")
        done = int(blocks[1:].any(axis=(1, 2)).sum())
        blocks = blocks[: 1 + _enough_blocks(pool, blocks[0].size, done)]
        mean = None
        if "mean" in observables:
            mean = mean_of_all(announced(observables, "mean").ravel(), pool)

        def terms(rows: sp.csr_array) -> Additive:
            return block_numbers(rows, blocks, mean)

        noise = added_variance(pool.mechanism, "blocks", blocks[1:])
        if noise:
            # Of rows of norm 1; the sums that they are made of are as long as the leading eigenvalue, or less.
            picture = expected(pool, blocks.shape[1], mean is not None)
            noise *= 0.0 if picture is None else float(picture.values[0]) ** 2
        exact, possible = is_exact(pool), _within(blocks[1:], mean, pool)
        known = Equations(noise=noise, exact=exact, lost=_lost(pool, blocks), possible=possible)
        return beside_counts(pool, terms, known)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return what_they_say(self.name, observables, documents, *self.equations_of(observables, documents.made_of))


def _lost(pool: Pool, numbers: Floats) -> float:
    """What is lost of exact numbers by which who was in is solved for: of double precision as of the wire."""
    return lost_of(numbers) if is_exact(pool) and few_enough(pool.drawn.shape[0]) else LOST


def _added(pool: Pool, arrays: dict[str, Floats]) -> Floats:
    """The variance of what was added to the numbers of some arrays, one after the other; of "" nothing was."""
    variances = [added_variance(pool.mechanism, n, a) if n else 0.0 for n, a in arrays.items()]
    return np.repeat(variances, [a.size for a in arrays.values()])


def _within(blocks: Floats, mean: Floats | None, pool: Pool) -> Possible | None:
    """Who has entries only where some block, or the mean, is not 0; None where nobody is ruled out."""
    if not is_exact(pool):
        return None
    touched = np.asarray(blocks.any(axis=(0, 1)) | (mean is not None and mean != 0.0))
    return None if touched.all() else WithinColumns(touched)


def is_exact(pool: Pool) -> bool:
    """Whether what is announced is known to be exact: then documents are ruled out."""
    return bool(getattr(pool.mechanism, "noise_free", False))


@dataclass(frozen=True)
class BlockSumsMatch:
    """Whether the sums of the first iterations hold what the document would have added.

    As `BlocksMatch`, of all of X^T X V_{s-1}, also within the space of V_s: known as it is, whether Sigma is
    revealed or hidden (`PDSVD`). With a start of
    PD-NMF by such sums also of ``part_squares``, to which x adds the squares of its products with V, those above 0
    and those below.
    """

    sentence = "Whether sums of early rounds, lengths included, hold what this document adds to them."

    name: str = "block-sums-match"
    version: int = 11
    family: str = "rounds"
    needs: tuple[str, ...] = ("first_blocks", "block_sums")
    reads: tuple[str, ...] = ("mean", "part_squares", "V")

    def equations_of(self, observables: Observables, pool: Pool) -> Equated:
        """What documents add to the sums of a run, and these sums."""
        blocks, sums = (announced(observables, name) for name in self.needs)
        done = _enough_blocks(pool, blocks[0].size, int(blocks[1:].any(axis=(1, 2)).sum()))
        blocks, sums = blocks[: 1 + done], sums[:done]
        mean, last = None, np.zeros(0)
        if "mean" in observables:
            mean = mean_of_all(announced(observables, "mean").ravel(), pool)
            last = np.zeros(len(mean))
        parts = announced(observables, "part_squares") if "part_squares" in observables else np.zeros((2, 0))

        def terms(rows: sp.csr_array) -> Additive:
            made = block_numbers(rows, blocks, mean, outside=False)
            return replace(made, scalars=part_terms(rows, announced(observables, "V"))) if parts.size else made

        heights = {"blocks": sums, "": last, "part_squares": parts}
        whole = np.concatenate([a.ravel() for a in heights.values()])
        noise, possible = _added(pool, heights), _within(sums, mean, pool)
        known = Equations(whole, noise, exact=is_exact(pool), lost=_lost(pool, blocks), possible=possible)
        return beside_counts(pool, terms, known)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return what_they_say(self.name, observables, documents, *self.equations_of(observables, documents.made_of))


def _enough(pool: Pool, numbers: int, done: int) -> int:
    """How many of the rounds are looked at, given the numbers of each: as many as have `MORE` a document.

    Each further round says less that is new, and what single precision loses of it is lost all the same.
    """
    documents = pool.drawn.shape[0] + (0 if pool.fixed is None or pool.fixed_share == 1.0 else pool.fixed.shape[0])
    return min(done, max(EARLY, math.ceil(MORE * int(documents) / numbers)))


def _enough_blocks(pool: Pool, numbers: int, done: int) -> int:
    """The same of blocks; three with noise, which also blurs what the later ones are products with."""
    return _enough(pool, numbers, done) if is_exact(pool) else min(done, EARLY)


def mean_of_all(mean: Floats, pool: Pool) -> Floats:
    """What is subtracted from everybody's rows; the coalition sees the mean of the others' and knows its own."""
    if pool.subtracted is None:
        return mean
    outside = pool.share * pool.drawn.shape[0] + (0 if pool.beside is None else pool.beside.shape[0])
    own = np.asarray(pool.subtracted.sum(axis=0)).ravel()
    return np.asarray((mean * outside + own) / (outside + pool.subtracted.shape[0]))


ROUNDS_MATCH: tuple[Statistic, ...] = (BlockSumsMatch(), BlocksMatch(), SumsMatch())
"""What the entry point gives."""
