"""PEM between hosts: real sockets, real TLS; what comes out, who may be missing, and what ends a run."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.noise import Budget, Vetted
from ksdp.extras.pem.hosts import PemPrices, hold_records, run_pem_host
from ksdp.extras.pem.records import load_functions
from ksdp.flows.runs.budget import entries
from ksdp.flows.runs.party import Node, RunLog, check_peers
from ksdp.protocols.network.mesh import Mesh
from ksdp.storage.keys import load_private
from ksdp.storage.runs.ledger import Ledger

from ...typed import typed
from .hosts_here import Hosts
from .own_functions import OWN

CERTAIN = "epsilon = 1e5"
"""So much that noise is 0 but with probability 1e-20."""


def test_hosts_come_to_the_ideal_result(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, budget=CERTAIN).write()
    ends = hosts.play()
    for name, end in ends.items():
        assert isinstance(end, dict), (name, end)
    records = [part for name in hosts.holders for part in hosts.held(name).clients.values()]
    ideal = run_ideal(hosts.read("hub").spec.functions(None, ""), records, Budget(1e5, 3), Vetted(), noises=2)
    for name in hosts.names:
        found = np.load(tmp_path / "out" / name / "result.npz")
        np.testing.assert_array_equal(found["centres"], ideal.final.arrays["centres"])
    assert {end["result"] for end in ends.values()} == {ends["hub"]["result"]}
    assert len({end["session"] for end in ends.values()}) == 1
    assert ends["hub"]["records"] == [60, 60, 60]
    assert ends["hub"]["clients"] == ends["hub"]["present"] == 6
    assert ends["ada"]["own_clients"] == 3
    assert "OpenDP" in ends["sue"]["sampler"]
    said = (tmp_path / "out" / "ada" / "transcript.jsonl").read_text()
    assert {"greeting", "uploads", "roster"} <= {json.loads(line).get("kind") for line in said.splitlines()}


def test_a_host_that_does_not_come_is_left_out_and_a_server_is_not(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, timeouts="present = 1.5\nmessage = 20\nreconnect = 1").write()
    ends = hosts.play(absent=("bob",))
    assert ends["hub"]["records"] == [30, 30, 30]
    assert ends["hub"]["lost"] == ["bob"]
    (tmp_path / "b").mkdir()
    ends = Hosts(tmp_path / "b", timeouts="present = 1.5\nmessage = 20\nreconnect = 1").write().play(("tom",))
    assert all(isinstance(end, ProtocolError) for end in ends.values())
    assert "tom" in str(ends["hub"])


class Gone(RunLog):
    """The process is gone in the middle of the second iteration."""

    def note(self, what: str, peer: str = "", **more: Any) -> None:
        super().note(what, peer, **more)
        if what == "sent" and more["kind"] == self.kind and more["round"] >= self.round:
            raise RuntimeError("gone")

    kind, round = "", 7


@pytest.mark.parametrize(("lost", "kind"), [("bob", "uploads"), ("tom", "present"), ("hub", "state")])
def test_who_disappears_in_the_middle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str, kind: str
) -> None:
    """A host with clients is out, and the rest goes on; a server or the aggregator ends the run by its name."""
    hosts = Hosts(tmp_path, timeouts="present = 60\nmessage = 60\nreconnect = 0.3").write()
    told, log = Mesh.abort, Gone()
    log.kind = kind

    async def abort(mesh: Mesh, word: str, who: str = "") -> None:
        if mesh.own != lost:
            await told(mesh, word, who)

    monkeypatch.setattr(Mesh, "abort", abort)
    ends = hosts.play(watches={lost: log})
    assert isinstance(ends.pop(lost), RuntimeError)
    if lost == "bob":
        assert ends["hub"]["lost"] == ["bob"]
        assert ends["hub"]["records"] == [60, 30, 30]
        assert {end["result"] for end in ends.values()} == {ends["hub"]["result"]}
        return
    for who, end in ends.items():
        assert isinstance(end, ProtocolError), (who, end)
        assert lost in str(end), (who, str(end))
        assert not (tmp_path / "out" / who / "result.npz").exists()


def test_a_host_that_says_nothing_is_given_up_after_its_patience(tmp_path: Path) -> None:
    class Late(RunLog):
        def note(self, what: str, peer: str = "", **more: Any) -> None:
            super().note(what, peer, **more)
            if (what, more.get("kind"), peer) == ("sent", "uploads", "ada"):
                time.sleep(6)

    hosts = Hosts(tmp_path, run="rows = 40\npatience = 2").write()
    ends = hosts.play(watches={"bob": Late()})
    assert ends["hub"]["lost"] == ["bob"]
    assert ends["hub"]["records"] == [30, 30, 30]
    assert "bob" in str(ends["bob"])


def test_the_ledger_counts_an_attempt_that_is_lost_and_no_attempt_before_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is written down before the first share leaves, and stays at its highest price."""
    hosts = Hosts(tmp_path, timeouts="present = 60\nmessage = 60\nreconnect = 0.3").write()
    for name, kind, counted in (("one", "state", 0), ("two", "present", 1)):
        log, ledger = Gone(), tmp_path / f"{name}.ledger"
        log.kind, log.round = kind, 2 if kind == "state" else 4
        ends = hosts.play(watches={"hub" if kind == "state" else "tom": log}, ledger=ledger, out=name)
        assert isinstance(ends["ada"], ProtocolError), ends["ada"]
        runs = entries(Ledger(ledger))
        assert [run.finished for run in runs] == [False] * counted
        assert [run.price for run in runs] == [PemPrices(hosts.read("ada").spec).worst(30)] * counted


