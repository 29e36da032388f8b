"""Kills at random moments, flipped bits, lies over TLS, files that others can write: what gets lost, or in.

    python -m benchmarks.attacks --minutes 60 --seed 1 [ATTACK ...]

Every attack takes its turn until the time is over; then the table of SECURITY.md is printed. *Lost* is what the
same command does not bring back. *Silent* is a flip or a lie after which somebody reads another result and no word
of it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import scipy.sparse as sp
from starlette.testclient import TestClient

from benchmarks import ROOT
from benchmarks.protocol_run import NAMES, write_protocol
from ksdp.audit.errors import KsdpError
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.flows.runs import party
from ksdp.flows.upkeep import damage
from ksdp.protocols.network.mesh import run_over_mesh
from ksdp.storage.clearances import read_clearance
from ksdp.storage.keys import make_identity
from ksdp.storage.store import Store

KSDP = (sys.executable, "-m", "ksdp")
SPEC = """corpus = {{ path = "{folder}/mail.jsonl", text = "body", id = "id" }}
mechanism = {{ name = "pd-svd", rank = 2 }}
design = {{ party_size = 0.3, with_runs = 100 }}
statistics = {{ families = ["paper"] }}
seed = 22
"""
SCREEN = """
import numpy as np, ksdp
def mean(rows, rng):
    return {"mean": ksdp.noise(rows.mean(axis=0), rng, scale=5.0)}
if __name__ == "__main__":
    data = np.vstack([np.random.default_rng(0).normal(size=(23, 3)), np.full((1, 3), 2000.0)])
    ksdp.clear(data, mean, version=1, clearance="c.json", key="ada.key", who="Ada", store="store",
               party_size=0.5, with_runs=150, margin=0.7, fresh_runs=0, seed=1)
