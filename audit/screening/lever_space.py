"""The levers that a search may turn, and the spec at a setting of them."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import OPENS, opens_of
from ksdp.audit.mechanisms.counted import Counted
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.registry import mechanism_of
from ksdp.audit.spec import Spec

Value = str | int | float
Setting = Mapping[str, Value]
"""Lever to value."""

LEVERS = (
    "most-frequent",
    "rank",
    "iterations",
    "directions",
    "opens",
    "at-least",
    "noise",
    "advantage",
    "clip",
    "drawn",
)
"""By name. Party size is none of them: it is a fact, and advice says how many documents it would take."""

_TERMS = (4000, 2000, 1000, 500, 250)
_NOISE = (0.0, 0.1, 0.2, 0.4)
_ADVANTAGES = (0.1, 0.2, 0.25, 0.4, 0.6)
_CLIPS = (1.0, 0.5)
_DRAWN = (0.5, 0.25)


@dataclass(frozen=True)
class Lever:
    """One lever and the values that it may have; the spec's own first."""

    name: str
    values: tuple[Value, ...]


def lever_space(spec: Spec, features: int, wanted: tuple[str, ...] = LEVERS) -> tuple[Lever, ...]:
    """The levers that this spec has, in the order of `LEVERS`.

    Parameters
    ----------
    features : int
        Columns of the corpus as the spec has it, before a public basis.
    """
    mechanism: Any = mechanism_of(spec.mechanism)
    inner = mechanism.inner if isinstance(mechanism, Noisy | Counted) else mechanism
    has = {f.name for f in dataclasses.fields(inner)} if dataclasses.is_dataclass(inner) else set()
    text = spec.corpus.format != "table" and spec.corpus.columns is None
    found: list[Lever] = []
    if text and spec.corpus.levers.basis is None and spec.corpus.levers.hashed is None:
        now = spec.corpus.levers.most_frequent or features
        found.append(Lever("most-frequent", (now, *(count for count in _TERMS if count < now))))
    rank = getattr(inner, "rank", None)
    if "rank" in has and isinstance(rank, int) and rank > 2:
        found.append(Lever("rank", (rank, max(2, rank // 2))))
    if (key := _iterations_key(inner)) is not None:
        rounds = int(getattr(inner, key))
        fewer = (count for count in (rounds // 2, rounds // 4) if count >= 1)
        found.append(Lever("iterations", (rounds, *dict.fromkeys(fewer))))
    if spec.corpus.levers.basis is not None and spec.corpus.levers.directions is not None:
        now = spec.corpus.levers.directions
        smaller = (math.ceil(now * part) for part in (0.5, 0.25))
        found.append(Lever("directions", (now, *(count for count in smaller if count > (rank or 1)))))
    if "opens" in has and not isinstance(mechanism, Counted) and not isinstance(inner, Moments):
        shows = opens_of(inner)
        found.append(Lever("opens", (shows, *(word for word in OPENS if word != shows))))
    if isinstance(inner, Moments):
        promised = inner.advantage
        if inner.noise is None:
            found.append(Lever("advantage", (promised, *(value for value in _ADVANTAGES if value != promised))))
        if spec.corpus.levers.clip is None:
            found.append(Lever("clip", _CLIPS))
    elif isinstance(mechanism, Counted):
        found.append(Lever("at-least", tuple(mechanism.at_least * times for times in (1, 2, 4))))
    elif "V" in {a.name for a in mechanism.observables(max(features, 64))} and "opens" in has:
        noise = mechanism.noise if isinstance(mechanism, Noisy) else 0.0
        found.append(Lever("noise", (noise, *(value for value in _NOISE if value != noise))))
    enters = spec.corpus.levers.enters
    found.append(Lever("drawn", (enters, *(share for share in _DRAWN if share < enters))))
    return tuple(lever for lever in found if lever.name in wanted and len(lever.values) > 1)


def _iterations_key(mechanism: Any) -> str | None:
    """The parameter that says how many iterations there are; None for those that run until they converge."""
    if not dataclasses.is_dataclass(mechanism) or getattr(mechanism, "solver", "power") == "limit":
        return None
    return next((f.name for f in dataclasses.fields(mechanism) if f.name in ("sweeps", "iterations")), None)


def settings(space: tuple[Lever, ...]) -> Iterator[Setting]:
    """All of them, the spec's own first."""
    for values in itertools.product(*(lever.values for lever in space)):
        yield dict(zip((lever.name for lever in space), values, strict=True))


def at_setting(spec: Spec, setting: Setting, features: int) -> Spec:
    """The spec at a setting.

    Noise is in units of 1 / sqrt(columns), the root mean square entry of an orthonormal basis: public, by decree.
    """
    tables = spec.tables()
    levers, mechanism = tables["corpus"]["levers"], tables["mechanism"]
    columns = features
    if "most-frequent" in setting:
        columns = int(setting["most-frequent"])
        levers["most_frequent"] = None if columns == features else columns
    if "directions" in setting:
        columns = levers["directions"] = int(setting["directions"])
    if "clip" in setting:
        levers["clip"] = float(setting["clip"])
    wraps = mechanism["name"] in (Noisy.name, Counted.name)
    inner = mechanism.setdefault("parameters", {}) if wraps else mechanism
    if "at-least" in setting:
        mechanism["at_least"] = int(setting["at-least"])
    if "rank" in setting:
        inner["rank"] = int(setting["rank"])
    if "iterations" in setting:
        inner |= _fewer_iterations(spec, int(setting["iterations"]))
    if "opens" in setting:
        inner["opens"] = str(setting["opens"])
    if "advantage" in setting:
        inner["advantage"] = float(setting["advantage"])
    if "clip" in setting and mechanism["name"] == Moments.name:
        inner["row_bound"] = float(setting["clip"])
    if "drawn" in setting:
        _draw(tables, spec.corpus.levers.enters, float(setting["drawn"]))
    noise = float(setting.get("noise", 0.0))
    if "noise" in setting and mechanism["name"] == Noisy.name:
        mechanism |= {"noise": noise, "scale": 1 / math.sqrt(columns)}
    elif noise:
        own = {key: value for key, value in mechanism.items() if key != "name"}
        tables["mechanism"] = {
            "name": Noisy.name,
            "mechanism": mechanism["name"],
            "noise": noise,
            "scale": 1 / math.sqrt(columns),
            "parameters": own,
        }
    try:
        return Spec.model_validate(tables)
    except ValueError as error:
        raise InputError(f"the levers {described(setting)} do not go together: {error}") from None


def _draw(tables: dict[str, Any], before: float, drawn: float) -> None:
    """That share of the documents enters a run, where another did before: sizes are of what enters."""
    if drawn == before:
        return
    share, tables["corpus"]["levers"]["drawn"] = drawn / before, drawn
    for section, key in (("design", "party_size"), ("parties", "honest"), ("parties", "coalition")):
        size = tables[section].get(key)
        if size is not None:
            tables[section][key] = max(1, round(share * size)) if isinstance(size, int) else share * size


def _fewer_iterations(spec: Spec, count: int) -> dict[str, Any]:
    """What changes in the mechanism's parameters; it announces no iteration that is left out."""
    mechanism: Any = mechanism_of(spec.mechanism)
    inner: Any = mechanism.inner if isinstance(mechanism, Noisy | Counted) else mechanism
    key = _iterations_key(inner)
    changes: dict[str, Any] = {} if key is None else {key: count}
    if key is not None and count < getattr(inner, key) and getattr(inner, "at", ()):
        changes["at"] = [at for at in inner.at if isinstance(at, str) or at <= count] or ["last"]
    return changes


def described(setting: Setting) -> str:
    """For people.

    Examples
    --------
    >>> described({"rank": 3, "noise": 0.1})
    'rank 3, noise 0.1'
    """
    return ", ".join(f"{name.replace('-', ' ')} {value}" for name, value in setting.items())
