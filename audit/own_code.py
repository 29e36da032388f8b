"""A user's own mechanism or statistic (`module:object`) is known by its source: edited, it is another one.

Its `version` says what it computes, and somebody who is trying things out forgets to raise it. What an earlier
form of it computed would then be read from the store, and called clear, as if the present form had computed it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, resolve_name
from pathlib import Path
from typing import Any

from ksdp.audit.content_keys import content_key

OBJECT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""`module:object`."""
_PROGRAM = "__main__"
_known: dict[str, tuple[ModuleSpec | None, str]] = {}
"""Modules that were asked for: how they were found when they were imported, and the digest of that time."""
_INSTALLED = ("stdlib", "platstdlib", "purelib", "platlib")


def own_modules(tables: Any) -> tuple[str, ...]:
    """The modules of all names `module:object` in tables of a spec, sorted: also of mechanisms within others.

    Examples
    --------
    >>> own_modules([{"name": "noisy", "mechanism": "mine:Sum"}, ["row-space-energy", "more.mine:along"]])
    ('mine', 'more.mine')
    """
    return tuple(sorted({name.partition(":")[0] for name in _names(tables)}))


def _names(tables: Any) -> Iterator[str]:
    if isinstance(tables, str):
        if OBJECT_PATH.fullmatch(tables):
            yield tables
    elif isinstance(tables, dict):
        yield from _names(list(tables.values()))
    elif isinstance(tables, list | tuple):
        for one in tables:
            yield from _names(one)


def own_code(names: Any, made: Iterable[object]) -> dict[str, str]:
    """What goes into keys beside names and versions: a digest of the source of each module that is not ours.

    Parameters
    ----------
    names : tables of a spec that may name some
    made : mechanisms and statistics, which may be of other packages, or of the program that calls
    """
    made = list(made)
    modules = {*own_modules(names), *(type(one).__module__ for one in made)} - {_PROGRAM}
    found = {module: source_digest(module) for module in sorted(modules) if not module.startswith("ksdp.")}
    classes = {type(one) for one in made if type(one).__module__ == _PROGRAM}
    return found | {f"{_PROGRAM}.{one.__qualname__}": _class_digest(one) for one in classes}


def _class_digest(one: type) -> str:
    """Of a class of a script or a notebook, by itself: what stands around it is edited all the time."""
    try:
        return hashlib.sha256(inspect.getsource(one).encode()).hexdigest()
    except (OSError, TypeError):  # typed at a prompt
        return ""


def source_digest(module: str) -> str:
    """A hash of what a module is made of: its file, and those of the modules beside it that it imports.

    As they were when this was first asked of the module that is imported: a process goes on with that, until it
    imports it anew. What is installed elsewhere has versions.
    """
    imported = getattr(sys.modules.get(module), "__spec__", None)
    before, digest = _known.get(module, (None, ""))
    if imported is None or before is not imported:
        digest = content_key({name: hashlib.sha256(data).hexdigest() for name, data in _files(module)})
        _known[module] = imported, digest
    return digest


def _files(module: str) -> Iterator[tuple[str, bytes]]:
    """The modules, each with what is in its file."""
    home, left, seen = _home(module), [module], set[str]()
    while left:
        name = left.pop()
        found = None if name in seen else _beside(name, home, module)
        seen.add(name)
        read = None if found is None else getattr(found.loader, "get_data", None)
        if found is None or found.origin is None or read is None:  # built in, or a folder of packages
            continue
        data: bytes = read(found.origin)
        yield name, data
        if found.origin.endswith(".py"):
            package = name if found.submodule_search_locations is not None else name.rpartition(".")[0]
            left += _imported(data, package)


def _home(module: str) -> Path | None:
    """The folder whose modules count as one with it; none where packages are installed and it is a single file."""
    top = _found(module.partition(".")[0])
    if top is None or top.origin is None:
        return None
    folder = Path(top.origin).resolve().parent
    return None if folder in _installed() else folder


def _installed() -> frozenset[Path]:
    """Folders of what is installed, which has versions."""
    return frozenset(Path(sysconfig.get_path(name)).resolve() for name in _INSTALLED)


def _beside(name: str, home: Path | None, first: str) -> ModuleSpec | None:
    """A module, if it is the first one or lies in its folder; nothing else is looked into, let alone imported."""
    top = name.partition(".")[0]
    if top != first.partition(".")[0] and not _lies_in(_found(top), home):
        return None
    found = _found(name)
    return found if name == first or _lies_in(found, home) else None


def _found(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, AttributeError, ValueError):  # no module: what is imported from one
        return None


def _lies_in(found: ModuleSpec | None, home: Path | None) -> bool:
    there = None if found is None else found.origin
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
                whole = "." * node.level + (node.module or "")
                whole = resolve_name(whole, package) if node.level else whole
                yield whole
                yield from (f"{whole}.{alias.name}" for alias in node.names)
