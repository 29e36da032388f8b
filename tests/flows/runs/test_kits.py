"""Kits: three organisations agree on who takes part; no private key moves, and whatever was changed is refused."""

from __future__ import annotations

import json
import re
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ksdp.audit.errors import InputError
from ksdp.flows.runs import kit_files, kit_party, kits
from ksdp.flows.runs.check_peers import compare
from ksdp.flows.runs.check_words import about_of
from ksdp.flows.runs.kit_folder import KitFolder
from ksdp.flows.runs.terms import read_run
from ksdp.storage.keys import fingerprint, load_private, load_public
from ksdp.storage.runs.sealed import read_sealed, seal, write_sealed

from ...typed import typed

DRAFT = """# what we agreed in June
protocol = 1
[mechanism]
name = "pd-nmf"
rank = 2
[features]
vocabulary = "words.txt"
"""
PORTS = {"ada": 7001, "bob": 7002, "cyd": 7003, "dan": 7004}


def ksdp(*arguments: object) -> str:
    return typed(*arguments, code=0).output


def address(name: str) -> str:
    return f"127.0.0.1:{PORTS[name]}"


def invited(folder: Path) -> Path:
    (folder / "draft.toml").write_text(DRAFT)
    (folder / "words.txt").write_text("one\ntwo\nthree\n")
    ksdp(
        "kit",
        "invite",
        folder / "draft.toml",
        "--me",
        "ada",
        "--address",
        address("ada"),
        "--folder",
        folder / "ada",
    )
    return folder / "ada" / "invitation.ksdp"


def spoken(folder: Path, name: str) -> str:
    """What somebody reads over the telephone: from its own folder, not from a file that travelled."""
    return fingerprint(load_public(folder / name / f"{name}.pub"))


def joins(folder: Path, name: str) -> Path:
    """One party asks, and is approved; its request."""
    said = ["--me", name, "--address", address(name), "--folder", folder / name]
    ksdp("kit", "request", folder / "ada" / "invitation.ksdp", *said, "--fingerprint", spoken(folder, "ada"))
    request = folder / name / f"{name}.request"
    ksdp("kit", "approve", request, "--folder", folder / "ada", "--fingerprint", spoken(folder, name))
    return request


def packaged(folder: Path) -> Path:
    return Path(json.loads(ksdp("kit", "package", "--folder", folder / "ada", "--json"))["kit"])


def accepted(folder: Path, name: str, kit: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ksdp("kit", "accept", kit, "--folder", folder / name, "--json"))
    return found


@pytest.fixture(scope="module")
def agreed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ada has invited bob and cyd; all have accepted edition 1."""
    folder = tmp_path_factory.mktemp("agreed")
    invited(folder)
    for name in ("bob", "cyd"):
        joins(folder, name)
    kit = packaged(folder)
    for name in ("bob", "cyd"):
        accepted(folder, name, kit)
    return folder


@pytest.fixture
def agreed(agreed_once: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(agreed_once, tmp_path / "agreed"))


def test_all_end_with_one_hash_and_a_protocol_file_that_runs(agreed: Path) -> None:
    said = {name: ksdp("kit", "show", "--folder", agreed / name) for name in ("ada", "bob", "cyd")}
    hashes = {re.search(r"hash +(\S+)", text)[1] for text in said.values()}  # type: ignore[index]
    assert len(hashes) == 1
    digests = {read_run(agreed / name / "protocol.toml").terms.digest.hex() for name in said}
    assert len(digests) == 1
    (digest,) = digests
    assert hashes == {kit_files.grouped(digest)}
    run = read_run(agreed / "cyd" / "protocol.toml")
    assert [p.name for p in run.terms.participants] == ["ada", "bob", "cyd"]
    assert run.features == ("one", "two", "three")
    assert str(run.address("bob")) == address("bob")
    for name in said:
        for other in said:
            assert spoken(agreed, other) in said[name]


def test_no_secret_leaves_its_folder(agreed: Path) -> None:
    """Of every file that travels, and of every folder but its owner's."""
    for name in ("ada", "bob", "cyd"):
        key = agreed / name / f"{name}.key"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
        raw = load_private(key).private_bytes_raw()
        secrets = (raw, raw.hex().encode(), key.read_bytes().splitlines()[1])
        others = [path for path in agreed.rglob("*") if path.is_file() and path != key]
        assert not [path for path in others for secret in secrets if secret in path.read_bytes()]
        assert sorted(path.name for path in key.parent.glob("*.key")) == [key.name]


