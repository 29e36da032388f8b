"""An audit is stopped, killed, or loses its server or worker: the same command goes on to the same result."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

from ..flows.audits.test_kills import found
from ..flows.test_canary import CANARY, files_with, write_mail
from ..specs import spec_text

pytestmark = pytest.mark.e2e

MARKS = {"worker": "forkserver", "server": "prefect_child"}
"""What stands in the command line of the processes of an audit."""
STOPPED = "stopped; the same command goes on, or begins again if nothing is stored."
SERVER_GONE = re.compile(r"error: the Prefect server stopped \(exit -9; see .*\): the same command goes on")
SPEC = {
    "seed": 22,
    "corpus": {"path": "mail.jsonl", "text": "body", "id": "id"},
    "mechanism": {"name": "pd-svd", "rank": 2},
    "design": {"party_size": 0.3, "with_runs": 1500},
    "statistics": {"families": ["paper"]},
}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Of texts, every third with a word that no other file may hold."""
    write_mail(tmp_path / "mail.jsonl")
    (tmp_path / "spec.toml").write_text(spec_text(SPEC))
    return tmp_path / "spec.toml"


class Audit:
    """`ksdp audit` with a worker and a Prefect server of its own, on a store that is there or not."""

    def __init__(self, spec: Path, said: list[str]) -> None:
        self.store, self._said = spec.parent / "store", said
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
        environment |= {"PREFECT_HOME": str(spec.parent / "home"), "PREFECT_LOGGING_LEVEL": "DEBUG"}
        command = [sys.executable, "-m", "ksdp", "audit", str(spec), "--store", str(self.store), "--dask", "1"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "umask": 0}
        self.process = subprocess.Popen(command, env=environment, **pipes)  # type: ignore[call-overload]
        self.main = psutil.Process(self.process.pid)

    def blocks(self) -> int:
        return len(list(self.store.glob("runs/*/values/*/*.parquet")))

    def wait_for_blocks(self, more: int) -> None:
        """So many more than there are, or its end."""
        least = self.blocks() + more
        while self.process.poll() is None and self.blocks() < least:
            time.sleep(0.02)

    def of_kind(self, who: str) -> psutil.Process:
        while self.process.poll() is None:
            with contextlib.suppress(psutil.Error):
                for one in self.main.children(recursive=True):
                    if MARKS[who] in " ".join(one.cmdline()) and (who == "server" or one.ppid() != self.main.pid):
                        return one
            time.sleep(0.02)
        raise AssertionError(self.process.communicate())

    def family(self) -> list[psutil.Process]:
        return [self.main, *self.main.children(recursive=True)]

    def end(self, family: list[psutil.Process]) -> tuple[int, list[str]]:
        """Its exit code and last lines; nobody of its family is left, and nothing but words was said."""
        lines = self.process.communicate(timeout=300)[0].splitlines()
        _, alive = psutil.wait_procs(family, timeout=60)
        assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []
        assert "Traceback" not in "\n".join(lines)
        self._said += lines
        return self.process.returncode, lines


def test_whatever_dies_the_same_command_goes_on_to_the_same_result(spec: Path) -> None:
    said: list[str] = []

    audit = Audit(spec, said)
    audit.wait_for_blocks(1)
    family = audit.family()
    for _ in range(3):
        audit.process.send_signal(signal.SIGTERM)
        time.sleep(0.01)
    code, lines = audit.end(family)
    assert (code, lines[-1]) == (128 + signal.SIGTERM, STOPPED)
    assert ((audit.store.stat().st_mode | (audit.store / "prefect" / "password").stat().st_mode) & 0o077) == 0

    audit = Audit(spec, said)
    audit.wait_for_blocks(1)
    family = audit.family()
    audit.of_kind("server").kill()
    code, lines = audit.end(family)
    assert code == 1
    assert SERVER_GONE.match(lines[-1]), lines

    audit = Audit(spec, said)
    audit.wait_for_blocks(1)
    family = audit.family()
    audit.main.kill()
    assert audit.end(family)[0] == -signal.SIGKILL

    audit = Audit(spec, said)
    audit.wait_for_blocks(1)
    audit.of_kind("worker").kill()
    assert audit.end([])[0] in (0, 3, 4), said[-5:]
    death = "a worker was killed by signal 9: out of memory, or somebody killed it. Another takes its place"
    assert sum(death in line for line in said) == 1

    run_audit(open_spec(*read_spec_file(spec)), spec.parent / "whole", HERE)
    for one, other in zip(found(spec.parent / "whole"), found(audit.store), strict=True):
        assert one.equals(other)
    assert files_with(CANARY, spec.parent / "store", spec.parent / "home") == []
    assert [path for path in audit.store.rglob("*") if path.is_file() and path.stat().st_mode & 0o077] == []
    assert not [line for line in said if CANARY.lower() in line.lower()]
