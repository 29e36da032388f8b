"""How many released numbers are equations that nobody solves, counted in a trial run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Mechanism, Observables, Release, traits_of
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.factorisation.pd_svd import numbers_of_basis
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.schema import exact_throughout, inner_of, moments_alone, with_sampler
from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.numeric.triangles import isometric
from ksdp.audit.statistic import Pool, Statistic
from ksdp.audit.statistics.linear.expected import MOST_ENTRIES
from ksdp.audit.statistics.linear.moments import NoisyMoments
from ksdp.audit.statistics.linear.operator import FactoredContributions, at_even_steps
from ksdp.audit.statistics.linear.solve import LITTLE, is_low_noise, written_lines
from ksdp.audit.statistics.linear.system import LinearModel, own_mechanism
from ksdp.audit.statistics.linear.tilting import few_to_write


@runtime_checkable
class _Filter(Protocol):
    """A statistic that solves a linear system in who is in."""

    needs: tuple[str, ...]

    def linear_model(self, observables: Observables, pool: Pool) -> LinearModel | None:
        """Return the contributions of documents to the sums of a run, and these sums; None if it looks at none."""


def low_noise_numbers(statistics: Iterable[Statistic], announced: Iterable[Release], pool: Pool) -> int:
    """How many numbers of a run's sums have noise far below what documents add, and are not solved for."""
    if pool.mechanism is None:
        return 0
    rounds = {a.name: a.numbers / math.prod(a.shape) for a in announced}
    mechanism = with_sampler(pool.mechanism, "fast")
    if traits_of(mechanism).noise_free:
        return 0
    pool = replace(pool, mechanism=mechanism)
    filters = [statistic for statistic in statistics if isinstance(statistic, _Filter)]
    numbers = [_of_moments(pool)] if isinstance(own_mechanism(mechanism), NoisyMoments) else [0]
    if filters:
        try:
            seen = mechanism.run(*drawn_database(pool))
        except KsdpError:  # too few documents for its rank, say
            return 0
        for statistic in filters:
            more = max((rounds[name] for name in statistic.needs if name in rounds), default=1.0)
            numbers.append(round(more * _of_filter(statistic, seen, pool)))
    return max(numbers)


def drawn_database(pool: Pool, seed: int = 0) -> tuple[Database, np.random.Generator]:
    """One of the databases, and what else is random in its run."""
    rng = np.random.default_rng(seed)
    return placed_database(pool, rng)[1], rng


def placed_database(pool: Pool, rng: np.random.Generator) -> tuple[Ints, Database]:
    """One of the databases, and the places in the pool of whom it holds."""
    places, parts = pool.one_choice(rng)
    return places, _database(pool, parts)


def _database(pool: Pool, parts: tuple[sp.csr_array, ...]) -> Database:
    return Database(parts, frozenset({len(parts) - 1}) if pool.colluding and len(parts) > 1 else frozenset[int]())


def _of_filter(statistic: _Filter, seen: Observables, pool: Pool) -> int:
    """Numbers of its equations whose noise is little; 0 where all are solved for, or hold as they are."""
    with one_thread():
        model = statistic.linear_model(seen, pool)
        if model is None or model[1].exact or not np.all(model[1].noise):
            return 0
        terms, system = model
        rows = at_even_steps(pool.drawn)
        every = pool.drawn.shape[0] / max(rows.shape[0], 1)
        if pool.fixed is not None and pool.fixed_share < 1.0 and not system.alone:
            rows = sp.csr_array(sp.vstack([rows, pool.fixed], format="csr"))
        made = terms(rows)
        noise = np.broadcast_to(np.asarray(system.noise, np.float64), made.shape[1])
        noise = noise / (every * max(pool.share * (1 - pool.share), 1e-3))
        in_rows = isinstance(made, FactoredContributions) and written_lines(made) == made.lines
        if in_rows and pool.group is None and is_low_noise(made, noise):
            return 0
        features, own = pool.drawn.shape[1], cast(Mechanism, own_mechanism(pool.mechanism))
        return _equations(made.diagonal(), noise, features, moments_alone(own, features))


