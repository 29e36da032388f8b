"""Topics of all parties' rows, on shares of these rows: the sweeps of PD-NMF, of which T alone is opened.

The numerics are those of `audit.mechanisms.factorisation.nmf_sweep`, in the same order: for every topic W_t, then
T_t. Numbers are relative: X' = X / s with |X'| <= 1, s^2 what all parties' squares may add up to; T' = T / tau and
W' = W tau / s with tau^4 = s^2 delta / beta, so that both regularisers become rho = sqrt(beta delta) / s. Then

    |W'_t| <= |X' T'_t| / (|T'_t|^2 + rho) <= 1 / (2 sqrt(rho)) = reach, and |T'_t| too,

whatever the rows are, and every denominator is from rho to reach^2 + rho. From these follow the sizes that are
said of every product (`Sizes`): nothing can wrap. Without both regularisers there is no such bound, and the
simplex projection that stands in their place needs ten times as many comparisons.

A sign that is wrong for a number within three units of zero changes what is kept of it by as much, no more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.protocols.shared.arithmetic import SharedArithmetic, fixed, reals
from ksdp.protocols.shared.field import PRIME
from ksdp.protocols.shared.full_topics import FullFit
from ksdp.protocols.shared.observed_topics import ObservedFit
from ksdp.protocols.shared.simplex_topics import SimplexFit
from ksdp.protocols.shared.topic_sizes import KEPT, AnySizes, SimplexSizes
from ksdp.protocols.shared.topic_steps import SharedRows

_FAULT_BITS = 32


class NotProjected(Exception):
    """The opened bit says so."""


@dataclass(frozen=True)
class Sweeps:
    """What is computed; public, agreed."""

    sizes: AnySizes
    sweeps: int
    """Of the rows."""
    before: int = 0
    """Of the parties' own topics, where these make the start."""


async def topics_of(
    runtime: Any,
    rows: SharedRows,
    start: NDArray[np.float64],
    wanted: Sweeps,
    models: SharedRows | None = None,
    pattern: SharedRows | None = None,
) -> NDArray[np.float64]:
    """One computing party's side: the topics that everybody learns, shape (k, d).

    Raises
    ------
    NotProjected
        If a threshold of the simplex was not reached; nothing else was opened.

    Parameters
    ----------
    rows
        X' at `ROW_BITS`.
    start : shape (k, d)
        Public.
    models
        The parties' own topics, weighted; T is first fitted to them for `before` sweeps.
    pattern
        1 for an entry that is observed, 0 where it is missing; without it all are observed.
    """
    shares, sizes = SharedArithmetic(runtime), wanted.sizes
    topics = fixed(start / sizes.tau, KEPT)
    fits: list[FullFit | ObservedFit] = []
    if models is not None:
        fits.append(_full_fit(shares, models, sizes))
        topics = await fits[-1].swept(topics, wanted.before)
    if pattern is None:
        fits.append(_full_fit(shares, rows, sizes))
    else:
        fits.append(ObservedFit(shares, rows, pattern, sizes))
    topics = await fits[-1].swept(topics, wanted.sweeps)
    await _check_thresholds(shares, [fit for fit in fits if isinstance(fit, SimplexFit)])
    return reals(await shares.opened(topics), KEPT) * sizes.tau


def _full_fit(shares: SharedArithmetic, rows: SharedRows, sizes: AnySizes) -> FullFit:
    if isinstance(sizes, SimplexSizes):
        return SimplexFit(shares, rows, sizes)
    return FullFit(shares, rows, sizes)


async def _check_thresholds(shares: SharedArithmetic, fits: list[SimplexFit]) -> None:
    """Open whether all topics were projected; where not, nothing else."""
    if fits:
        faults = np.sum([fit.faults for fit in fits], axis=0)
        if (await shares.opened(await shares.negative(-faults % PRIME, _FAULT_BITS)))[0] != 0:
            raise NotProjected