def test_who_joins_leaves_or_renews_asks_nothing_of_the_others(agreed: Path) -> None:
    """The rest accept the next edition, which says what changed; their keys and requests stay."""
    before = {p: p.read_bytes() for p in agreed.glob("cyd/cyd.*")}
    first = agreed / "ada" / "edition-1.kit"
    joins(agreed, "dan")
    old = spoken(agreed, "bob")
    ksdp("kit", "renew", "--folder", agreed / "bob", "--address", "127.0.0.1:7102")
    # The old key signed for the new one: no fingerprint is asked for.
    ksdp("kit", "approve", agreed / "bob" / "bob.request", "--folder", agreed / "ada")
    second = packaged(agreed)
    changes = accepted(agreed, "cyd", second)["changes"]
    accepted(agreed, "dan", second)
    accepted(agreed, "bob", second)
    assert changes[0].startswith("dan joined, at 127.0.0.1:7004")
    assert changes[1] == f"bob has a new key {spoken(agreed, 'bob')}, which the old one signed"
    assert changes[2] == "bob moved from 127.0.0.1:7002 to 127.0.0.1:7102"
    assert spoken(agreed, "bob") != old
    assert fingerprint(load_public(agreed / "bob" / "bob.before-1.pub")) == old
    assert {p: p.read_bytes() for p in before} == before
    assert len({read_run(agreed / n / "protocol.toml").terms.digest for n in ("ada", "bob", "cyd", "dan")}) == 1
    ksdp("kit", "remove", "bob", "--folder", agreed / "ada")
    third = packaged(agreed)
    assert accepted(agreed, "cyd", third)["changes"] == ["bob left"]
    with pytest.raises(InputError, match="is not for bob: edition 3 names ada, cyd, dan"):
        kit_party.accept(KitFolder(agreed / "bob"), third)
    with pytest.raises(InputError, match=r"edition 1, and 3 is in force.*since: bob left; dan joined"):
        kit_party.accept(KitFolder(agreed / "cyd"), first)


def test_the_organisers_renewed_key_takes_part_and_the_first_one_signs(agreed: Path) -> None:
    ksdp("kit", "renew", "--folder", agreed / "ada")
    ksdp("kit", "approve", agreed / "ada" / "ada.request", "--folder", agreed / "ada")
    second = packaged(agreed)
    (change,) = accepted(agreed, "bob", second)["changes"]
    assert change == f"ada has a new key {spoken(agreed, 'ada')}, which the old one signed"
    joins_after = KitFolder(agreed / "ada").organiser_key()
    assert joins_after.name == "ada.before-1.key"


def test_packaging_twice_is_one_edition(agreed: Path) -> None:
    assert packaged(agreed).name == "edition-1.kit"
    assert accepted(agreed, "bob", agreed / "ada" / "edition-1.kit")["changes"] == []


