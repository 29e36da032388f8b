"""Strangers at every door that ksdp opens: the workers', the pages', and a folder with modules of theirs."""

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path

import httpx
import psutil
import pytest

from ksdp.audit.errors import InputError
from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.store import Store
from ksdp.tasks.cluster import Workers, dask_address, open_workers, spread

from ..storage.readers.test_hostile import FILES, MEMORY

pytestmark = pytest.mark.e2e

NOBODY = 65534

INTRUDER = """
import json, os, sys
import cryptography.x509
from distributed import Client, LocalCluster
from distributed.security import Security

address, user = sys.argv[1], int(sys.argv[2])
keys = Security.temporary()
if user:  # after the imports: the folder of this Python may be closed to others
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
found = {"uid": os.getuid()}
plain = address.replace("tls://", "tcp://")
for how, where, security in (("plain", plain, None), ("own key", address, keys), ("no key", address, Security())):
    try:
        with Client(where, timeout="4s", security=security, set_as_default=False) as client:
            found[how] = client.submit(os.getuid).result(timeout=5)
    except Exception as error:
        found[how] = type(error).__name__
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Workers]:
    with open_workers(1) as started:
        yield started


def intrude(address: str, user: int = 0) -> dict[str, object]:
    """What a process got that tries to run code at an address: a number where it did."""
    done = subprocess.run(
        [sys.executable, "-c", INTRUDER, address, str(user)],
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def test_whoever_started_it_runs_code_there(cluster: Workers) -> None:
    assert cluster.address.startswith("tls://127.0.0.1:")
    seen: list[str] = []
    assert spread(cluster.address, str.upper, [("a",), ("b",)], seen.append) == ["A", "B"]
    stopped = threading.Event()
    threading.Timer(0.3, stopped.set).start()
    with pytest.raises(KeyboardInterrupt):  # it waits for no worker to end what it does
        spread(cluster.address, time.sleep, [(5.0,)], seen.append, 0, stopped)
    assert len(seen) == 2
    assert sorted(seen) == ["A", "B"]


def test_another_user_does_not(cluster: Workers) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    found = intrude(cluster.address, NOBODY)
    assert found.pop("uid") == NOBODY
    assert not [how for how, got in found.items() if isinstance(got, int)], found


def test_the_same_stranger_does_where_a_cluster_has_no_tls() -> None:
    """The attempt is a real one: this is what it takes to stop it."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp://", dashboard_address=None
    ) as theirs:
        assert intrude(theirs.scheduler_address, NOBODY)["plain"] == os.getuid()
        address = dask_address(theirs.scheduler_address, insecure=True)
        with open_workers(address=address) as workers:
            assert workers.count == 1


def test_nor_does_another_process_of_the_same_user_without_the_key(cluster: Workers) -> None:
    found = intrude(cluster.address)
    del found["uid"]
    assert not [how for how, got in found.items() if isinstance(got, int)], found


def plainly(port: int, page: str) -> int | str:
    """What a port answers to a browser."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, HTTPException) as error:
        return type(error).__name__


def test_every_port_of_the_cluster_is_closed_to_plain_connections_and_shows_no_pages(cluster: Workers) -> None:
    """The scheduler's, its nannies' and their workers' ports, by what the processes listen on."""
    mine = psutil.Process()
    ports = {
        connection.laddr.port: connection.laddr.ip
        for process in [mine, *mine.children(recursive=True)]
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert int(cluster.address.rsplit(":", 1)[1]) in ports
    assert set(ports.values()) == {"127.0.0.1"}
    answers = {plainly(port, page) for port in ports for page in ("status", "metrics", "health", "info/logs.html")}
    assert {answer for answer in answers if isinstance(answer, int)} <= {404}


def test_a_scheduler_that_asks_for_a_key_refuses_whoever_has_none() -> None:
    with pytest.raises(InputError, match="no Dask scheduler answers"), open_workers(address="tls://127.0.0.1:9"):
        pass


STARTING = """
import sys
from ksdp.tasks.cluster import open_workers

try:
    with open_workers(2):
        print("started", flush=True)
        sys.stdin.read()
except KeyboardInterrupt:
    sys.exit(130)
"""


def test_who_stops_it_while_workers_start_reads_no_trace_and_leaves_nobody() -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", STARTING],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=hear_interrupts,
    )
    started = psutil.Process(command.pid)
    while len(started.children(recursive=True)) < 3 and command.poll() is None:  # two helpers and the first worker
        time.sleep(0.01)
    time.sleep(0.5)
    children = started.children(recursive=True)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does
    _, errors = command.communicate(timeout=120)
    assert (command.returncode, errors) == (130, "")
    assert psutil.wait_procs(children, timeout=20)[1] == []