"""
LIES = ("equivocation", "replay", "reordering")


class Attacks:
    """Attacks on stores, schedules and runs, with a count of their outcomes."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, np.random.default_rng(seed)
        self.tried, self.lost, self.silent = Counter[str](), Counter[str](), Counter[str]()
        words = [
            "".join(p) for p in np.array(np.meshgrid(list("bdkm"), list("aeo"), list("rst"))).T.reshape(-1, 3)
        ]
        with (folder / "mail.jsonl").open("w") as file:
            for number in range(60):
                text = " ".join(np.random.default_rng(number).choice(words, 30))
                file.write(json.dumps({"id": f"m-{number}", "body": text}) + "\n")
        (folder / "spec.toml").write_text(SPEC.format(folder=folder))
        (folder / "screen.py").write_text(SCREEN)

    def new(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / name).mkdir()
        make_identity(self.folder / name, "ada")
        return self.folder / name

    def killed(self, command: list[str], cwd: Path, longest: float) -> None:
        process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(float(self.rng.uniform(0.2, longest)))
        process.kill()
        process.wait()

    def brought_back(self, what: str, command: list[str], cwd: Path, found: Callable[[], Any], right: Any) -> None:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        self.tried[what] += 1
        try:
            self.lost[what] += found() != right
        except (KsdpError, OSError, IndexError):
            self.lost[what] += 1
        wrong = [one.where for one in damage(Store.open(cwd / "store", create=False))]
        wrong += [line for line in done.stderr.splitlines() if line.startswith("Traceback")]
        self.silent[what] += bool(wrong)
        print(*([what, *wrong, "\n"] if wrong else []), end="", file=sys.stderr)

    @cached_property
    def whole(self) -> tuple[Path, float]:
        folder, began = self.new("whole"), time.monotonic()
        subprocess.run(self.audit, cwd=folder, check=False, capture_output=True)
        seconds = time.monotonic() - began
        for command in (self.schedule, self.now):
            subprocess.run(command, cwd=folder, check=False, capture_output=True)
        return folder, seconds

    audit: ClassVar = [*KSDP, "audit", "../spec.toml", "--store", "store", "--here", "1"]
    schedule: ClassVar = [
        *KSDP, "schedule", "../spec.toml", "--store", "store", "--name", "nightly", "--cron", "0 3 * * *"
    ]  # fmt: skip
    now: ClassVar = [*KSDP, "now", "nightly", "--store", "store"]
    serve: ClassVar = [*KSDP, "serve", "--store", "store"]

    def kill_audit(self) -> None:
        folder, right = self.new("audit"), verdicts(self.whole[0] / "store")[:1]
        self.killed(self.audit, folder, self.whole[1])
        self.brought_back("audit killed", self.audit, folder, lambda: verdicts(folder / "store"), right)

    @cached_property
    def scheduled(self) -> list[str]:
        folder = self.new("scheduled")
        for command in (self.schedule, self.now):
            subprocess.run(command, cwd=folder, check=False, capture_output=True)
        return verdicts(folder / "store")

    def kill_now(self) -> None:
        folder, right = self.new("now"), self.scheduled
        subprocess.run(self.schedule, cwd=folder, check=False, capture_output=True)
        self.killed(self.now, folder, 3 * self.whole[1])
        self.brought_back("now killed", self.now, folder, lambda: verdicts(folder / "store")[-1:], right)

    def kill_serve(self) -> None:
        folder = self.new("serve")
        shutil.copytree(self.whole[0] / "store", folder / "store")
        right = verdicts(folder / "store")
        self.killed(self.serve, folder, 15.0)
        check = [*KSDP, "check", "--store", "store"]
        self.brought_back("serve killed", check, folder, lambda: verdicts(folder / "store"), right)

    @cached_property
    def cleared(self) -> tuple[tuple[str, ...], float]:
        folder, began = self.new("cleared"), time.monotonic()
        subprocess.run([sys.executable, "../screen.py"], cwd=folder, check=True, capture_output=True)
        return self.signed(folder), time.monotonic() - began

    @staticmethod
    def signed(folder: Path) -> tuple[str, ...]:
        return tuple(read_clearance(folder / "c.json").documents)

    def kill_screen(self) -> None:
        folder, (right, seconds), command = self.new("screen"), self.cleared, [sys.executable, "../screen.py"]
        self.killed(command, folder, seconds)
        if not (folder / "c.json").exists():
            self.brought_back("screen killed", command, folder, partial(self.signed, folder), right)

    def flip(self) -> None:
        """One bit of a file of a store: `check` names it, or all pages are what they were."""
        store = Store.open(self.whole[0] / "store", create=False)
        skipped = ("prefect", "lock", "under-way")
        files = [
            p for p in sorted(store.root.rglob("*")) if p.is_file() and p.stat().st_size and "lock" not in p.name
        ]
        files = [p for p in files if p.relative_to(store.root).parts[0] not in skipped]
        right = pages(store)
        for path in self.rng.choice(np.array(files, dtype=object), 10):
            content, bit = path.read_bytes(), int(self.rng.integers(8 * path.stat().st_size))
            flipped = bytearray(content)
            flipped[bit // 8] ^= 1 << bit % 8
            what = f"flip in {path.relative_to(store.root).parts[0]}"
            self.tried[what] += 1
            path.write_bytes(flipped)
            try:
                self.silent[what] += not damage(store) and pages(store) != right
            except KsdpError:
                pass
            finally:
                path.write_bytes(content)

    def parties(self, out: str, spoilt: str = "", lie: str = "", after: float = 0.0) -> dict[str, int]:
        with tempfile.TemporaryDirectory() as said:
            started = {}
            for name in NAMES:
                begin = (
                    [sys.executable, "-m", "benchmarks.attacks", "--lie", lie] if lie and name == spoilt else KSDP
                )
                about = ["--me", name, "--key", f"{name}.key", "--corpus", f"{name}.npz", "--uncleared", "--out"]
                with (Path(said) / name).open("w") as file:
                    command = [*begin, "party", str(self.protocol), *about, f"{out}/{name}"]
                    here = {"cwd": self.protocol.parent, "env": os.environ | {"PYTHONPATH": str(ROOT)}}
                    started[name] = subprocess.Popen(command, stdout=file, stderr=file, **here)  # type: ignore[call-overload]
            if after:
                time.sleep(after)
                started[spoilt].kill()
            codes = {name: process.wait() for name, process in started.items()}
            for name in NAMES:
                self.silent["tracebacks of parties"] += "Traceback" in (Path(said) / name).read_text()
        return codes

    @cached_property
    def protocol(self) -> Path:
        folder = self.new("parties")
        for name in NAMES[1:]:
            make_identity(folder, name)
        for at, name in enumerate(NAMES):
            counts = np.random.default_rng(at).integers(0, 3, (40, 12)) + np.eye(40, 12)
            sp.save_npz(folder / f"{name}.npz", sp.csr_array(counts))
        (folder / "vocabulary.txt").write_text("".join(f"term{at}\n" for at in range(12)))
        path = write_protocol(folder, "pd-nmf", "rank = 3\nsweeps = 10\ntolerance = 0.0", NAMES)
        path.write_text(
            path.read_text()
            + "[precision]\nbound = 4096.0\n[timeouts]\npresent = 60\nmessage = 30\nreconnect = 5\n"
        )
        return path

    @cached_property
    def result(self) -> set[str]:
        assert set(self.parties("whole").values()) == {0}
        return self.results("whole")

    def results(self, out: str) -> set[str]:
        files = (self.protocol.parent / out).glob("*/run.json")
        return {json.loads(file.read_text())["result"] for file in files}

    def kill_party(self) -> None:
        right, name = self.result, str(self.rng.choice(NAMES))
        shutil.rmtree(self.protocol.parent / "killed", ignore_errors=True)
        self.parties("killed", name, after=float(self.rng.uniform(0.5, 12.0)))
        self.tried["party killed"] += 1
        self.silent["party killed"] += not self.results("killed") <= right
        shutil.rmtree(self.protocol.parent / "killed", ignore_errors=True)
        self.lost["party killed"] += set(self.parties("killed").values()) != {0} or self.results("killed") != right

    def lie(self) -> None:
        right, name, lie = self.result, str(self.rng.choice(NAMES)), str(self.rng.choice(LIES))
        shutil.rmtree(self.protocol.parent / "lied", ignore_errors=True)
        self.parties("lied", name, f"{lie}:{self.rng.integers(2, 60)}")
        shutil.rmtree(self.protocol.parent / "lied" / name, ignore_errors=True)
        self.tried[f"{lie} over TLS"] += 1
        self.silent[f"{lie} over TLS"] += not self.results("lied") <= right

    def plant(self) -> None:
        folder = self.new("plant")
        mark, environment = folder / "ran", dict(os.environ)
        (folder / "evil-1.0.dist-info").mkdir()
        (folder / "evil-1.0.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n"
        )
        (folder / "evil-1.0.dist-info" / "entry_points.txt").write_text("[ksdp.mechanisms]\nevil = evil:Evil\n")
        (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
        subprocess.run([*KSDP, "mechanisms"], cwd=folder, capture_output=True, check=False)
        self.tried["entry point in the folder of a call"] += 1
        self.silent["entry point in the folder of a call"] += mark.exists()
        mark.unlink(missing_ok=True)
        environment["NUMBA_CACHE_DIR"] = str(folder / "cache")
        subprocess.run(self.audit, cwd=folder, env=environment, check=False, capture_output=True)
        for index in (folder / "cache").rglob("*.nbi"):
            index.write_bytes(f"cbuiltins\nopen\n(V{mark}\nVw\ntR.".encode())  # a pickle that opens a file
        (folder / "cache").chmod(0o777)
        shutil.rmtree(folder / "store")
        subprocess.run(self.audit, cwd=folder, env=environment, check=False, capture_output=True)
        self.tried["NUMBA_CACHE_DIR that others write"] += 1
        self.silent["NUMBA_CACHE_DIR that others write"] += mark.exists()


def verdicts(store: Path) -> list[str]:
    """The tables of all audits as text, so that NaN is equal to NaN, in the order in which they were made."""
    audits = reversed(Store.open(store, create=False).audits())
    return [repr(pq.read_table(store / "audits" / audit / "verdicts.parquet").to_pydict()) for audit in audits]


def pages(store: Store) -> dict[str, str]:
    """What the dashboard shows of a store."""
    actions, ada = Actions(clock=lambda: datetime.now(UTC)), LocalReviewer("Ada")
    app = create_app(store, actions=actions, source=ada, origins=frozenset({"http://127.0.0.1"}))
    visitor = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    addresses = ["/audits", "/queue", "/schedules", *(f"/audits/{audit}" for audit in store.audits())]
    return {address: visitor.get(address).text for address in addresses}


def lying(lie: str) -> None:
    """Replace one message of this party, over its real connections."""
    how, at = lie.split(":")

    def meddled(rounds: Any) -> Generator[Any, Any, Any]:
        before, number, step = dict[str, bytes](), 0, next(rounds)
        while True:
            said, peers = dict(step.messages), sorted(step.messages)
            if number == int(at):
                message = said[peers[0]]
                other = {
                    "equivocation": message[:-1] + bytes([message[-1] ^ 1]),
                    "replay": before.get(peers[0], b""),
                }
                said[peers[0]] = other.get(how, said[peers[-1]])
            before, number = dict(step.messages), number + 1
            arrived = yield replace(step, messages=said)
            try:
                step = rounds.send(arrived)
            except StopIteration as end:
                return end.value

    vars(party)["run_over_mesh"] = lambda rounds, mesh, **more: run_over_mesh(meddled(rounds), mesh, **more)


def main() -> None:
    """Attack until the time is over, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("attacks", nargs="*")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        attacks = Attacks(Path(folder), asked.seed)
        ways = [
            "plant",
            "flip",
            "kill_audit",
            "lie",
            "kill_screen",
            "kill_party",
            "flip",
            "kill_now",
            "kill_serve",
        ]
        until, turn = time.monotonic() + 60.0 * asked.minutes, 0
        with contextlib.suppress(KeyboardInterrupt):
            while time.monotonic() < until:
                way = (asked.attacks or ways)[turn % len(asked.attacks or ways)]
                if way != "plant" or not turn:
                    getattr(attacks, way)()
                turn += 1
        print("| attack | tries | lost | silent |\n|---|---|---|---|")
        for what in sorted(attacks.tried):
            print(f"| {what} | {attacks.tried[what]} | {attacks.lost[what]} | {attacks.silent[what]} |")
        print(f"tracebacks of parties: {attacks.silent['tracebacks of parties']}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--lie"]:
        lying(sys.argv[2])
        sys.argv = ["ksdp", *sys.argv[3:]]
        from ksdp.cli import main
    main()