def test_a_changed_draft_needs_no_new_requests_and_says_what_changed(agreed: Path) -> None:
    """Requests and keys stay; whoever accepts reads each line that is another, and the hash is another."""
    before = {p: p.read_bytes() for p in [*agreed.glob("*/*.request"), *agreed.glob("*/*.key")]}
    digest = read_run(agreed / "bob" / "protocol.toml").terms.digest
    with pytest.raises(
        InputError, match=r"`ksdp kit package --draft .*draft.toml --folder .*the requests stay valid"
    ):
        invited(agreed)
    (agreed / "words.txt").write_text("one\ntwo\nthree\nfour\n")
    (agreed / "draft.toml").write_text(DRAFT.replace("rank = 2", "rank = 3") + "[precision]\nfraction_bits = 30\n")
    amended = ["kit", "package", "--draft", agreed / "draft.toml", "--folder", agreed / "ada"]
    assert "changed      `mechanism.rank` is 3, was 2\n" in ksdp(*amended)
    assert packaged(agreed).name == "edition-2.kit"  # the draft stays, and nothing else is new
    ada, bob = (read_run(agreed / name / "protocol.toml") for name in ("ada", "bob"))
    now = datetime.now(UTC)
    (found,) = compare(bob, "ada", about_of(ada, "cleared", now).to_bytes(), now)
    assert "here is 1: `mechanism.rank` is 3, was 2; `precision.fraction_bits` is 30, was left out" in found.said
    for name in ("bob", "cyd"):
        assert accepted(agreed, name, agreed / "ada" / "edition-2.kit")["changes"] == [
            "`mechanism.rank` is 3, was 2",
            "`precision.fraction_bits` is 30, was left out",
            "the vocabulary is another: 4 terms, were 3",
        ]
    runs = [read_run(agreed / name / "protocol.toml") for name in ("ada", "bob", "cyd")]
    assert len({run.terms.digest for run in runs} - {digest}) == 1
    assert runs[2].features == ("one", "two", "three", "four")
    assert {p: p.read_bytes() for p in before} == before
    # Who joins later holds the first invitation, and reads what has changed since.
    joins(agreed, "dan")
    third = packaged(agreed)
    assert accepted(agreed, "dan", third)["changes"][0] == "`mechanism.rank` is 3, was 2"
    assert [one[:10] for one in accepted(agreed, "bob", third)["changes"]] == ["dan joined"]
    (agreed / "draft.toml").write_text(
        DRAFT.replace('"pd-nmf"', '"sigma-svd"\nsolver = "power"\niterations = 3').replace("rank = 2", "rank = 3")
    )
    ksdp(*amended)
    assert accepted(agreed, "dan", agreed / "ada/edition-4.kit")["changes"] == [
        '`mechanism.name` is "sigma-svd", was "pd-nmf"',
        '`mechanism.solver` is "power", was left out',
        "`mechanism.iterations` is 3, was left out",
        "`precision.fraction_bits` is left out, was 30",
    ]
    # Back again: the invitation's own.
    (agreed / "words.txt").write_text("one\ntwo\nthree\n")
    (agreed / "draft.toml").write_text(DRAFT)
    ksdp(*amended)
    assert "draft" not in read_sealed(agreed / "ada" / "edition-5.kit", "kit").said
    assert "`mechanism.rank` is 2, was 3" in accepted(agreed, "cyd", agreed / "ada/edition-5.kit")["changes"]


def test_a_draft_that_makes_no_run_of_the_parties_is_not_packaged(agreed: Path) -> None:
    for old, new, message in (
        (
            "[features]",
            'opens = "final"\n[final]\ncomputing = ["ada", "bob", "zoe"]\n[features]',
            "must name three of ada, bob, cyd",
        ),
        ("pd-nmf", "nothing", "nothing"),
        (
            "protocol = 1",
            'protocol = 1\n[[parties]]\nname = "a"\naddress = "a:1"\nkey = "a.pub"',
            "names no `parties`",
        ),
    ):
        (agreed / "draft.toml").write_text(DRAFT.replace(old, new))
        with pytest.raises(InputError, match=message):
            kits.package(KitFolder(agreed / "ada"), load_private(agreed / "ada/ada.key"), agreed / "draft.toml")
    assert [path.name for path in agreed.glob("ada/edition-*.kit")] == ["edition-1.kit"]


