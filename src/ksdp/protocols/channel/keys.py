"""Identities of participants, their signatures, and the keys that two of them share.

An identity is an Ed25519 key that lasts; agreement keys (X25519) are made afresh for every session, and are not
written down.
Whoever carries messages between the parties can stop them, not read or change them: every message is an
`Envelope`, signed over the session, the kind, both names and the body, or authenticated under a key that only the
two ends have.

Key of a purpose between a and b: HKDF-SHA256 over the X25519 secret, with the session and both agreement keys as
salt and (version, purpose, both identities) as info, so that no key serves two sessions, pairs or purposes.

References: RFC 7748 (X25519), RFC 8032 (Ed25519), RFC 5869 (HKDF).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.wire import name_of, pack, unpack

VERSION = b"ksdp-protocols-1"
"""Enters every session and every key; a change of what is computed is a new version."""
_CURVE = 2**255 - 19
_EIGHTH = int.from_bytes(
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"
)
_LOW_ORDER = {0, 1, _CURVE - 1, _EIGHTH, _CURVE - _EIGHTH}
"""The y of all points of order 1, 2, 4 and 8 (RFC 8032, section 5.1)."""


@dataclass(frozen=True, order=True)
class Participant:
    """Somebody whose signature is known to everybody before the start."""

    name: str
    identity: bytes
    """Ed25519 public key, 32 bytes."""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise InputError("A participant must have a name.")
        try:
            self.name.encode()
        except UnicodeEncodeError:
            raise InputError("A participant's name must be writable as UTF-8.") from None
        if len(self.identity) != 32:
            raise InputError(f"`identity` of {self.name} must be 32 bytes (Ed25519); got {len(self.identity)}.")
        if int.from_bytes(self.identity, "little") % 2**255 % _CURVE in _LOW_ORDER:
            raise InputError(f"the key of {self.name} is of low order: anybody could sign in its name.")


def check_participants(participants: tuple[Participant, ...], least: int) -> None:
    """Refuse lists that are not sorted by name, hold a name or a key twice, or are too short."""
    names = [p.name for p in participants]
    if names != sorted(set(names)):
        raise InputError("`participants` must be sorted by name, each once.")
    if len({p.identity for p in participants}) != len(participants):
        raise InputError("Two participants have the same identity key: each must have their own.")
    if len(participants) < least:
        raise InputError(f"`participants` must be at least {least}; got {len(participants)}.")


@dataclass(frozen=True)
class Envelope:
    """One signed message: who says what to whom, in which session."""

    session: bytes
    """32 bytes, the hash of all that was agreed."""
    kind: str
    sender: str
    body: bytes
    signature: bytes
    """Ed25519 of the sender over all the rest, 64 bytes."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        texts = (self.kind.encode(), self.sender.encode())
        return pack("envelope", self.session, *texts, self.body, self.signature)

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """Read the bytes of `to_bytes`; the signature is not checked here."""
        session, kind, sender, body, signature = unpack("envelope", data, 5)
        return cls(session, name_of(kind), name_of(sender), body, signature)


def _signed(session: bytes, kind: str, sender: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).digest()
    return pack("signed", VERSION, session, kind.encode(), sender.encode(), digest)


def sign_envelope(key: Ed25519PrivateKey, session: bytes, kind: str, sender: str, body: bytes) -> Envelope:
    """Sign a message."""
    return Envelope(session, kind, sender, body, key.sign(_signed(session, kind, sender, body)))


def open_envelope(envelope: Envelope, session: bytes, kind: str, sender: Participant) -> bytes:
    """The body of a message, if it is of this session, kind and sender, and the signature holds."""
    if envelope.session != session:
        raise ProtocolError(f"A message of {sender.name} belongs to another session, or to other terms.")
    if envelope.kind != kind:
        raise ProtocolError(f"{sender.name} sent another message where {kind} was due.")
    if envelope.sender != sender.name:
        raise ProtocolError(f"A message of {sender.name} was expected; this one is from another party.")
    signed = _signed(session, kind, sender.name, envelope.body)
    try:
        Ed25519PublicKey.from_public_bytes(sender.identity).verify(envelope.signature, signed)
    except (InvalidSignature, ValueError):
        raise ProtocolError(f"The signature of {sender.name} on {kind} does not hold.") from None
    return envelope.body


def one_way(purpose: str, sender: str, receiver: str) -> str:
    """The purpose of a key that one end alone sends with: no other direction has it, whatever the names are."""
    return pack(purpose, sender.encode(), receiver.encode()).hex()


class AgreementKey:
    """One party's half of a key agreement: made for one session.

    Parameters
    ----------
    secret : bytes
        32 secret bytes.
    """

    __slots__ = ("_key", "public")

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.public = self._key.public_key().public_bytes_raw()
        """32 bytes, for everybody."""

    def derive(self, purpose: str, session: bytes, own: str, peer: str, peer_public: bytes) -> bytes:
        """The key of a purpose with a peer; both ends get the same."""
        if peer_public == self.public:
            raise ProtocolError(f"{peer} sent our own key back.")
        try:
            secret = self._key.exchange(X25519PublicKey.from_public_bytes(peer_public))
        except ValueError:  # of another length, or of small order: the secret would be all zeros
            raise ProtocolError(f"{peer} sent something that is no usable X25519 key.") from None
        (first, first_key), (second, second_key) = sorted([(own, self.public), (peer, peer_public)])
        salt = hashlib.sha256(pack("salt", session, first_key, second_key)).digest()
        info = pack("key", VERSION, purpose.encode(), first.encode(), second.encode())
        return HKDF(SHA256(), 16, salt, info).derive(secret)
