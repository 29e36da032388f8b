"""Whatever is handed over as an invitation, a request or a kit is taken or refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.flows.runs.kit_files import INVITATION, KIT, REQUEST, header, open_kit, open_request, read_invitation
from ksdp.flows.runs.kit_protocol import write_protocol
from ksdp.storage.runs.sealed import Sealed, open_sealed, seal, write_sealed

pytestmark = pytest.mark.validity

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
HEX = KEY.public_key().public_bytes_raw().hex()
ASKS = {"invitation": "ab", "name": "bob", "address": "h:1", "server": False, "key": HEX, "renews": None}
INVITES = {"organiser": "ada", "nonce": "00", "text": "protocol = 1", "vocabulary": "one\ntwo\n"}
SAID: dict[str, dict[str, Any]] = {
    INVITATION: INVITES,
    REQUEST: ASKS,
    KIT: {"edition": 1, "agreement": "0" * 64, "invitation": "ab", "members": []},
}
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=12)
    | st.sampled_from(["../x", "/etc/passwd", "a\x1b[2J", "x" * 70, 'a"b', HEX, "0" * 64]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def opened(kind: str, path: Path, sealed: Sealed) -> object:
    if kind == INVITATION:
        return read_invitation(path)
    return open_request(sealed.whole, path.name) if kind == REQUEST else open_kit(sealed, path.name)


@pytest.mark.parametrize("kind", SAID)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_what_is_signed_and_senseless_is_refused(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    said = header() | SAID[kind]
    said |= data.draw(st.dictionaries(st.sampled_from([*said, "more"]), values, max_size=3))
    path = tmp_path / "handed.over"
    sealed = seal(kind, said, KEY)
    write_sealed(path, sealed)
    try:
        opened(kind, path, sealed)
    except InputError as error:
        assert "\x1b" not in str(error)  # noqa: PT017 - whatever else is raised fails the test
    assert [file.name for file in tmp_path.iterdir()] == ["handed.over"]


@settings(max_examples=60)
@given(whole=st.dictionaries(st.sampled_from(["kind", "said", "signatures", "more"]), values, max_size=4))
def test_what_is_not_signed_is_refused(whole: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        open_sealed(whole, KIT, "the file")


@pytest.mark.parametrize(
    "named", ["../words.txt", "/words.txt", "a/words.txt", "ada.key", "protocol.toml", ".txt"]
)
def test_a_kit_writes_nothing_but_a_vocabulary_of_its_own_folder(named: str, tmp_path: Path) -> None:
    text = f'protocol = 1\n[mechanism]\nname = "pd-nmf"\nrank = 2\n[features]\nvocabulary = "{named}"\n'
    invitation = seal(INVITATION, header() | INVITES | {"text": text}, KEY)
    with pytest.raises(InputError, match="does not come with it"):
        write_protocol(tmp_path / "made", invitation, (), 1)
    assert {file.name for file in tmp_path.rglob("*") if file.is_file()} == {"protocol.toml"}


def test_a_kit_names_no_module_of_ours_or_anybodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "helper.py").write_text("raise AssertionError('imported')")
    members = (open_request(seal(REQUEST, header() | ASKS, KEY).whole, "it"),)
    for name in ("helper:x", "helper", "os:system", "ksdp.audit.mechanisms.controls:NullMechanism"):
        text = f'protocol = 1\n[mechanism]\nname = "{name}"\n[features]\ncount = 4\n'
        invitation = seal(INVITATION, header() | INVITES | {"text": text}, KEY)
        with pytest.raises(InputError):
            write_protocol(tmp_path / "made", invitation, members, 1)


def test_numbers_and_depths_that_are_meant_to_hurt(tmp_path: Path) -> None:
    deep = "[" * 200_000 + "]" * 200_000
    for text in (deep, '{"kind": 1e999}', "9" * 10_000, '{"kind": "kit", "said": NaN, "signatures": []}'):
        path = tmp_path / "bomb.kit"
        path.write_text(text)
        with pytest.raises(InputError, match="bomb.kit"):
            read_invitation(path)
    kit = header() | SAID[KIT]
    for edition in (True, 0, 10**40, 1.0, "1"):
        sealed = seal(KIT, kit | {"edition": edition}, KEY)
        with pytest.raises(InputError, match="no kit that can be read"):
            open_kit(sealed, "it")