def changed(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.with_suffix(".other").write_text(text.replace(old, new, 1))
    return path.with_suffix(".other")


def resealed(path: Path, kind: str, key: Path, **said: Any) -> Path:
    """The same file with other words, signed anew."""
    sealed = read_sealed(path, kind)
    write_sealed(path.with_suffix(".other"), seal(kind, dict(sealed.said) | said, load_private(key)))
    return path.with_suffix(".other")


def crlf(path: Path) -> Path:
    path.with_suffix(".other").write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return path.with_suffix(".other")


Make = Callable[[Path], Path]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: changed(f / "ada/edition-1.kit", "7002", "7009"), "was changed after it was signed"),
        (lambda f: changed(f / "ada/edition-1.kit", "}\n", "} \n"), "not in the form it was written in"),
        (lambda f: crlf(f / "ada/edition-1.kit"), "line ends are those of another system"),
        (lambda f: changed(f / "ada/edition-1.kit", '"kit"', '"clearance"'), "is a clearance, not a kit"),
        (lambda f: f / "ada/invitation.ksdp", "is an invitation, not a kit"),
        (lambda f: f / "ada/nothing.kit", "cannot be read"),
        (lambda f: f / "words.txt", "is not a kit"),
        (lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "bob/bob.key"), "not by ada, who invited you"),
        (lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", ksdp="9.9"), "is of ksdp 9.9"),
        (
            lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", protocol=9),
            "version 9 of the protocol",
        ),
        (lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", format=9), "has format 9"),
        (
            lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", agreement="0" * 64),
            "says other things than edition 1",
        ),
        (
            lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", agreement="0" * 64, edition=2),
            "protocol hash here is not",
        ),
        (
            lambda f: resealed(
                f / "ada/edition-1.kit",
                "kit",
                f / "ada/ada.key",
                edition=2,
                draft={"text": DRAFT, "vocabulary": "x"},
            ),
            "protocol hash here is not",
        ),
        (
            lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", edition=2, draft={"text": 1}),
            "no kit that can be read",
        ),
        (
            lambda f: resealed(f / "ada/edition-1.kit", "kit", f / "ada/ada.key", invitation="0" * 64),
            "made for another invitation",
        ),
    ],
)
def test_a_kit_that_is_refused_changes_nothing(agreed: Path, make: Make, message: str) -> None:
    path = make(agreed)
    before = {p: p.read_bytes() for p in (agreed / "bob").rglob("*") if p.is_file()}
    with pytest.raises(InputError, match=message):
        kit_party.accept(KitFolder(agreed / "bob"), path)
    assert {p: p.read_bytes() for p in (agreed / "bob").rglob("*") if p.is_file()} == before


def test_a_kit_of_an_impostor_with_the_same_name_is_refused(agreed: Path) -> None:
    """Somebody else asked in bob's name, and the organiser did not compare well."""
    said = ["--me", "bob", "--address", address("bob"), "--folder", agreed / "mal"]
    ksdp("kit", "request", agreed / "ada/invitation.ksdp", *said, "--fingerprint", spoken(agreed, "ada"))
    told = fingerprint(load_public(agreed / "mal" / "bob.pub"))
    ksdp("kit", "approve", agreed / "mal/bob.request", "--folder", agreed / "ada", "--fingerprint", told)
    with pytest.raises(InputError, match="someone else asked in your name"):
        kit_party.accept(KitFolder(agreed / "bob"), packaged(agreed))


def test_fingerprints_must_be_compared(agreed: Path) -> None:
    ada, invitation = KitFolder(agreed / "ada"), agreed / "ada/invitation.ksdp"
    new = KitFolder(agreed / "dan")
    key = load_private(new.prepare("dan"))
    with pytest.raises(InputError, match="not the one given"):
        kit_party.ask(invitation, new, "dan", key, address("dan"), told=spoken(agreed, "bob"))
    assert not new.invitation_path.exists()
    spaced = spoken(agreed, "ada").replace("-", " ").upper()
    kit_party.ask(invitation, new, "dan", key, address("dan"), told=spaced)
    request = agreed / "dan/dan.request"
    with pytest.raises(InputError, match="not known by this key yet"):
        kits.approve(ada, request, None)
    with pytest.raises(InputError, match="not the one given"):
        kits.approve(ada, request, spoken(agreed, "bob"))
    assert [known.name for known in ada.approved] == ["ada", "bob", "cyd"]


