"""A list is audited by itself before it is signed: a second layer that the first one hid is left out."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import ClearanceError, DamagedFile, InputError
from ksdp.audit.reviewing import CorpusUnits
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.verdicts.verdict import Verdict
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.interruption import listening
from ksdp.flows.prepare import open_spec
from ksdp.flows.screening.clear import ClearRules, Signing, audit_and_clear, clear, verify
from ksdp.flows.upkeep import damage
from ksdp.storage.audits.history import find_audit, read_history, signable_among
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.audits.screens import read_left_out, read_screen
from ksdp.storage.clearances import read_clearance, verify_clearance
from ksdp.storage.codec import write_table_with_checksum
from ksdp.storage.findings import read_verdicts, verdict_ids
from ksdp.storage.keys import load_private, load_public, make_identity
from ksdp.storage.reviews.decisions import Decision, Proposal, Subject, append, read_log
from ksdp.storage.store import Store

from ...typed import typed
from ..overlap import OVERLAP

NOW = datetime(2026, 3, 1, tzinfo=UTC)

MODULE = (
    '''
"""Column sums, rounded to a part of the largest: what is big hides what is small. And means under fixed noise."""
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import ksdp
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
        return Observables({"total": ksdp.noise(sums, rng, scale=self.noise * sums.max())})

@dataclass(frozen=True)
class Fading(Masking):
    name: ClassVar[str] = "fading"
    noise: float = 0.5 / 16

    def run(self, database, rng):
        sums = total(database) / database.rows
        return Observables({"total": ksdp.noise(sums, rng, scale=self.noise)})
'''
    + OVERLAP
)

SIGNED: dict[str, Any] = {"who": "Ana Lytic", "now": NOW, "expires": NOW + timedelta(days=30)}


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module, where it is found, and the reviewer's keys."""
    (tmp_path / "leaky.py").write_text(MODULE)
    make_identity(tmp_path, "ana")
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def signing(base: Path, **changes: Any) -> Signing:
    (base / "clearance.json").unlink(missing_ok=True)  # what is signed is never replaced
    return Signing(base / "clearance.json", load_private(base / "ana.key"), **SIGNED | changes)


def cleared(base: Path, spec: dict[str, Any], **rules: Any) -> dict[str, Any]:
    done = audit_and_clear(
        open_spec(parse_spec(spec), base), base / "store", signing(base), ClearRules(**rules), HERE
    )
    return done.to_json()


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


OBJECTIONS = ("90", "100", "110")


class Objection:
    """People have their documents excluded while the list is audited by itself."""

    def __init__(self, store: Path, units: CorpusUnits) -> None:
        self.store, self.subject = store, Subject(units, OBJECTIONS)

    def stage(self, name: str, total: int) -> None: ...
    def advance(self, units: int) -> None: ...

    def say(self, text: str) -> None:
        if text.startswith("round 1:") and not read_log(Store.open(self.store)):
            proposals = [Proposal("", name, Decision.EXCLUDE, "objection", "Ana") for name in OBJECTIONS]
            append(Store.open(self.store), proposals, NOW, subject=self.subject)


def test_an_objection_during_the_audit_of_a_list_is_not_signed_past(base: Path) -> None:
    """The list without the document is another one, which nobody has audited."""
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers()))
    units = CorpusUnits(open_spec(parse_spec(spec("Masking")), base).corpus.hash, "counts.npz", "document")
    with listening(Objection(base / "store", units)), pytest.raises(InputError, match="was excluded while"):
        cleared(base, spec("Masking"))
    assert not (base / "clearance.json").exists()
    found = cleared(base, spec("Masking"))
    signed = read_clearance(base / "clearance.json")
    assert not {*OBJECTIONS} & {*signed.documents}
    assert len(signed.documents) == found["rounds"][-1]["documents"] == signed.verdicts["clear"]


