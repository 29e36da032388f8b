"""The faults that `make validity` plants in the verdict path are still faults of the code as it is."""

import functools
from pathlib import Path

from .scripts import script

ROOT = Path(__file__).resolve().parents[1]


def test_what_a_mutant_changes_stands_in_the_code_once() -> None:
    """Who rewrites a line of the verdict path chooses its mutants anew, in `tests/validity/mutants.txt`."""
    listed = script("mutants", "tests/validity")
    text = functools.cache(lambda file: (ROOT / file).read_text(encoding="utf-8"))
    gone = [(m.file, m.old) for m in listed.MUTANTS if text(m.file).count(m.old) != 1]
    assert len(listed.MUTANTS) > 300
    assert not gone
