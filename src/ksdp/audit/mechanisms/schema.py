"""Releases of a mechanism as a schema: the arrays that a party sees, and those that are stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np

from ksdp.audit.contract import Database, Derives, Made, Mechanism, Release, Wrapper, traits_of
from ksdp.audit.errors import SpecError


def inner_of(mechanism: Mechanism) -> Mechanism:
    """The mechanism that this one runs; itself where it runs none."""
    return cast(Wrapper, mechanism).inner if hasattr(mechanism, "inner") else mechanism  # a tenth of isinstance


def exact_throughout(mechanism: Mechanism) -> bool:
    """Whether neither the mechanism nor the one that it runs adds noise."""
    return traits_of(mechanism).noise_free and traits_of(inner_of(mechanism)).noise_free


def moments_alone(mechanism: Mechanism, features: int) -> bool:
    """Whether all sums that it releases are products with one symmetric matrix, X^T X."""
    return {a.terms.form for a in mechanism.releases(features) if a.terms} == {"moments"}


def as_it_runs(mechanism: Made) -> Made:
    """The mechanism with the vetted sampler, which real parties draw from whatever a spec simulates with."""
    return with_sampler(mechanism, "discrete")


def with_sampler(mechanism: Made, sampler: str) -> Made:
    """The same mechanism with a sampler of `SAMPLERS`; as it is where it has no choice of one."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type):
        return mechanism
    if "sampler" not in {f.name for f in fields(mechanism) if f.init}:
        return mechanism
    changed: dict[str, Any] = {"sampler": sampler}
    return cast(Made, replace(mechanism, **changed))


@runtime_checkable
class Certifiable(Protocol):
    """A mechanism whose announcement has a density that is known, given the database."""

    def uncertified(self, features: int) -> str | None:
        """Why no bound on every attack is known all the same, as the end of a sentence; None where one is."""

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """Return a function of another database, whose mean over `coins` bounds their total variation."""


@dataclass(frozen=True)
class ReleaseSchema:
    """Releases of a run that a party sees, that statistics read, and that are stored."""

    recorded: tuple[Release, ...]
    opened: tuple[str, ...]
    """Names of everything that a run shows the party whose view this is."""
    seen: tuple[str, ...]
    """Names of those that statistics may read: all that are recorded, or the final output."""
    kept: tuple[Release, ...]
    """Releases that go to the store, if any do."""

    @property
    def read(self) -> tuple[Release, ...]:
        """Names of the releases that statistics may read."""
        return tuple(array for array in self.recorded if array.name in self.seen)

    @property
    def numbers(self) -> int:
        """How many numbers of a run these hold."""
        return sum(math.prod(array.shape) for array in self.read)


def release_schema(
    mechanism: Mechanism, features: int, *, sees: Literal["all", "final"], keeps: str
) -> ReleaseSchema:
    """Derive the releases that one party sees, and those that a store keeps: all, or those of the last round."""
    try:
        releases = tuple(mechanism.releases(features))
    except TypeError as error:
        raise SpecError(f"`releases` of {mechanism.name!r} must give a tuple of `Release`.") from error
    wrong = [type(array).__name__ for array in releases if not isinstance(array, Release)]
    if wrong or not any(array.recorded for array in releases):
        got = f"one holds a {wrong[0]}" if wrong else "none is recorded"
        raise SpecError(f"`releases` of {mechanism.name!r} must give a tuple of `Release`; {got}.")
    arrays = tuple(array for array in releases if array.recorded)
    shown = final_output(mechanism, features) if sees == "final" else opened(mechanism, features)
    names = {array.name for array in arrays}
    kept = arrays if keeps == "all" else tuple(array for array in arrays if not array.early)
    return ReleaseSchema(arrays, shown, tuple(name for name in shown if name in names), kept)


def recorded(mechanism: Mechanism, features: int) -> tuple[Release, ...]:
    """Releases that `run` of a mechanism returns."""
    return tuple(array for array in mechanism.releases(features) if array.recorded)


def released(mechanism: Mechanism, features: int) -> tuple[Release, ...]:
    """Releases from which all others are derived: noise is added to these."""
    if not isinstance(mechanism, Derives):
        return recorded(mechanism, features)
    every = mechanism.releases(features)
    bases = _bases(every)
    return tuple(a for a in every if not a.derived_from and (a.recorded or a.name in bases))


def _bases(every: Iterable[Release]) -> set[str]:
    return {name for array in every if array.recorded for name in array.derived_from}


def final_output(mechanism: Mechanism, features: int) -> tuple[str, ...]:
    """Names of the releases that are a mechanism's final output."""
    final = tuple(array.name for array in recorded(mechanism, features) if array.final)
    if not final:
        raise SpecError(f"{mechanism.name} announces no final output (`final`), which is to be audited by itself.")
    return final


def opened(mechanism: Mechanism, features: int) -> tuple[str, ...]:
    """Names of everything that a run shows its parties; recorded releases stand for what they derive from."""
    every = mechanism.releases(features)
    bases = _bases(every)
    return tuple(array.name for array in every if array.recorded or array.name not in bases)


def why_uncertified(mechanism: Mechanism, features: int) -> str | None:
    """Why nothing bounds every attack on a mechanism, as the end of a sentence; None where pairs of runs do."""
    if isinstance(mechanism, Certifiable):
        return mechanism.uncertified(features)
    return "adds no noise of a density that is known"
