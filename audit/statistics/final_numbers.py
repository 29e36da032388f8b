"""How many numbers of a final output follow from who was in, though no column solves for it.

Whoever knows the candidates can run the mechanism on any of them, each with a weight (its rows times its root),
and fit the weights to what was announced by Gauss and Newton's steps: no equation has to hold at the output, as
those of an eigenspace do. Topics are such numbers after any number of sweeps, and V is where the iteration stops
early (decision 26). With noise, those are whose noise is far below what varies from database to database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.contract import Announced, Mechanism, prefixed_runs
from ksdp.audit.mechanisms.factorisation.pd_svd import numbers_of_basis
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.equations import own_mechanism
from ksdp.audit.statistics.little_noise import drawn_database, repeatable
from ksdp.audit.statistics.solved_filters import LITTLE

_DATABASES = 6
"""Drawn, to see what varies; each is run twice, to see the noise."""
_CONVERGED = 1e-4
"""Sine of the largest angle to the limit, below which its equations hold: 10 rounds that missed more of it found
D 0.96 in the median, 1 round none of the 1.00 that is there (60 patients, rank 3)."""
_ROUNDS = ("first_blocks", "block_sums", "uploads", "P")
"""What rounds announce beside V, which filters of their own solve."""


def final_numbers(mechanism: Mechanism, announced: Iterable[Announced], pool: Pool) -> dict[str, int]:
    """Announced arrays that are seen without the sums they are made of, and how many of their numbers tell.

    Parameters
    ----------
    mechanism : of the audit
    announced : what is seen of a run
    pool : what databases are drawn from
    """
    shapes = {array.name: array.shape for array in announced}
    found: dict[str, int] = {}
    for prefix, one in prefixed_runs(mechanism):
        own, topics, basis = own_mechanism(one), prefix + "T", prefix + "V"
        exact = all(getattr(part, "noise_free", False) for part in (one, own))
        if topics in shapes and prefix + "sums" not in shapes and hasattr(own, "sweeps"):
            size = int(np.prod(shapes[topics]))
            found[topics] = size if exact else _above_noise(one, size, pool)
        alone = basis in shapes and not any(prefix + name in shapes for name in _ROUNDS)
        if alone and getattr(own, "solver", "") == "power" and exact and _stops_early(own, pool):
            found[basis] = numbers_of_basis(shapes[basis][0], shapes[basis][1])
    return {name: numbers for name, numbers in found.items() if numbers}


def _stops_early(own: Any, pool: Pool) -> bool:
    """Whether V of one database is not the limit that its equations hold at."""
    seen = []
    for mechanism in (own, replace(own, solver="limit")):
        try:
            seen.append(np.asarray(mechanism.run(*drawn_database(pool))["V"], np.float64))
        except KsdpError:  # too few documents for its rank, say
            return True
    V, limit = seen
    return float(np.linalg.norm(V - (V @ limit.T) @ limit, 2)) > _CONVERGED


def _above_noise(mechanism: Mechanism, size: int, pool: Pool) -> int:
    """Numbers of T whose noise is far below what varies with who is in; all of them where it cannot be run."""
    again = cast(Any, repeatable(mechanism))
    runs = np.empty((_DATABASES, 2, size))
    for place in range(_DATABASES):
        database, _ = drawn_database(pool, place)
        for twice in range(2):
            try:
                seen = again.run(database, np.random.default_rng([place, twice]))
            except KsdpError:
                return size
            runs[place, twice] = np.asarray(seen["T"], np.float64).ravel()
    noise: Floats = np.square(runs[:, 0] - runs[:, 1]).mean(axis=0) / 2.0
    return int((noise < LITTLE * runs.mean(axis=1).var(axis=0, ddof=1)).sum())
