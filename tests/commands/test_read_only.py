"""A store on a file system that takes no writes: whoever reads it can, whoever would write is told in one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

from ..specs import spec_text

SPEC = {"mechanism": {"name": "pd-svd", "rank": 2}, "design": {"party_size": 20, "with_runs": 20}}
READ_ONLY = 'mount -t tmpfs none "$0" && cp -r "$1" "$0/store" && mount -o remount,ro "$0" && shift && exec "$@"'
READERS = (["list"], ["show", "{audit}"], ["log"], ["audit", "spec.toml"])
WRITERS = (
    ["audit", "other.toml"],
    ["decide", "{audit}", "3", "--decision", "exclude", "--reason", "much", "--who", "Ada"],
    ["more-runs", "{audit}", "3"],
    ["schedule", "spec.toml", "--cron", "0 3 * * *"],
)


def no_mounts() -> bool:
    if shutil.which("unshare") is None or os.getuid() != 0:
        return True
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(tried, capture_output=True, check=False).returncode != 0


@pytest.mark.validity
@pytest.mark.skipif(no_mounts(), reason="only root can mount a file system")
def test_a_store_that_takes_no_writes_is_read_and_refused_in_one_line(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "c.npz", sp.csr_matrix(np.random.default_rng(1).integers(0, 3, (60, 30))))
    for seed, name in ((1, "spec.toml"), (2, "other.toml")):
        (tmp_path / name).write_text(spec_text(SPEC, seed=seed, corpus={"path": str(tmp_path / "c.npz")}))
    summary = run_audit(open_spec(*read_spec_file(tmp_path / "spec.toml")), tmp_path / "store", HERE)
    mount = tmp_path / "mount"
    mount.mkdir()

    def said(*command: str) -> subprocess.CompletedProcess[str]:
        asked = [part.format(audit=summary.audit) for part in command]
        ksdp = [sys.executable, "-m", "ksdp", *asked, "--store", str(mount / "store")]
        whole = ["unshare", "-m", "sh", "-c", READ_ONLY, str(mount), str(tmp_path / "store"), *ksdp]
        return subprocess.run(whole, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)

    for command in READERS:
        done = said(*command)
        assert done.returncode in ((0, 3, 4) if command[0] == "audit" else (0,)), (command, done.stderr)
        assert "error:" not in done.stderr, (command, done.stderr)
        assert done.stdout or command[0] in ("log", "audit")  # nothing was decided; an audit's words are no result
    for command in WRITERS:
        done = said(*command)
        assert "Traceback" not in done.stderr, (command, done.stderr)
        refusals = [line for line in done.stderr.splitlines() if line.startswith(("error:", "refused:"))]
        assert (done.returncode, len(refusals)) == (1, 1), (command, done.stderr)
        assert "ead-only file system" in refusals[0], (command, refusals)


FULL = 'mount -t tmpfs -o size=256k none "$0" && exec "$@"'


@pytest.mark.validity
@pytest.mark.skipif(no_mounts(), reason="only root can mount a file system")
@pytest.mark.parametrize(("where", "says"), [(["--here", "1"], "No space left"), (["--dask", "1"], "server.log")])
def test_a_full_disk_is_one_line(where: list[str], says: str, tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "c.npz", sp.csr_matrix(np.random.default_rng(1).integers(0, 3, (60, 30))))
    larger = {"corpus": {"path": str(tmp_path / "c.npz")}, "design": {"party_size": 25, "with_runs": 25}}
    (tmp_path / "spec.toml").write_text(spec_text(SPEC, seed=1, **larger))
    (tmp_path / "full").mkdir()
    command = ("audit", "spec.toml", *where, "--store", str(tmp_path / "full" / "store"))
    ksdp = [sys.executable, "-m", "ksdp", *command]
    whole = ["unshare", "-m", "sh", "-c", FULL, str(tmp_path / "full"), *ksdp]
    done = subprocess.run(whole, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert [line.startswith("error:") for line in done.stderr.splitlines()].count(True) == 1
    assert says in done.stderr
