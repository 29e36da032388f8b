"""TLS 1.3 between two identities that know each other's public key; no authority, no file that lasts.

Every party's identity (Ed25519) is its own root. For a run it signs a fresh leaf key, and, for itself alone, a
certificate of each peer's identity: so OpenSSL accepts a peer's leaf exactly if that peer's identity signed it.
After the handshake the leaf is checked against the pinned key once more, by itself.

The identity key never leaves the process; the leaf's is in an encrypted file for the moment of loading it.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import ssl
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ksdp.audit.errors import ProtocolError

_VALID = timedelta(days=30)
_LABEL = 32
HANDSHAKE = 15.0
"""Seconds; whoever connects and says nothing does not stay."""
BUFFER = 1 << 20
_MOST_STRANGERS = 256
NOT_YET, EXPIRED = 9, 10
"""OpenSSL's codes of a certificate that is not valid yet, or no more."""
TURNED_AWAY = "connections are turned away"
OTHER_CLOCK = "a party that connects has a clock that differs by days from the one here"
SKEW = timedelta(days=1)
"""Clocks of organisations differ; keys are pinned and leaves last for one run, so that dates protect little."""


@dataclass(frozen=True, eq=False)
class Credentials:
    """Certificate that a party shows the others, and the parties that it accepts."""

    server: ssl.SSLContext
    clients: Mapping[str, ssl.SSLContext]
    """By peer: accepts that one only."""


def _label(key: Ed25519PublicKey) -> str:
    return hashlib.sha256(b"ksdp-label-1" + key.public_bytes_raw()).hexdigest()[:_LABEL]


def _name(label: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, label)])


def _certificate(
    subject: str, key: Ed25519PublicKey, issuer: str, signer: Ed25519PrivateKey, now: datetime, *, authority: bool
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if not authority:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    return builder.sign(signer, algorithm=None)


def make_credentials(
    identity: Ed25519PrivateKey, peers: Mapping[str, Ed25519PublicKey], *, now: datetime
) -> Credentials:
    """Contexts for one run."""
    leaf = Ed25519PrivateKey.generate()
    mine = _label(identity.public_key())
    shown = _certificate(f"leaf of {mine}", leaf.public_key(), mine, identity, now, authority=False)
    root = _certificate(mine, identity.public_key(), mine, identity, now, authority=True)
    accepted = {
        peer: "".join(
            certificate.public_bytes(pem.Encoding.PEM).decode("ascii")
            for certificate in (root, _certificate(_label(key), key, mine, identity, now, authority=True))
        )
        for peer, key in peers.items()
    }
    password = secrets.token_bytes(32).hex().encode()
    secret = leaf.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.BestAvailableEncryption(password))
    with tempfile.TemporaryDirectory() as folder:  # mode 0700
        chain = Path(folder) / "leaf.pem"
        chain.write_bytes(secret + shown.public_bytes(pem.Encoding.PEM))
        server = _context(ssl.PROTOCOL_TLS_SERVER, "".join(accepted.values()), chain, password)
        clients = {
            peer: _context(ssl.PROTOCOL_TLS_CLIENT, text, chain, password) for peer, text in accepted.items()
        }
    return Credentials(server, clients)


def _context(kind: int, accepted: str, chain: Path, password: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(kind)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names are those of keys, not of hosts
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=accepted)
    context.load_cert_chain(chain, password=password)
    if kind == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 0  # every connection proves the keys anew
    return context


def peer_of(connection: ssl.SSLObject, peers: Mapping[str, Ed25519PublicKey]) -> str:
    """Name of the other end, from the leaf certificate that it has shown and proved to hold."""
    shown = connection.getpeercert(binary_form=True)
    if shown is None or connection.version() != "TLSv1.3":
        raise ProtocolError("The other end did not identify itself.")
    try:
        leaf = x509.load_der_x509_certificate(shown)
        (issuer,) = leaf.issuer.get_attributes_for_oid(NameOID.COMMON_NAME)
        name = {_label(key): peer for peer, key in peers.items()}[str(issuer.value)]
        peers[name].verify(leaf.signature, leaf.tbs_certificate_bytes)
        if leaf.extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            raise ValueError("an identity's certificate of another, not its own leaf")
    except (ValueError, KeyError, InvalidSignature, x509.ExtensionNotFound):
        raise ProtocolError("The other end has no key that is named in the protocol.") from None
    return name


def clock_words(leaf: x509.Certificate) -> str:
    """How far the clock of a leaf's holder is from the one here, as leaves are of today; empty: little."""
    off = leaf.not_valid_before_utc + SKEW - datetime.now(UTC)
    if abs(off) < SKEW:
        return ""
    days = f"{abs(off) / timedelta(days=1):.0f} days"
    return f"{days} {'ahead of' if off > timedelta() else 'behind'} the clock here"


class Door:
    """Listens for TLS connections of those whose keys are known; an asynchronous context.

    A stranger's connections are closed: of one address at most so many may be in their handshake, and of all
    together `_MOST_STRANGERS`, each for `_HANDSHAKE` seconds.

    Parameters
    ----------
    context : SSLContext
        Of the server's side.
    opened : callable
        Given each connection after its handshake.
    same : int
        Most connections of one address in their handshake.
    note : callable
        Told, once each, that connections are turned away, and that a peer's clock differs by days.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        opened: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
        *,
        same: int,
        seconds: float = HANDSHAKE,
        note: Callable[[str], None] = lambda words: None,
    ) -> None:
        self._context, self._opened, self._same, self._seconds = context, opened, same, seconds
        self._tell, self._noted = note, set[str]()
        self._coming: Counter[str] = Counter()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen; `OSError` where that cannot be."""
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: self._note(TURNED_AWAY, f": {context['message']}")
        )
        self._server = await asyncio.start_server(self._accept, host, port, limit=BUFFER)

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = writer.get_extra_info("peername")
        where = str(name[0]) if name else ""
        if self._coming[where] >= self._same or self._coming.total() >= _MOST_STRANGERS:
            self._note(TURNED_AWAY, f": more than {self._same} connections of {where} are in their handshake")
            writer.transport.abort()
            return
        self._coming[where] += 1
        try:
            # Nothing may be awaited before: what the other end has said would be lost.
            await writer.start_tls(self._context, ssl_handshake_timeout=self._seconds)
        except (OSError, TimeoutError) as error:
            # Dates are looked at last: the certificate is of somebody whose key is known.
            if isinstance(error, ssl.SSLCertVerificationError) and error.verify_code in (NOT_YET, EXPIRED):
                self._note(OTHER_CLOCK)
            writer.transport.abort()
            return
        finally:
            self._coming[where] -= 1
            self._coming += Counter()  # addresses that are gone are forgotten
        await self._opened(reader, writer)

    def _note(self, what: str, more: str = "") -> None:
        if what not in self._noted:
            self._noted.add(what)
            self._tell(what + more)