def test_functions_of_ones_own_must_be_the_same_at_all(tmp_path: Path) -> None:
    (tmp_path / "column_sums_of_hosts.py").write_text(OWN)
    own = load_functions("column_sums_of_hosts:ColumnSums", tmp_path)
    said = f'name = "own"\niterations = 1\nsays = {json.dumps(repr(own.algorithm))}\ncode = "{own.code}"'
    hosts = Hosts(tmp_path, algorithm=said, budget=CERTAIN).write()
    ends = hosts.play(own=own.algorithm, code=own.code)
    sums = np.load(tmp_path / "out" / "bob" / "result.npz")["sums"]
    held = sum(part.sum(axis=0) for name in hosts.holders for part in hosts.held(name).clients.values())
    np.testing.assert_array_equal(sums, held)
    assert ends["sue"]["iterations"] == 1
    with pytest.raises(SpecError, match="are not those that the protocol file means"):
        hosts.read("ada").spec.functions(own.algorithm, "sha256:" + 64 * "0")
    with pytest.raises(SpecError, match="go together"):
        hosts.read("ada").spec.functions(None, "")
    with pytest.raises(SpecError, match="must be module:object"):
        load_functions("os.system", tmp_path)
    with pytest.raises(SpecError, match="must have"):
        load_functions("json:dumps", tmp_path)


def test_what_does_not_fit_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path, run="rows = 5").write()
    with pytest.raises(InputError, match="`--data` must name"):
        hold_records(hosts.read("ada"), None, None, None)
    sue = Node(hosts.read("sue"), "sue", load_private(tmp_path / "sue.key"), tmp_path / "out")
    with pytest.raises(InputError, match="sue is a server"):
        run_pem_host(sue, records=hosts.held("ada", clients=10))


def checking(hosts: Hosts, me: str = "ada", **changes: Any) -> Any:
    given = {"key": hosts.folder / f"{me}.key", "check": 0}
    given |= {"data": hosts.folder / f"{me}.csv", "client": "ward"} if me in hosts.holders else {}
    options = [
        part for name, value in (given | changes).items() if value is not None for part in (f"--{name}", value)
    ]
    return typed("pem", hosts.folder / f"{me}.toml", "--me", me, *options, "--out", hosts.folder / "out")


@pytest.mark.parametrize(
    ("change", "me", "given", "said"),
    [
        ('aggregator = "hub"|aggregator = "ann"', "ada", {}, "must list ann"),
        ("bob.pub|none.pub", "ada", {}, "none.pub"),
        ("rows = 40|rows = 2", "ada", {}, "allows 2"),
        ("|", "ada", {"key": "bob.key"}, "it is that of bob"),
        ("|", "ada", {"clients": 3}, "exclude each other"),
        ("|", "sue", {"data": "ada.csv"}, "holds no clients"),
        ("epsilon = 50.0|epsilon = 90.0", "ada", {}, "beyond the budget"),
    ],
)
def test_the_check_refuses_what_a_run_would(
    tmp_path: Path, change: str, me: str, given: dict[str, Any], said: str
) -> None:
    hosts = Hosts(tmp_path, changed={me: change}).write()
    (tmp_path / "ada.budget.toml").write_text("[budget]\nepsilon = 60.0\n")
    files = {name: tmp_path / value if name in ("key", "data") else value for name, value in given.items()}
    with pytest.raises(InputError, match=said):
        checking(hosts, me, **files)


def test_hosts_that_are_right_find_nothing_and_an_absent_one_is_named(tmp_path: Path) -> None:
    hosts = Hosts(tmp_path).write()
    ends: dict[str, dict[str, str]] = {}

    def go(name: str) -> None:
        node = Node(hosts.read(name), name, load_private(tmp_path / f"{name}.key"), tmp_path / "out")
        ends[name] = check_peers(node, 20.0)

    threads = [threading.Thread(target=go, args=(name,)) for name in hosts.names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {name: set(end.values()) for name, end in ends.items()} == {name: {""} for name in hosts.names}
    done = checking(hosts)
    assert done.exit_code == 1
    assert "30 records of 3 clients enter" in done.stderr
    assert "4 to mend" in done.stdout
