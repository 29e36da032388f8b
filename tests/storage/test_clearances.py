"""A clearance is refused for exactly what is wrong with it, and no byte of it changes unnoticed."""

import hashlib
import json
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import ClearanceError, InputError, KsdpError
from ksdp.audit.screening.clearance import Covered, MechanismIdentity, Reviewed
from ksdp.storage.clearances import check_sizes, read_clearance, signed, verify_clearance, write_clearance
from ksdp.storage.keys import fingerprint

from ..clearances import EVIDENCE, MECHANISM, NOW, SIZES, clearance

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clearance") / "clearance.json"
    write_clearance(path, clearance(), KEY)
    return path


def failed(path: Path, **checks: Any) -> str:
    with pytest.raises(ClearanceError) as refused:
        verify_clearance(path, **{"now": NOW} | checks)
    assert isinstance(refused.value, KsdpError)
    return refused.value.failed


def test_a_run_that_shows_more_than_was_looked_at_is_refused(tmp_path: Path) -> None:
    looked = Covered("every round", ("V", "span"))
    path = tmp_path / "clearance.json"
    write_clearance(path, clearance(coverage=looked), KEY)
    verified = verify_clearance(path, now=NOW, opened=("V", "span"))
    assert verified.clearance.coverage == looked
    assert verified.checked[-1] == "coverage"
    assert verify_clearance(path, now=NOW, opened=("V",)).clearance == read_clearance(path)
    with pytest.raises(
        ClearanceError, match="a run shows iterations, span_sigma, which its audits did not look at"
    ):
        verify_clearance(path, now=NOW, opened=("V", "span", "span_sigma", "iterations"))
    assert failed(path, opened=("V", "sigma")) == "coverage"


@pytest.mark.parametrize("unit", ["document", "group"])
def test_a_run_below_the_audited_sizes_is_refused_unless_a_bound_holds_at_every_size(unit: str) -> None:
    sizes = replace(SIZES, unit=unit, size=95, parties=3)
    path = Path("mail.clearance")
    for entering, parties in ((95, 3), (96, 4), (95, None)):
        check_sizes(path, clearance(sizes=sizes), entering, parties)
    with pytest.raises(ClearanceError, match=rf"94 {unit}s enter.* had 95\..*`design.party_size = 94`") as refused:
        check_sizes(path, clearance(sizes=sizes), 94, 3)
    assert refused.value.failed == "sizes"
    with pytest.raises(ClearanceError, match="2 parties take part, and the audited databases had 3"):
        check_sizes(path, clearance(sizes=sizes), 95, 2)
    check_sizes(path, clearance(sizes=replace(sizes, every_size=True)), 1, 2)


def test_a_run_with_fewer_documents_of_others_than_hid_the_party_s_own_is_refused() -> None:
    alone, path = replace(SIZES, size=95, coalition=40), Path("mail.clearance")
    check_sizes(path, clearance(sizes=alone), 95, 2, 0)  # a coalition's documents hide nothing
    hidden = replace(alone, honest=60)
    for others in (None, 100):
        check_sizes(path, clearance(sizes=hidden), 95, 3, others)
    with pytest.raises(ClearanceError, match="enter at least 99 documents.* had 100 of theirs.*`enters = NUMBER`"):
        check_sizes(path, clearance(sizes=hidden), 95, 3, 99)
    check_sizes(path, clearance(sizes=replace(hidden, every_size=True)), 1, 2, 0)


def test_what_is_signed_is_never_replaced(written: Path) -> None:
    before = written.read_bytes()
    with pytest.raises(InputError, match="exists, and is never replaced"):
        write_clearance(written, clearance(expires=NOW + timedelta(days=1)), KEY)
    assert written.read_bytes() == before


def test_comes_back_as_it_was_and_passes_every_check(written: Path) -> None:
    asked = {"corpus_hash": "sha256:aa", "mechanism": MECHANISM, "spec_hash": "sha256:bb"}
    verified = verify_clearance(written, now=NOW, public_key=KEY.public_key(), **asked)
    assert verified.clearance == read_clearance(written) == clearance()
    assert verified.fingerprint == fingerprint(KEY)
    assert verified.checked == ("content", "signature", "signer", "time", "corpus", "mechanism", "spec")
    assert verify_clearance(written, now=NOW).checked == ("content", "signature", "time")


def test_what_it_rests_on_is_signed_with_it(tmp_path: Path) -> None:
    write_clearance(tmp_path / "c.json", clearance(sizes=replace(SIZES, size=95)), KEY)
    verified = verify_clearance(tmp_path / "c.json", now=NOW).clearance
    assert (verified.evidence, verified.sizes.size) == (EVIDENCE, 95)
    assert "asked 3 times" in EVIDENCE.sentence()
    text = (tmp_path / "c.json").read_text(encoding="ascii")
    for said, other in (('"attempts": 3', '"attempts": 1'), ('"size": 95', '"size": 9')):
        (tmp_path / "other.json").write_text(text.replace(said, other), encoding="ascii")
        assert failed(tmp_path / "other.json") == "content"


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_any_byte_changed_added_or_taken_is_refused(
    written: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    raw = written.read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != raw[at]))
    how = data.draw(st.sampled_from(["change", "add", "take"]))
    changed = {
        "change": raw[:at] + bytes([byte]) + raw[at + 1 :],
        "add": raw[:at] + bytes([byte]) + raw[at:],
        "take": raw[:at] + raw[at + 1 :],
    }[how]
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_bytes(changed)
    assert failed(path) in {"file", "content", "signature"}


