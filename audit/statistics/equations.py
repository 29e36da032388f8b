"""Announced numbers as linear equations in who is in, and what they say of each document (`terms`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Mechanism, Observables
from ksdp.audit.statistics.additions import at_even_steps
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.terms import Additive, filtered

__all__ = ["MOST_ROWS", "Equations", "own_mechanism", "what_they_say"]

Floats = NDArray[np.float64]

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Sums over the documents of a run, and how well they are known."""

    sums: Floats | float = 0.0
    """Shape (entries,); or the same for all."""
    noise: Floats | float = 0.0
    """Variance of what was added to them, shape (entries,); or the same for all."""
    of_all: bool = True
    """Whether they are over the coalition's documents too, who subtract their own share of announced sums."""
    shrink: float = 0.0
    """Part of each number's variance over databases that is added to it: where the equations hold about."""


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
    """<C^-1 (a_x - mean), Z - E Z> of each document, shape (n_documents,).

    Parameters
    ----------
    name : of the statistic, under which the run's filter is kept
    terms : what documents add in this run, given these and their transpose, where somebody has it
    """
    pool = documents.made_of

    def compute() -> tuple[Floats, float]:
        unknown, shares, turned = pool.derive("who may be in", lambda: _who_may_be_in(pool))
        fixed = pool.fixed if pool.fixed_share == 1.0 and not (pool.colluding and not known.of_all) else None
        made = terms(unknown, turned)
        apart = -made.summed(shares)
        if fixed is not None:
            apart -= terms(fixed).summed(np.ones(fixed.shape[0]))
        apart += known.sums
        noise = known.noise / max(pool.share * (1 - pool.share), 1e-3)
        if known.shrink:
            noise = noise + known.shrink * made.variances
        found = filtered(made, apart, noise)
        return found, float(made.along(found).mean())

    direction, usual = cast(tuple[Floats, float], observables.derive((name, pool), compute))
    return terms(documents.matrix).along(direction) - usual
