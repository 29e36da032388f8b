"""Mechanisms and statistics by name, and the code of those that are somebody's own."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import inspect
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from ksdp.audit.contract import Mechanism, guarantee_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.callables import pickled
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import MechanismSpec, StatisticsSpec, meant
from ksdp.audit.specs.own_names import OBJECT_PATH, own_modules
from ksdp.audit.statistic import Statistic, statistic_traits

_PROGRAM = "__main__"
_known: dict[str, tuple[ModuleSpec | None, str]] = {}
"""Modules that were asked for: how they were found when they were imported, and the digest of that time."""
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")


def own_code(names: object, made: Iterable[object]) -> dict[str, str]:
    """Return digests of the source of each module that is not ours; they go into keys."""
    made = list(made)
    modules = {*own_modules(names), *(type(part).__module__ for part in made)} - {_PROGRAM}
    digests = {module: source_digest(module) for module in sorted(modules) if not module.startswith("ksdp.")}
    classes = {type(part) for part in made if type(part).__module__ == _PROGRAM}
    return digests | {f"{_PROGRAM}.{part.__qualname__}": _class_digest(part) for part in classes}


def _class_digest(part_class: type) -> str:
    try:
        return hashlib.sha256(inspect.getsource(part_class).encode()).hexdigest()
    except (OSError, TypeError):  # typed at a prompt
        return ""


def source_digest(module: str) -> str:
    """A hash of what a module is made of: its file, and those of the modules beside it that it imports."""
    imported = sys.modules[module].__spec__ if module in sys.modules else None
    before, digest = _known.get(module, (None, ""))
    if imported is None or before is not imported:
        digest = content_key({name: hashlib.sha256(data).hexdigest() for name, data in _files(module)})
        _known[module] = imported, digest
    return digest


@runtime_checkable
class _Reads(Protocol):
    """A loader that gives the bytes of a file."""

    def get_data(self, path: str, /) -> bytes: ...


def _files(module: str) -> Iterator[tuple[str, bytes]]:
    home, queue, seen = _home(module), [module], set[str]()
    while queue:
        name = queue.pop()
        home_file = None if name in seen else _beside(name, home, module)
        seen.add(name)
        if home_file is None or home_file.origin is None or not isinstance(home_file.loader, _Reads):
            continue  # built in, or a folder of packages
        data = home_file.loader.get_data(home_file.origin)
        yield name, data
        if home_file.origin.endswith(".py"):
            package = name if home_file.submodule_search_locations is not None else name.rpartition(".")[0]
            queue += _imported(data, package)


def _home(module: str) -> Path | None:
    """The folder whose modules count as one with it; none where packages are installed and it is a single file."""
    top = _found(module.partition(".")[0])
    if top is None or top.origin is None:
        return None
    folder = Path(top.origin).resolve().parent
    return None if folder in _installed() else folder


def _installed() -> frozenset[Path]:
    return frozenset(Path(sysconfig.get_path(name)).resolve() for name in _INSTALLED)


def _beside(name: str, home: Path | None, first: str) -> ModuleSpec | None:
    """A module, if it is the first one or lies in its folder; nothing else is looked into, let alone imported."""
    top = name.partition(".")[0]
    if top != first.partition(".")[0] and not _lies_in(_found(top), home):
        return None
    place = _found(name)
    return place if name == first or _lies_in(place, home) else None


def _found(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, AttributeError, ValueError):  # no module: what is imported from one
        return None


def _lies_in(module: ModuleSpec | None, home: Path | None) -> bool:
    there = None if module is None else module.origin
    if home is None or there is None:
        return False
    above = Path(there).resolve().parents
    # A virtual environment often lies in the folder of the code itself.
    return home in above and not any(folder in above and home in folder.parents for folder in _installed())


def _imported(source: bytes, package: str) -> Iterator[str]:
    """Names that may be modules: those that are imported, and those that something is imported from."""
    with suppress(SyntaxError, ValueError, ImportError):  # a module beside it that nobody can import
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                full_name = "." * node.level + (node.module or "")
                full_name = resolve_name(full_name, package) if node.level else full_name
                yield full_name
                yield from (f"{full_name}.{alias.name}" for alias in node.names)


_lent: ContextVar[Mapping[str, Any]] = ContextVar("ksdp-lent")
_unused: ContextVar[Mapping[str, bytes | None]] = ContextVar("ksdp-unused")


@contextmanager
def lent(objects: Mapping[str, Any]) -> Iterator[None]:
    """Let mechanisms and statistics that exist in this process alone be found by these names, inside."""
    token = _lent.set({**_lent.get({}), **objects})
    own = {name: pickled(item) for name, item in objects.items() if not isinstance(item, RecordedRuns)}
    unused = _unused.set({**_unused.get({}), **own})
    try:
        yield
    finally:
        _lent.reset(token)
        _unused.reset(unused)


def unused_mechanism(spec: MechanismSpec) -> bytes | None:
    """The mechanism as it was before any run, or a call that makes it anew, pickled; None where it cannot be."""
    if spec.name in _lent.get({}):
        return _unused.get({})[spec.name]
    return pickled(partial(make_mechanism, spec.name, spec.parameters))


def _by_path(path: str, what: str) -> Any:
    if not OBJECT_PATH.fullmatch(path):
        raise SpecError(f"`{what}` {path!r} must be a name, or module:object.")
    module, _, attribute = path.partition(":")
    try:
        thing = getattr(importlib.import_module(module), attribute)
        source_digest(module)  # of what is imported here and now
        return thing
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        message = " ".join(str(error).split())[:200]
        raise SpecError(
            f"`{what}` {path!r} cannot be imported: {type(error).__name__}: {message}. Modules are looked for "
            "beside the spec and on `PYTHONPATH`."
        ) from error


@lru_cache(maxsize=8)
def _on_path(group: str, path: tuple[str, ...]) -> EntryPoints:
    """Looked up once for each search path: it means reading the metadata of every package."""
    return entry_points(group=group)


def _entries(group: str) -> EntryPoints:
    return _on_path(group, tuple(sys.path))


def mechanism_names() -> list[str]:
    """Names of the installed mechanisms, sorted."""
    return sorted(_entries("ksdp.mechanisms").names)


def installed_parameters(name: str) -> list[str]:
    """Names of the parameters of an installed mechanism, and `noise`, which any of them can have."""
    return list(dict.fromkeys([*_parameters(_installed_thing(name)), "noise"]))


def _installed_thing(name: str) -> Any:
    entries = _entries("ksdp.mechanisms").select(name=name)
    if not entries and "#" in name:
        raise SpecError(
            f"{name!r} is code or tables that somebody gave to a call of `ksdp` in Python: only such a call can "
            "use them again (`ksdp.clear` signs)."
        )
    if not entries:
        names = mechanism_names()
        hint = f"; {meant(name, names).strip()}" if meant(name, names) else "."
        raise SpecError(f"`mechanism.name` must be one of {', '.join(names)}; got {name!r}{hint}")
    return next(iter(entries)).load()


def _parameters(factory: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(factory) if field.init]


def mechanism_of(spec: MechanismSpec, *, installed: bool = False) -> Mechanism:
    """The mechanism that a spec names; refused as by `make_mechanism`."""
    return make_mechanism(spec.name, spec.parameters, installed=installed)


def make_mechanism(name: str, parameters: Mapping[str, Any], *, installed: bool = False) -> Mechanism:
    """Build a mechanism; only `installed` ones from files of strangers, as importing a module runs it."""
    if not installed and name in (here := _lent.get({})):
        factory = here[name]
    elif ":" in name and not installed:
        factory = _by_path(name, "mechanism.name")
    else:
        factory = _installed_thing(name)
    if not isinstance(factory, type):
        _require(factory, _MECHANISM, "mechanism", name)
        if parameters:
            raise SpecError(f"`mechanism` {name!r} takes no parameters; got {', '.join(sorted(parameters))}.")
        return cast(Mechanism, factory)
    if not dataclasses.is_dataclass(factory):
        raise SpecError(f"`mechanism` {name!r} must be a dataclass or a mechanism; it is another class.")
    accepted = _parameters(factory)
    if "noise" in parameters and "noise" not in accepted:
        inner = {key: value for key, value in parameters.items() if key != "noise"}
        noisy = {"mechanism": name, "noise": parameters["noise"], "scale": 1.0, "parameters": inner}
        return make_mechanism("noisy", noisy, installed=installed)
    unknown = sorted(set(parameters) - set(accepted))
    if unknown:
        hint = meant(unknown[0], accepted)
        if not hint and "parameters" in accepted:
            hint = "the other mechanism's go into `[mechanism.parameters]`; "
        raise SpecError(
            f"`mechanism.{unknown[0]}` is not a parameter of {name}; {hint}it has {', '.join(accepted)}, `noise`."
        )
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()}
    try:
        made = cast(Mechanism, factory(**frozen))
        _require(made, _MECHANISM, "mechanism", name)
        return made
    except SpecError:
        raise
    except (TypeError, ValueError) as error:
        raise SpecError(f"`mechanism` {name!r} is refused: {error}") from error


_MECHANISM = ("name", "version", "releases", "run")
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
    """Every installed mechanism, with its defaults: name, version, guarantee, parameters and where it is."""
    described = []
    for point in sorted(_entries("ksdp.mechanisms"), key=lambda p: p.name):
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
    by_name: dict[str, Statistic] = {}
    for point in sorted(_entries("ksdp.statistics"), key=lambda p: p.name):
        loaded = point.load()
        for statistic in loaded if isinstance(loaded, Iterable) else (loaded,):
            by_name[statistic.name] = statistic
    return by_name


def _misses(statistic: Statistic, announced: set[str], background: set[str]) -> str:
    missing = sorted(set(statistic.needs) - announced)
    more = statistic_traits(statistic)
    if more.needs_any and not announced & set(more.needs_any):
        missing.append(" or ".join(more.needs_any))
    missing += sorted(set(more.needs_background) - background)
    return ", ".join(missing)


def default_statistics(
    announced: Iterable[str], background: Iterable[str] = (), own: Iterable[Statistic] = ()
) -> tuple[Statistic, ...]:
    """Statistics that an audit tests if its spec names none; empty if none can be computed."""
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
    """Choose the statistics that can be computed from what a mechanism announces."""
    every = statistics()
    all_families = {statistic.family for statistic in every.values()}
    families = tuple(families)
    for family in families:
        if family not in all_families:
            raise SpecError(
                f"`statistics.families` must be among {', '.join(sorted(all_families))}; got {family!r}."
            )
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
