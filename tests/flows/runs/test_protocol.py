"""Runs of several organisations over real TLS, each in a thread: from their files to the same result."""

import json
import socket
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.mechanisms.schema import final_output
from ksdp.audit.reviewing import CorpusUnits
from ksdp.flows.reviews import decide
from ksdp.flows.runs.budget import RunPrices
from ksdp.flows.runs.party import Node, enter_documents, run_party
from ksdp.flows.runs.protocol_files import Run, read_run
from ksdp.storage.clearances import write_clearance
from ksdp.storage.keys import load_private, make_identity
from ksdp.storage.reviews.decisions import Subject

from ...clearances import SIZES
from ...typed import typed
from .entering import NOW, clearance_of, played, protocol_toml

NAMES = ("ada", "bob", "cyd", "dan", "eve")
TERMS = [f"term{i:02d}" for i in range(14)]
NMF = 'name = "pd-nmf"\nrank = 2\nsweeps = 5\ntolerance = 0.0'
NORMED = 'name = "pd-svd"\nrank = 2\nsolver = "power"\niterations = 2\ntolerance = 0.0'


@dataclass(frozen=True)
class Organisations:
    """Files of several parties in one folder: NAME.key, NAME.pub, NAME.npz, vocabulary.txt."""

    folder: Path
    names: tuple[str, ...]

    def protocol(self, mechanism: str = NMF, server: str = "") -> Path:
        path = self.folder / f"protocol-{len([*self.folder.glob('protocol-*.toml')])}.toml"
        timeouts = "[timeouts]\npresent = 120\nmessage = 60\nreconnect = 1\n[precision]\nbound = 4096.0\n"
        path.write_text(protocol_toml(self.names, mechanism, "vocabulary.txt", timeouts, server=server))
        return path

    def command(self, protocol: Path, name: str, *grounds: str) -> list[str]:
        files = ["--key", str(self.folder / f"{name}.key"), "--corpus", str(self.folder / f"{name}.npz")]
        base = [sys.executable, "-m", "ksdp", "party", str(protocol), "--me", name]
        return [*base, *files, "--out", str(protocol.with_suffix("") / name), *(grounds or ("--uncleared",))]

    def run(self, protocol: Path, **clearances: Path) -> dict[str, Any]:
        """What every party came to, over real TLS in threads; who has no clearance enters all."""
        run = read_run(protocol)
        entered = {
            name: self.enter(run, name, clearance=clearances.get(name), uncleared=name not in clearances)
            for name in self.names
        }
        return played(run, self.folder, protocol.with_suffix(""), entered)

    def database(self, protocol: Path) -> Database:
        read = read_run(protocol)
        return Database(tuple(self.enter(read, name, uncleared=True).corpus.matrix for name in self.names))

    def enter(self, run: Run, name: str, **other: Any) -> Any:
        key = load_private(self.folder / f"{name}.key")
        said = {"clearance": None, "uncleared": False, "identity": key, "now": NOW}
        return enter_documents(run, self.folder / f"{name}.npz", **(said | other))

    def clear(self, run: Run, name: str, ids: list[str], signer: str | None = None, **changes: Any) -> Path:
        whole = self.enter(run, name, uncleared=True).corpus
        mechanism = run.terms.mechanism
        path = self.folder / f"{name}-{len(ids)}.clearance"
        changes = {"expires": datetime(2100, 1, 1, tzinfo=UTC)} | changes
        clearance = clearance_of(whole, mechanism, ids, **changes)
        path.unlink(missing_ok=True)
        write_clearance(path, clearance, load_private(self.folder / f"{signer or name}.key"))
        return path


def organisations(folder: Path, m: int) -> Organisations:
    rng = np.random.default_rng(3)
    for name in NAMES[:m]:
        make_identity(folder, name)
        sp.save_npz(folder / f"{name}.npz", sp.csr_array(rng.poisson(0.8, (12, len(TERMS))).astype(float)))
    (folder / "vocabulary.txt").write_text("\n".join(TERMS) + "\n")
    return Organisations(folder, NAMES[:m])


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Organisations:
    return organisations(tmp_path_factory.mktemp("three"), 3)


