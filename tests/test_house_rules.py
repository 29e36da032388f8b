"""Rules of the house that no linter knows."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("audit", "storage", "tasks", "flows", "dashboards", "commands")
MAY_IMPORT = {
    "audit": {"audit"},
    "storage": {"storage", "audit"},
    "tasks": {"tasks", "audit", "storage"},
    "flows": {"flows", "tasks", "audit", "storage", "dashboards"},
    "dashboards": {"dashboards", "storage"},
    "commands": {"commands", "flows", "tasks", "audit", "storage", "dashboards"},
}
"""Call direction: flows -> tasks -> audit, storage; dashboards -> storage. A flow also writes the report."""


def folder(room: str) -> Path:
    return ROOT / "src" / "ksdp" / room if room == "commands" else ROOT / room


def modules(room: str) -> list[Path]:
    return sorted(p for p in folder(room).rglob("*.py") if "__pycache__" not in p.parts)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_call_in_one_direction(room: str) -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(room)
        for line, name in imported(path)
        if name.startswith("ksdp.") and name.split(".")[1] in ROOMS and name.split(".")[1] not in MAY_IMPORT[room]
    ]
    assert offenders == []


def test_prefect_and_dask_appear_in_tasks_and_flows_only() -> None:
    offenders = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in ("audit", "storage", "dashboards")
        for path in modules(room)
        for line, name in imported(path)
        if name.split(".")[0] in {"prefect", "dask", "distributed"}
    ]
    assert offenders == []


def test_every_package_is_in_the_wheel() -> None:
    """`packages` is an explicit list: what it misses is missing from the wheel, silently."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        listed = set(tomllib.load(file)["tool"]["setuptools"]["packages"])
    on_disk = {"ksdp"} | {
        "ksdp." + ".".join(path.parent.relative_to(folder(room).parent).parts)
        for room in ROOMS
        for path in modules(room)
        if path.name == "__init__.py"
    }
    assert listed == on_disk


@pytest.mark.parametrize("room", ROOMS)
def test_a_module_has_one_job_and_two_folder_levels(room: str) -> None:
    for path in modules(room):
        assert len(path.relative_to(folder(room).parent).parts) <= 3, path
        assert path.stem != "utils", path
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 350, path


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
