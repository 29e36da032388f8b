"""How many announced numbers have hardly any noise, of sums over more documents than are solved for.

A number whose noise is far below what documents add to it is an equation in who is in. Where so many documents may
be in that equations are approached by steps, or the first of them are solved for alone (`first_numbers`), what an
audit finds is too little: of 4,000 pictures, a tenth of them, FedPower with noise of 1e-4, steps told D 0.38 and
0.17 (rows of one size; of different sizes) where the solution has 1.00 and 0.97. So such numbers are counted, in
one run on what databases are drawn from, and nobody is clear where they tell more than the margin
(`coverage.unblurred`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import KsdpError
from ksdp.audit.kernels import one_thread
from ksdp.audit.mechanisms.contract import Announced, Database, Mechanism, Observables, named_alone
from ksdp.audit.statistics.additions import MOST_ENTRIES, at_even_steps
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.contract import Pool, Statistic
from ksdp.audit.statistics.equations import MOST_ROWS, Equations, own_mechanism
from ksdp.audit.statistics.first_numbers import written_out
from ksdp.audit.statistics.max_entropy import few_to_write
from ksdp.audit.statistics.moments import NoisyMoments
from ksdp.audit.statistics.solved_filters import LITTLE, hides_little
from ksdp.audit.statistics.term_numbers import TermNumbers

Equated = tuple[Callable[..., Additive], Equations]
"""What documents add to sums, given these, and the sums."""
_MOST_DENSE = 2**14
"""Documents that are written out, at most."""


@runtime_checkable
class _Filter(Protocol):
    """A statistic that takes what is announced for equations in who is in."""

    needs: tuple[str, ...]

    def equations_of(self, observables: Observables, pool: Pool) -> Equated | None:
        """What documents add to the sums of a run, and these sums; None where it looks at none."""
        ...


def numbers_of_little_noise(statistics: Iterable[Statistic], announced: Iterable[Announced], pool: Pool) -> int:
    """How many numbers of a run's sums have noise far below what documents add, and are not solved for.

    Those of the filter that has most; of runs `together`, all of these added up. Exact sums are not counted
    (`coverage.unsolved`). Rounds that are not looked at count as those that are.

    Parameters
    ----------
    statistics : that are tested
    announced : what the mechanism announces
    pool : what databases are drawn from, more documents than are solved for
    """
    if pool.mechanism is None:
        return 0
    sizes = {a.name: (math.prod(a.shape), a.in_all) for a in announced}
    runs: dict[int, list[Statistic]] = {}
    for one in statistics:
        place = int(getattr(one, "place", 0))
        runs.setdefault(place, []).append(getattr(one, "statistic", one) if place else one)
    several: Any = getattr(pool.mechanism, "inner", None)
    if not isinstance(several, tuple):
        return _of_run(runs.get(0, []), sizes, pool)
    total = 0
    for place, mechanism in enumerate(several, start=1):
        total += _of_run(runs.get(place, []), named_alone(sizes, place), replace(pool, mechanism=mechanism))
    return total


def _of_run(statistics: list[Statistic], sizes: dict[str, tuple[int, int]], pool: Pool) -> int:
    mechanism = repeatable(cast(Mechanism, pool.mechanism))
    if getattr(mechanism, "noise_free", False):
        return 0
    pool = replace(pool, mechanism=mechanism)
    filters = [one for one in statistics if isinstance(one, _Filter)]
    found = [_of_moments(pool)] if isinstance(own_mechanism(mechanism), NoisyMoments) else [0]
    if filters:
        try:
            seen = mechanism.run(*drawn_database(pool))
        except KsdpError:  # too few documents for its rank, say
            return 0
        for one in filters:
            early = [sizes[name] for name in one.needs if name in sizes]
            more = max((in_all / size for size, in_all in early if in_all > size), default=1.0)
            found.append(round(more * _of_filter(one, seen, pool)))
    return max(found)


def repeatable(mechanism: Mechanism) -> Mechanism:
    """With noise that a seed gives back."""
    if dataclasses.is_dataclass(mechanism) and getattr(mechanism, "sampler", "fast") != "fast":
        return cast(Mechanism, replace(cast(Any, mechanism), sampler="fast"))
    return mechanism


def drawn_database(pool: Pool, seed: int = 0) -> tuple[Database, np.random.Generator]:
    """One of the databases, and what else is random in its run."""
    rng = np.random.default_rng(seed)
    parts = pool.one_draw(rng)
    coalition = frozenset({len(parts) - 1}) if pool.colluding and len(parts) > 1 else frozenset[int]()
    return Database(parts, coalition), rng


def _of_filter(one: _Filter, seen: Observables, pool: Pool) -> int:
    """Numbers of its equations whose noise is little; 0 where all are solved for, or hold as they are."""
    with one_thread():
        found = one.equations_of(seen, pool)
        if found is None or found[1].exact or not np.all(found[1].noise):
            return 0
        terms, known = found
        rows = at_even_steps(pool.drawn, MOST_ROWS)
        every = pool.drawn.shape[0] / max(rows.shape[0], 1)
        if pool.fixed is not None and pool.fixed_share < 1.0 and not known.alone:
            rows = sp.csr_array(sp.vstack([rows, pool.fixed], format="csr"))
        made = terms(rows)
        noise = np.broadcast_to(np.asarray(known.noise, np.float64), made.entries)
        noise = noise / (every * max(pool.share * (1 - pool.share), 1e-3))
        in_rows = isinstance(made, TermNumbers) and written_out(made) == made.entries - made.scalars.shape[1]
        if in_rows and pool.group is None and hides_little(made, noise):
            return 0
        return _equations(made.variances, noise, pool.drawn.shape[1], _of_one_matrix(pool))


def _equations(variances: Floats, noise: Floats, features: int, products: bool) -> int:
    """Numbers with little noise; of products of one symmetric matrix, no more than it has."""
    few = int((noise < LITTLE * variances).sum())
    return min(few, features * (features + 1) // 2) if products else few


def _of_one_matrix(pool: Pool) -> bool:
    """Whether all that rounds announce are products with one symmetric matrix."""
    return bool(getattr(own_mechanism(pool.mechanism), "one_matrix", False))


def _of_moments(pool: Pool) -> int:
    """Of a sum of x x^T, or of the root that a site sends, where the filter takes single variances."""
    own: Any = own_mechanism(pool.mechanism)
    rows = at_even_steps(pool.drawn, _MOST_DENSE)
    features = rows.shape[1]
    numbers = features * (features + 1) // 2
    if few_to_write(rows.shape[0], numbers) or numbers <= MOST_ENTRIES:
        return 0
    squares = np.square(own.bounded(rows).toarray())
    parties = 1 + (pool.beside is not None)
    noise = float(own.moment_noise(pool.sizes[0], features, parties)) ** 2
    every = pool.drawn.shape[0] / rows.shape[0] * max(pool.share * (1 - pool.share), 1e-3)
    varied = (squares.T @ squares)[np.triu_indices(features)]
    few = _equations(varied, np.full(numbers, noise / every), features, True)
    root = getattr(own, "intermediate", None)
    return few if root is None else min(few, int(root) * features)
