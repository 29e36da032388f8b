"""Compiled kernels are dropped where what they are made of has changed, and nowhere else."""

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from numba.core.dispatcher import Dispatcher

from .scripts import script

ROOT = Path(__file__).resolve().parents[1]

INNER = "from numba import njit\n\n@njit\ndef twice(x):\n    return 2 * x\n\ndef plain():\n    return 1\n"
LIMITS = "MOST = 3\n"
OUTER = (
    "from numba import njit\nfrom ksdp.audit.inner import twice\nfrom ksdp.audit.limits import MOST as LIMIT\n"
    "from ksdp.audit.errors import Wrong\n_TOP = LIMIT + 1\n\n"
    "@njit\ndef four(x):\n    return min(twice(twice(x)), _TOP)\n\ndef check():\n    raise Wrong\n"
)
OTHER = "from numba import njit\nfrom ksdp.audit.inner import plain\n\n@njit\ndef same(x):\n    return x\n"


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return script("kernels")


@pytest.fixture
def room(tmp_path: Path, kernels: ModuleType) -> Path:
    """A room with three modules of kernels, all of them compiled."""
    room = tmp_path / "audit"
    (room / "__pycache__").mkdir(parents=True)
    sources = {"inner": INNER, "limits": LIMITS, "outer": OUTER, "other": OTHER, "errors": "class Wrong: ..."}
    for name, source in sources.items():
        (room / f"{name}.py").write_text(source)
    kernels.drop_stale(tmp_path, ("audit",))
    for name in ("inner.twice", "outer.four", "other.same"):
        for end in ("nbi", "1.nbc"):
            (room / "__pycache__" / f"{name}-4.py311.{end}").touch()
    return room


def left(room: Path) -> set[str]:
    return {path.name.partition(".")[0] for path in (room / "__pycache__").glob("*.nb[ic]")}


@pytest.mark.parametrize(
    ("changed", "dropped"),
    [
        ("inner", {"inner", "outer"}),
        ("limits", {"outer"}),  # a constant is compiled in
        ("outer", {"outer"}),
        ("other", {"other"}),
        ("errors", set()),  # no kernel takes anything from it
        ("nothing", set()),
    ],
)
def test_a_change_drops_what_is_made_of_it(
    changed: str, dropped: set[str], room: Path, kernels: ModuleType
) -> None:
    path = room / f"{changed}.py"
    path.write_text((path.read_text() if path.exists() else "") + "# a change\n")
    said = kernels.drop_stale(room.parent, ("audit",))
    assert {name.rpartition(".")[2] for name in said} == dropped
    assert left(room) == {"inner", "outer", "other"} - dropped
    assert kernels.drop_stale(room.parent, ("audit",)) == []


def test_code_that_nothing_vouches_for_is_dropped(room: Path, kernels: ModuleType) -> None:
    (room / "__pycache__" / "other.kernels").unlink()
    assert kernels.drop_stale(room.parent, ("audit",)) == ["ksdp.audit.other"]
    assert left(room) == {"inner", "outer"}


def test_what_a_kernel_takes_from_another_file_is_seen(kernels: ModuleType) -> None:
    """Numba's own kernels, as Python resolves their names, against what the script reads from the sources."""
    modules = kernels.read_modules(ROOT, kernels.FOLDERS)
    seen = 0
    for name in (n for n, module in modules.items() if module.kernels):
        made_of = kernels.made_of(name, modules)
        imported = importlib.import_module(name)
        for kernel in (k for k in vars(imported).values() if isinstance(k, Dispatcher) and k.__module__ == name):
            code, held = kernel.py_func.__code__, kernel.py_func.__globals__
            for value in (held[word] for word in code.co_names if word in held):
                source = getattr(value, "__module__", None)
                if source in modules:
                    assert source in made_of, (name, kernel.__name__, source)
                    seen += source != name
    assert seen > 3


@pytest.mark.parametrize(("name", "mode"), [(".", 0o777), ("a.nbi", 0o666), ("a.nbi", None)])
def test_kernels_that_others_can_write_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: int | None
) -> None:
    (tmp_path / "a.nbi").touch(0o600)
    if mode is not None:
        (tmp_path / name).chmod(mode)
    elif os.getuid() == 0:
        os.chown(tmp_path / name, 65534, 65534)
    else:
        pytest.skip("only root gives files away")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-m", "ksdp", "list"], capture_output=True, text=True, check=False)
    assert "others can write" in done.stderr
