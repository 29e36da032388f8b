"""What only `python -m benchmarks` imports is imported here too."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_finds_what_it_measures(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")
