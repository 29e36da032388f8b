"""Rules of the house that no linter knows."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from ksdp.audit.verdicts.verdict import VERDICTS

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("audit", "protocols", "storage", "tasks", "flows", "dashboards", "commands", "api", "extras")
MAY_IMPORT = {
    "audit": {"audit"},
    "protocols": {"protocols", "audit"},
    "storage": {"storage", "audit"},
    "tasks": {"tasks", "audit", "storage", "protocols"},
    "flows": {"flows", "tasks", "audit", "storage", "protocols", "dashboards"},
    "dashboards": {"dashboards", "storage"},
    "commands": set(ROOMS) - {"extras"},
    "api": set(ROOMS) - {"commands", "extras"},
    "extras": set(ROOMS),
}
"""flows -> tasks -> audit, storage, protocols; protocols -> audit; dashboards -> storage; nothing -> extras.
Flows write reports."""
MOST_LINES = dict.fromkeys(ROOMS, 800)
MOST_PARAMETERS = 10
MOST_MODULES, MOST_TEST_MODULES = 16, 20
MOST_FILES = 310
MOST_IN_ALL = {"product": 62174, "tests": 46923}
"""Lines of Python. 58,000 in 270 files and 40,000 are wanted: nobody may make it more."""


def folder(room: str) -> Path:
    return ROOT / "src" / "ksdp" / room


def modules(room: str) -> list[Path]:
    return sorted(p for p in folder(room).rglob("*.py") if "__pycache__" not in p.parts)


def module_name(room: str, path: Path) -> str:
    return "ksdp." + ".".join(path.relative_to(folder(room).parent).with_suffix("").parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(parsed(path))]


@cache
def imported(path: Path) -> tuple[tuple[int, str], ...]:
    """Lines and modules, with those that only type checkers import."""
    found: list[tuple[int, str]] = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found += ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:  # what is taken may be a module
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found += ((node.lineno, name) for name in (node.module, *names))
    return tuple(found)


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_call_in_one_direction(room: str) -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(room)
        for line, name in imported(path)
        if name.startswith("ksdp.") and name.split(".")[1] in ROOMS and name.split(".")[1] not in MAY_IMPORT[room]
    ]
    assert offenders == []


def test_the_core_names_nothing_of_the_extras() -> None:
    """Neither by an import nor by a string: what they add is found by its entry point."""
    core = [path for room in ROOMS if room != "extras" for path in modules(room)]
    core += sorted((ROOT / "src" / "ksdp").glob("*.py"))
    assert [str(p.relative_to(ROOT)) for p in core if "ksdp.extras" in p.read_text(encoding="utf-8")] == []


def test_no_circle_between_modules_or_wings() -> None:
    """A wing is a folder without subfolders; a module beside subfolders stands for itself."""
    parents = {path.parent.parent for room in ROOMS for path in modules(room)}
    names = {module_name(room, path): path for room in ROOMS for path in modules(room)}
    wing = {
        n: n if p.parent in parents or p.stem == "__init__" else n.rpartition(".")[0] for n, p in names.items()
    }
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        for target in (t for _, t in imported(path) if t in names):
            graph.setdefault(name, set()).add(target)
            if wing[name] != wing[target]:
                graph.setdefault("wing " + wing[name], set()).add("wing " + wing[target])
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, naming the circle


def names_loaded(node: ast.AST) -> set[str]:
    """Names that are read, and strings, in which annotations may stand."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return found | {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def taken_from_elsewhere() -> set[str]:
    """`module.name` of all that any module but a test takes from another, also as an attribute of a module."""
    sources = [path for room in ROOMS for path in modules(room)]
    for name in ("benchmarks", "papers", "tools", "examples"):
        sources += sorted((ROOT / name).rglob("*.py"))
    sources += sorted((ROOT / "src" / "ksdp").glob("*.py"))
    taken = set()
    for tree in map(parsed, sources):
        known: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                known |= {alias.asname or alias.name: alias.name for alias in node.names if alias.asname}
        taken |= set(known.values())
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known:
                taken.add(f"{known[node.value.id]}.{node.attr}")
    return taken


def is_registered(definition: ast.stmt) -> bool:
    """Whether a decorator hands it to a command line."""
    calls = [ast.unparse(decorator) for decorator in getattr(definition, "decorator_list", [])]
    return any(".command(" in call or ".callback(" in call for call in calls)


