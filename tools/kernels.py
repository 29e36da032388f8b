"""Drop compiled kernels that are out of date: `python tools/kernels.py [FOLDER ...]`.

Numba compiles a kernel again when its own file changes. It does not see that a kernel, a constant or a tuple which
the kernel takes from another file has changed, and runs old code. A mark beside the compiled code of a module
holds a digest of all the files it is made of; where the digest differs, the module's compiled code is removed.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("audit", "protocols")
"""Rooms with kernels, each installed as `ksdp.<room>`."""


@dataclass(frozen=True)
class Module:
    """One file."""

    path: Path
    source: bytes

    @cached_property
    def tree(self) -> ast.Module:
        """Of its source."""
        return ast.parse(self.source)

    @cached_property
    def imported(self) -> dict[str, str]:
        """Names that come from a module of ours, and which module that is."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ksdp"):
                for alias in node.names:
                    found[alias.asname or alias.name] = f"{node.module}"
            elif isinstance(node, ast.Import):
                for alias in (a for a in node.names if a.name.startswith("ksdp.")):
                    found[alias.asname or "ksdp"] = alias.name
        return found

    @cached_property
    def kernels(self) -> list[ast.FunctionDef]:
        """Functions that Numba compiles."""
        return [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list)
        ]

    def taken(self) -> set[str]:
        """Modules of ours whose text decides what the kernels of this one do; all of them where it has none."""
        if not self.kernels:
            return set(self.imported.values())
        bound = dict(self._bound())
        names, new = set(), {name for kernel in self.kernels for name in _names(kernel)}
        while new:
            names |= new
            new = {inner for name in new for part in bound.get(name, ()) for inner in _names(part)} - names
        return {self.imported[name] for name in names & set(self.imported)}

    def _bound(self) -> Iterator[tuple[str, list[ast.stmt]]]:
        """What binds a name at the top of the file."""
        found: dict[str, list[ast.stmt]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.setdefault(node.name, []).append(node)
            elif not isinstance(node, ast.Import | ast.ImportFrom):
                stored = (n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
                for name in stored:
                    found.setdefault(name.id, []).append(node)
        yield from found.items()


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def read_modules(root: Path, folders: tuple[str, ...]) -> dict[str, Module]:
    """Every module of some rooms, by the name that imports it."""
    found = {}
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(("ksdp", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[name] = Module(path, path.read_bytes())
    return found


def made_of(name: str, modules: dict[str, Module]) -> set[str]:
    """A module with kernels and all others that its compiled code is made of."""
    found, new = set[str](), {name}
    while new:
        found |= new
        new = {taken for one in new for taken in modules[one].taken() if taken in modules} - found
    return found


def drop_stale(root: Path = ROOT, folders: tuple[str, ...] = FOLDERS) -> list[str]:
    """Remove the compiled code of modules whose sources are not those it was made of; their names."""
    modules, stale = read_modules(root, folders), []
    for name, module in modules.items():
        if not module.kernels:
            continue
        sources = b"\0".join(modules[one].source for one in sorted(made_of(name, modules)))
        digest, cache = hashlib.sha256(sources).hexdigest(), module.path.parent / "__pycache__"
        mark = cache / f"{module.path.stem}.kernels"
        if mark.is_file() and mark.read_text() == digest:
            continue
        for compiled in (*cache.glob(f"{module.path.stem}.*.nbi"), *cache.glob(f"{module.path.stem}.*.nbc")):
            compiled.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        mark.write_text(digest)
        stale.append(name)
    return stale


if __name__ == "__main__":
    if dropped := drop_stale(folders=tuple(sys.argv[1:]) or FOLDERS):
        print(f"kernels of {len(dropped)} modules are compiled when they are next used")
