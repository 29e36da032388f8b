"""From an audit through people to a clearance that a protocol run accepts."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ksdp.audit.errors import ClearanceError, InputError, StoreError
from ksdp.audit.screening.screen_summary import ScreenSummary
from ksdp.flows.audits.place import HERE
from ksdp.flows.prepare import open_spec
from ksdp.flows.reviews import WantedRuns, decide, more_runs
from ksdp.flows.screening.clear import ClearRules, Signing, clear, verify, verify_log
from ksdp.storage.audits.continuation import read_progress
from ksdp.storage.clearances import read_clearance
from ksdp.storage.findings import read_verdicts, verdict_ids
from ksdp.storage.keys import fingerprint, load_private, load_public
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.reviews.decisions import Policy, read_log, write_policy
from ksdp.storage.store import Store

# After the audit was finished, whenever that was.
NOW = datetime(2100, 3, 1, tzinfo=UTC)


@pytest.fixture
def store(decided: Path) -> Path:
    return decided


def sign(audited: tuple[Path, str], store: Path, audit: str | None = None, **arguments: Any) -> ScreenSummary:
    how = {name: arguments.pop(name) for name in ("leave_out_waiting", "only") if name in arguments}
    said = {"who": "Ana", "now": NOW, "expires": NOW + timedelta(days=9)} | arguments
    signing = Signing(store.parent / "clearance.json", load_private(audited[0] / "ana.key"), **said)
    return clear(store, audit or audited[1], signing, ClearRules(**how), HERE)


def test_the_clearance_lists_what_was_accepted_and_verifies(
    audited: tuple[Path, str], store: Path, kinds: dict[str, list[str]]
) -> None:
    folder, audit = audited
    accepted, excluded = kinds["sensitive"][0], kinds["sensitive"][1]
    decide(store, audit, [accepted, kinds["undecided"][0]], "accept", "small", "Ana", NOW)
    decide(store, audit, [excluded, *kinds["clear"]], "exclude", "a minor's letter", "Ana", NOW)
    decide(store, audit, [kinds["undecided"][1]], "more-runs", "close", "Ana", NOW)
    out = sign(audited, store)
    assert out.clearance is not None, out.reason
    path = Path(out.clearance)
    cleared = read_clearance(path)
    assert set(cleared.documents) == {accepted, kinds["undecided"][0]}
    assert (out.proposed, out.accepted, out.allowed, out.left_out) == (2, 2, 2, 0)
    assert "listed by decision alone" in out.reason
    assert cleared.reviewed is not None
    entries = 4 + len(kinds["clear"])
    assert cleared.reviewed.log_entries == entries
    assert cleared.reviewed.log_head == read_log(Store(store))[-1].hash
    assert cleared.sensitive == len(kinds["sensitive"]) - 2
    assert cleared.excluded == 1 + len(kinds["clear"])
    opened = "does not hold for a run that opens more"
    for said in ("2 are listed by decision alone", "one person each", opened):
        assert said in cleared.statement
    spec, base = read_spec_file(folder / "spec.toml")
    checked = verify(path, now=NOW, public_key=load_public(folder / "ana.pub"))
    assert (checked["checked"][2:], checked["reviewed"]["accepted"]) == (["signer", "time"], 2)
    # Fewer may enter than the audited databases had: no run takes it.
    with pytest.raises(ClearanceError, match=r"2 documents enter.* had 150") as refused:
        verify(path, now=NOW, against=open_spec(spec, base))
    assert refused.value.failed == "sizes"
    # The log still holds what was signed for after more was added; a log made anew does not.
    decide(store, audit, [excluded], "withdraw", "found consent", "Ana", NOW)
    assert verify_log(store, [path])["whole"]
    shutil.rmtree(store / "reviews")
    decide(
        store, audit, [*kinds["sensitive"], *kinds["clear"], *kinds["undecided"]], "accept", "forged", "Ana", NOW
    )
    assert verify_log(store)["whole"]
    assert verify_log(store, [path])["broken"] == entries


def test_exactly_what_somebody_picks_is_listed_with_the_bound_of_these(
    audited: tuple[Path, str], store: Path, kinds: dict[str, list[str]], ksdp: Callable[..., Any]
) -> None:
    folder, audit = audited
    rows = read_verdicts(Store(store).audit(audit))
    below, names = rows["log10_p_below"].to_numpy(), rows["document"].to_pylist()
    accepted, (*others, excluded) = (
        kinds["undecided"][0],
        sorted(kinds["clear"], key=dict(zip(names, -below, strict=True)).get),
    )
    decide(store, audit, [accepted], "accept", "small", "Ana", NOW)
    decide(store, audit, [excluded], "exclude", "a minor's letter", "Ana", NOW)
    picks, sign_it = store.parent / "picks.txt", ("--store", store, "--key", folder / "ana.key", "--who", "Ana")
    for wrong, why in (
        (excluded, "excluded by decision"),
        (kinds["sensitive"][0], "not proved clear, nor accepted"),
        ("nobody", "not a document of this audit"),
    ):
        picks.write_text(f"{others[0]}\n\n{wrong}\n")
        said = ksdp(
            "clear", audit, "--only", picks, "--clearance", store.parent / "few.json", *sign_it, check=2
        ).err
        assert f"row 3: {wrong!r} may not be listed: it is {why}" in " ".join(said.split())
    picks.write_text(" \n")
    ksdp("clear", audit, "--only", picks, "--clearance", store.parent / "few.json", *sign_it, check=2)
    assert not (store.parent / "few.json").exists()
    picks.write_text(f"{others[0]}\n{accepted}\n{others[1]}\n")
    out = ksdp("clear", audit, "--only", picks, "--clearance", store.parent / "few.json", *sign_it, "--json").out
    assert (out["proposed"], out["outcome"], out["clearance"]) == (3, "too-few", None)
    assert "A list of 3 documents" in out["reason"] or "In an audit of the list by itself" in out["reason"]
    assert not (store.parent / "few.json").exists()


def test_nothing_is_signed_while_a_second_person_is_awaited(
    audited: tuple[Path, str], store: Path, kinds: dict[str, list[str]]
) -> None:
    audit, opened = audited[1], Store(store)
    write_policy(opened, Policy(four_eyes=True))
    accepted, waiting = kinds["sensitive"][:2]
    for name in (accepted, waiting):
        decide(store, audit, [name], "accept", "why", "Ana", NOW)
    decide(store, audit, kinds["clear"], "exclude", "why", "Ana", NOW)
    decide(store, audit, [accepted], "confirm", "agreed", "Ben", NOW, saw=1)
    with pytest.raises(InputError, match=r"^(1 document waits|\d+ documents wait) for a second person"):
        sign(audited, store)
    assert not (store.parent / "clearance.json").exists()
    out = sign(audited, store, leave_out_waiting=True)
    assert out.clearance is not None, out.reason
    cleared = read_clearance(Path(out.clearance))
    assert accepted in cleared.documents
    assert not {waiting, kinds["clear"][0]} & {*cleared.documents}
    assert "stands in the log under two names" in cleared.statement


def test_refused_before_anything_is_signed(audited: tuple[Path, str], store: Path) -> None:
    audit = audited[1]
    for arguments, message in (
        ({"who": " "}, "`who` must say"),
        ({"expires": NOW}, "later than now"),
        ({"now": NOW.replace(tzinfo=None)}, "time zone"),
    ):
        with pytest.raises(InputError, match=message):
            sign(audited, store, **arguments)
    write_policy(Store(store), Policy(sign=("0000-1111",)))
    with pytest.raises(InputError, match="may not sign in this store: take one of 0000-1111"):
        sign(audited, store)
    write_policy(Store(store), Policy(sign=(fingerprint(load_private(audited[0] / "ana.key")),)))
    with pytest.raises(InputError, match="`who` must say"):
        sign(audited, store, who=" ")
    with pytest.raises(InputError, match="`decision` must be one of exclude, accept"):
        decide(store, audit, ["1"], "burn", "why", "Ana", NOW)
    with pytest.raises(InputError, match="at least one"):
        decide(store, audit, [], "accept", "why", "Ana", NOW)
    with pytest.raises(InputError, match="no decision asks for more runs"):
        more_runs(store, audit)
    with pytest.raises(InputError, match="must be above the 400"):
        more_runs(store, audit, WantedRuns(("1",), 400))
    ledger = store / "audits" / "ledger.jsonl"
    lines = ledger.read_bytes()
    for left in (b"", b"".join(lines.splitlines(keepends=True)[:-2])):
        ledger.write_bytes(left)
        with pytest.raises(StoreError, match=f"ledger of the store does not name audit {audit}"):
            sign(audited, store)
    ledger.write_bytes(lines)
    decide(store, audit, ["1"], "exclude", "why", "Ana", NOW)
    log = store / "reviews" / "log.jsonl"
    log.write_bytes(b"")
    with pytest.raises(StoreError, match="not whole.*missing at the end"):
        sign(audited, store)


def test_more_runs_continue_the_same_runs_and_take_the_place_of_the_first_audit(
    audited: tuple[Path, str], store: Path, kinds: dict[str, list[str]], ksdp: Callable
) -> None:
    folder, audit = audited
    asked, excluded = kinds["undecided"][0], kinds["clear"][0]
    decide(store, audit, [excluded], "exclude", "why", "Ana", NOW)
    told = ("--decision", "more-runs", "--reason", "close", "--who", "Ana")
    ksdp("decide", audit, asked, *told, "--store", store, check=0)
    ran = ksdp("more-runs", audit, "--store", store, "--json")
    again = ran.out
    assert ran.code in {0, 3, 4}, ran.err
    assert again["cached_runs"] == 768
    assert again["runs"] >= 1000
    progress = read_progress(Store(store), audit)
    assert progress is not None
    assert (progress["state"], progress["audit"], progress["documents"]) == ("done", again["audit"], 1)
    with pytest.raises(InputError, match=f"audit {again['audit']} asked the same question later"):
        sign(audited, store)
    with pytest.raises(InputError, match=f"was continued as {again['audit']}"):
        more_runs(store, audit, WantedRuns((asked,), 2000))
    with pytest.raises(InputError, match="audited again"):
        decide(store, audit, [asked], "accept", "why", "Ana", NOW)
    decide(store, again["audit"], [asked], "accept", "small", "Ana", NOW)
    rows = read_verdicts(Store(store).audit(again["audit"]))
    clear_now = [name for name in verdict_ids(rows, ["clear"]) if name not in (asked, excluded)]
    decide(store, again["audit"], clear_now, "exclude", "why", "Ana", NOW)
    out = sign(audited, store, again["audit"])
    assert out.clearance is not None, out.reason
    cleared = read_clearance(Path(out.clearance))
    assert cleared.allows([asked, excluded]).tolist() == [True, False]  # nobody took the exclusion back
    assert cleared.audits == (audit, again["audit"])
    assert cleared.spec == read_spec_file(folder / "spec.toml")[0].binding, "the spec that people wrote is cleared"


def test_the_commands_and_their_exit_codes(
    audited: tuple[Path, str], store: Path, kinds: dict[str, list[str]], ksdp: Callable, tmp_path: Path
) -> None:
    folder, audit = audited
    name, there = kinds["sensitive"][0], ("--store", store)
    told = ("--reason", "known risk", "--who", "Ana", *there)
    made = ksdp("decide", audit, name, "--decision", "accept", *told, "--saw", "0", "--json", check=0).out
    (entry,) = made["entries"]
    assert (entry["number"], entry["document"], entry["decision"]) == (1, name, "accept")
    late = ksdp("decide", audit, name, "--decision", "exclude", *told, "--saw", "0", "--json", check=2)
    assert late.out["newer"] == entry
    assert "is newer than what was seen" in late.err
    ksdp("decide", audit, name, "--decision", "accept", "--who", "Ana", *there, check=2)
    ksdp("decide", audit, name, "--decision", "accept", "--policy", "four-eyes", *there, check=2)
    ksdp("decide", "--policy", "four-eyes", *there, check=0)
    again = ksdp("decide", audit, name, "--decision", "accept", *told, check=0)
    assert "waits for another person: `--decision confirm --saw 3`" in again.err
    signed = ("--clearance", tmp_path / "c.json", "--key", folder / "ana.key", "--who", "Ana", *there)
    assert "for a second person" in ksdp("clear", audit, *signed, check=2).err
    ksdp("decide", "--policy", "one-person", *there, check=0)
    ksdp("decide", audit, *kinds["clear"], "--decision", "exclude", *told, check=0)
    out = ksdp("clear", audit, *signed, "--days", "3", "--json", check=0).out
    assert (out["accepted"], out["allowed"]) == (1, 1)
    assert ksdp("log", *there, "--json", check=0).out["entries"][0] == entry
    ksdp("verify", tmp_path / "c.json", "--key", folder / "ana.pub", check=0)
    good = ksdp("verify", store, "--against", tmp_path / "c.json", "--json", check=0).out
    assert (good["whole"], good["entries"], good["anchors"]) == (True, 4 + len(kinds["clear"]), 1)
    for nothing in (tmp_path, tmp_path / "none.jsonl"):
        ksdp("verify", nothing, check=1)
    log = store / "reviews" / "log.jsonl"
    log.write_bytes(log.read_bytes() + b"torn")
    assert ksdp("verify", log, "--json", check=0).out["torn"] == 4
    assert "cut short" in ksdp("verify", log, check=0).err
    log.write_bytes(log.read_bytes().replace(b"known risk", b"known fact"))
    bad = ksdp("verify", log, "--json", check=1).out
    assert bad["broken"] == 1
    assert "entry 1 is not what was written" in json.dumps(bad)
