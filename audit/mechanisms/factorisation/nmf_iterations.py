"""What every NMF of ours returns, the loop over its sweeps, and what its objective adds to the fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from ksdp.audit.array_types import Matrix
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties


@dataclass(frozen=True)
class KeptSums:
    """Which of the sums that are announced a factorisation returns: by default those of all, of the last sweep."""

    coalition: Collection[int] = ()
    """Parties whose shares are left out of the numerators and denominators: they know them."""
    at: Collection[int] = ()
    """Sweeps whose announcements are kept, besides the last."""


LAST_SUMS = KeptSums()
"""Those of everybody, of the last sweep."""


@dataclass(frozen=True, eq=False)
class SweepSnapshot:
    """What is announced at the end of one sweep."""

    T: Matrix
    """Topics, shape (k, d)."""
    numerators: Matrix
    """The announced sums W_t^T R_t, shape (k, d), over the parties outside the coalition."""
    denominators: Matrix
    """The announced sums ||W_t||^2, shape (k,), over the same; (k, d) in the weighted form."""


@dataclass(frozen=True, eq=False)
class Factorisation(SweepSnapshot):
    """X ~ W T, and how it was reached."""

    W: Matrix
    """Coefficients, shape (n, k); the rows of the parties, one party after the other."""
    sweeps: int
    """Sweeps done."""
    converged: bool
    """Whether the stopping rule ended it, not the cap on sweeps."""
    snapshots: Mapping[int, SweepSnapshot] = field(default_factory=dict)
    """By sweep asked for; sweeps beyond the last one hold the last one."""
    total: Matrix | None = None
    """Numerators summed over all sweeps, shape (k, d); None where nobody asked for snapshots."""
    total_denominators: Matrix | None = None
    """Denominators summed over all sweeps."""


def iterate(
    sweep: Callable[[], tuple[float, float]],
    snapshot: Callable[[], SweepSnapshot],
    W: Matrix,
    *,
    sweeps: int,
    tolerance: float,
    at: Collection[int],
) -> Factorisation:
    """Sweep until T moves by at most `tolerance` times its norm, or `sweeps` times.

    Parameters
    ----------
    sweep
        Does one sweep in place; returns the squared norms of the change of T and of T before.
    snapshot
        Copies what is announced.
    W
        The coefficients, which `sweep` updates in place.
    at
        Sweeps to take a snapshot after.
    """
    snapshots: dict[int, SweepSnapshot] = {}
    done, converged = 0, False
    while done < sweeps and not converged:
        changed, before = sweep()
        done += 1
        converged = math.sqrt(changed) <= tolerance * math.sqrt(before)
        if done in at:
            snapshots[done] = snapshot()
    last = snapshot()
    snapshots |= {number: last for number in at if number > done}
    return Factorisation(last.T, last.numerators, last.denominators, W, done, converged, snapshots)


def penalised(squares: float, W: Matrix, T: Matrix, penalties: Penalties) -> float:
    """The objective from the squared error of the fit: half of it, plus the regularisers."""
    alpha, beta, gamma, delta = penalties
    return float(
        0.5 * squares
        + alpha * T.sum()
        + 0.5 * beta * (T * T).sum()
        + gamma * W.sum()
        + 0.5 * delta * (W * W).sum()
    )