def test_it_names_what_failed(written: Path, tmp_path: Path) -> None:
    def rewritten(change: Any) -> Path:
        whole = json.loads(written.read_bytes())
        change(whole)
        path = tmp_path / "other.json"
        path.write_text(json.dumps(whole, sort_keys=True, indent=1) + "\n")
        return path

    assert failed(tmp_path / "none.json") == "file"
    assert failed(rewritten(lambda w: w["clearance"].update(sensitive=0))) == "content"
    assert failed(rewritten(lambda w: w["clearance"]["documents"].append("z"))) == "content"
    assert failed(rewritten(lambda w: w["signature"].update(signature="00" * 64))) == "signature"
    assert failed(rewritten(lambda w: w["signature"].update(fingerprint=fingerprint(OTHER)))) == "signature"
    assert failed(rewritten(lambda w: w["signature"].update(public_key="zz"))) == "signature"
    assert failed(rewritten(lambda w: w.update(more=1))) == "file"
    assert failed(written, public_key=OTHER.public_key()) == "signer"
    assert failed(written, corpus_hash="sha256:ab") == "corpus"
    assert failed(written, spec_hash="sha256:bc") == "spec"


def test_content_and_digest_changed_together_still_fail_by_the_signature(written: Path, tmp_path: Path) -> None:
    whole = json.loads(written.read_bytes())
    whole["clearance"]["sensitive"] = 0
    text = json.dumps(whole["clearance"], sort_keys=True, separators=(",", ":"))
    whole["signature"]["content"] = hashlib.sha256(b"ksdp-clearance-1\n" + text.encode()).hexdigest()
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(whole, sort_keys=True, indent=1) + "\n")
    assert failed(path) == "signature"


@pytest.mark.parametrize(
    ("change", "named"),
    [({"name": "pd-nmf"}, "name"), ({"version": 3}, "version"), ({"parameters": {"rank": 8}}, "parameter at")],
)
def test_another_mechanism(written: Path, change: dict, named: str) -> None:
    with pytest.raises(ClearanceError, match=named) as refused:
        verify_clearance(written, now=NOW, mechanism=replace(MECHANISM, **change))
    assert refused.value.failed == "mechanism"


def test_it_holds_from_created_to_just_before_expires(written: Path) -> None:
    end = NOW + timedelta(days=90)
    tick = timedelta(microseconds=1)
    verify_clearance(written, now=NOW)
    verify_clearance(written, now=end - tick)
    assert failed(written, now=NOW - tick) == "early"
    assert failed(written, now=end) == "expired"
    # The same moment elsewhere on the globe.
    verify_clearance(written, now=(end - tick).astimezone(timezone(timedelta(hours=9))))
    assert failed(written, now=end.astimezone(timezone(timedelta(hours=-9)))) == "expired"
    with pytest.raises(InputError, match="time zone"):
        verify_clearance(written, now=NOW.replace(tzinfo=None))


def test_the_same_clearance_is_the_same_bytes_wherever_it_is_written(tmp_path: Path) -> None:
    east = timezone(timedelta(hours=9))
    same = clearance(
        verdicts={"undecided": 1, "clear": 4, "sensitive": 0},
        mechanism=MechanismIdentity("pd-svd", 2, {"at": ["last"], "tolerance": 1e-6, "rank": 7}),
        created=NOW.astimezone(east),
    )
    write_clearance(tmp_path / "a", clearance(), KEY)
    write_clearance(tmp_path / "b", same, KEY)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@given(ids=st.lists(st.text(), unique=True, max_size=20), cut=st.integers(0, 20))
def test_allows_what_is_listed(ids: list[str], cut: int) -> None:
    listed = clearance(tuple(ids[:cut]))
    assert listed.allows(ids).tolist() == [True] * len(ids[:cut]) + [False] * len(ids[cut:])
    assert len(listed.documents) == len(ids[:cut])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"created": NOW.replace(tzinfo=None)}, "`created` must have a time zone"),
        ({"expires": NOW}, "later than `created`"),
        ({"reviewer": " "}, "who decided"),
        ({"documents": ("b", "a")}, "sorted, each once"),
        ({"documents": ("a", "a")}, "sorted, each once"),
        ({"certified": ("b", "a")}, "`certified` must be sorted"),
        ({"certified": ("a", "c")}, "`certified` must be among `documents`"),
    ],
)
def test_refuses(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        clearance(**change)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b"[" * 100_000, b'{"clearance": 1}'])
def test_other_files_are_not_clearances(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert failed(path) == "file"


def test_a_clearance_of_a_later_format_is_refused_although_its_signature_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksdp.storage.clearances.FORMAT", 2)
    write_clearance(tmp_path / "c", clearance(), KEY)
    monkeypatch.undo()
    assert failed(tmp_path / "c") == "file"


def test_what_people_decided_travels(tmp_path: Path, written: Path) -> None:
    reviewed = Reviewed(accepted=1, left_open=3, four_eyes=True, log_entries=9, log_head="ab" * 32)
    path = tmp_path / "clearance.json"
    write_clearance(path, clearance(reviewed=reviewed), KEY)
    assert verify_clearance(path, now=NOW).clearance.reviewed == reviewed
    for name in ("reviewed", "certified"):
        assert name not in json.loads(written.read_text())["clearance"]
    path = tmp_path / "certified.json"
    write_clearance(path, clearance(certified=("a", "b")), KEY)
    assert verify_clearance(path, now=NOW).clearance.certified == ("a", "b")
    # Nothing said in another way is not the same file: a signed null is refused.
    said = json.loads(written.read_text())["clearance"] | {"reviewed": None}
    path.write_text(json.dumps(signed(said, "clearance", KEY), sort_keys=True, indent=1) + "\n")
    assert failed(path) == "content"
