"""Find mechanisms and statistics by name.

Ours and everybody else's come through the same entry points, `ksdp.mechanisms` and `ksdp.statistics`. While a
new one is being tried out, `module:object` names it without any packaging.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from typing import Any, cast

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Mechanism, guarantee_of
from ksdp.audit.own_code import OBJECT_PATH, source_digest
from ksdp.audit.spec.models import MechanismSpec, StatisticsSpec, meant
from ksdp.audit.statistics.contract import Statistic

_lent: ContextVar[Mapping[str, Any]] = ContextVar("ksdp-lent")


@contextmanager
def lent(objects: Mapping[str, Any]) -> Iterator[None]:
    """Let mechanisms and statistics that exist in this process alone be found by these names, inside.

    A name that is used again must mean the same: what is stored under it is not computed again.
    """
    token = _lent.set({**_lent.get({}), **objects})
    try:
        yield
    finally:
        _lent.reset(token)


def _by_path(path: str, what: str) -> Any:
    if not OBJECT_PATH.fullmatch(path):
        raise SpecError(f"`{what}` {path!r} must be a name, or module:object.")
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
        source_digest(module)  # of what is imported here and now
        return found
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        told = " ".join(str(error).split())[:200]
        raise SpecError(
            f"`{what}` {path!r} cannot be imported: {type(error).__name__}: {told}. Modules are looked for beside "
            "the spec and on `PYTHONPATH`."
        ) from error


def mechanism_names() -> list[str]:
    """Names of the installed mechanisms, sorted."""
    return sorted(entry_points(group="ksdp.mechanisms").names)


def installed_parameters(name: str) -> list[str]:
    """Names of the parameters of an installed mechanism."""
    return _parameters(_installed(name))


def _installed(name: str) -> Any:
    entries = entry_points(group="ksdp.mechanisms", name=name)
    if not entries:
        names = mechanism_names()
        hint = f"; {meant(name, names).strip()}" if meant(name, names) else "."
        raise SpecError(f"`mechanism.name` must be one of {', '.join(names)}; got {name!r}{hint}")
    return next(iter(entries)).load()


def _parameters(factory: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(factory) if field.init]


def mechanism_of(asked: MechanismSpec, *, installed: bool = False) -> Mechanism:
    """The mechanism that a spec names; refused as by `make_mechanism`."""
    return make_mechanism(asked.name, asked.parameters, installed=installed)


def make_mechanism(name: str, parameters: Mapping[str, Any], *, installed: bool = False) -> Mechanism:
    """Build a mechanism from its name and parameters.

    Parameters
    ----------
    installed : bool
        Take names of installed mechanisms only: for files that strangers wrote. Importing a module runs it.

    Raises
    ------
    SpecError
        If there is no such mechanism, or a parameter it does not have.
    """
    if not installed and name in (here := _lent.get({})):
        factory = here[name]
    elif ":" in name and not installed:
        factory = _by_path(name, "mechanism.name")
    else:
        factory = _installed(name)
    if not isinstance(factory, type):
        _require(factory, _MECHANISM, "mechanism", name)
        if parameters:
            raise SpecError(f"`mechanism` {name!r} takes no parameters; got {', '.join(sorted(parameters))}.")
        return cast(Mechanism, factory)
    if not dataclasses.is_dataclass(factory):
        raise SpecError(f"`mechanism` {name!r} must be a dataclass or a mechanism; it is another class.")
    known = _parameters(factory)
    unknown = sorted(set(parameters) - set(known))
    if unknown:
        hint = meant(unknown[0], known)
        if not hint and "parameters" in known:
            hint = "the other mechanism's go into `[mechanism.parameters]`; "
        raise SpecError(f"`mechanism.{unknown[0]}` is not a parameter of {name}; {hint}it has {', '.join(known)}.")
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()}
    try:
        made = cast(Mechanism, factory(**frozen))
        _require(made, _MECHANISM, "mechanism", name)
        return made
    except SpecError:
        raise
    except (TypeError, ValueError) as error:
        raise SpecError(f"`mechanism` {name!r} is refused: {error}") from error


_MECHANISM = ("name", "version", "observables", "run")
_STATISTIC = ("name", "version", "family", "needs", "evaluate")


def _require(made: Any, wanted: Iterable[str], what: str, name: str) -> None:
    missing = [attribute for attribute in wanted if not hasattr(made, attribute)]
    if missing:
        raise SpecError(f"the {what} {name!r} must have {_listed(wanted)}; it has no {_listed(missing)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _own_statistic(path: str) -> Statistic:
    """A statistic of somebody's own: an object, or a class that needs no arguments."""
    made = _by_path(path, "statistics.names")
    if isinstance(made, type):
        try:
            made = made()
        except TypeError as error:
            raise SpecError(f"the statistic {path!r} is a class that needs arguments; name an object.") from error
    _require(made, _STATISTIC, "statistic", path)
    if isinstance(made.needs, str):
        raise SpecError(f"`needs` of the statistic {path!r} must be a tuple of names; got a string.")
    return cast(Statistic, made)


