"""No planted fault of the verdict path survives its tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.validity


def test_every_mutant_is_killed() -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("mutants.py"))],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    sound = [one["status"] for one in told if one["file"] is None]
    assert sound
    assert not any(sound), "the tests fail without any mutant"
    mutants = [one for one in told if one["file"] is not None]
    survivors = [mutant for mutant in mutants if mutant["status"] != 1]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} mutants killed")
    assert len(mutants) > 400
    assert not survivors