def test_the_second_layer_is_found_and_the_clearance_holds_neither(base: Path) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers()))
    asked = spec("Masking")
    found = cleared(base, asked)
    assert found["outcome"] == "signed", found["reason"]
    assert [about["verdicts"]["sensitive"] for about in found["rounds"]] == [20, 6, 0]
    assert [about["documents"] for about in found["rounds"]] == [120, 100, 88]
    assert [about["rows"] for about in found["rounds"]] == [24, 20, 18]
    assert len({about["seed"] for about in found["rounds"]}) == 3
    assert [about["level"] for about in found["rounds"]] == [0.05, 0.025, 0.0125]
    assert (found["proposed"], found["left_out"], found["allowed"]) == (100, 12, 88)
    assert found["rounds"][0]["largest_D"] > 0.9 > 0.5 > found["rounds"][2]["largest_D"]
    assert found["statement"] == read_clearance(base / "clearance.json").statement
    assert "An audit of exactly these proved 88 of them clear" in found["statement"]
    page = Path(found["report"])
    assert page.parent == base / "store" / "screens"
    assert f"<td>{found['rounds'][1]['documents']}</td>" in page.read_text()

    store = Store.open(base / "store", create=False)
    out = read_left_out(store, found["screen"]).to_pandas()
    assert set(range(21, 27)) <= set(map(int, out["document"]))
    assert set(out["verdict"]) == {"sensitive", "clear"}
    assert read_screen(store, found["screen"]).to_json() == found

    path, public = base / "clearance.json", load_public(base / "ana.pub")
    signed = verify_clearance(path, now=NOW, public_key=public, corpus_hash=found["corpus"]).clearance
    assert signed.audits == tuple(about["audit"] for about in found["rounds"])
    assert (signed.sensitive, signed.excluded) == (26, 0)
    assert len(signed.documents) == signed.verdicts["clear"] == 88
    assert (signed.sizes.size, signed.evidence.attempts.attempts) == (18, 2)

    # The party's own check, from spec and corpus; other data or another spec is refused.
    about = verify(path, now=NOW, public_key=public, against=open_spec(parse_spec(asked), base))
    assert (about["allowed"], about["of"]) == (88, 120)
    with pytest.raises(ClearanceError, match="another spec"):
        verify(path, now=NOW, against=open_spec(parse_spec(asked | {"seed": 6}), base))
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers() * 2))
    with pytest.raises(ClearanceError, match="another corpus"):
        verify(path, now=NOW, against=open_spec(parse_spec(asked), base))
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers()))

    # People meet the audit that the signature rests on; the round before it is nobody's `latest`.
    first, second, last = (about["audit"] for about in found["rounds"])
    signable = signable_among(read_ledger(store), read_history(store).audits)
    assert [entry.audit for entry in signable] == [last, first]
    assert find_audit(store, "latest") == last

    # The same call reads every round; from any of them the same list is signed.
    for again in (cleared(base, asked), clear(base / "store", second, signing(base), place=HERE).to_json()):
        assert [about["audit"] for about in again["rounds"]] == [first, second, last]
        assert all(about["cached_runs"] == about["runs"] for about in again["rounds"][1:])
        assert read_clearance(path).documents == signed.documents


def test_where_everything_stands_out_there_is_nothing_to_sign(base: Path) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.eye(40)))
    with pytest.raises(InputError, match="nothing to sign"):
        cleared(base, spec("Fading", party_size=8, with_runs=20))
    assert not (base / "clearance.json").exists()


def test_documents_that_others_hid_are_found_when_the_listed_ones_are_audited_alone(base: Path) -> None:
    """Only 45 documents are named; the 20 loud ones beside them, never audited, hide 6 of these."""
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers(2e4)))
    named = [str(row) for row in range(21, 66)]  # the quiet ones are 21 to 26
    asked = spec("Masking", party_size=20, documents=named, with_runs=50)
    short = cleared(base, asked, rounds=1)
    assert (short["outcome"], short["allowed"], short["clearance"]) == ("out-of-rounds", 0, None)
    assert "33 documents are left that no audit has proved by themselves" in short["reason"]
    assert not (base / "clearance.json").exists()
    assert "No clearance was written." in Path(short["report"]).read_text()
    store = Store.open(base / "store", create=False)
    assert find_audit(store, "latest") == short["rounds"][0]["audit"], "rounds that signed nothing are no audit"

    found = cleared(base, asked)
    assert found["outcome"] == "signed", found["reason"]
    seen = [(about["among"], about["documents"], about["verdicts"]["sensitive"]) for about in found["rounds"]]
    assert seen == [(120, 45, 0), (45, 45, 6), (33, 33, 0)]
    assert found["rounds"][1] == short["rounds"][1] | {"cached_runs": short["rounds"][1]["runs"]}
    signed = read_clearance(base / "clearance.json")
    assert len(signed.documents) == 33
    assert set(map(int, signed.documents)) <= set(range(27, 66))

    # Whoever picks documents has just these audited.
    few = cleared(base, asked, only=named[6:36])
    assert [about["documents"] for about in few["rounds"]] == [45, 30]
    assert read_clearance(base / "clearance.json").documents == tuple(sorted(named[6:36]))
    assert "15 not picked" in few["statement"]


