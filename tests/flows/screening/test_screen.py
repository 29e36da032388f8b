"""Screening: a second layer that the first one hides, and data that no exclusion helps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.specs.models import parse_spec
from ksdp.flows.audits.place import HERE
from ksdp.flows.screening.clear import Signing, clearance_from_decisions, verify
from ksdp.flows.screening.screen import Rules, screen
from ksdp.storage.audits.screens import read_excluded, read_screen
from ksdp.storage.clearances import read_clearance, verify_clearance
from ksdp.storage.keys import load_private, load_public, make_identity
from ksdp.storage.store import Store

from ..overlap import OVERLAP

NOW = datetime(2026, 3, 1, tzinfo=UTC)

MODULE = (
    '''
"""Column sums, rounded to a part of the largest: what is big hides what is small. And means under fixed noise."""
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from ksdp.audit.contract import Observables, Release

def total(database):
    return np.asarray(sum(part.sum(axis=0) for part in database.parties)).ravel()

@dataclass(frozen=True)
class Masking:
    name: ClassVar[str] = "masking"
    version: ClassVar[int] = 1
    noise: float = 0.02

    def releases(self, features):
        return (Release("total", (features,)),)

    def run(self, database, rng):
        sums = total(database)
        return Observables({"total": sums + self.noise * sums.max() * rng.standard_normal(len(sums))})

@dataclass(frozen=True)
class Fading(Masking):
    name: ClassVar[str] = "fading"
    noise: float = 0.5 / 16

    def run(self, database, rng):
        sums = total(database) / database.rows
        return Observables({"total": sums + self.noise * rng.standard_normal(len(sums))})
'''
    + OVERLAP
)

SIGNING = ("who", "now", "expires", "salted", "list_excluded")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with the module and the reviewer's keys."""
    (tmp_path / "leaky.py").write_text(MODULE)
    make_identity(tmp_path, "ana")
    return tmp_path