def _equations(variances: Floats, noise: Floats, features: int, products: bool) -> int:
    """Numbers with little noise; of products of one symmetric matrix, no more than it has."""
    few = int((noise < LITTLE * variances).sum())
    return min(few, features * (features + 1) // 2) if products else few


def _of_moments(pool: Pool) -> int:
    own: Any = own_mechanism(pool.mechanism)
    rows = at_even_steps(pool.drawn, 2**14)
    features = rows.shape[1]
    numbers = features * (features + 1) // 2
    if few_to_write(rows.shape[0], numbers) or numbers <= MOST_ENTRIES:
        return 0
    squares = np.square(own.bounded(rows).toarray())
    parties = 1 + (pool.remaining is not None)
    noise = float(own.moment_noise(pool.sizes[0], features, parties)) ** 2
    every = pool.drawn.shape[0] / rows.shape[0] * max(pool.share * (1 - pool.share), 1e-3)
    varied = np.square(isometric(np.sqrt(squares.T @ squares)))
    few = _equations(varied, np.full(numbers, noise / every), features, True)
    root = given_fields(own).get("intermediate")
    return few if root is None else min(few, int(root) * features)


DATABASES = 6
"""Drawn, to see what varies; each is run several times, to see the noise."""


def final_numbers(mechanism: Mechanism, announced: Iterable[Release], pool: Pool) -> dict[str, int]:
    """Announced arrays that are seen without the sums they are made of, and how many of their numbers tell."""
    shapes = {array.name: array.shape for array in announced}
    counts: dict[str, int] = {}
    own, exact = inner_of(mechanism), exact_throughout(mechanism)
    if "T" in shapes and "sums" not in shapes and "sweeps" in given_fields(own):
        size = int(np.prod(shapes["T"]))
        counts["T"] = size if exact else _above_noise(mechanism, size, pool)
    alone = "V" in shapes and not shapes.keys() & {"first_blocks", "block_sums", "uploads", "P"}
    if alone and given_fields(own).get("solver") == "power" and exact and _stops_early(own, pool):
        counts["V"] = numbers_of_basis(shapes["V"][0], shapes["V"][1])
    return {name: numbers for name, numbers in counts.items() if numbers}


def _stops_early(own: Any, pool: Pool) -> bool:
    """Whether power iteration stops before it converges on one sampled database."""
    seen = []
    for mechanism in (own, replace(own, solver="limit")):
        try:
            seen.append(np.asarray(mechanism.run(*drawn_database(pool))["V"], np.float64))
        except KsdpError:  # too few documents for its rank, say
            return True
    V, limit = seen
    return float(np.linalg.norm(V - (V @ limit.T) @ limit, 2)) > 1e-4


def _above_noise(mechanism: Mechanism, size: int, pool: Pool) -> int:
    """Numbers of T whose noise is far below what varies with who is in; all of them where it cannot be run."""
    runs = repeated_runs(mechanism, pool, range(2), lambda seen: np.asarray(seen["T"], np.float64).ravel())
    if runs is None:
        return size
    noise: Floats = np.square(runs[:, 0] - runs[:, 1]).mean(axis=0) / 2.0
    return int((noise < LITTLE * runs.mean(axis=1).var(axis=0, ddof=1)).sum())


def repeated_runs(
    mechanism: Mechanism, pool: Pool, repeats: range, numbers: Callable[[Observables], Floats]
) -> Floats | None:
    """Numbers of several runs of a few databases."""

    def made() -> Iterator[tuple[Database, Sequence[int]]]:
        for place in range(DATABASES):
            database, _ = drawn_database(pool, place)
            yield from ((database, [place, repeat]) for repeat in repeats)

    runs = _runs(mechanism, made(), numbers)
    return None if runs is None else np.reshape(runs, (DATABASES, len(repeats), -1))


def _runs(
    mechanism: Mechanism, made: Iterable[tuple[Database, Sequence[int]]], numbers: Callable[[Observables], Floats]
) -> list[Floats] | None:
    """Numbers of runs of databases with their seeds; None where one cannot be run, or announces more or fewer."""
    again, released = cast(Any, with_sampler(mechanism, "fast")), []
    for database, seed in made:
        try:
            released.append(numbers(again.run(database, np.random.default_rng(seed))))
        except (KsdpError, KeyError, IndexError):
            return None
    return released if len({len(run) for run in released}) == 1 else None


def crossed_runs(mechanism: Mechanism, pool: Pool, numbers: Callable[[Observables], Floats]) -> Floats | None:
    """Numbers of runs that hold one of two halves and one of two others, with the same randomness."""
    size = pool.units_held
    half = min(size, pool.units - size) // 2
    if not half:
        return None

    def made() -> Iterator[tuple[Database, Sequence[int]]]:
        for place in range(DATABASES):
            rng = np.random.default_rng(place)
            others, order = pool.one_draw(rng)[1:], rng.permutation(pool.units)
            always, (a, b, c, d) = order[4 * half : size + 2 * half], np.split(order[: 4 * half], 4)
            for halves in ((a, c), (a, d), (b, c), (b, d)):
                places = pool.places_of(np.concatenate([always, *halves]))
                yield _database(pool, (take_rows(pool.drawn, places), *others)), [place]

    runs = _runs(mechanism, made(), numbers)
    return None if runs is None else np.reshape(runs, (DATABASES, 4, -1))
