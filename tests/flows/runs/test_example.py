"""The example is run as it stands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "three-parties" / "run.py"


@pytest.mark.e2e
def test_three_parties_from_corpora_to_topics(tmp_path: Path) -> None:
    folder = tmp_path / "three"
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), str(folder), "--documents", "150"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "the three results are equal, bit by bit" in done.stdout
    assert len(done.stdout.split("bit by bit.")[1].strip().splitlines()) == 5
    for name in ("numpy", "pandas", "scipy"):
        about = json.loads((folder / f"{name}-result" / "run.json").read_text())
        assert about["uncleared"] is True
        assert 0 < about["documents"] <= 150
