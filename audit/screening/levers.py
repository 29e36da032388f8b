"""What can be turned where leaving documents out does not help: party size, rank, iterations, noise.

A dial is a sequence of values of one parameter, from the nearest to the spec's own outwards, each expected to give
less away than the one before. That expectation guides a search; nothing that a search claims rests on it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ksdp.audit.design import as_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening.lever_search import geometric
from ksdp.audit.spec import Spec

__all__ = ["DIALS", "Dial", "make_dial", "pool_size"]

_NOISE = tuple(2.0**exponent for exponent in range(-6, 5))
_MOST_ITERATIONS = 64
"""Where the spec asks for the limit of the iteration, this is the largest number tried in its place."""


@dataclass(frozen=True)
class Dial:
    """One parameter and the values that a search may try."""

    name: str
    parameter: str
    """Where it stands in a spec."""
    present: float
    """The spec's own value."""
    values: tuple[float, ...]
    """The nearest to the spec's own first, without it."""
    turn: Callable[[float], Spec]
    """The spec at a value."""
    scale: Mapping[str, float] | None = None
    """Of noise: the public size of each array's entries that it is in units of; None where the spec says it."""

    def scaled(self, scale: Mapping[str, float]) -> Dial:
        """The same where noise is in units of a public scale, unless the spec names its own."""

        def turn(value: float) -> Spec:
            tables = self.turn(value).model_dump(mode="json")
            tables["mechanism"]["scale"] = dict(scale)
            return Spec.model_validate(tables)

        named = self.turn(self.values[0]).mechanism.parameters.get("scale") is not None
        return self if self.name != "noise" or named else dataclasses.replace(self, turn=turn, scale=dict(scale))


def pool_size(spec: Spec, documents: int) -> int:
    """Documents that the victim's databases are drawn from."""
    held = (spec.parties.honest, spec.parties.coalition)
    return documents - sum(as_rows(size, documents) for size in held if size is not None)


def _inner(spec: Spec) -> Any:
    mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
    return mechanism.inner if isinstance(mechanism, Noisy) else mechanism


def _fields(mechanism: Any) -> set[str]:
    return (
        {f.name for f in dataclasses.fields(mechanism) if f.init} if dataclasses.is_dataclass(mechanism) else set()
    )


def _changed(spec: Spec, changes: dict[str, Any]) -> Spec:
    """The spec with other parameters of its mechanism, or of the one that noise is added to."""
    tables = spec.model_dump(mode="json")
    noisy = isinstance(make_mechanism(spec.mechanism.name, spec.mechanism.parameters), Noisy)
    (tables["mechanism"].setdefault("parameters", {}) if noisy else tables["mechanism"]).update(changes)
    return Spec.model_validate(tables)


def _party_size(spec: Spec, documents: int) -> Dial:
    present = as_rows(spec.design.party_size, documents)
    largest = pool_size(spec, documents) // 2
    if largest <= present:
        raise SpecError(f"a party of {present} holds half of the documents already.")

    def turn(value: float) -> Spec:
        tables = spec.model_dump(mode="json")
        tables["design"]["party_size"] = int(value)
        return Spec.model_validate(tables)

    return Dial("party-size", "design.party_size", present, geometric(present, largest)[1:], turn)


def _rank(spec: Spec, documents: int) -> Dial:
    present = getattr(_inner(spec), "rank", None)
    if present is None or "rank" not in _fields(_inner(spec)):
        raise SpecError("the mechanism has no rank.")
    if present <= 1:
        raise SpecError("the rank is 1 already.")
    return Dial(
        "rank", "mechanism.rank", present, geometric(present, 1)[1:], lambda k: _changed(spec, {"rank": int(k)})
    )


def _iterations(spec: Spec, documents: int) -> Dial:
    inner = _inner(spec)
    fields = _fields(inner)
    if "sweeps" in fields:
        name, first = "sweeps", inner.sweeps
    elif "iterations" in fields:
        name, first = "iterations", inner.iterations
    else:
        raise SpecError("the mechanism has no number of iterations.")
    present, further = first, 1
    if name == "iterations" and getattr(inner, "solver", None) == "limit":
        first, further = min(first, _MOST_ITERATIONS), 0
    values = geometric(first, 1)[further:]
    if not values:
        raise SpecError("the mechanism does one iteration already.")

    def turn(value: float) -> Spec:
        changes: dict[str, Any] = {name: int(value)}
        if "solver" in fields:
            changes["solver"] = "power"  # the limit does not know how many iterations there were
        if getattr(inner, "announce", ()) and "at" in fields:
            kept = [when for when in inner.at if isinstance(when, str) or when <= value]
            changes["at"] = kept or ["last"]
        return _changed(spec, changes)

    return Dial("iterations", f"mechanism.{name}", present, values, turn)


def _noise(spec: Spec, documents: int) -> Dial:
    mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
    present = mechanism.noise if isinstance(mechanism, Noisy) else 0.0
    values = tuple(value for value in _NOISE if value > present)
    if not values:
        raise SpecError(f"the noise is {present:g} times the announcement already.")

    def turn(value: float) -> Spec:
        tables = spec.model_dump(mode="json")
        if isinstance(mechanism, Noisy):
            tables["mechanism"]["noise"] = value
        else:
            tables["mechanism"] = {
                "name": Noisy.name,
                "mechanism": spec.mechanism.name,
                "noise": value,
                "parameters": spec.mechanism.parameters,
            }
        return Spec.model_validate(tables)

    return Dial("noise", "mechanism.noise", present, values, turn)


DIALS: dict[str, Callable[[Spec, int], Dial]] = {
    "party-size": _party_size,
    "rank": _rank,
    "iterations": _iterations,
    "noise": _noise,
}
"""By name, in the order in which they are tried: what keeps the result as it is comes first."""


def make_dial(name: str, spec: Spec, documents: int) -> Dial:
    """Return a dial of a spec.

    Parameters
    ----------
    name : str
        A key of `DIALS`.
    documents : int
        Rows of the corpus.

    Raises
    ------
    SpecError
        If there is nothing to turn; the message says why.

    Examples
    --------
    >>> from ksdp.audit.spec import parse_spec
    >>> asked = {"corpus": {"path": "x.npz"}, "mechanism": {"name": "pd-nmf", "rank": 7}}
    >>> make_dial("rank", parse_spec(asked), 1000).values
    (5, 4, 2, 1)
    >>> make_dial("iterations", parse_spec(asked), 1000).values
    (14, 10, 7, 5, 4, 2, 1)
    """
    return DIALS[name](spec, documents)