@pytest.fixture
def call(base: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Screen with the module where it is found."""
    monkeypatch.syspath_prepend(base)

    def run(spec: dict[str, Any], **arguments: Any) -> dict[str, Any]:
        said = {name: arguments.pop(name) for name in SIGNING if name in arguments}
        (base / "clearance.json").unlink(missing_ok=True)  # what is signed is never replaced
        signing = Signing(base / "clearance.json", load_private(base / "ana.key"), **said)
        rules = {name: arguments.pop(name) for name in ("rounds", "proof") if name in arguments}
        if arguments.pop("allow_undecided", False):
            rules["allowed"] = ("clear", "undecided")
        found = screen(parse_spec(spec), base, base / "store", signing, Rules(**rules), HERE, **arguments)
        return found.to_json()

    return run


def layers(loud: float = 1000.0) -> np.ndarray:
    """120 documents: 20 with a loud column of their own, 6 with a quiet one, the rest all alike.

    With a loud one in (all but 1 % of databases of 24), the noise is 20; without, it is 0.5.
    """
    matrix = np.zeros((120, 27))
    matrix[:, 26] = 1.0
    matrix[range(26), range(26)] = [loud] * 20 + [6.0] * 6
    return matrix


def spec(mechanism: str, **design: Any) -> dict[str, Any]:
    return {
        "seed": 5,
        "corpus": {"path": "counts.npz", "weighting": "counts"},
        "mechanism": {"name": f"leaky:{mechanism}"},
        "design": {"party_size": 0.2, "with_runs": 60} | design,
        "statistics": {"families": [], "names": ["leaky:OVERLAP"]},
        "decision": {"margin": 0.5},
    }


SIGNED: dict[str, Any] = {"who": "Ana Lytic", "now": NOW, "expires": NOW + timedelta(days=30)}


def test_the_second_layer_is_found_and_the_clearance_holds_neither(
    base: Path, call: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers()))
    asked = spec("Masking")
    found = call(asked, rounds=4, **SIGNED)
    assert (found["outcome"], found["helps"]) == ("cleared", True), found["reason"]
    assert [about["verdicts"]["sensitive"] for about in found["rounds"]] == [20, 6, 0]
    assert [about["documents"] for about in found["rounds"]] == [120, 100, 94]
    assert len({about["seed"] for about in found["rounds"]}) == 3
    assert sum(about["level"] for about in found["rounds"]) < 0.05
    assert found["quality"] is None
    assert (found["exact"], found["beside"], found["why_beside"]) == (True, 0, None)
    assert [about["proof"] for about in found["rounds"]] == [False] * 3
    assert found["rounds"][0]["largest_D"] > 0.9 > 0.5 > found["rounds"][2]["largest_D"]
    assert found["statement"] == read_clearance(base / "clearance.json").statement
    page = Path(found["report"])
    assert page.parent == base / "store" / "screens"
    assert f"<td>{found['rounds'][1]['documents']}</td>" in page.read_text()

    store = Store.open(base / "store", create=False)
    excluded = read_excluded(store, found["screen"]).to_pandas()
    by_round = {int(number): sorted(map(int, rows["document"])) for number, rows in excluded.groupby("round")}
    assert by_round == {1: list(range(1, 21)), 2: list(range(21, 27))}  # ids count from 1
    assert read_screen(store, found["screen"]).to_json() == found

    path, public = base / "clearance.json", load_public(base / "ana.pub")
    cleared = verify_clearance(path, now=NOW, public_key=public, corpus_hash=found["corpus"]).clearance
    assert cleared.audits == tuple(about["audit"] for about in found["rounds"])
    assert (cleared.sensitive, cleared.excluded, cleared.left_out, cleared.allowed) == (26, 0, None, ("clear",))
    assert len(cleared.documents) == cleared.verdicts["clear"] == found["allowed"] == 94
    assert not cleared.allows(excluded["document"]).any()

    # The party's own check, from spec and corpus; other data or another spec is refused.
    monkeypatch.syspath_prepend(base)
    about = verify(path, now=NOW, public_key=public, spec=parse_spec(asked), base=base)
    assert (about["allowed"], about["of"]) == (94, 120)
    with pytest.raises(ClearanceError, match="another spec"):
        verify(path, now=NOW, spec=parse_spec(asked | {"seed": 6}), base=base)
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers() * 2))
    with pytest.raises(ClearanceError, match="another corpus"):
        verify(path, now=NOW, spec=parse_spec(asked), base=base)
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers()))

    # No run would take a clearance of a round, be it of a part of the corpus or at a part of the level.
    signing = Signing(base / "round.json", load_private(base / "ana.key"), **SIGNED)
    for about in (found["rounds"][0], found["rounds"][2]):
        with pytest.raises(
            InputError, match=f"round {about['round']} of screen {found['screen']}.*`ksdp screen"
        ) as no:
            clearance_from_decisions(base / "store", about["audit"], signing)
        assert f"It signed {path}." in str(no.value)
    (base / "store" / "screens" / f"{found['screen']}.json").rename(base / "set-aside.json")  # as if it was killed
    with pytest.raises(InputError, match="a round of a screen, or one .* not finished: .*`ksdp screen"):
        clearance_from_decisions(base / "store", found["rounds"][1]["audit"], signing)
    assert not (base / "round.json").exists()

    # The same call reads every round; hashes instead of ids, and the exclusions named.
    again = call(asked, rounds=4, salted=True, list_excluded=True, **SIGNED)
    assert again["screen"] == found["screen"]
    assert all(about["cached_runs"] == about["runs"] for about in again["rounds"])
    salted = read_clearance(path)
    assert not set(salted.documents) & set(cleared.documents)
    ids = [str(row) for row in range(1, 121)]
    assert (salted.allows(ids) == cleared.allows(ids)).all()
    assert salted.left_out == tuple(sorted(excluded["document"]))


def test_where_everything_stands_out_it_says_so(base: Path, call: Callable[..., dict[str, Any]]) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.eye(120)))
    asked = spec("Fading", party_size=8, with_runs=80)
    found = call(asked, **SIGNED)
    assert (found["outcome"], found["helps"], len(found["rounds"])) == ("hopeless", False, 1)
    assert "does not help" in found["reason"]
    assert found["clearance"] is None
    assert not (base / "clearance.json").exists()

    page = Path(found["report"]).read_text()
    assert "<code>ksdp advise</code>" in page
    assert "No clearance was written." in page


def test_documents_that_others_hid_are_found_when_the_listed_ones_are_audited_alone(
    base: Path, call: Callable[..., dict[str, Any]]
) -> None:
    """Only 45 documents are named; the 20 loud ones beside them, never audited, hide 6 of these."""
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers(2e4)))
    named = [str(row) for row in range(21, 66)]  # the quiet ones are 21 to 26
    asked = spec("Masking", party_size=20, documents=named, with_runs=80)

    # Without the proof, the hidden ones are cleared and the clearance says what was beside them.
    hasty = call(asked, proof=False, **SIGNED)
    assert (hasty["exact"], hasty["allowed"], hasty["beside"]) == (False, 45, 75)
    assert "also held 75 documents that are not listed" in read_clearance(base / "clearance.json").statement

    found = call(asked, **SIGNED)
    assert found["outcome"] == "cleared", found["reason"]
    seen = [
        (about["proof"], about["among"], about["documents"], about["verdicts"]["sensitive"])
        for about in found["rounds"]
    ]
    assert seen == [(False, 120, 45, 0), (True, 45, 45, 6), (True, 39, 39, 0)]
    assert (found["exact"], found["allowed"], found["excluded"]) == (True, 39, 6)
    cleared = read_clearance(base / "clearance.json")
    assert sorted(map(int, cleared.documents)) == list(range(27, 66))
    assert "from the listed documents and from no others" in cleared.statement
    levels = [about["level"] for about in found["rounds"]]
    assert sum(levels) < 0.05
    assert len({about["seed"] for about in found["rounds"]}) == 3

    # What was proved there is not forgotten because of other rules, which make another attempt.
    hasty = call(asked, proof=False, **SIGNED)
    assert [about["audit"] for about in hasty["rounds"]] == [found["rounds"][0]["audit"]]
    assert (hasty["exact"], hasty["allowed"], hasty["beside"]) == (False, 39, 81)
    cleared = read_clearance(base / "clearance.json")
    assert sorted(map(int, cleared.documents)) == list(range(27, 66))
    assert "was asked 2 times" in cleared.statement
    # The screen itself says the same again.
    assert call(asked, **SIGNED)["rounds"] == [about | {"cached_runs": about["runs"]} for about in found["rounds"]]

    # Ten are fewer than the 20 of the audited databases: they are audited in smaller ones.
    few = call(asked | {"design": asked["design"] | {"documents": named[6:16]}}, **SIGNED)
    assert (few["outcome"], few["exact"], len(few["rounds"])) == ("cleared", False, 2)
    assert [about["rows"] for about in few["rounds"]] == [20, 8]
    assert few["why_beside"] == "10 listed documents are too few for databases of 8 (at least 14 are needed)"
    assert read_clearance(base / "clearance.json").sizes.size == few["party_rows"] == 8
    assert few["why_beside"] in read_clearance(base / "clearance.json").statement
    assert few["why_beside"] in Path(few["report"]).read_text()


def test_undecided_ones_are_taken_out_until_all_that_was_audited_together_is_clear(
    base: Path, call: Callable[..., dict[str, Any]]
) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.ones((40, 27))))  # nothing leaks; the margin is close
    found = call(spec("Masking") | {"decision": {"margin": 0.36}}, **SIGNED)
    first, last = found["rounds"][0], found["rounds"][-1]
    before, after = first["verdicts"], last["verdicts"]
    assert (before["sensitive"], before["undecided"] > 0, first["proof"]) == (0, True, False)
    assert (after["undecided"], last["proof"]) == (0, True)
    among = [about["among"] for about in found["rounds"]]
    assert among[1:] == [about["verdicts"]["clear"] for about in found["rounds"][:-1]]
    assert (found["outcome"], found["exact"], found["allowed"]) == ("cleared", True, after["clear"])
    assert found["reason"].endswith("It audited the listed documents by themselves.")


def test_undecided_documents_are_listed_only_if_the_reviewer_says_so(
    base: Path, call: Callable[..., dict[str, Any]]
) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.ones((40, 27))))  # all alike: nothing leaks
    asked = spec("Masking", with_runs=20) | {"decision": {"margin": 0.1}}
    found = call(asked, **SIGNED)
    assert (found["outcome"], found["helps"], found["allowed"]) == ("nothing-proved", None, 0)
    assert "40 documents are undecided" in found["reason"]
    assert not (base / "clearance.json").exists()
    # Of a margin that these runs could not find, undecided says nothing.
    with pytest.raises(InputError, match="only where these runs find a leak of `decision.margin`"):
        call(asked, allow_undecided=True, **SIGNED)
    allowed = call(asked | {"decision": {"margin": 0.6}}, allow_undecided=True, **SIGNED)
    assert (allowed["outcome"], allowed["allowed"]) == ("cleared", 40)
    cleared = read_clearance(base / "clearance.json")
    assert cleared.verdicts["sensitive"] == 0
    assert 0 < cleared.verdicts["undecided"] == 40 - cleared.verdicts["clear"]
    assert cleared.allowed == ("clear", "undecided")
    assert "nothing is proved of them" in cleared.statement


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, {"who": " "}, "`who` must say"),
        ({}, {"expires": NOW}, "later than now"),
        ({}, {"now": NOW.replace(tzinfo=None)}, "time zone"),
        ({}, {"rounds": 0}, "`rounds` must be at least 1"),
        ({}, {"most": 0.0}, "`most` must be in"),
        ({"documents": 5}, {}, "`design.documents` must name ids"),
        ({"party_size": 12}, {}, "`design.party_size`"),
    ],
)
def test_what_cannot_be_screened_is_refused_before_anything_is_written(
    base: Path, monkeypatch: pytest.MonkeyPatch, changes: dict, arguments: dict, message: str
) -> None:
    arguments = dict(arguments)
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.ones((12, 27))))
    monkeypatch.syspath_prepend(base)
    key = load_private(base / "ana.key")
    rules = {name: arguments.pop(name) for name in ("rounds", "most") if name in arguments}
    said = {"who": "Ana", "now": NOW, "expires": NOW + timedelta(days=1)} | arguments
    signing = Signing(base / "c.json", key, **said)
    with pytest.raises(InputError, match=message):
        screen(parse_spec(spec("Masking", **changes)), base, base / "store", signing, Rules(**rules))
    assert not (base / "store").exists()


def test_a_file_that_is_there_is_not_overwritten(base: Path) -> None:
    (base / "counts.json").write_text("mine")
    signing = Signing(base / "counts.json", load_private(base / "ana.key"), "Ana", NOW, NOW + timedelta(days=1))
    with pytest.raises(InputError, match="exists, and is never replaced"):
        screen(parse_spec(spec("Masking")), base, base / "store", signing)
    assert (base / "counts.json").read_text() == "mine"
