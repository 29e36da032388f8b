"""Who may talk to whom: handshakes in memory."""

import contextlib
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.network.tls import Credentials, make_credentials, peer_of

KEYS = {
    name: Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n, name in enumerate(("ada", "bob", "eve"))
}
PUBLIC = {name: key.public_key() for name, key in KEYS.items()}
NOW = datetime.now(UTC)


def credentials(name: str, *peers: str, now: datetime = NOW, **keys: Ed25519PublicKey) -> Credentials:
    return make_credentials(KEYS[name], {peer: PUBLIC[peer] for peer in peers} | keys, now=now)


def handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up, server_side=False)]
    for _ in range(6):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends[0], ends[1]


def test_two_who_name_each_other_meet_under_tls_1_3() -> None:
    ada, bob = credentials("ada", "bob", "eve"), credentials("bob", "ada", "eve")
    there, here = handshake(ada.server, bob.clients["ada"])
    assert peer_of(there, PUBLIC) == "bob"
    assert peer_of(here, PUBLIC) == "ada"
    assert here.version() == "TLSv1.3"


def test_a_client_accepts_the_one_it_dials_and_no_other_party() -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(credentials("eve", "bob").server, credentials("bob", "ada", "eve").clients["ada"])


def test_a_stranger_is_refused() -> None:
    with pytest.raises(ssl.SSLError):
        handshake(credentials("ada", "bob").server, credentials("eve", "ada").clients["ada"])


def test_a_name_alone_opens_nothing() -> None:
    """Eve calls herself bob."""
    false = make_credentials(KEYS["eve"], {"ada": PUBLIC["ada"]}, now=NOW)
    with pytest.raises(ssl.SSLError):
        handshake(credentials("ada", "bob").server, false.clients["ada"])


def test_without_a_certificate_nobody_comes_in() -> None:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError):
        handshake(credentials("ada", "bob").server, client)


def test_tls_1_2_is_refused() -> None:
    client = credentials("bob", "ada").clients["ada"]
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        handshake(credentials("ada", "bob").server, client)


def test_a_leaf_of_long_ago_is_refused() -> None:
    old = credentials("bob", "ada", now=NOW - timedelta(days=40))
    with pytest.raises(ssl.SSLError):
        handshake(credentials("ada", "bob").server, old.clients["ada"])


def test_the_pin_is_checked_besides_the_chain() -> None:
    ada, bob = credentials("ada", "bob"), credentials("bob", "ada")
    there, _ = handshake(ada.server, bob.clients["ada"])
    assert peer_of(there, {"robert": PUBLIC["bob"]}) == "robert"  # a name is what the protocol file calls a key
    for known in ({"bob": PUBLIC["eve"]}, {}):
        with pytest.raises(ProtocolError, match="no key that is named"):
            peer_of(there, known)


@pytest.mark.parametrize(
    "text",
    ["", "host", ":1", "host:", "host:0", "host:65536", "host:1x", "a:b:1", "[]:1", "h:١", 'h"\n[x]\n:1',
     "h\x1b[2J:1", "a b:1", "h\u202e:1", "x" * 300 + ":1", '[h"\nkey = "k]:1'],
)  # fmt: skip
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(InputError, match="HOST:PORT"):
        Address.parse(text)


def test_addresses() -> None:
    assert Address.parse("ada.example:7001") == Address("ada.example", 7001)
    assert str(Address.parse("[::1]:7001")) == "[::1]:7001"


def test_a_stranger_who_connects_is_shown_no_name() -> None:
    curious = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    curious.check_hostname, curious.verify_mode = False, ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = credentials("ada", "bob").server.wrap_bio(up, down, server_side=True)
    here = curious.wrap_bio(down, up, server_side=False)
    for end in (here, there, here):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    shown = here.getpeercert(binary_form=True)
    assert b"ada" not in shown
    assert b"bob" not in shown