@pytest.mark.parametrize(
    ("who", "changes", "message"),
    [
        ("dan", {"address": "127.0.0.1:7002"}, "which is bob's"),
        ("dan", {"server": True, "invitation": "0" * 64}, "made for another invitation"),
        ("dan", {"protocol": 9}, "version 9 of the protocol"),
        ("dan", {"address": "::1:7004"}, "no request that can be read"),
        ("dan", {"name": "../dan"}, "no request that can be read"),
        ("bob", {}, "gives the key of bob"),
    ],
)
def test_requests_that_are_refused(agreed: Path, who: str, changes: dict[str, Any], message: str) -> None:
    folder = KitFolder(agreed / who)
    key = load_private(folder.prepare(who))
    invitation = KitFolder(agreed / "ada").invitation
    said = kit_files.header() | {
        "invitation": invitation.digest,
        "name": "dan",
        "address": "127.0.0.1:7004",
        "server": False,
        "key": key.public_key().public_bytes_raw().hex(),
        "renews": None,
    }
    write_sealed(agreed / "a.request", seal("request", said | changes, key))
    with pytest.raises(InputError, match=message):
        kits.approve(KitFolder(agreed / "ada"), agreed / "a.request", fingerprint(key))


def test_drafts_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("one\n")
    key = load_private(KitFolder(tmp_path / "ada").prepare("ada"))
    for text, message in (
        (DRAFT + '[[parties]]\nname = "a"\naddress = "a:1"\nkey = "a.pub"\n', "names no `parties`"),
        (DRAFT.replace("words.txt", "../words.txt"), "must be a file NAME.txt"),
        (DRAFT.replace("words.txt", "ada.key"), "must be a file NAME.txt"),
        (DRAFT.replace("pd-nmf", "nothing"), "nothing"),
    ):
        (tmp_path / "draft.toml").write_text(text)
        with pytest.raises(InputError, match=message):
            kits.invite(tmp_path / "draft.toml", KitFolder(tmp_path / "ada"), "ada", key, None)


def test_too_few_make_no_kit(tmp_path: Path) -> None:
    invited(tmp_path)
    folder = KitFolder(tmp_path / "ada")
    with pytest.raises(InputError, match="parties"):
        kits.package(folder, load_private(folder.organiser_key()))
    joins(tmp_path, "bob")
    with pytest.raises(InputError, match="ada approves and packages"):
        kits.package(KitFolder(tmp_path / "bob"), load_private(tmp_path / "bob/bob.key"))


def test_a_check_brings_the_newer_kit_and_says_what_changed(agreed: Path) -> None:
    """Bob was told nothing; whom he checks with has the second edition."""
    now = datetime.now(UTC)
    ksdp("kit", "remove", "cyd", "--folder", agreed / "ada")
    packaged(agreed)
    ada, bob = (read_run(agreed / name / "protocol.toml") for name in ("ada", "bob"))
    (found,) = compare(bob, "ada", about_of(ada, "cleared", now).to_bytes(), now)
    assert found.said == "ada has edition 2 of the kit, here is 1: cyd left"
    newer = agreed / "bob" / "edition-2.kit"
    assert found.mend == f"ksdp kit accept {newer} --folder {agreed / 'bob'}"
    (there,) = compare(ada, "bob", about_of(bob, "cleared", now).to_bytes(), now)
    assert (there.code, there.mend) == ("kit-there", "at bob: ksdp kit accept edition 2")
    assert accepted(agreed, "bob", newer)["changes"] == ["cyd left"]
    (fine,) = compare(
        read_run(agreed / "bob" / "protocol.toml"), "ada", about_of(ada, "cleared", now).to_bytes(), now
    )
    assert fine.fine


def test_a_check_takes_no_kit_that_the_organiser_did_not_sign(agreed: Path) -> None:
    now = datetime.now(UTC)
    bob = read_run(agreed / "bob" / "protocol.toml")
    forged = resealed(agreed / "ada/edition-1.kit", "kit", agreed / "cyd/cyd.key", edition=2)
    about = replace(about_of(bob, "cleared", now), kit=dict(read_sealed(forged, "kit").whole))
    (found,) = compare(bob, "cyd", about.to_bytes(), now)
    assert "not by ada, who invited you" in found.said
    assert not (agreed / "bob" / "edition-2.kit").exists()
