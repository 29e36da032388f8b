"""Matched filters on what single rounds announce: sums of PD-NMF's sweeps, blocks of PD-SVD's iterations.

What a document adds to them is known as it is (`round_terms`), so that they are linear equations in who is in
(`terms`): one column for all rounds, which add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Mechanism, Observables
from ksdp.audit.statistics.additions import at_even_steps
from ksdp.audit.statistics.contract import Documents, Pool, Statistic
from ksdp.audit.statistics.expected import expected
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.rated_terms import RatedTerms
from ksdp.audit.statistics.round_terms import block_terms, sweep_terms
from ksdp.audit.statistics.terms import Additive, filtered

__all__ = ["ROUNDS_MATCH", "BlocksMatch", "SumsMatch"]

Floats = NDArray[np.float64]

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""


@dataclass(frozen=True)
class SumsMatch:
    """Whether the sums of PD-NMF's first sweeps hold what the document would have added to them.

    <C^-1 (a_x - mean), Z - E Z>, with Z all sums of these sweeps, a_x what x adds to them given the topics that
    were announced before, E Z and C its mean and covariance over databases given these: the log likelihood ratio
    of the linear, normal model up to what is the same for all, added up over sweeps.
    """

    name: str = "sums-match"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("topics", "sums", "weights")
    reads: tuple[str, ...] = ("sweeps",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        topics, sums, weights = (announced(observables, name) for name in self.needs)
        done = len(sums)
        if "sweeps" in observables:  # a run that has converged before repeats its last sweep
            done = min(done, int(observables["sweeps"].ravel()[0]))
        gamma, delta = _of_coefficients(documents.made_of.mechanism)
        rated = weights.ndim == 3  # an entry has a weight of its own

        def terms(rows: sp.csr_array, turned: sp.csr_array | None = None) -> Additive:
            if rated:
                return RatedTerms(rows, np.ascontiguousarray(topics[: done + 1]), gamma, delta)
            return sweep_terms(rows, topics[: done + 1], gamma, delta, turned)

        whole = np.concatenate([sums[:done].ravel(), weights[:done].ravel()])
        arrays = {"round_sums": sums[:done], "round_weights": weights[:done]}
        noise = [np.full(a.size, _variance(documents.made_of, name, a)) for name, a in arrays.items()]
        return _matched(self.name, observables, documents, terms, (whole, np.concatenate(noise)))


@dataclass(frozen=True)
class BlocksMatch:
    """Whether the blocks of PD-SVD's first iterations turned as the document would have turned them.

    As `SumsMatch`, of what of X^T X V_{s-1} lies outside of the announced V_s: 0 over the run's documents.
    """

    name: str = "blocks-match"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("first_blocks",)
    reads: tuple[str, ...] = ("mean",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        blocks = announced(observables, "first_blocks")
        blocks = blocks[: 1 + int(blocks[1:].any(axis=(1, 2)).sum())]
        mean = None
        if "mean" in observables:
            mean = _mean_of_all(announced(observables, "mean").ravel(), documents.made_of)

        def terms(rows: sp.csr_array, turned: sp.csr_array | None = None) -> Additive:
            return block_terms(rows, blocks, mean, turned)

        noise = _variance(documents.made_of, "blocks", blocks[1:])
        if noise:
            # Of rows of norm 1; the sums that they are made of are as long as the leading eigenvalue, or less.
            picture = expected(documents.made_of, blocks.shape[1], mean is not None)
            noise *= 0.0 if picture is None else float(picture.values[0]) ** 2
        return _matched(self.name, observables, documents, terms, noise)


def _of_coefficients(mechanism: Mechanism | None) -> tuple[float, float]:
    """gamma and delta of the mechanism, or of the one that it adds noise to."""
    own = getattr(mechanism, "inner", mechanism)
    return float(getattr(own, "gamma", 0.0)), float(getattr(own, "delta", 0.0))


def _variance(pool: Pool, name: str, array: Floats) -> float:
    """Of the noise that the mechanism adds to each entry of what it releases, where it does."""
    noisy = pool.mechanism
    if not hasattr(noisy, "deviation") or not getattr(noisy, "noise", 0.0):
        return 0.0
    known = cast(Any, noisy).deviation(name)
    size = cast(Any, noisy).noise * float(np.sqrt(np.square(array).mean())) if known is None else known
    return float(size) ** 2


def _mean_of_all(mean: Floats, pool: Pool) -> Floats:
    """What is subtracted from everybody's rows; the coalition sees the mean of the others' and knows its own."""
    if not pool.colluding or pool.fixed is None:
        return mean
    outside = pool.share * pool.drawn.shape[0]
    own = np.asarray(pool.fixed.sum(axis=0)).ravel()
    return np.asarray((mean * outside + own) / (outside + pool.fixed.shape[0]))


def _who_may_be_in(pool: Pool) -> tuple[sp.csr_array, Floats, sp.csr_array]:
    """Documents of which nobody knows, with the probability that they are in, and their transpose."""
    rows = at_even_steps(pool.drawn, MOST_ROWS)
    shares = np.full(rows.shape[0], pool.share * pool.drawn.shape[0] / max(rows.shape[0], 1))
    if pool.fixed is not None and pool.fixed_share < 1.0:
        rows = sp.csr_array(sp.vstack([rows, pool.fixed], format="csr"))
        shares = np.concatenate([shares, np.full(pool.fixed.shape[0], pool.fixed_share)])
    return rows, shares, sp.csr_array(rows.T.tocsr())


def _matched(
    name: str,
    observables: Observables,
    documents: Documents,
    terms: Callable[..., Additive],
    given: tuple[Floats, Floats] | float,
) -> Floats:
    """What is known of each document.

    Parameters
    ----------
    terms : what documents add in this run, given these and their transpose, where somebody has it
    given : two arrays, shape (entries,)
        The announced sums, from which a coalition subtracts its own share, and the variance of their noise. Or the
        variance of noise around zeros, which are sums over everybody.
    """
    pool = documents.made_of
    whole, noise = given if isinstance(given, tuple) else (None, given)

    def compute() -> tuple[Floats, float]:
        unknown, shares, turned = pool.derive("who may be in", lambda: _who_may_be_in(pool))
        known = pool.fixed if pool.fixed_share == 1.0 and not (pool.colluding and whole is not None) else None
        made = terms(unknown, turned)
        apart = -made.summed(shares)
        if known is not None:
            apart -= terms(known).summed(np.ones(known.shape[0]))
        if whole is not None:
            apart += whole
        found = filtered(made, apart, noise / max(pool.share * (1 - pool.share), 1e-3))
        return found, float(made.along(found).mean())

    direction, usual = cast(tuple[Floats, float], observables.derive((name, pool), compute))
    return terms(documents.matrix).along(direction) - usual


ROUNDS_MATCH: tuple[Statistic, ...] = (BlocksMatch(), SumsMatch())
"""What the entry point gives."""
