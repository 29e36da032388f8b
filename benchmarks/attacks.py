"""Kills at random moments, flipped bits, lies over TLS, files that others can write: what gets lost, or in.

    python -m benchmarks.attacks --minutes 60 --seed 1 --counts counts-1.json [ATTACK ...]
    python -m benchmarks.attacks --table counts-*.json

Every attack takes its turn until the time is over; the counts are written after each, so that a stop loses none.
A try is a process that died of its kill, a flip, or a message that went out wrong. *Lost* is what the same command
does not bring back. *Silent* is a result that differs and no word of it, or a lie that nobody notices.

Processes are forked from this one, which has imported what the commands import and has no threads: they begin
where a command has read its modules, and die of a real SIGKILL.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import json
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property, partial, partialmethod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import psutil
import pyarrow.parquet as pq
import scipy.sparse as sp
from starlette.testclient import TestClient

from benchmarks.protocol_run import NAMES, write_protocol
from ksdp import cli
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.flows.upkeep import damage
from ksdp.protocols.channel.rounds import from_senders
from ksdp.protocols.channel.wire import pack
from ksdp.protocols.network.links import Frame, Kind, Link
from ksdp.protocols.sums.secure_sum import Contribution, SumRounds, tag
from ksdp.storage.clearances import read_clearance
from ksdp.storage.keys import make_identity
from ksdp.storage.store import Store

for name in ("api.calls", "flows.audits.run", "flows.runs.party", "flows.screening.screen"):
    importlib.import_module(f"ksdp.{name}")

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
LIES = ("equivocation", "replay", "reordering", "an older message", "a bit of a message")
IN_A_ROW = 3
"""Kills of one command before it may come to its end."""
FLIPS = 20
LOOKED_AT = 0.1
"""The share of flips that `check` names after which the views are read too."""
NOW = datetime(2031, 1, 1, tzinfo=UTC)
_FORK = multiprocessing.get_context("fork")


class Process:
    """What a forked process does in a folder, in a session of its own."""

    def __init__(self, do: Callable[[], Any], folder: Path) -> None:
        self.folder, (self._here, there) = folder, _FORK.Pipe(duplex=False)
        with tempfile.NamedTemporaryFile(delete=False) as said:
            self._said = Path(said.name)
        self._process = _FORK.Process(target=_do, args=(do, folder, self._said, there))
        self._process.start()
        there.close()

    def killed(self, after: float) -> bool:
        """Whether it died of a kill after so many seconds; it had ended before, if not."""
        self._process.join(after)
        self._process.kill()
        self._process.join()
        return self._process.exitcode == -9

    def wait(self) -> int:
        self._process.join()
        return self._process.exitcode or 0

    def answer(self) -> Any:
        """What it has returned, and what it raised if it did."""
        try:
            good, value = self._here.recv()
        except EOFError:
            raise ChildProcessError(self.said()) from None
        finally:
            self._process.join()
        if good:
            return value
        raise ValueError(value)

    def said(self) -> str:
        return self._said.read_text()

    def over(self) -> bool:
        """Whether all that it has started ends by itself within a minute."""
        self._said.unlink(missing_ok=True)
        for _ in range(120):
            if not _within(self.folder):
                return True
            time.sleep(0.5)
        for left in _within(self.folder):
            left.kill()
        return False


def _do(do: Callable[[], Any], folder: Path, said: Path, there: Any) -> NoReturn:
    os.setsid()
    os.chdir(folder)
    with said.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.stdout, sys.stderr, code = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1), 0
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]  # typed as final
    try:
        there.send((True, do()))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        code = 1
        traceback.print_exc()
        there.send((False, repr(error)))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _within(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


def ksdp(*words: str) -> Callable[[], None]:
    """A command, as a person types it."""

    def typed() -> None:
        sys.modules["__main__"] = importlib.import_module("ksdp.__main__")  # what workers import
        sys.argv = ["ksdp", *words]
        cli.main()

    return typed


AUDIT = ksdp("audit", "../spec.toml", "--store", "store", "--here", "1")
CALENDAR = ("--name", "nightly", "--cron", "* * * * *", "--workers", "1")
SCHEDULE = ksdp("schedule", "../spec.toml", "--store", "store", *CALENDAR)
RUN_NOW, SERVE = ksdp("now", "nightly", "--store", "store"), ksdp("serve", "--store", "store")


def _screen() -> None:
    if not Path("c.json").exists():  # a list that is signed is never replaced
        runpy.run_path("../screen.py", run_name="__main__")


class Attacks:
    """Attacks on stores, schedules and runs, with a count of their outcomes."""

    def __init__(self, folder: Path, seed: int, counts: Path | None = None) -> None:
        self.folder, self.seed, self.rng = folder.resolve(), seed, np.random.default_rng(seed)
        self.counts, self.began = counts, time.time()
        self.tried, self.lost, self.silent, self.crashed = (Counter[str]() for _ in range(4))
        letters = np.array(np.meshgrid(list("bdkm"), list("aeo"), list("rst"))).T.reshape(-1, 3)
        words = ["".join(some) for some in letters]
        with (folder / "mail.jsonl").open("w") as file:
            for number in range(40):
                text = " ".join(np.random.default_rng(number).choice(words, 30))
                file.write(json.dumps({"id": f"m-{number}", "body": text}) + "\n")
        (folder / "spec.toml").write_text(SPEC.format(folder=self.folder))
        (folder / "screen.py").write_text(SCREEN)

    def new(self, name: str) -> Path:
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / name).mkdir()
        make_identity(self.folder / name, "ada")
        return self.folder / name

    def note(
        self, what: str, *, lost: bool = False, silent: bool = False, crashed: str = "", why: str = ""
    ) -> None:
        """Count what came of something, say what is wrong, and write all counts."""
        self.lost[what] += lost
        self.silent[what] += silent
        self.crashed[what] += bool(crashed)
        if lost or silent or crashed:
            print(
                f"{datetime.now(UTC):%H:%M:%S} {what}: {lost=} {silent=} {why}\n{crashed}",
                file=sys.stderr,
                flush=True,
            )
        if self.counts is not None:
            kinds = {"tries": self.tried, "lost": self.lost, "silent": self.silent, "tracebacks": self.crashed}
            about = {"seed": self.seed, "minutes": (time.time() - self.began) / 60, "load": os.getloadavg()[0]}
            self.counts.write_text(json.dumps(about | kinds, indent=1))

    def done(self, do: Callable[[], Any], folder: Path, what: str) -> float:
        """The seconds that it takes; a traceback counts, and what it leaves running."""
        process, began = Process(do, folder), time.monotonic()
        code, seconds, said = process.wait(), time.monotonic() - began, process.said()
        self.note(what, crashed=said if "Traceback" in said or code not in (0, 3, 4) else "")
        self.note(what, crashed="" if process.over() else "processes are left behind")
        return seconds

    def kills(
        self, what: str, do: Callable[[], Any], folder: Path, right: Any, found: Callable[[], Any],
        longest: float, again: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        """Kill it some times in a row, then let the same command come to its end."""
        for _ in range(IN_A_ROW):
            process = Process(do, folder)
            died = process.killed(float(self.rng.uniform(0.0, longest)))
            if not died:
                process.over()
                break
            self.tried[what] += 1
            self.note(what, crashed="" if process.over() else "processes are left behind")
            seen = self._seen(found, folder)
            wrong = [one for one in seen if one not in right] if not isinstance(seen, Exception) else []
            self.note(what, silent=bool(wrong), why=f"after a kill there is {wrong}")
        self.done(again or do, folder, what)
        seen = self._seen(found, folder)
        self.note(what, lost=isinstance(seen, Exception) or list(seen) != list(right), why=f"{seen!r:.2000}")
        damaged = self._seen(lambda: named_in(Store.open(Path("store"), create=False)), folder)
        self.note(what, lost=damaged != [], why=f"damaged: {damaged}")

    @staticmethod
    def _seen(found: Callable[[], Any], folder: Path) -> Any:
        try:
            return Process(found, folder).answer()
        except ValueError as error:
            return error

    @cached_property
    def audited(self) -> tuple[list[str], float]:
        seconds = self.done(AUDIT, self.new("audited"), "audit")
        return _something(Process(verdicts, self.folder / "audited").answer()), seconds

    def kill_audit(self) -> None:
        right, seconds = self.audited
        self.kills("`audit` killed", AUDIT, self.new("audit"), right, verdicts, seconds)

    @cached_property
    def scheduled(self) -> tuple[list[str], float]:
        folder = self.new("scheduled")
        self.done(SCHEDULE, folder, "schedule")
        shutil.copytree(folder, self.new("ran"), dirs_exist_ok=True)
        seconds = self.done(RUN_NOW, self.folder / "ran", "now")
        return _something(Process(verdicts, self.folder / "ran").answer()), seconds

    def _with_schedule(self, name: str) -> tuple[Path, list[str], float]:
        right, seconds = self.scheduled
        shutil.copytree(self.folder / "scheduled", self.new(name), dirs_exist_ok=True)
        return self.folder / name, right, seconds

    def kill_now(self) -> None:
        folder, right, seconds = self._with_schedule("now")
        self.kills("`now` killed", RUN_NOW, folder, right, verdicts, seconds)

    def kill_serve(self) -> None:
        folder, right, seconds = self._with_schedule("serve")
        self.kills("`serve` killed", SERVE, folder, right, verdicts, 1.5 * seconds, RUN_NOW)

    @cached_property
    def cleared(self) -> tuple[list[str], float]:
        seconds = self.done(_screen, self.new("cleared"), "screen")
        return _something(Process(signed, self.folder / "cleared").answer()), seconds

    def kill_screen(self) -> None:
        right, seconds = self.cleared
        folder = self.new("screen")
        self.kills("screening killed", _screen, folder, right, signed, seconds)

    @cached_property
    def whole(self) -> Store:
        """A store of all that a store holds, which no kill has met."""
        folder = self.new("whole")
        for do in (AUDIT, SCHEDULE, RUN_NOW):
            self.done(do, folder, "a store of all")
        store = Store.open(folder / "store", create=False)
        audit = store.audits()[0]
        self.done(_screen, folder, "a store of all")
        for document, decision in (("m-1", "exclude"), ("m-2", "accept"), ("m-3", "exclude"), ("m-3", "withdraw")):
            said = ("--decision", decision, "--reason", "by hand", "--who", "Ada", "--store", "store")
            self.done(ksdp("decide", audit, document, *said), folder, "a store of all")
        return store

    @cached_property
    def views(self) -> dict[str, str]:
        right: dict[str, str] = Process(partial(pages, self.whole), self.folder).answer()
        assert right == Process(partial(pages, self.whole), self.folder).answer()
        assert not any(text.startswith("5") for text in right.values())
        return right

    def flip(self) -> None:
        """Bits of files of a store: `check` names each, or all views are what they were."""
        kinds: dict[str, list[Path]] = {}
        for path in sorted(self.whole.root.rglob("*")):
            kind = path.relative_to(self.whole.root).parts[0]
            if (
                path.is_file()
                and path.stat().st_size
                and "lock" not in path.name
                and kind not in ("prefect", "under-way")
            ):
                kinds.setdefault(kind, []).append(path)
        for _ in range(FLIPS):
            kind = str(self.rng.choice(sorted(kinds)))
            self.flip_in(kinds[kind][self.rng.integers(len(kinds[kind]))], f"a bit flipped in `{kind}`")

    def flip_in(self, path: Path, what: str) -> None:
        content, right = path.read_bytes(), self.views  # read before anything is flipped
        bit = int(self.rng.integers(8 * len(content)))
        self.tried[what] += 1
        path.write_bytes(flipped(content, bit))
        try:
            named = Process(partial(named_in, self.whole), self.folder).answer()
            looks = not named or self.rng.random() < LOOKED_AT
            seen = Process(partial(pages, self.whole), self.folder).answer() if looks else right
        finally:
            path.write_bytes(content)
        other = [address for address, text in right.items() if seen[address] != text]
        where = f"bit {bit} of {path.relative_to(self.whole.root)}"
        self.note(what, silent=bool(other) and not named, why=f"{where}: {other}")
        broken = [address for address in other if "Internal Server Error" in seen[address]]
        self.note(what, crashed=f"{where}: {broken}" if broken else "")
        if named and looks:
            what = "a view of a file that `check` names"
            unsaid = [a for a in other if seen[a].startswith("200") and "damaged" not in seen[a]]
            self.tried[what] += 1
            self.note(what, silent=bool(unsaid), why=f"{where}: {unsaid} {named}")

    def parties(self, out: str, spoilt: str = "", lie: str = "", kill: float = 0.0) -> tuple[dict[str, int], str]:
        """How each party ends, and what became of the one; empty: it did as it should."""
        lied = self.protocol.parent / "lied"
        shutil.rmtree(self.protocol.parent / out, ignore_errors=True)
        lied.unlink(missing_ok=True)
        started, died = {}, ""
        for name in NAMES:
            words = ("--me", name, "--key", f"{name}.key", "--corpus", f"{name}.npz", "--uncleared", "--out")
            do = ksdp("party", str(self.protocol), *words, f"{out}/{name}")
            if lie and name == spoilt:
                do = partial(_lying, lie, do)
            started[name] = Process(do, self.protocol.parent)
        if kill:
            died = "killed" * started[spoilt].killed(kill)
        codes = {name: process.wait() for name, process in started.items()}
        for process in started.values():
            said = process.said()
            self.note("parties", crashed=said if "Traceback" in said else "")
            process.over()
        return codes, died or (lied.read_text() if lied.exists() else "")

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
        limits = "[precision]\nbound = 4096.0\n[timeouts]\npresent = 20\nmessage = 15\nreconnect = 3\n"
        path.write_text(path.read_text() + limits)
        return path

    @cached_property
    def result(self) -> tuple[set[str], float]:
        began = time.monotonic()
        assert set(self.parties("right")[0].values()) == {0}
        return self.results("right"), time.monotonic() - began

    def results(self, out: str, but: str = "") -> set[str]:
        files = (self.protocol.parent / out).glob("*/run.json")
        return {json.loads(file.read_text())["result"] for file in files if file.parent.name != but}

    def _ledgers(self, what: str) -> None:
        """Each can be read; then they begin anew: five aborted runs are all that one allows."""
        for ledger in self.protocol.parent.glob("*.ledger"):
            self.done(ksdp("budget", ledger.name), self.protocol.parent, what)
            ledger.unlink()

    def kill_party(self) -> None:
        (right, seconds), name, what = self.result, str(self.rng.choice(NAMES)), "a party killed"
        for _ in range(IN_A_ROW):
            _, died = self.parties("killed", name, kill=float(self.rng.uniform(0.05, seconds)))
            self.tried[what] += bool(died)
            self.note(what, silent=not self.results("killed") <= right)
        codes, _ = self.parties("killed")
        self._ledgers(what)
        self.note(what, lost=set(codes.values()) != {0} or self.results("killed") != right, why=str(codes))

    def lie(self) -> None:
        (right, _), name = self.result, str(self.rng.choice(NAMES))
        lie = min(LIES, key=lambda one: (self.tried[f"{one} over TLS"], self.rng.random()))
        codes, did = self.parties("lying", name, f"{lie}:{self.rng.integers(1, 30)}:{self.rng.integers(1 << 20)}")
        self.tried[f"{lie} over TLS"] += bool(did)
        self._ledgers(f"{lie} over TLS")
        noticed = any(code for party, code in codes.items() if party != name)
        wrong = not self.results("lying", but=name) <= right
        harmless = lie == "a bit of a message"  # that of a tag which somebody else looks at
        silent = bool(did) and (wrong or not (noticed or harmless))
        self.note(f"{lie} over TLS", silent=silent, why=f"{codes} {wrong=} {did}")

    def plant(self) -> None:
        """An entry point in the folder of a call; compiled kernels that others can write."""
        folder = self.new("plant")
        mark, what = folder / "ran", "an entry point in the folder of a call"
        about = folder / "evil-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        groups = "".join(
            f"[ksdp.{group}]\nevil = evil:Evil\n" for group in ("mechanisms", "statistics", "commands")
        )
        (about / "entry_points.txt").write_text(groups)
        (folder / "evil.py").write_text(f"open({str(mark)!r}, 'w')\n")
        for words in (["mechanisms"], ["-h"], ["plan", "../spec.toml"]):
            subprocess.run([sys.executable, "-m", "ksdp", *words], cwd=folder, capture_output=True, check=False)
            self.tried[what] += 1
            self.note(what, silent=mark.exists())
            mark.unlink(missing_ok=True)
        command = [sys.executable, "-m", "ksdp", "audit", "../spec.toml", "--store", "store", "--here", "1"]
        for how, spoil in SPOILT_CACHES.items():
            what = f"NUMBA_CACHE_DIR {how}"
            shutil.rmtree(folder / "cache", ignore_errors=True)
            environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
            subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True)
            for index in (folder / "cache").rglob("*.nbi"):
                index.write_bytes(f"cbuiltins\nopen\n(V{mark}\nVw\ntR.".encode())  # a pickle that opens a file
            spoil(folder / "cache")
            shutil.rmtree(folder / "store", ignore_errors=True)
            subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True)
            self.tried[what] += 1
            self.note(what, silent=mark.exists())
            mark.unlink(missing_ok=True)


def _something(right: list[str]) -> list[str]:
    assert right  # what has nothing cannot lose it
    return right


def _all_files(mode: int, folder: Path) -> None:
    for path in folder.rglob("*"):
        path.chmod(path.stat().st_mode | mode)


def _given_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)


SPOILT_CACHES: dict[str, Callable[[Path], Any]] = {
    "that others write": lambda folder: folder.chmod(0o777),
    "whose files others write": partial(_all_files, 0o022),
}
if os.getuid() == 0:
    SPOILT_CACHES["of somebody else"] = _given_away


def flipped(content: bytes, bit: int) -> bytes:
    """The same, but for one bit."""
    other = bytearray(content)
    other[bit // 8] ^= 1 << bit % 8
    return bytes(other)


def verdicts() -> list[str]:
    """The tables of all audits of `store` as text, so that NaN is equal to NaN, the oldest first."""
    store = Store.open(Path("store"), create=False)
    tables = (store.audit(audit) / "verdicts.parquet" for audit in reversed(store.audits()))
    return [repr(pq.read_table(table).to_pydict()) for table in tables]


def signed() -> list[str]:
    """The documents that `c.json` lists."""
    return list(read_clearance(Path("c.json")).documents)


def pages(store: Store) -> dict[str, str]:
    """What the dashboard shows of a store: status and text by address."""
    app = create_app(
        store,
        actions=Actions(clock=lambda: NOW),
        source=LocalReviewer("Ada"),
        origins=frozenset({"http://127.0.0.1"}),
    )
    visitor = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    got = {address: visitor.get(address) for address in addresses(store)}
    return {address: f"{answer.status_code} {answer.text}" for address, answer in got.items()}


def addresses(store: Store) -> Iterable[str]:
    """Those of all views; of the folders that are there, whatever has become of the ledger."""
    yield from ("/", "/audits", "/queue", "/screens", "/schedules", "/runs", "/log")
    audits = sorted(path.name for path in store.root.glob("audits/*/"))
    yield f"/compare?a={audits[0]}&b={audits[-1]}"
    for audit in audits:
        yield from (f"/audits/{audit}", f"/audits/{audit}/report.html", f"/audits/{audit}/more-runs")
        yield from (f"/audits/{audit}/document?id=m-{number}" for number in (1, 2, 3))
    for screen in sorted(store.root.glob("screens/*.json")):
        yield from (f"/screens/{screen.stem}", f"/screens/{screen.stem}/report.html")


def named_in(store: Store) -> list[str]:
    """What `check` names."""
    return [one.where for one in damage(store)]


def _lying(lie: str, party: Callable[[], None]) -> None:
    """A party that sends one peer one wrong message over its real connection."""
    how, at, byte = lie.split(":")
    if how == "equivocation":
        SumRounds.total = partialmethod(_two_totals, int(at))  # type: ignore[assignment]  # a lie
        return party()
    send, before, kept = Link.send, dict[Link, bytes](), list[Frame]()

    async def meddled(link: Link, payload: bytes) -> None:
        number, mine, older = link._next, link.peer == min(set(NAMES) - {link.own}), before.get(link, b"")
        before[link] = payload
        write = link._write
        if not mine or number < int(at) or Path("lied").exists():
            await send(link, payload)
        elif how == "reordering":
            await _reordered(link, send, payload, kept)
        elif how == "replay":
            await send(link, payload)
            Path("lied").write_text("sent twice")
            await write(Frame(Kind.DATA, number, link._received, payload))
        else:
            other = older if how == "an older message" else flipped(payload, int(byte) % (8 * len(payload) or 1))
            if other != payload:
                Path("lied").write_text(
                    f"message {number} to {link.peer}: {payload[-8:]!r} of {len(payload)} bytes"
                )
            await send(link, other)

    Link.send = meddled  # type: ignore[method-assign, assignment]  # a lie
    party()


def _two_totals(sums: SumRounds, at: int, share: Any) -> Generator[Any, Any, Any]:
    """One vector for one party and another for the rest, each with its true tag."""
    number, peers, party = sums.taken, sums._peers, sums._party
    said = [party.contribute(share, sums._coding)] * len(peers)
    if number == at:
        Path("lied").write_text(f"sum {at} to {peers[0]}")
        payload = flipped(bytes(said[0].payload), 20)
        tags = tuple((n, tag(k, at, said[0].header(), payload)) for n, k in party._send_keys.items())
        said[0] = replace(said[0], payload=payload, tags=tags)
    bodies = {to: pack("summed", sums._heard, one.to_bytes()) for to, one in zip(peers, said, strict=True)}
    arrived = yield from sums._engine.exchange("sum", bodies, peers)
    total = party.combine(from_senders(sums._opened(arrived), Contribution.from_bytes))
    sums._heard = hashlib.sha256(pack("heard", sums._heard, total.astype("<f8").tobytes())).digest()
    return total


async def _reordered(link: Link, send: Any, payload: bytes, kept: list[Frame]) -> None:
    """Hold one message back, and send it after the next."""
    if not kept:
        kept.append(Frame(Kind.DATA, link._next, link._received, payload))
        link._next += 1
        return
    Path("lied").write_text("reordered")
    await send(link, payload)
    await link._write(kept[0])


WAYS = ("plant", "flip", "kill_audit", "lie", "kill_screen", "kill_party", "flip", "kill_now", "lie", "kill_serve")


def table(files: Iterable[Path]) -> str:
    """The table of SECURITY.md: the sum of all counts."""
    kinds = ("tries", "lost", "silent", "tracebacks")
    counts = {kind: Counter[str]() for kind in kinds}
    for file in files:
        for kind in kinds:
            counts[kind].update(json.loads(file.read_text())[kind])
    rows = sorted({what for kind in kinds for what, count in counts[kind].items() if count or kind == "tries"})
    lines = [f"| {what} | {' | '.join(str(counts[kind][what]) for kind in kinds)} |" for what in rows]
    return "\n".join([f"| attack | {' | '.join(kinds)} |", "|---|---|---|---|---|", *lines])


def main() -> None:
    """Attack until the time is over, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--counts", type=Path, default=Path("counts.json"))
    parser.add_argument("--table", type=Path, nargs="+")
    parser.add_argument("attacks", nargs="*", choices=[*WAYS, []])
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        attacks, ways = Attacks(Path(folder), asked.seed, asked.counts), asked.attacks or WAYS
        turn = 0
        while not asked.table and time.time() < attacks.began + 60.0 * asked.minutes:
            way = ways[turn % len(ways)]
            if way != "plant" or turn < len(ways):
                with contextlib.suppress(AssertionError):  # there is nothing right yet, and a note says why
                    getattr(attacks, way)()
            turn += 1
    print(table(asked.table or [asked.counts]))


if __name__ == "__main__":
    main()
