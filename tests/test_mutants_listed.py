"""The faults that `make validity` plants in the verdict path are still faults of the code as it is."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_what_a_mutant_changes_stands_in_the_code_once() -> None:
    """Who rewrites a line of the verdict path chooses its mutants anew, in `tests/validity/mutants.py`."""
    at = importlib.util.spec_from_file_location("mutants", ROOT / "tests" / "validity" / "mutants.py")
    assert at is not None
    assert at.loader is not None
    listed = importlib.util.module_from_spec(at)
    sys.modules["mutants"] = listed  # its dataclass looks itself up
    try:
        at.loader.exec_module(listed)
    finally:
        del sys.modules["mutants"]
    text = functools.cache(lambda file: (ROOT / file).read_text(encoding="utf-8"))
    gone = [(m.file, m.old) for m in listed.MUTANTS if text(m.file).count(m.old) != 1]
    assert len(listed.MUTANTS) > 300
    assert not gone