def results(protocol: Path, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    folder = protocol.with_suffix("")
    return {name: dict(np.load(folder / name / "result.npz")) for name in names}


def test_the_real_run_announces_what_the_ideal_functionality_does(three: Organisations) -> None:
    """With shares besides sums."""
    protocol = three.protocol(NORMED)
    read, ends = read_run(protocol), three.run(protocol)
    assert all(isinstance(end, dict) for end in ends.values()), ends
    found = results(protocol, three.names)
    ideal = read.terms.mechanism.run(three.database(protocol), np.random.default_rng(0))
    assert set(final_output(read.terms.mechanism, read.terms.features)) <= set(found["ada"])
    for name in set(found["ada"]) & set(ideal):
        assert len({found[party][name].tobytes() for party in three.names}) == 1
        np.testing.assert_allclose(found["ada"][name], ideal[name], rtol=0, atol=1e-6, err_msg=name)


LISTED = ["2", "3", "5", "7", "11"]


@pytest.fixture(scope="module")
def cleared(three: Organisations) -> tuple[Path, dict[str, Path]]:
    """A run in which ada and bob are cleared for some documents, and cyd enters all: (file, clearances)."""
    protocol = three.protocol()
    read = read_run(protocol)
    clearances = {name: three.clear(read, name, LISTED) for name in ("ada", "bob")}
    ends = three.run(protocol, **clearances)
    assert all(isinstance(end, dict) for end in ends.values()), ends
    return protocol, clearances


def test_a_cleared_run_enters_what_is_listed_and_says_who_is_not_cleared(
    three: Organisations, cleared: tuple[Path, dict[str, Path]]
) -> None:
    protocol, clearances = cleared
    read, out = read_run(protocol), protocol.with_suffix("")
    matrices = [
        three.enter(read, name, **({"uncleared": True} if name == "cyd" else {"clearance": clearances[name]}))
        for name in three.names
    ]
    assert [len(entered.corpus) for entered in matrices] == [5, 5, 12]
    ideal = read.terms.mechanism.run(
        Database(tuple(entered.corpus.matrix for entered in matrices)), np.random.default_rng(0)
    )
    np.testing.assert_allclose(results(protocol, ("ada",))["ada"]["T"], ideal["T"], rtol=0, atol=1e-6)
    own = np.load(out / "ada" / "own.npz")
    assert own["ids"].tolist() == LISTED
    assert own["W"].shape == (5, 2)
    for name in three.names:
        about = json.loads((out / name / "run.json").read_text())
        assert {n: said["cleared"] for n, said in about["parties"].items()} == {
            "ada": True,
            "bob": True,
            "cyd": False,
        }
        lines = [json.loads(line) for line in (out / name / "transcript.jsonl").read_text().splitlines()]
        assert lines[0]["uncleared"] is (name == "cyd")
        assert lines[-1]["grounds"]["cyd"] == {"cleared": False, "clearance": None}
        assert lines[-1]["what"] == "done"
        assert sum(line["what"] == "sent" and line["kind"] == "sum" for line in lines) == 2 * about["sums"]


def test_without_a_clearance_nobody_enters_anything_unless_it_is_written_out(three: Organisations) -> None:
    read = read_run(three.protocol())
    with pytest.raises(InputError, match="--uncleared"):
        three.enter(read, "ada")
    with pytest.raises(InputError, match="exclude each other"):
        three.enter(read, "ada", uncleared=True, clearance=Path("x"))
    path = three.clear(read, "ada", ["nobody's"])
    with pytest.raises(ClearanceError, match="lists no document"):
        three.enter(read, "ada", clearance=path)


def test_who_was_excluded_enters_no_run_whatever_is_signed(three: Organisations, tmp_path: Path) -> None:
    read = read_run(three.protocol())
    path = three.clear(read, "ada", ["1", "2", "3"])  # signed before the exclusion
    whole = three.enter(read, "ada", uncleared=True).corpus.hash
    subject = Subject(CorpusUnits(whole, "elsewhere/ada.npz", "document"), {"2", "9"})
    decide(tmp_path / "store", subject, ["2"], "exclude", "objection", "Ana", NOW)
    for grounds in ({"clearance": path}, {"uncleared": True}):
        entered = three.enter(read, "ada", reviews=tmp_path / "store", **grounds)
        assert "2" not in entered.corpus.ids.tolist()
        assert entered.excluded == ("2 without an audit by Ana on 2026-06-01: objection",)
    decide(tmp_path / "store", subject, ["2"], "withdraw", "agreed after all", "Ana", NOW)
    assert len(three.enter(read, "ada", clearance=path, reviews=tmp_path / "store").corpus) == 3
    subject = Subject(CorpusUnits("sha256:another", "elsewhere/ada.npz", "document"), {"2", "9"})
    decide(tmp_path / "store", subject, ["9"], "exclude", "objection", "Ana", NOW)
    with pytest.raises(InputError, match=r"row 9 of .*ada.npz was excluded before the file or its spec changed"):
        three.enter(read, "ada", clearance=path, reviews=tmp_path / "store")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("protocol = 1", "protocol = 2", "`protocol`"),
        ("rank = 2", "rank = 2\nranks = 3", "ranks"),
        ("bound = 4096.0", "bound = 1e300", "needs"),
        ("present = 120", "patience = 120", "timeouts.patience"),
        ("rank = 2", 'rank = 2\nstart = "best-of-m"', "its own topics"),
        ('key = "bob.pub"', 'key = "ada.pub"', "same identity key"),
        ('key = "bob.pub"', 'key = "nobody.pub"', "cannot be read"),
        ('name = "bob"', 'name = "ada"', "must differ from party to party"),
        ('name = "bob"', 'name = "bo b"', "parties.1.name"),
        ('vocabulary = "vocabulary.txt"', 'hash = "sha256:0"', "features.hash"),
        ('vocabulary = "vocabulary.txt"', 'vocabulary = "none.txt"', "none.txt"),
        ("127.0.0.1", "127.0.0.1:", "HOST:PORT"),
        ("127.0.0.1", "::1", "IPv6"),
        ("[features]", '[shares]\ncomputing = ["ada", "bob", "cyd"]\n[features]', "`shares` must be left out"),
    ],
)
def test_a_protocol_file_is_refused_with_its_fault(three: Organisations, old: str, new: str, message: str) -> None:
    path = three.protocol()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        read_run(path)


