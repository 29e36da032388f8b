"""From the wheel: an audit without any extra, and the first audit of the documentation, typed as it stands."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import ksdp.cli

from ..fences import type_page

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).resolve().parents[2]
AUDIT = """
import sys
for name in {missing!r}:
    sys.modules[name] = None
import numpy as np, ksdp
X = np.random.default_rng(0).poisson(1.0, (40, 6)).astype(float)
found = ksdp.audit(X, "pd-svd", rank=2, party_size=0.25, with_runs=20, seed=1)
assert len(found.verdicts) == 40
assert found.report({page!r}).is_file()
ksdp.plan(X, "pd-nmf", rank=2, party_size=0.25)
"""


def ran(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KSDP"))}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_the_first_audit_from_the_wheel(tmp_path: Path) -> None:
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
    audit = AUDIT.format(missing=sorted(ksdp.cli.EXTRAS), page=str(tmp_path / "page.html"))
    ran(python, "-P", "-c", audit, cwd=tmp_path)
    type_page("first-audit.md", tmp_path, python.parent)
