"""Three organisations on this machine: from an audit to a clearance to a run."""

import subprocess
import sys
from pathlib import Path

import pytest

from ..fences import type_page

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "three-parties" / "run.py"


def test_from_an_audit_to_a_clearance_to_a_run_of_three(tmp_path: Path) -> None:
    type_page("three-organisations.md", tmp_path, Path(sys.executable).parent)

    command = [sys.executable, str(EXAMPLE), str(tmp_path / "three"), "--documents", "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "the three results are equal, bit by bit" in done.stdout