def test_undecided_ones_are_left_out_until_all_that_is_listed_is_clear(base: Path) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.ones((40, 27))))  # nothing leaks; the margin is close
    found = cleared(base, spec("Masking") | {"decision": {"margin": 0.34}})
    first, *rounds = found["rounds"]
    assert first["verdicts"]["sensitive"] == 0 < first["verdicts"]["undecided"]
    assert rounds[0]["among"] == first["verdicts"]["clear"]
    for before, after in pairwise(rounds):  # as many of the clear ones leave as were not clear
        assert after["among"] == before["verdicts"]["clear"] - before["verdicts"]["undecided"]
    assert len(rounds) > 1
    assert rounds[-1]["verdicts"]["undecided"] == 0
    assert (found["outcome"], found["allowed"]) == ("signed", rounds[-1]["verdicts"]["clear"])


def test_what_is_all_clear_is_signed_as_it_is(base: Path) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.ones((40, 27))))
    found = cleared(base, spec("Masking", party_size=0.5, with_runs=150))
    assert (found["outcome"], found["allowed"], len(found["rounds"])) == ("signed", 40, 1)
    assert found["reason"] == "The audit's databases were drawn from exactly the listed documents."


@pytest.mark.parametrize("others", ["honest", "coalition"])
def test_other_parties_documents_stand_in_the_audit_of_the_list(base: Path, others: str) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.vstack([layers(), layers()[:, :]])))
    asked = spec("Masking", party_size=0.1, with_runs=30) | {"parties": {others: 40}, "decision": {"margin": 0.6}}
    found = cleared(base, asked)
    first, *rounds = found["rounds"]
    assert first["among"] == 200
    assert rounds
    assert rounds[0]["documents"] == first["verdicts"]["clear"] == rounds[0]["among"]
    if found["clearance"]:
        sizes = read_clearance(base / "clearance.json").sizes
        assert (sizes.honest, sizes.coalition) == ((40, 0) if others == "honest" else (0, 40))


def test_a_verdict_that_does_not_follow_from_its_p_is_not_signed(base: Path) -> None:
    """A sensitive row is rewritten as clear, with new checksums: the p-values give it away."""
    sp.save_npz(base / "counts.npz", sp.csr_matrix(layers()))
    found = run_audit(open_spec(parse_spec(spec("Masking")), base), base / "store", HERE)
    store = Store.open(base / "store", create=False)
    folder = store.audit(found.audit)
    rows = read_verdicts(folder)
    place = rows["document"].to_pylist().index(verdict_ids(rows, [Verdict.SENSITIVE])[0])
    words = rows["verdict"].to_pylist()
    words[place] = "clear"
    forged = rows.set_column(rows.schema.get_field_index("verdict"), "verdict", [words])
    write_table_with_checksum(folder / "verdicts.parquet", forged)
    with pytest.raises(DamagedFile, match="does not follow from its own p-values: document"):
        clear(base / "store", folder.name, signing(base))
    assert [one.where for one in damage(store)] == [f"audits/{folder.name}/verdicts.parquet"]
    said = typed("verify", base / "store", code=1)
    assert "does not follow from its own p-values" in said.stderr


def test_what_cannot_be_signed_is_refused_before_anything_is_written(base: Path) -> None:
    sp.save_npz(base / "counts.npz", sp.csr_matrix(np.ones((12, 27))))
    with pytest.raises(InputError, match="`who` must say"):
        audit_and_clear(open_spec(parse_spec(spec("Masking")), base), base / "store", signing(base, who=" "))
    assert not (base / "store").exists()


def test_rounds_are_at_least_one() -> None:
    with pytest.raises(InputError, match="`rounds` must be at least 1"):
        ClearRules(rounds=0)
