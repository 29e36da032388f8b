"""A command that is called in a stranger's folder runs nothing that lies there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROTOCOL = """
protocol = 1
[mechanism]
name = "{mechanism}"
rank = 2
[features]
hash = "sha256:{hash}"
count = 5
[[parties]]
name = "a"
address = "127.0.0.1:7001"
key = "{key}"
[[parties]]
name = "b"
address = "127.0.0.1:7002"
key = "{key}"
"""


@pytest.mark.e2e
@pytest.mark.parametrize("mechanism", ["helper:thing", "pd-svd"])
def test_checking_a_protocol_file_imports_no_neighbour(tmp_path: Path, mechanism: str) -> None:
    """Neither the module that it names nor one that stands in for a library's."""
    mark = tmp_path / "was-here"
    evil = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    for name in ("helper", "typer", "numpy", "tomllib", "antigravity"):
        (tmp_path / f"{name}.py").write_text(evil)
    (tmp_path / "protocol.toml").write_text(PROTOCOL.format(mechanism=mechanism, hash="0" * 64, key="0" * 64))
    done = subprocess.run(
        [sys.executable, "-m", "ksdp", "run", "protocol.toml", "--out", "out"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "refused:" in done.stderr
    assert "Traceback" not in done.stderr
    assert not mark.exists()
