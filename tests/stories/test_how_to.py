"""The how-to pages, typed as they stand: every fenced command and every block of Python runs."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.noise import Vetted

from ..fences import fences, run_python, type_page
from ..ports import free_ports
from ..scripts import script
from ..servers import own_server

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = script("reference_docs").PAGES["How-to guides"]
NAMES = ("ada", "bob", "cyd")
MAIL = """seed = 7
[corpus]
path = "mail.csv"
id = "mail"
party = "mailbox"
columns = {columns}
weighting = "counts"
[mechanism]
name = "pd-svd"
rank = 2
opens = "final"
[design]
party_size = 0.4
with_runs = 110
[decision]
margin = 0.5
"""
"""Mails of three mailboxes, as six numbers each."""
HALF = 'import pandas as pd; pd.read_parquet(name := "articles.parquet")[::2].to_parquet(name, index=False)'

pytestmark = pytest.mark.e2e


def shell(page: str) -> list[str]:
    return fences(page, "", "sh")


@dataclass(frozen=True)
class Desk:
    """A folder in which somebody types."""

    folder: Path
    environment: Mapping[str, str]

    def type(self, block: str, *others: str) -> str:
        """What a block prints, command by command; `others` are typed at the same time."""
        started = [self._start(each) for each in (block, *others)]
        printed = [process.communicate(timeout=900)[0] for process in started]
        for each, process, said in zip((block, *others), started, printed, strict=True):
            assert process.returncode == 0, (each, said)
        return printed[0]

    def _start(self, block: str) -> subprocess.Popen[str]:
        # 3 and 4 say what an audit found; anything else is a failure.
        checked = "trap 'code=$?; case $code in 3|4) ;; *) exit $code;; esac' ERR\nset -E\n" + block + "\ntrue"
        return subprocess.Popen(
            ["bash", "-c", checked], cwd=self.folder, env=dict(self.environment), text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def serve(self, command: str, until: str) -> None:
        """Start what does not end by itself, wait for its line, and stop it by Ctrl-C."""
        words = ["bash", "-c", f"exec {command}"]
        said: list[str] = []
        with subprocess.Popen(
            words, cwd=self.folder, env=dict(self.environment), text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as process:  # fmt: skip
            assert process.stdout is not None
            reader = threading.Thread(target=lambda lines: said.extend(lines), args=(process.stdout,), daemon=True)
            reader.start()
            ends = time.monotonic() + 120
            while not re.search(until, "".join(said)) and process.poll() is None and time.monotonic() < ends:
                time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            process.wait(timeout=60)
        reader.join(timeout=10)
        assert re.search(until, "".join(said)), (command, "".join(said))


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """With `mail.toml` and `mail.csv` in it."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(990, 2)) @ rng.normal(size=(2, 6)) + rng.normal(scale=0.3, size=(990, 6))
    columns = [f"word{number}" for number in range(6)]
    table = pd.DataFrame(rows.round(3), columns=columns)
    table.insert(0, "mailbox", np.repeat(NAMES, 330))
    table.insert(0, "mail", [f"m{row}" for row in range(len(rows))])
    table.to_csv(tmp_path / "mail.csv", index=False)
    (tmp_path / "mail.toml").write_text(MAIL.format(columns=columns).replace("'", '"'))
    found = {key: value for key, value in os.environ.items() if not key.startswith(("KSDP_STORE", "PREFECT_"))}
    found["PATH"] = f"{Path(sys.executable).parent}:{found['PATH']}"
    return Desk(tmp_path, found | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)})


def test_every_page_with_commands_is_typed_below() -> None:
    typed = re.findall(r'(?:[a-z]+_?[a-z]+)\("(\S+?\.md)"', Path(__file__).read_text(encoding="utf-8"))
    untyped = {"installing.md"}  # it installs ksdp, and removes it
    assert {page for page in HOW_TO if fences(page, "", "sh", "console", "python")} - untyped <= set(typed)


def test_an_audit_on_a_cluster_with_keys(desk: Desk) -> None:
    port, (settings,) = free_ports(1)[0], fences("clusters.md", "yaml")
    make_keys, cluster = (b for b in fences("clusters.md", "") if b.startswith(("openssl", "dask")))
    (desk.folder / "ksdp.yaml").write_text(settings.replace("/opt/ksdp", str(desk.folder)))
    there = Desk(desk.folder, {**desk.environment, "DASK_CONFIG": str(desk.folder / "ksdp.yaml")})
    there.type(make_keys)
    *started, audit = cluster.replace("8786", str(port)).splitlines()
    with contextlib.ExitStack() as stack:
        for command in started:
            process = subprocess.Popen(command.split(), cwd=desk.folder, env=dict(there.environment))
            stack.callback(process.wait, timeout=60)
            stack.callback(process.terminate)
        printed = there.type(f"{audit} --store audits")
    assert "990 documents:" in printed


def test_reviewing_and_screening(desk: Desk) -> None:
    (second, decided), (cleared,) = shell("reviewing.md"), shell("screening.md")
    desk.type("ksdp keys ada && ksdp audit mail.toml --store audits")
    assert "signed:" in desk.type(second + decided)
    (desk.folder / "mail.clearance").unlink()
    assert "signed:" in desk.type(cleared)