def hear_interrupts() -> None:
    """A test that was started in the background would hand on that they are ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


TOKENS = {"Ada Lovelace": "ada-has-this-long-token", "Grace": "grace-has-another-token"}


@contextlib.contextmanager
def review(store: Store, certificate: Path, *options: str | Path) -> Iterator[str]:
    """The command over TLS on a free port; its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ksdp", "review", "--store", store.root, "--port", str(port)]
    tls = ["--tls-cert", certificate, "--tls-key", certificate.with_name("key.pem")]
    process = subprocess.Popen([*map(str, [*command, *tls, *options])], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert f"https://127.0.0.1:{port}/" in said
    assert "Traceback" not in said


def browser(base: str, certificate: Path) -> httpx.Client:
    """A client that trusts this certificate alone."""
    context = ssl.create_default_context(cafile=str(certificate))
    return httpx.Client(base_url=base, verify=context, trust_env=False, timeout=20)


def decision(document: str, saw: int = 0) -> dict[str, str]:
    said = {"document": document, "saw": str(saw), "decision": "exclude", "reason": "too much", "back": "/queue"}
    return said | {"reviewer": "Mallory"}


def test_over_tls_with_tokens(own_store: Store, certificate: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    file.write_text("".join(f"{token} {name}\n" for name, token in TOKENS.items()))
    with review(own_store, certificate, "--tokens", file) as base:
        visit, ours = browser(base, certificate), {"Origin": base}
        with pytest.raises(httpx.HTTPError):  # no plain text on this port
            httpx.get(base.replace("https:", "http:"), trust_env=False)
        # Nobody: nothing is shown, and nothing written.
        got = visit.get("/audits/svd-09")
        assert (got.status_code, got.headers["location"]) == (303, "/sign-in?next=/audits/svd-09")
        address = "/audits/svd-09/decisions"
        assert visit.post(address, data=decision("mail-00001"), headers=ours).status_code == 401
        assert visit.post("/sign-in", data={"token": "guess", "next": "/"}, headers=ours).status_code == 403
        # Ada, by the cookie that her token was changed for; Grace by her token.
        got = visit.post(
            "/sign-in", data={"token": TOKENS["Ada Lovelace"], "next": "/audits/svd-09"}, headers=ours
        )
        assert (got.status_code, got.headers["location"]) == (303, "/audits/svd-09")
        cookie = got.headers["set-cookie"]
        assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict"))
        got = visit.get("/audits/svd-09")
        assert "Ada Lovelace" in got.text
        assert got.headers["strict-transport-security"] == "max-age=31536000"
        elsewhere = {"Origin": "https://evil.example"}  # even with the cookie
        assert visit.post(address, data=decision("mail-00001"), headers=elsewhere).status_code == 403
        assert read_log(own_store) == []
        assert visit.post(address, data=decision("mail-00001"), headers=ours).status_code == 303
        bearer = {"Authorization": f"Bearer {TOKENS['Grace']}"}
        with browser(base, certificate) as other:
            got = other.post(address, data=decision("mail-00002"), headers=ours | bearer)
            assert got.status_code == 303
        visit.close()
    entries = [(entry.reviewer, entry.document) for entry in read_log(own_store)]
    assert entries == [("Ada Lovelace", "mail-00001"), ("Grace", "mail-00002")]


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


def test_checking_a_protocol_file_imports_no_neighbour(tmp_path: Path) -> None:
    """Neither the module that it names nor one that stands in for a library's."""
    mark = tmp_path / "was-here"
    evil = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    for name in ("helper", "typer", "numpy", "tomllib", "antigravity"):
        (tmp_path / f"{name}.py").write_text(evil)
    (tmp_path / "protocol.toml").write_text(PROTOCOL.format(mechanism="helper:thing", hash="0" * 64, key="0" * 64))
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


READS = """
import contextlib, io, json, resource, sys, time
from ksdp.cli import main
for path in sys.stdin.read().splitlines():
    sys.argv = ["ksdp", "plan" if path.endswith(".toml") else "init", path]
    began, said = time.process_time(), io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as left:
        lines = said.getvalue().strip().splitlines()
        print(json.dumps([path, left.code, time.process_time() - began, lines]), flush=True)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_a_hostile_file_is_refused_in_seconds(tmp_path: Path) -> None:
    """In a line, or one a fault; seconds are those of the processor, as a machine may be busy."""
    paths = [tmp_path / str(number) / name for number, name in enumerate(FILES)]
    for path in paths:
        path.parent.mkdir()
        FILES[path.name](path)
    done = subprocess.run(
        [sys.executable, "-c", READS],
        input="\n".join(map(str, paths)),
        capture_output=True,
        text=True,
        timeout=30 * len(FILES),
        check=False,
    )
    *refused, memory = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    assert [path for path, *_ in refused] == [*map(str, paths)]
    for name, code, seconds, said in refused:
        is_spec = name.endswith(".toml")
        assert code in (1, 2), said
        assert said[0].startswith(("refused:", "error:"))
        assert len(said) == 1 or (is_spec and len(said) < 25), said[:3]
        assert max(map(len, said)) < 1000
        assert seconds < 30.0, name
        assert is_spec or not Path(name).with_suffix(".toml").exists()
    assert memory < MEMORY
