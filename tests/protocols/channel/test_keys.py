"""Both ends get the same key, nobody another one; envelopes hold only unchanged."""

import hashlib
from dataclasses import replace

import pytest

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.keys import (
    _EIGHTH,
    VERSION,
    AgreementKey,
    Envelope,
    Participant,
    check_participants,
    open_envelope,
    sign_envelope,
)
from ksdp.protocols.channel.wire import pack

from ..conftest import identity, participant
from ..written_out import hkdf

ADA, BOB = AgreementKey(b"a" * 32), AgreementKey(b"b" * 32)
SESSION = bytes(32)


def test_both_ends_derive_the_same_key_and_any_change_another() -> None:
    ends = {
        ADA.derive("mask", SESSION, "ada", "bob", BOB.public),
        BOB.derive("mask", SESSION, "bob", "ada", ADA.public),
    }
    others = [
        ADA.derive("tag", SESSION, "ada", "bob", BOB.public),
        ADA.derive("mask", b"1" * 32, "ada", "bob", BOB.public),
        ADA.derive("mask", SESSION, "ada", "bobo", BOB.public),
        ADA.derive("mask", SESSION, "bob", "ada", BOB.public),
        ADA.derive("mask", SESSION, "ada", "bob", AgreementKey(b"c" * 32).public),
    ]
    assert len(ends) == 1
    assert len(ends | set(others)) == 1 + len(others)


def test_the_key_is_rfc_5869_of_the_secret_of_rfc_7748() -> None:
    """Alice's and Bob's secret of its section 6.1."""
    ada, bob = (
        AgreementKey(bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")),
        AgreementKey(bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")),
    )
    secret = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    salt = hashlib.sha256(pack("salt", SESSION, ada.public, bob.public)).digest()
    info = pack("key", VERSION, b"mask", b"ada", b"bob")
    assert bob.derive("mask", SESSION, "bob", "ada", ada.public) == hkdf(secret, salt, info, 16)


@pytest.mark.parametrize("bad", [bytes(32), b"\x01" + bytes(31), b"short", b""])
def test_keys_of_small_order_or_length_are_refused(bad: bytes) -> None:
    with pytest.raises(ProtocolError, match="no usable X25519 key"):
        ADA.derive("mask", SESSION, "ada", "bob", bad)


def test_our_own_key_is_refused() -> None:
    with pytest.raises(ProtocolError, match="our own key back"):
        ADA.derive("mask", SESSION, "ada", "bob", ADA.public)


def test_an_envelope_opens_unchanged_and_no_other_way() -> None:
    sealed = sign_envelope(identity("ada"), SESSION, "kind", "ada", b"body")
    arrived = Envelope.from_bytes(sealed.to_bytes())
    assert arrived == sealed
    assert open_envelope(arrived, SESSION, "kind", participant("ada")) == b"body"
    changes = [{"session": b"1" * 32}, {"kind": "other"}, {"sender": "cyd"}, {"body": b"bodY"}]
    for change in [*changes, {"signature": bytes(64)}, {"signature": b""}]:
        with pytest.raises(ProtocolError):
            open_envelope(replace(sealed, **change), SESSION, "kind", participant("ada"))
    forged = sign_envelope(identity("cyd"), SESSION, "kind", "ada", b"body")  # somebody else under her name
    with pytest.raises(ProtocolError, match="does not hold"):
        open_envelope(forged, SESSION, "kind", participant("ada"))


def test_any_changed_byte_of_an_envelope_is_refused() -> None:
    packed = sign_envelope(identity("ada"), SESSION, "kind", "ada", b"body").to_bytes()
    for at in range(len(packed)):
        for bit in (0x01, 0x80):
            changed = packed[:at] + bytes([packed[at] ^ bit]) + packed[at + 1 :]
            with pytest.raises(ProtocolError):
                open_envelope(Envelope.from_bytes(changed), SESSION, "kind", participant("ada"))


def test_participants_are_checked() -> None:
    ada, bob = participant("ada"), participant("bob")
    check_participants((ada, bob), 2)
    for bad, said in [((bob, ada), "sorted"), ((ada, ada), "sorted"), ((ada,), "at least 2; got 1")]:
        with pytest.raises(InputError, match=said):
            check_participants(bad, 2)
    with pytest.raises(InputError, match="same identity"):
        check_participants((ada, Participant("bob", ada.identity)), 2)
    with pytest.raises(InputError, match="32 bytes"):
        Participant("ada", b"short")
    with pytest.raises(InputError, match="must have a name"):
        Participant(" ", ada.identity)
    with pytest.raises(InputError, match="UTF-8"):
        Participant("\ud800", ada.identity)


@pytest.mark.parametrize("y", [0, 1, -1, 2**255 - 19, 2**255 - 18, *(s * _EIGHTH for s in (1, -1))])
@pytest.mark.parametrize("sign", [0, 2**255])
def test_a_key_for_which_anybody_can_sign_is_refused(y: int, sign: int) -> None:
    with pytest.raises(InputError, match="low order"):
        Participant("ada", ((y if y >= 0 else y + 2**255 - 19) + sign).to_bytes(32, "little"))