def test_scheduling(desk: Desk) -> None:
    type_page("scheduling.md", desk.folder, Path(sys.executable).parent)
    block, signed, desks, other_shell = shell("scheduling.md")
    schedule, serve, review = block.splitlines()
    desk.type(signed + schedule)
    port = str(free_ports(1)[0])
    for name, code in zip(("sink", "block"), fences("scheduling.md", "python"), strict=True):
        (desk.folder / f"{name}.py").write_text(code.replace("8900", port))
    (sink, reminding), (named, made) = desks.splitlines(), other_shell.splitlines()
    waits = f"until [ -s audits/prefect/serving ]; do sleep 1; done\n{named}\nuntil {made}; do sleep 2; done"
    threading.Thread(target=desk.type, args=(waits,), daemon=True).start()
    desk.serve(f"timeout 120 {sink} exec {reminding}", '"event": "ksdp.clearance.expires"')
    desk.serve(review.replace("#", f"--port {free_ports(1)[0]} #"), "http://127.0.0.1:")
    desk.serve(serve, "http://127.0.0.1:")


def test_pipelines_and_results(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (piped, nights, held), asked = shell("ci.md"), "\n".join(shell("results.md"))
    desk.type(piped)
    desk.type(nights)
    (desk.folder / "appetite.toml").write_text(fences("ci.md", "toml")[0])
    assert "undecided: asked a share of at most 0.1" in desk.type(held)
    assert json.loads((desk.folder / "audit.json").read_text())["appetite"]["appetite"]["most_undecided"] == 0.1
    for name, root in {"audit.xml": "testsuites", "audit.sarif": "runs"}.items():
        assert root in (desk.folder / name).read_text()
    desk.type(asked)
    assert len(pd.read_csv(desk.folder / "verdicts.csv")) == 990
    assert json.loads((desk.folder / "audit.json").read_text())["documents"] == 990
    monkeypatch.chdir(desk.folder)
    assert len(run_python("results.md")["found"].verdicts) == 990


def test_estimators() -> None:
    X = np.random.default_rng(3).normal(size=(60, 12))
    run_python("estimators.md", {"X": X, "y": X[:, 0] > 0})


def test_upkeep(desk: Desk) -> None:
    copied, _, pruned = shell("upkeep.md")
    desk.type("ksdp audit mail.toml")
    desk.type(copied)
    desk.type(pruned)


def test_gain_and_levers(desk: Desk, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSDP_DATA", str(data_folder))
    type_page("gain-and-levers.md", desk.folder, Path(sys.executable).parent)
    mail, news = shell("gain-and-levers.md")
    desk.type(mail)
    assert (desk.folder / "mail.advised.toml").is_file()
    first, cd, rest = news.partition("&& cd news\n")
    assert cd
    ports = re.findall(r"127\.0\.0\.1:(\d+)", rest)
    for port, free in zip(ports, free_ports(len(ports)), strict=True):
        rest = rest.replace(port, str(free))
    smaller = "sed -i 's/^with_runs.*/with_runs = 420/' news.toml\n"
    smaller += f"python -c '{HALF}'\n"
    there = Desk(desk.folder, desk.environment | {"KSDP_DATA": str(data_folder)})
    assert "guarantee: epsilon" in there.type(first + cd + smaller + rest)


def test_a_secret_draw_from_keys_to_a_finished_run(tmp_path: Path, data_folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("KSDP_DATA", str(data_folder))
    type_page("noise-and-draw.md", tmp_path, Path(sys.executable).parent)


def test_a_release_that_exists_and_edited_versions(tmp_path: Path) -> None:
    type_page("attacks.md", tmp_path, Path(sys.executable).parent)


def test_python(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(desk.folder)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(100, 12))
    held = rng.random((60, len(X))) < 0.5
    made = pd.DataFrame({"run": range(60), "total": (held @ X).tolist()})
    made.to_parquet("observables.parquet")
    runs, documents = np.nonzero(held)
    pd.DataFrame({"run": runs, "document": documents.astype(str)}).to_parquet("inclusion.parquet")
    pd.read_csv("mail.csv")[::3].to_csv("mail.csv", index=False)  # advice is found among these
    monkeypatch.setattr("ksdp.audit.statistics.simulated.TRAINING_RUNS", 200)
    run_python("python.md", {"X": X, "ids": [str(row) for row in range(len(X))]})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment that names somebody's own Prefect server."""
    with own_server(tmp_path / "prefect") as named:
        yield named


def test_prefect(desk: Desk, server: dict[str, str]) -> None:
    at = Desk(desk.folder, desk.environment | server)
    called, served, project, kept = (
        block.replace("/data/", f"{desk.folder}/") for block in fences("prefect.md", "python", "yaml")
    )
    imports = "\n".join(line for line in called.splitlines() if line.startswith("from "))
    files = {"called.py": called, "served.py": f"{imports}\n{served}", "prefect.yaml": project, "kept.py": kept}
    for name, text in files.items():
        (desk.folder / name).write_text(text)
    deploy, work = shell("prefect.md")
    at.type("python called.py")
    at.serve("python served.py", "being served and polling")
    at.type("ksdp keys ada && python kept.py")
    at.type(deploy)
    worker, asked = work.splitlines()
    at.type(asked)
    at.serve(worker, "Completed|COMPLETED|ksdp-audit")


def prompts(block: str) -> dict[str, list[str]]:
    """Commands by who types them, in order."""
    found: dict[str, list[str]] = {}
    for name, command in re.findall(r"^(\w+)\$ (.*)$", block, re.MULTILINE):
        found.setdefault(name, []).append(command)
    return found


def test_protocol_run(desk: Desk) -> None:
    (spec, *_), ports = fences("protocol-run.md", "toml"), dict(zip(NAMES, free_ports(3), strict=True))
    columns, rng = tomllib.loads(spec)["corpus"]["columns"], np.random.default_rng(2)
    for name in NAMES:
        (desk.folder / name).mkdir()
        table = pd.DataFrame(rng.uniform(1, 9, (300, len(columns))), columns=columns)
        table.to_csv(desk.folder / name / "patients.csv", index_label="patient")
        (desk.folder / name / "patients.toml").write_text(spec)

    def as_typed_by(name: str, who: str, command: str) -> str:
        address = re.sub(r"ksdp\.\w+\.example:7001", f"127.0.0.1:{ports[name]}", command)
        return f"cd {name}\n" + re.sub(rf"\b{who}\b", name, address)

    said, fingerprint = "", ""
    for who, command in re.findall(r"^(ada|bob)\$ (.*)$", "\n".join(shell("protocol-run.md")), re.MULTILINE):
        by_all = re.match("ksdp (clear|party|budget) ", command)
        names = NAMES if by_all else ("ada",) if who == "ada" else NAMES[1:]
        command = command.replace("--accept", f"--accept --fingerprint {fingerprint}")
        said += desk.type(*(as_typed_by(name, who, command) for name in names))
        fingerprint = "".join(re.findall(r"\b(?:[0-9a-f]{4}-){9}[0-9a-f]{4}\b", said)[-1:])
        for giver, taker in itertools.permutations(NAMES, 2):
            if giver in names and (desk.folder / giver / "protocol.toml").exists():
                file = "protocol.toml" if giver == "ada" else f"protocol-{giver}.toml"
                shutil.copy(desk.folder / giver / "protocol.toml", desk.folder / taker / file)
                shutil.copy(desk.folder / giver / f"{giver}.pub", desk.folder / taker)
    assert said.index("signed by all: ada, bob, cyd") < said.index("signed: 300 of 300 documents")
    assert said.index("nothing stands in the way of a run") < said.index("written to result")
    assert "no attack on them has an advantage above 0.500" in said
    features = re.search(r"^hash = .*\ncount = 4\nrows = .*$", said, re.MULTILINE)
    assert features is not None
    assert features[0] in (desk.folder / "cyd" / "protocol.toml").read_text(encoding="utf-8")
    results = {(desk.folder / name / "result" / "result.npz").read_bytes() for name in NAMES}
    assert len(results) == 1
    desk.type(f"cd bob\n{shell('upkeep.md')[1]}")
    assert (
        next((desk.folder / "bob").glob("party-*/bob.ledger")).read_bytes()
        == (desk.folder / "bob/bob.ledger").read_bytes()
    )


def test_pem(desk: Desk) -> None:
    rng = np.random.default_rng(2)
    clients = {f"c{i}": sp.csr_array(np.eye(27)[rng.integers(0, 27, 20)]) for i in range(4)}
    known, records = run_python("pem.md", {"records_by_client": clients}), list(clients.values())
    own = run_ideal(known["ColumnSums"](27), records, known["Budget"](epsilon=1e5, iterations=1), Vetted())
    np.testing.assert_allclose(own.final.arrays["sums"], sum(records).sum(axis=0), atol=1e-3)
    (hosts,) = shell("pem.md")
    asked = prompts(hosts)
    (file,) = (block for block in fences("pem.md", "toml") if block.startswith("pem = 1"))
    names = (*asked, "tom", "una")
    parties = "".join(
        f'[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nkey = "{name}.pub"\n'
        for name, port in zip(names, free_ports(len(names)), strict=True)
    )
    (desk.folder / "protocol.toml").write_text(file.partition("[[parties]]")[0] + parties)
    frame = pd.DataFrame({"age": rng.integers(0, 90, 400), "sex": rng.choice(["Female", "Male"], 400)})
    frame.assign(hospital=np.arange(400) % 120).to_parquet(desk.folder / "patients.parquet")
    desk.type("\n".join(f"ksdp keys {name}" for name in names))
    commands = [command.replace("--out result", f"--out {name}") for name, (command,) in asked.items()]
    commands += [
        asked["sue"][0].replace("sue", name).replace("--out result", f"--out {name}") for name in ("tom", "una")
    ]
    desk.type(*commands)
    results = {(desk.folder / name / "result.npz").read_bytes() for name in names}
    assert len(results) == 1