def described_mechanisms() -> list[dict[str, Any]]:
    """Every installed mechanism, with its defaults: name, version, guarantee, parameters and where it is.

    A foreign mechanism that cannot be made without parameters is listed with none.
    """
    described = []
    for point in sorted(entry_points(group="ksdp.mechanisms"), key=lambda p: p.name):
        loaded = point.load()
        try:
            mechanism = loaded() if isinstance(loaded, type) else loaded
        except (TypeError, ValueError):
            mechanism = loaded
        fields = dataclasses.fields(mechanism) if dataclasses.is_dataclass(mechanism) else ()
        made = not isinstance(mechanism, type)
        described.append(
            {
                "name": point.name,
                "version": mechanism.version,
                "guarantee": guarantee_of(mechanism).as_json(),
                "parameters": {
                    field.name: _plain(getattr(mechanism, field.name)) for field in fields if made and field.init
                },
                "object": point.value,
            }
        )
    return described


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(part) for part in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def statistics() -> dict[str, Statistic]:
    """Every installed statistic by its name."""
    known: dict[str, Statistic] = {}
    for point in sorted(entry_points(group="ksdp.statistics"), key=lambda p: p.name):
        loaded = point.load()
        for statistic in loaded if isinstance(loaded, Iterable) else (loaded,):
            known[statistic.name] = statistic
    return known


def _misses(statistic: Statistic, announced: set[str], background: set[str]) -> str:
    """What a statistic reads that is not there; empty where it can be computed."""
    missing = sorted(set(statistic.needs) - announced)
    either = getattr(statistic, "needs_any", ())
    if either and not announced & set(either):
        missing.append(" or ".join(either))
    missing += sorted(set(getattr(statistic, "needs_background", ())) - background)
    return ", ".join(missing)


def default_statistics(
    announced: Iterable[str], background: Iterable[str] = (), own: Iterable[Statistic] = ()
) -> tuple[Statistic, ...]:
    """Those that an audit tests where its spec names none; as `select_statistics`, none where none can be."""
    families = StatisticsSpec().families
    seen, known_besides = set(announced), set(background)
    wanted = [s for s in statistics().values() if s.family in families]
    return tuple(s for s in (*wanted, *own) if not _misses(s, seen, known_besides))


def select_statistics(
    families: Iterable[str],
    names: Iterable[str],
    announced: Iterable[str],
    background: Iterable[str] = (),
    own: Iterable[Statistic] = (),
) -> tuple[tuple[Statistic, ...], dict[str, str]]:
    """Choose the statistics that can be computed from what a mechanism announces.

    Parameters
    ----------
    families, names : statistics wanted, by family and one by one
    announced : names of the observables
    background : names of what the adversary knows besides
    own : statistics that the mechanism brings

    Returns
    -------
    chosen : tuple of Statistic
        In the order of their names.
    skipped : dict
        Name to what is missing.

    Raises
    ------
    SpecError
        If a family or a name is unknown, or nothing can be computed.
    """
    every = statistics()
    known = {statistic.family for statistic in every.values()}
    families = tuple(families)
    for family in families:
        if family not in known:
            raise SpecError(f"`statistics.families` must be among {', '.join(sorted(known))}; got {family!r}.")
    wanted = {s.name: s for s in every.values() if s.family in families} | {s.name: s for s in own}
    for name in names:
        if name in (here := _lent.get({})):
            wanted[name] = here[name]
        elif ":" in name:
            own_one = _own_statistic(name)
            wanted[own_one.name] = own_one
        elif name in every:
            wanted[name] = every[name]
        else:
            raise SpecError(f"`statistics.names` must be among {', '.join(sorted(every))}; got {name!r}.")
    seen, known_besides = set(announced), set(background)
    misses = {name: _misses(s, seen, known_besides) for name, s in sorted(wanted.items())}
    chosen = tuple(wanted[name] for name, missing in misses.items() if not missing)
    if not chosen:
        raise SpecError(
            f"no statistic can be computed from {', '.join(sorted(seen))}; wanted {', '.join(misses)}."
        )
    return chosen, {name: f"needs {missing}" for name, missing in misses.items() if missing}
