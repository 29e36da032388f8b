"""The way from an audit to a finished run is walked as the example says, with smaller numbers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[3]
SMALL = "--mails 400 --terms 80 --rank 2 --runs 80 --margin 0.7"


@pytest.mark.validity  # three screens: minutes
def test_from_audit_through_clearance_to_a_run_that_opens_v_alone(tmp_path: Path, data_folder: Path) -> None:
    text = (ROOT / "examples" / "final-run" / "README.md").read_text(encoding="utf-8")
    prepare, *rest = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    assert len(rest) == 3
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    commands = "\n".join(["set -e", f"{prepare.strip()} {SMALL}", *rest])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "KSDP_DATA": str(data_folder), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-c", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    assert "Any two of ada, bob, cyd that put together what they hold" in done.stdout + done.stderr
    vectors = {}
    for name in ("ada", "bob", "cyd"):
        folder = tmp_path / "walk" / f"{name}-result"
        about = json.loads((folder / "run.json").read_text())
        assert about["opens"] == "final"
        assert about["uncleared"] is False
        assert 0 < about["documents"] <= 400
        with np.load(folder / "result.npz") as found:
            assert set(found) == {"V"}
            vectors[name] = found["V"]
    assert vectors["ada"].shape == (2, 80)
    assert vectors["ada"].tobytes() == vectors["bob"].tobytes() == vectors["cyd"].tobytes()