def test_every_function_is_called_by_something_but_tests() -> None:
    """And every class: of the same module, of another, of a template, or named by an entry point or a command."""
    taken = taken_from_elsewhere()
    templates = "".join(path.read_text(encoding="utf-8") for path in folder("dashboards").rglob("*.j2"))
    called = {name for names in re.findall(r"\b(\w+)\(|\| *(\w+)", templates) for name in names}
    tables = [(ROOT / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "src/ksdp/cli.py")]
    entries = set(re.findall(r"ksdp[\w.]*:\w+", "".join(tables)))
    unused = []
    for room in ROOMS:
        for path in modules(room):
            body, module = parsed(path).body, module_name(room, path)
            loaded = [names_loaded(node) if not is_all(node) else set() for node in body]
            for place, node in enumerate(body):
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    continue
                if is_registered(node) or node.name.startswith("__"):
                    continue
                here = any(node.name in names for other, names in enumerate(loaded) if other != place)
                page = room == "dashboards" and node.name in called
                if not (here or page or f"{module}.{node.name}" in taken or f"{module}:{node.name}" in entries):
                    unused.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert unused == []


def test_one_class_name_means_one_thing() -> None:
    """Public classes; what begins with `_` is known to its module alone."""
    places: dict[str, list[str]] = {}
    for path in (path for room in ROOMS for path in modules(room)):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets)


def test_public_names_of_a_folder_stand_in_its_init() -> None:
    """A module's public names are those without `_`; it keeps no list of them."""
    paths = [path for room in ROOMS for path in modules(room) if path.name != "__init__.py"]
    assert [str(path.relative_to(ROOT)) for path in paths if any(map(is_all, parsed(path).body))] == []


HELD: dict[str, tuple[tuple[str, ...], set[str], Callable[[Path], bool]]] = {
    "sockets": (
        ("audit", "protocols", "storage"),
        {"socket", "ssl", "asyncio", "http", "httpx", "urllib"},
        lambda path: path.parent.name == "network",
    ),
    "Prefect and Dask": (
        ("audit", "protocols", "storage", "dashboards"),
        {"prefect", "dask", "distributed"},
        lambda path: False,
    ),
    "locks": (ROOMS, {"fcntl"}, lambda path: path == folder("storage") / "locks.py"),
}
"""Rooms that import none of some libraries, but for certain modules."""


@pytest.mark.parametrize("what", HELD)
def test_a_library_is_imported_where_it_belongs(what: str) -> None:
    rooms, libraries, may = HELD[what]
    offenders = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in rooms
        for path in modules(room)
        if not may(path)
        for line, name in imported(path)
        if name.split(".")[0] in libraries
    ]
    assert offenders == []


def test_the_links_at_the_top_lead_to_the_rooms() -> None:
    links = {path.name: path.resolve() for path in ROOT.iterdir() if path.is_symlink()}
    assert links == {room: folder(room) for room in ROOMS if room not in ("commands", "api")}


def test_every_folder_of_modules_is_a_package() -> None:
    """The wheel leaves out folders that are none, silently."""
    folders = {path.parent for room in ROOMS for path in modules(room)}
    assert [str(where.relative_to(ROOT)) for where in folders if not (where / "__init__.py").is_file()] == []


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_has_one_job_and_three_folder_levels_at_most(room: str) -> None:
    for path in modules(room):
        assert len(path.relative_to(folder(room).parent).parts) <= 4, path
        assert path.stem != "utils", path
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES[room], path


def test_a_folder_holds_at_most_sixteen_modules() -> None:
    """And a folder of tests at most twenty: helpers that several tests share do not count."""
    for room in ROOMS:
        counts = Counter(path.parent for path in modules(room) if path.name != "__init__.py")
        assert {str(where.relative_to(ROOT)): n for where, n in counts.items() if n > MOST_MODULES} == {}
    tests = Counter(path.parent for path in (ROOT / "tests").rglob("test_*.py"))
    assert {str(where.relative_to(ROOT)): n for where, n in tests.items() if n > MOST_TEST_MODULES} == {}


def test_the_house_does_not_grow() -> None:
    files = {"product": {*(ROOT / "src").rglob("*.py")}, "tests": {*(ROOT / "tests").rglob("*.py")}}
    assert len(files["product"]) <= MOST_FILES
    lines = {of: sum(p.read_text("utf-8").count("\n") for p in paths) for of, paths in files.items()}
    assert {of: count for of, count in lines.items() if count > MOST_IN_ALL[of]} == {}


