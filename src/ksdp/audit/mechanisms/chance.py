"""Chance that somebody's own mechanism declares, number by number, and the check that it has no other.

A mechanism that ksdp did not write is deterministic given its rows, or each number that is not has the noise of
`noise` on a value that is. No test finds every relation between numbers of chance (masks that cancel modulo 2^64,
say), so that other chance clears nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.mechanisms.callables import failure_of
from ksdp.audit.numeric.array_types import Floats, Ints

LAWS = {"gaussian": "norm", "laplace": "laplace"}
"""SciPy's name of each law."""
_UNLIKELY = 1e-9
"""A p-value of draws that are not of their law."""
_FAILS = "a trial run fails: {}"
_DIFFERS = "with another generator the same rows give other numbers, and these are not what `ksdp.noise` returned"
_MOVES = "with another generator the same rows give another value under the noise"
_REPEATS = "noise repeats other noise, or is not of the declared law"


@dataclass(frozen=True, eq=False)
class NoisedNumbers:
    """Numbers that a run put noise on, those of all calls one after the other."""

    value: Floats
    scale: Floats
    law: NDArray[np.str_]
    drawn: Floats
    """At scale 1."""
    returned: Floats


_heard: ContextVar[list[NoisedNumbers] | None] = ContextVar("ksdp-noise", default=None)


def noise(
    value: ArrayLike,
    rng: np.random.Generator,
    law: Literal["gaussian", "laplace"] = "gaussian",
    *,
    scale: ArrayLike,
) -> NDArray[np.float64]:
    """Add noise to what a mechanism of your own releases, and declare it.

    An audit calls documents clear only where a mechanism is deterministic given its rows, or its noise is
    declared. Noise goes on last: release what this function returns as it is.

    Parameters
    ----------
    value : array_like
        Numbers that depend on the rows alone: neither on `rng` nor on numbers that already have noise.
    rng : numpy.random.Generator
        The generator that the mechanism is given for this run.
    law : {"gaussian", "laplace"}
        Law of the noise; every number has noise of its own.
    scale : array_like
        Standard deviation of gaussian noise; of Laplace noise the mean of its absolute value. One for all numbers,
        or one for each.

    Returns
    -------
    ndarray or float
        `value` plus noise, in double precision, of the same shape.

    Raises
    ------
    ValueError
        If the law is another one, or `scale` is not positive and finite, or does not fit the shape of `value`.

    Examples
    --------
    >>> import numpy as np, ksdp
    >>> def release(X, rng):
    ...     return ksdp.noise(X.mean(axis=0), rng, scale=0.1)
    >>> release(np.ones((5, 3)), np.random.default_rng(0)).round(2)
    array([1.01, 0.99, 1.06])
    """
    if law not in LAWS:
        raise ValueError(f"`law` must be {' or '.join(map(repr, LAWS))}; got {law!r}.")
    given, wide = np.asarray(value, np.float64), np.asarray(scale, np.float64)
    if not (np.isfinite(wide) & (wide > 0.0)).all():
        raise ValueError(f"`scale` must be positive and finite; got {scale!r}.")
    if np.broadcast_shapes(given.shape, wide.shape) != given.shape:
        raise ValueError(f"`scale` of shape {wide.shape} does not fit `value` of shape {given.shape}.")
    drawn = np.asarray(rng.standard_normal(given.shape) if law == "gaussian" else rng.laplace(size=given.shape))
    returned: NDArray[np.float64] = given + wide * drawn
    if (heard := _heard.get()) is not None:
        laws = np.full(given.shape, law)
        parts = (given, np.broadcast_to(wide, given.shape), laws, drawn, np.asarray(returned))
        heard.append(NoisedNumbers(*(np.array(part).ravel() for part in parts)))
    return returned


@contextmanager
def _listening() -> Iterator[list[NoisedNumbers]]:
    calls: list[NoisedNumbers] = []
    token = _heard.set(calls)
    try:
        yield calls
    finally:
        _heard.reset(token)


@threadpool_limits.wrap(limits=1)  # a product's last bits depend on how many threads share it
def undeclared(mechanism: Mechanism, databases: Iterable[Database]) -> dict[str, str]:
    """Releases whose chance is not declared, each with what shows it: every database runs with two generators."""
    reasons: dict[str, str] = {}
    noised: set[str] = set()
    draws: list[tuple[NDArray[np.str_], Floats]] = []
    for place, database in enumerate(databases):
        try:
            first, second = (_run(mechanism, database, [place, repeat]) for repeat in range(2))
            findings = {name: _of_one(first, second, name) for name in sorted({*first[0], *second[0]})}
        except Exception as error:  # somebody else's code
            return {mechanism.name: _FAILS.format(failure_of(error))}
        reasons |= {name: why for name, (why, _) in findings.items() if why and name not in reasons}
        noised |= {name for name, (_, places) in findings.items() if len(places)}
        places = np.unique(np.concatenate([np.zeros(0, np.int64), *(places for _, places in findings.values())]))
        draws += [(run.law[places], run.drawn[places]) for _, run in (first, second)]
    return reasons if _fresh(draws) else dict.fromkeys(sorted(noised), _REPEATS) | reasons


_Run = tuple[Mapping[str, Any], NoisedNumbers]


def _run(mechanism: Mechanism, database: Database, seed: list[int]) -> _Run:
    with _listening() as calls:
        seen = mechanism.run(database, np.random.default_rng(seed))
    nothing = NoisedNumbers(*(np.zeros(0),) * 2, np.zeros(0, "<U8"), *(np.zeros(0),) * 2)
    parts = zip(*(vars(call).values() for call in (nothing, *calls)), strict=True)
    return dict(seen), NoisedNumbers(*(np.concatenate(part) for part in parts))


def _of_one(first: _Run, second: _Run, name: str) -> tuple[str, Ints]:
    """The fault of one release of two runs, if it has one, and the places of its noise among all noise."""
    nowhere = np.zeros(0, np.int64)
    if name not in first[0] or name not in second[0] or np.shape(first[0][name]) != np.shape(second[0][name]):
        return _DIFFERS, nowhere
    first_values, other = (np.ravel(np.asarray(seen[name], np.float64)) for seen, _ in (first, second))
    differ = (first_values != other) & ~(np.isnan(first_values) & np.isnan(other))
    places = _places(first_values[differ], first[1].returned)
    if (places < 0).any() or not np.array_equal(places, _places(other[differ], second[1].returned)):
        return _DIFFERS, nowhere
    if any((a[places] != b[places]).any() for a, b in _settings(first[1], second[1])):
        return _MOVES, nowhere
    return "", places


def _settings(first: NoisedNumbers, second: NoisedNumbers) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    yield first.value, second.value
    yield first.scale, second.scale
    yield first.law, second.law


def _places(numbers: Floats, returned: Floats) -> Ints:
    if not len(returned):
        return np.full(len(numbers), -1, np.int64)
    order = np.argsort(returned)
    at = order[np.minimum(np.searchsorted(returned, numbers, sorter=order), len(order) - 1)]
    return np.where(returned[at] == numbers, at, -1)


def _fresh(draws: list[tuple[NDArray[np.str_], Floats]]) -> bool:
    from scipy.stats import kstest  # slow to load

    laws, drawn = (np.concatenate(part) for part in zip(*draws, strict=True))
    if len(np.unique(np.abs(drawn))) < len(drawn):
        return False
    some = ((drawn[laws == law], theirs) for law, theirs in LAWS.items())
    return all(kstest(sample, law).pvalue > _UNLIKELY for sample, law in some if len(sample))