def test_a_result_is_never_overwritten(three: Organisations, tmp_path: Path) -> None:
    read = read_run(three.protocol())
    (tmp_path / "result.npz").write_bytes(b"")
    entered = three.enter(read, "ada", uncleared=True)
    with pytest.raises(InputError, match="holds the result of a run already"):
        run_party(Node(read, "ada", load_private(three.folder / "ada.key"), tmp_path), entered)
    with pytest.raises(InputError, match="not the one that the protocol file names"):
        run_party(Node(read, "ada", load_private(three.folder / "bob.key"), tmp_path / "new"), entered)
    assert not (tmp_path / "new").exists()


def test_run_checks_the_file_and_says_who_is_there(three: Organisations) -> None:
    protocol = three.protocol()
    with socket.create_server(("127.0.0.1", read_run(protocol).address("bob").port)):
        said = json.loads(typed("run", protocol, "--json", code=0).stdout)
    assert said["absent"] == ["ada", "cyd"]
    assert said["terms"]["mechanism.rank"] == 2


def test_a_clearance_measured_among_others_documents_needs_so_many_of_them(three: Organisations) -> None:
    """The protocol file states the least number of documents of each party, and every party checks its own."""
    protocol = three.protocol()
    said = protocol.read_text()

    def agreed(**least: int) -> Run:
        text = said
        for name, number in least.items():
            text = text.replace(f'name = "{name}"\n', f'name = "{name}"\nenters = {number}\n')
        protocol.write_text(text)
        return read_run(protocol)

    ids = three.enter(agreed(), "ada", uncleared=True).corpus.ids.tolist()
    path = three.clear(agreed(), "ada", ids, sizes=replace(SIZES, honest=20))
    for few in (agreed(), agreed(bob=12), agreed(ada=12, bob=12, cyd=7)):
        with pytest.raises(ClearanceError, match="which hid the party's own") as caught:
            three.enter(few, "ada", clearance=path)
        assert caught.value.failed == "sizes"
    enough = agreed(bob=12, cyd=8)
    assert three.enter(enough, "ada", clearance=path).statement.cleared
    assert enough.terms.digest not in (agreed().terms.digest, agreed(bob=12, cyd=9).terms.digest)
    for grounds in ({"uncleared": True}, {"clearance": path}):
        assert three.enter(agreed(ada=12, bob=12, cyd=8), "ada", **grounds).corpus.ids.tolist() == ids
        with pytest.raises(InputError, match="12 documents of this party enter.* at least 13"):
            three.enter(agreed(ada=13, bob=12, cyd=8), "ada", **grounds)


def test_where_parties_may_leave_a_clearance_holds_by_a_bound_at_every_size(three: Organisations) -> None:
    """What was measured of sums of the same parties says nothing of two sums that one party's share is between."""
    protocol = three.protocol('name = "hardt-roth"\nrank = 2\nepsilon = 0.5\nsampler = "discrete"')
    protocol.write_text(protocol.read_text() + "[leave]\nthreshold = 2\n")
    read = read_run(protocol)
    ids = three.enter(read, "ada", uncleared=True).corpus.ids.tolist()
    measured = three.clear(read, "ada", ids)
    with pytest.raises(ClearanceError, match="two sums differ by what one party entered") as caught:
        three.enter(read, "ada", clearance=measured)
    assert caught.value.failed == "sizes"
    proved = three.clear(read, "ada", ids, sizes=replace(SIZES, every_size=True))
    assert three.enter(read, "ada", clearance=proved).statement.cleared


def test_the_ledger_of_a_run_that_parties_may_leave_states_the_promise_to_those_who_stay(
    three: Organisations,
) -> None:
    """Its noise is enough against more colluders while all are there, and once they have left against none."""
    protocol = three.protocol('name = "fedpower-private"\nrank = 2\nepsilon = 0.5\nsampler = "discrete"')
    fixed = RunPrices(read_run(protocol))
    protocol.write_text(protocol.read_text() + "[leave]\nthreshold = 2\n")
    leaving = RunPrices(read_run(protocol))
    for price in (leaving.worst(12), leaving.final(12, {"sizes": {"ada": 12, "bob": 9, "cyd": 30}})):
        assert price.why == fixed.worst(12).why
        assert "no more than 0 devices" in price.why
        assert price.mu == pytest.approx(fixed.worst(12).mu)