def test_verdicts_are_listed_in_one_table() -> None:
    """`Verdict`: all else loops over it, so that a new word is a row there."""
    listed = []
    for path in [path for room in ROOMS for path in modules(room)]:
        tree = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if {node.value for node in tree if isinstance(node, ast.Constant)} >= {*VERDICTS}:
            listed.append(path.name)
    for page in (folder("dashboards") / "templates").glob("*.j2"):
        if {*re.findall(r"""[>"'](\w+)[<"']""", page.read_text(encoding="utf-8"))} >= {*VERDICTS}:
            listed.append(page.name)
    assert listed == ["verdict.py"]


def asked_with_a_default(tree: ast.Module) -> list[str]:
    """Attributes that are asked of an object of which nobody says whether it has them."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [ast.unparse(c) for c in calls if ast.unparse(c.func) == "getattr" and len(c.args) > 2]


def test_an_audit_asks_what_is_typed() -> None:
    """Of mechanisms and statistics: their traits, their parameters, a protocol."""
    found = {str(path.relative_to(ROOT)): asked_with_a_default(parsed(path)) for path in modules("audit")}
    assert {path: calls for path, calls in found.items() if calls} == {}
    assert asked_with_a_default(ast.parse("getattr(a, 'b', 0) + getattr(a, b)")) == ["getattr(a, 'b', 0)"]


def untyped(tree: ast.Module) -> list[str]:
    """Public functions that take or give `Any`, but for compiled ones, whose types Numba finds."""
    found = []
    classes = [c for c in tree.body if isinstance(c, ast.ClassDef) and not c.name.startswith("_")]
    for node in (node for where in (tree, *classes) for node in where.body):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        types = {node.returns} | {getattr(part, "annotation", None) for part in ast.iter_child_nodes(node.args)}
        compiled = any(ast.unparse(d).startswith(("njit", "intrinsic")) for d in node.decorator_list)
        if not compiled and any(isinstance(what, ast.Name) and what.id == "Any" for what in types):
            found.append(f"{node.lineno} {node.name}")
    return found


def test_a_public_function_of_an_audit_is_typed() -> None:
    found = {str(path.relative_to(ROOT)): untyped(parsed(path)) for path in modules("audit")}
    assert {path: functions for path, functions in found.items() if functions} == {}
    kernel, open_one = "@njit(cache=True)\ndef f(a: Any): ...\n", "def g(a: Any): ...\ndef h() -> Any: ..."
    assert untyped(ast.parse(kernel + open_one)) == ["3 g", "4 h"]


def test_a_private_function_has_one_line_of_docstring() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for room in ROOMS
        for path in modules(room)
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("_")
        and not node.name.startswith("__")
        and "\n" in (ast.get_docstring(node) or "")
    ]
    assert offenders == []


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """`self` and `cls` are none."""
    arguments = ast.iter_child_nodes(function.args)
    return sum(isinstance(node, ast.arg) and node.arg not in ("self", "cls") for node in arguments)


def wide(tree: ast.Module) -> list[str]:
    """Functions that take too many parameters, methods and functions within functions among them."""
    return [
        f"{node.lineno} {node.name} takes {parameters(node)} parameters"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and parameters(node) > MOST_PARAMETERS
    ]


def test_a_function_takes_few_parameters() -> None:
    """What belongs together is one of them: a NamedTuple of a kernel's arrays, a dataclass of options."""
    paths = [*(path for room in ROOMS for path in modules(room)), *sorted((ROOT / "src" / "ksdp").glob("*.py"))]
    assert [f"{path.relative_to(ROOT)}:{what}" for path in paths for what in wide(parsed(path))] == []


def test_a_value_is_named_by_a_noun() -> None:
    """A field of a class may be named otherwise: it is stored, shown or public."""
    vague = {"told", "asked", "held", "found", "one", "known", "whole", "left"}
    for path in sorted((ROOT / "src").rglob("*.py")):
        nodes = {*ast.walk(parsed(path))}
        fields = {getattr(n, "target", None) for c in nodes if isinstance(c, ast.ClassDef) for n in c.body}
        names = {n.id for n in nodes - fields if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        assert not vague & (names | {n.arg for n in nodes if isinstance(n, ast.arg)}), path


def test_nothing_names_a_machine_or_a_registry() -> None:
    """Of what git tracks; the words themselves are put together here so that this file passes."""
    words = ["/" + "work/", "/" + "root/", "index" + "-url", "pypi" + r"\.org", "python" + "hosted"]
    pattern = re.compile("|".join(words))
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    offenders = []
    for name in filter(None, tracked.split("\0")):
        path = ROOT / name
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".lock", ".txt", ".html", ".j2", ".css", ""}:
            text = path.read_text(encoding="utf-8", errors="replace")
            offenders += [f"{name}: {found}" for found in set(pattern.findall(text))]
    assert offenders == []
