"""An audit on hosts that share no folder, over S3; workers die, the scheduler starts anew: the same table."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

from ..buckets import bucket
from ..hosts import Host, hosts, kill, why_no_hosts
from ..ports import free_ports
from ..specs import spec_text

pytestmark = pytest.mark.e2e

DOCUMENTS = ["d1", "d2", "d5", "d8", "d13", "d21", "d34", "d55"]
SPEC = {
    "seed": 5,
    "corpus": {"text": "text", "id": "id"},
    "mechanism": {"name": "pd-svd", "rank": 3},
    "design": {"kind": "literal", "party_size": 12, "with_runs": 40, "documents": DOCUMENTS},
    "statistics": {"families": ["geometry"]},
}


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A corpus, in the folder that no host sees."""
    rng = np.random.default_rng(1)
    words = np.array([f"{a}{b}{c}{d}" for a in "bdfk" for b in "aeiou" for c in "lmn" for d in "ae"])
    texts = [" ".join(rng.choice(words, 40)) for _ in range(60)]
    pq.write_table(pa.table({"id": [f"d{n}" for n in range(60)], "text": texts}), tmp_path / "corpus.parquet")
    return tmp_path / "corpus.parquet"


@pytest.fixture
def keys(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of whoever speaks with the scheduler or with S3."""
    key = str(certificate.parent / "key.pem")
    tls = {"CA_FILE": str(certificate)}
    for side in ("SCHEDULER", "WORKER", "CLIENT"):
        tls |= {f"{side}__CERT": str(certificate), f"{side}__KEY": key}
    env = {f"DASK_DISTRIBUTED__COMM__TLS__{name}": value for name, value in tls.items()}
    env |= {"DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true", "OPENBLAS_NUM_THREADS": "1"}
    env |= {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_EC2_METADATA_DISABLED": "true"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return {"PATH": os.environ["PATH"], "HOME": "/tmp", **env}


@contextlib.contextmanager
def counted_bucket(address: str) -> Iterator[tuple[str, Callable[[], int]]]:
    """The URL of a folder in a bucket, and how many files of blocks that holds."""
    with bucket(address) as (made, options):

        def blocks() -> int:
            found = made.get_file_info(fs.FileSelector("ksdp/lab/runs", recursive=True, allow_not_found=True))
            return sum("/values/" in entry.path and entry.is_file for entry in found)

        yield f"s3://ksdp/lab?{options}", blocks


def until(what: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for something, or for a process to end: whoever is late has seen less, and fails nothing."""
    while not what() and process.poll() is None:
        time.sleep(0.1)


def test_hosts_that_share_nothing_give_the_same_table(
    given: Path, keys: dict[str, str], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if (why := why_no_hosts()) is not None:
        pytest.skip(why)
    logs, python = tmp_path_factory.mktemp("logs"), [sys.executable, "-m"]
    spec = spec_text(SPEC, corpus={"path": str(given)})
    (tmp_path / "plain.toml").write_text(spec)
    alone = run_audit(open_spec(*read_spec_file(tmp_path / "plain.toml")), tmp_path / "alone", HERE)

    with contextlib.ExitStack() as stack:
        lab = stack.enter_context(hosts(3, tmp_path))
        url, blocks = stack.enter_context(counted_bucket(lab[0].gateway))
        (port,) = free_ports(1)

        def scheduler() -> subprocess.Popen[bytes]:
            command = [
                *python,
                "dask",
                "scheduler",
                "--host",
                "tls://0.0.0.0",
                "--port",
                str(port),
                "--no-dashboard",
            ]
            with (logs / "scheduler").open("ab") as out:
                started = subprocess.Popen(command, stdout=out, stderr=out, env=keys, start_new_session=True)
            stack.callback(kill, started)
            return started

        def worker(host: Host) -> subprocess.Popen[bytes]:
            command = [*python, "dask", "worker", f"tls://{host.gateway}:{port}", "--nthreads", "1", "--no-nanny"]
            command += ["--no-dashboard", "--local-directory", str(tmp_path)]
            return stack.enter_context(host.running(command, keys, logs / host.name))

        first = scheduler()
        one = worker(lab[0])
        cluster = f'[cluster]\naddress = "tls://127.0.0.1:{port}"\nblocks = "{url}"\ninsecure = true\n'
        (tmp_path / "far.toml").write_text(spec + cluster)
        command = [
            *python,
            "ksdp",
            "audit",
            str(tmp_path / "far.toml"),
            "--store",
            str(tmp_path / "far"),
            "--json",
        ]
        with (logs / "client").open("wb") as out:
            client = subprocess.Popen(command, stdout=out, stderr=out, env=keys, start_new_session=True)
        stack.callback(kill, client)

        until(lambda: blocks() >= 1, client)
        kill(one)  # the only worker, at its work
        two = worker(lab[1])
        until(lambda: blocks() >= 3, client)
        kill(first)  # and what was asked of it is forgotten; its workers end themselves
        kill(two)
        scheduler()
        worker(lab[2])
        worker(lab[0])
        code = client.wait(timeout=900)

    said = "\n".join(f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(logs.iterdir()))
    assert code in (0, 3, 4), said
    folders = [tmp_path / name / "audits" / alone.audit for name in ("alone", "far")]
    for name in ("verdicts", "statistics", "effects", "curves"):
        tables = [(folder / f"{name}.parquet").read_bytes() for folder in folders]
        assert tables[0] == tables[1], name
    assert not list((tmp_path / "far").glob("runs/*/*/**/*.parquet"))
    assert len(list((tmp_path / "alone").glob("runs/*/values/**/*.parquet"))) >= 8
