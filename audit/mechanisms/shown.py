"""What a run of a mechanism announces, and what becomes of it in an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import OPENS, Announced, Mechanism

_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Shown:
    """The observables of a run."""

    announced: tuple[Announced, ...]
    opened: tuple[str, ...]
    """Names of everything that a run shows the party whose view this is."""
    seen: tuple[str, ...]
    """Names of those that statistics may read: all, or the final output."""
    kept: tuple[Announced, ...]
    """Those that go to the store, where any do."""

    @property
    def read(self) -> tuple[Announced, ...]:
        """Those that statistics may read."""
        return tuple(array for array in self.announced if array.name in self.seen)

    @property
    def numbers(self) -> int:
        """How many numbers of a run these hold."""
        return sum(math.prod(array.shape) for array in self.read)


def shown_by(mechanism: Mechanism, features: int, *, sees: Literal["all", "final"], keeps: str) -> Shown:
    """Ask a mechanism what it announces, and check that it says so in the contract's form.

    Parameters
    ----------
    sees : {"all", "final"}
        What the party whose view is audited sees.
    keeps : str
        `store.observables` of the spec.

    Raises
    ------
    SpecError
        If the mechanism announces nothing, or something else than `Announced`.
    """
    announced = _announced(mechanism, features)
    shown = final_output(mechanism) if sees == "final" else opened(mechanism, features)
    names = {array.name for array in announced}
    return Shown(announced, shown, tuple(name for name in shown if name in names), kept_of(announced, keeps))


def _announced(mechanism: Mechanism, features: int) -> tuple[Announced, ...]:
    """What the mechanism says that it announces, in the contract's form."""
    try:
        announced = tuple(mechanism.observables(features))
    except TypeError as error:
        raise SpecError(f"`observables` of {mechanism.name!r} must give a tuple of `Announced`.") from error
    wrong = [type(array).__name__ for array in announced if not isinstance(array, Announced)]
    if wrong or not announced:
        got = f"one holds a {wrong[0]}" if wrong else "it is empty"
        raise SpecError(f"`observables` of {mechanism.name!r} must give a tuple of `Announced`; {got}.")
    return announced


def final_output(mechanism: Mechanism) -> tuple[str, ...]:
    """Names of the observables that are a mechanism's final output.

    Raises
    ------
    SpecError
        If it does not declare them, or announces none of them with these parameters.
    """
    final = tuple(getattr(mechanism, "final", ()))
    if not final:
        raise SpecError(f"{mechanism.name} announces no final output (`final`), which is to be audited by itself.")
    return final


def opens_of(mechanism: Mechanism) -> str:
    """What a run of the mechanism shows its parties, one of `OPENS`."""
    return str(getattr(mechanism, "opens", OPENS[0]))


def opened(mechanism: Mechanism, features: int) -> tuple[str, ...]:
    """Names of everything that a run of the mechanism shows its parties."""
    declared = tuple(a.name for a in mechanism.observables(features))
    return tuple(dict.fromkeys((*declared, *getattr(mechanism, "opened", ()))))


def run_prefix(place: int) -> str:
    """What stands before the names of arrays of one of several runs (`mechanisms.together`), from 1."""
    return f"run{place}_"


def named_alone(arrays: Mapping[str, _Value], place: int) -> dict[str, _Value]:
    """What one of several runs shows, under the names that it has alone."""
    before = run_prefix(place)
    return {name.removeprefix(before): arrays[name] for name in arrays if name.startswith(before)}


def prefixed_runs(mechanism: Any) -> list[tuple[str, Mechanism]]:
    """The mechanism, or all that run together, with what stands before the names of each one's arrays."""
    inner = getattr(mechanism, "inner", mechanism)
    if not isinstance(inner, tuple):
        return [("", mechanism)]
    return [(run_prefix(place), one) for place, one in enumerate(inner, start=1)]


def kept_of(announced: tuple[Announced, ...], observables: str) -> tuple[Announced, ...]:
    """What a store keeps of a run: all of it, or what the last round announced."""
    return announced if observables == "all" else tuple(a for a in announced if not a.early)
