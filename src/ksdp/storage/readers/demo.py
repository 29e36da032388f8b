"""The demo corpus: the docstrings of the numpy, scipy and pandas that are installed.

It is real text held by three parties, and it needs no download. Which documents there are depends on the versions
of the three packages (and on the platform they were built for), on nothing else: not on the order of imports, on
hash seeds, nor on what the process has imported or registered besides.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType

import numpy as np

PACKAGES = ("numpy", "pandas", "scipy")

# Not walked: what is deprecated or internal in spite of its name, and what needs packages that may be missing.
SKIPPED = frozenset(
    {"numpy.conftest", "numpy.core", "numpy.distutils", "numpy.f2py", "numpy.matlib", "numpy.typing.mypy_plugin"}
    | {"pandas.conftest", "pandas.core", "scipy.conftest"}
)

# Callables that are neither functions nor built-in functions for `inspect`.
CALLABLES = frozenset({"_ArrayFunctionDispatcher", "cython_function_or_method", "fused_cython_function"})

# What differs from process to process: objects printed with their address, examples that scipy draws when it is
# imported, and sets of names printed in the order of their hashes.
ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]+")
VARYING = re.compile(r"^.*# may vary.*\n?", re.MULTILINE)
NAMES = re.compile(r"\{('\w+'(?:, '\w+')+)\}")


@dataclass(frozen=True, slots=True)
class Docstring:
    """One docstring: a document of the demo corpus."""

    id: str
    """Where it was found, dotted: `numpy.linalg.svd`."""
    party: str
    text: str


def docstrings() -> tuple[Docstring, ...]:
    """Return the docstrings of the public objects of numpy, pandas and scipy, sorted by id."""
    documents: dict[str, Docstring] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # All modules first: scipy completes the docstring of numpy.sinc when it is imported.
        modules = [(package, module) for package in PACKAGES for module in _modules(package)]
        for package, module in modules:
            for identity, text in _members(module, package):
                documents.setdefault(identity, Docstring(identity, package, text))
    first: dict[str, Docstring] = {}
    for identity in sorted(documents):
        first.setdefault(documents[identity].text, documents[identity])
    return tuple(first.values())


def _modules(name: str) -> Iterator[ModuleType]:
    """The module and its public sub-modules, parents first, siblings in alphabetical order."""
    try:
        module = importlib.import_module(name)
    except Exception:  # an optional dependency that is missing fails in many ways
        return
    yield module
    for child in sorted(info.name for info in pkgutil.iter_modules(getattr(module, "__path__", ()))):
        full = f"{name}.{child}"
        if not child.startswith("_") and "test" not in child and full not in SKIPPED:
            yield from _modules(full)


def _members(module: ModuleType, package: str) -> Iterator[tuple[str, str]]:
    """Ids and texts of a module, its functions and ufuncs, its classes and their methods and properties."""
    space = module.__name__
    yield from _text(space, module.__doc__)
    for name, member in sorted(vars(module).items()):
        if name.startswith("_"):
            continue
        if inspect.isclass(member):
            if _belongs(member, package):
                yield from _class(f"{space}.{name}", member, package)
        elif _is_function(member) and _belongs(member, package):
            yield from _text(f"{space}.{name}", member.__doc__)


def _class(space: str, cls: type, package: str) -> Iterator[tuple[str, str]]:
    """Ids and texts of a class, its methods and its properties, those of the package's base classes too."""
    yield from _text(space, vars(cls).get("__doc__"))
    seen: set[str] = set()
    for base in cls.__mro__:
        if not _belongs(base, package):
            continue
        for name, member in sorted(vars(base).items()):
            if name.startswith("_") or name in seen:
                continue
            seen.add(name)
            if isinstance(member, staticmethod | classmethod):
                member = member.__func__
            described = isinstance(member, property) or inspect.isdatadescriptor(member)
            if described or (_is_function(member) and _belongs(member, package)):
                yield from _text(f"{space}.{name}", member.__doc__)


def _is_function(member: object) -> bool:
    return inspect.isroutine(member) or isinstance(member, np.ufunc) or type(member).__name__ in CALLABLES


def _belongs(member: object, package: str) -> bool:
    """Whether the package defines it; what another package has registered on a class of this one is left out."""
    owner = getattr(member, "__module__", None)
    return owner is None or owner == package or str(owner).startswith(package + ".")


def _text(identity: str, doc: object) -> Iterator[tuple[str, str]]:
    if isinstance(doc, str) and (text := _clean(doc)):
        yield identity, text


@functools.cache  # most texts are found under several names
def _clean(doc: str) -> str:
    if not doc.strip() or ADDRESS.search(doc):
        return ""
    return NAMES.sub(_in_order, VARYING.sub("", inspect.cleandoc(doc)))


def _in_order(names: re.Match[str]) -> str:
    return "{" + ", ".join(sorted(names[1].split(", "))) + "}"
