"""The wheel, in an environment that has nothing of this checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def ran(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KSDP"))}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.e2e
def test_installed_from_the_wheel_it_has_all_that_it_needs(tmp_path: Path) -> None:
    """Libraries are those that are here: a path file names their folder, and brings no editable install."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    ran(*pip, "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation", "-w", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("ksdp-*.whl")
    clean = tmp_path / "clean"
    ran(sys.executable, "-m", "venv", "--without-pip", clean, cwd=tmp_path)
    python = clean / "bin" / "python"
    ran(*pip, "--python", python, "install", "-q", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    site = Path(ran(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip())
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    assert Path(ran(python, "-P", "-c", "import ksdp; print(ksdp.__file__)", cwd=tmp_path)).is_relative_to(clean)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert ran(clean / "bin" / "ksdp", "--version", cwd=tmp_path).strip().endswith(version)
    assert "pd-svd" in ran(clean / "bin" / "ksdp", "mechanisms", cwd=tmp_path)
    # Templates and styles are data: an audit with its report needs them.
    code = (
        "import json, numpy as np, ksdp\n"
        "X = np.random.default_rng(0).poisson(1.0, (40, 6)).astype(float)\n"
        "found = ksdp.audit(X, 'pd-svd', rank=2, party_size=0.25, with_runs=20, seed=1)\n"
        "print(json.dumps({'documents': len(found.verdicts), 'report': str(found.report('page.html'))}))\n"
    )
    said = json.loads(ran(python, "-P", "-c", code, cwd=tmp_path).splitlines()[-1])
    assert said["documents"] == 40
    assert Path(said["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
