"""Announced numbers as linear equations in who is in, and what they say of each document (`terms`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.csr_rows import take_rows
from ksdp.audit.mechanisms.contract import Mechanism, Observables
from ksdp.audit.statistics.additions import at_even_steps
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.ruled_out import Possible
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.terms import Additive, filtered

__all__ = ["MOST_ROWS", "Equations", "own_mechanism", "what_they_say"]

Floats = NDArray[np.float64]

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""
RULED_OUT = -2.0
"""What is said of documents that the run cannot have held; others are between -1 and 1, about."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Sums over the documents of a run, and how well they are known."""

    sums: Floats | float = 0.0
    """Shape (entries,); or the same for all."""
    noise: Floats | float = 0.0
    """Variance of what was added to them, shape (entries,); or the same for all."""
    of_all: bool = True
    """Whether they are over the coalition's documents too, who subtract their own share of announced sums."""
    alone: bool = False
    """Whether they are over the victim's documents alone: what one party sends, not a sum over parties."""
    shrink: float = 0.0
    """Part of each number's variance over databases that is added to it: where the equations hold about."""
    possible: Possible | None = None
    """Which documents the run may have held; None: nobody is ruled out."""


def own_mechanism(mechanism: Mechanism | None) -> Any:
    """The mechanism, or the one that it adds noise to."""
    return getattr(mechanism, "inner", mechanism)


def _who_may_be_in(pool: Pool) -> tuple[sp.csr_array, Floats, sp.csr_array]:
    """Documents of which nobody knows, with the probability that they are in, and their transpose."""
    rows = at_even_steps(pool.drawn, MOST_ROWS)
    shares = np.full(rows.shape[0], pool.share * pool.drawn.shape[0] / max(rows.shape[0], 1))
    if pool.fixed is not None and pool.fixed_share < 1.0:
        rows = sp.csr_array(sp.vstack([rows, pool.fixed], format="csr"))
        shares = np.concatenate([shares, np.full(pool.fixed.shape[0], pool.fixed_share)])
    return rows, shares, sp.csr_array(rows.T.tocsr())


def what_they_say(
    name: str,
    observables: Observables,
    documents: Documents,
    terms: Callable[..., Additive],
    known: Equations,
) -> Floats:
    """<C^-1 (a_x - mean), Z - E Z> of each document, shape (n_documents,); `RULED_OUT` where it cannot be in.

    Whoever may be in is as likely to be in as anybody else of these, so that E Z and C are over them alone: a
    database is any set of so many documents, and that some cannot be in says no more than that.

    Parameters
    ----------
    name : of the statistic, under which the run's filter is kept
    terms : what documents add in this run, given these and their transpose, where somebody has it
    """
    pool = documents.made_of
    if known.alone:
        pool = cast(Pool, pool.derive("the victim's own", lambda: replace(pool, fixed=None, fixed_share=1.0)))

    def compute() -> tuple[Floats, float]:
        unknown, shares, turned = pool.derive("who may be in", lambda: _who_may_be_in(pool))
        fixed = pool.fixed if pool.fixed_share == 1.0 and not (pool.colluding and not known.of_all) else None
        left = None
        if known.possible is not None:
            rows = unknown
            may = known.possible(rows, lambda key, of: pool.derive(("may be in", key), lambda: of(rows)))
            left = _left(rows, shares, may)
        if left is not None:
            unknown, shares, turned = *left, None
        made = terms(unknown, turned)
        sums = np.broadcast_to(np.asarray(known.sums, dtype=np.float64), made.entries)
        if fixed is not None:
            sums = sums - terms(fixed).summed(np.ones(fixed.shape[0]))
        noise = known.noise / max(pool.share * (1 - pool.share), 1e-3)
        if left is not None and isinstance(made, TermNumbers):
            return _narrowly(made, shares, sums, noise, rows.nnz)
        apart = sums - made.summed(shares)
        if known.shrink:
            noise = noise + known.shrink * made.variances
        found = filtered(made, apart, noise)
        return found, float(made.along(found).mean())

    direction, usual = cast(tuple[Floats, float], observables.derive((name, pool), compute))
    if known.possible is None:
        return terms(documents.matrix).along(direction) - usual
    may = known.possible(documents.matrix, lambda key, of: documents.of_each(key, lambda whole: of(whole.matrix)))
    places = np.flatnonzero(may)
    said = np.full(len(documents), RULED_OUT)
    said[places] = terms(take_rows(documents.matrix, places)).along(direction) - usual
    return said


def _left(rows: sp.csr_array, shares: Floats, may: NDArray[np.bool_]) -> tuple[sp.csr_array, Floats] | None:
    """Those who may be in, with the probability that they are; None where that is everybody, or hardly anybody."""
    places = np.flatnonzero(may)
    if len(places) == rows.shape[0] or len(places) < 2:
        return None
    return take_rows(rows, places), shares[places] * (shares.sum() / shares[places].sum())


def _narrowly(
    made: TermNumbers, shares: Floats, sums: Floats, noise: Floats | float, entries: int
) -> tuple[Floats, float]:
    """The filter, and its mean over documents, in the columns that one of the documents has an entry in.

    It takes the steps that all documents, with so many `entries`, would take: what is left of them costs less.
    """
    touched = np.zeros(made.rows.shape[1], np.bool_)
    touched[made.rows.indices] = True
    used = np.flatnonzero(touched)
    fewer = made.within(used)
    wide = made.weights.shape[1] * made.rows.shape[1]
    at = np.arange(wide).reshape(-1, made.rows.shape[1])[:, used].ravel()
    at = np.concatenate([at, np.arange(wide, made.entries)])
    whole = made.work // max(made.rows.nnz, 1) * entries
    found = filtered(fewer, sums[at] - fewer.summed(shares), np.broadcast_to(noise, made.entries)[at], whole)
    direction = np.zeros(made.entries)
    direction[at] = found
    return direction, float(fewer.mean @ found)
