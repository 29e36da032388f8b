"""What is needed at run time is listed whole, and nothing of it has a copyleft stronger than the LGPL."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from .scripts import script

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def tool() -> Any:
    return script("bill")


def test_the_bill_is_whole_and_the_same_twice(tool: Any, tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in ("one.json", "two.json"))
    assert tool.main(first) == 0
    assert tool.main(second) == 0
    assert first.read_bytes() == second.read_bytes()
    said = json.loads(first.read_text())
    names = {part["name"].lower() for part in said["components"]}
    assert {"numpy", "dask", "distributed", "prefect", "duckdb", "cryptography", "pyarrow"} <= names
    assert "pytest" not in names  # needed by nobody who runs it
    assert all(part["licenses"][0]["license"]["name"] for part in said["components"])


def test_what_is_kept_is_of_what_is_installed(tool: Any, tmp_path: Path) -> None:
    """`make bill` writes it; the lock names the same versions."""
    assert tool.main(tmp_path / "sbom.json") == 0
    kept, found = ((folder / "sbom.json").read_text() for folder in (ROOT / "docs", tmp_path))
    assert kept == found, "docs/sbom.json is of other packages than are installed: `make setup bill`"
    lock = "\n" + (ROOT / "requirements.lock").read_text()
    parts = json.loads(kept)["components"]
    assert [part["name"] for part in parts if f"\n{part['name']}=={part['version']}" not in lock] == []


@pytest.mark.parametrize(
    ("licence", "strong"),
    [
        ("GPL-3.0-or-later", True),
        ("AGPL-3.0-only", True),
        ("GNU General Public License v3 (GPLv3)", True),
        ("LGPL-3.0-or-later", False),
        ("GNU Lesser General Public License v3 (LGPLv3)", False),
        ("MIT OR GPL-2.0", False),
        ("Apache-2.0", False),
    ],
)
def test_strong_copyleft_is_known(tool: Any, licence: str, strong: bool) -> None:
    assert tool.is_strong(licence) is strong


@pytest.mark.validity
def test_the_wheel_is_the_same_bytes_twice(tmp_path: Path) -> None:
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    made = []
    for name in ("one", "two"):
        copy = tmp_path / name
        files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        for file in filter(None, files.stdout.split("\0")):
            if (ROOT / file).is_file():
                (copy / file).parent.mkdir(parents=True, exist_ok=True)
                (copy / file).write_bytes((ROOT / file).read_bytes())
        options = ("--quiet", "--no-deps", "--no-build-isolation", "-w", "out")
        command = [sys.executable, "-m", "pip", "wheel", *options, "."]
        subprocess.run(command, cwd=copy, env=environment, check=True, timeout=300)
        (wheel,) = (copy / "out").glob("*.whl")
        made.append(wheel.read_bytes())
        with zipfile.ZipFile(wheel) as archive:
            assert any(name.startswith("ksdp/audit/") for name in archive.namelist())
    assert made[0] == made[1]
