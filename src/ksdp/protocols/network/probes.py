"""Is a peer there, and is it the one that is meant: hop by hop, until something fails, and then what.

A check uses the connections of a run (same address, same certificates), told apart by TLS's application protocol:
so a party that waits in a run answers a check, and its run is not disturbed.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.x509.oid import NameOID

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.network.links import FrameStream
from ksdp.protocols.network.mesh import CHECK_PROTOCOL, Address, Peer
from ksdp.protocols.network.tls import BUFFER, EXPIRED, NOT_YET, Credentials, clock_words, holder_of, peer_of


class ProbeError(ProtocolError):
    """A check got no further.

    Parameters
    ----------
    code : str
        Which fault it is, of a fixed list.
    hop : str
        Where: `name`, `connect`, `tls`, `certificate`, `clock`, `answer`.
    """

    def __init__(self, code: str, hop: str, message: str) -> None:
        super().__init__(message)
        self.code, self.hop = code, hop


async def probe(
    peer: Peer,
    credentials: Credentials,
    keys: Mapping[str, Ed25519PublicKey],
    message: bytes,
    *,
    seconds: float,
    limit: int,
) -> bytes:
    """Say one thing to a peer and hear one thing.

    Parameters
    ----------
    keys : mapping
        Of all peers: whoever answers in another's place is named.
    seconds : float
        For each hop.
    limit : int
        Most bytes of the answer.

    Raises
    ------
    ProbeError
        Naming the hop that fails.
    """
    connected = await _connect(peer.address, seconds)
    try:
        reader, writer = await asyncio.open_connection(
            sock=connected,
            ssl=_for_checks(credentials.clients[peer.name]),
            server_hostname="",
            ssl_handshake_timeout=seconds,
            limit=BUFFER,
        )
    except ssl.SSLCertVerificationError as error:
        connected.close()
        raise await _who_is_it(peer, keys, error.verify_code, seconds) from None
    except (OSError, TimeoutError) as error:
        connected.close()
        raise _no_tls(peer, error) from None
    try:
        shown = writer.get_extra_info("ssl_object")
        peer_of(shown, {peer.name: peer.key})
        if shown.selected_alpn_protocol() != CHECK_PROTOCOL:
            raise ProbeError("old", "answer", f"{peer.name} has a ksdp that answers no checks")
        stream = FrameStream(reader, writer, limit)
        await stream.send(message)
        return await asyncio.wait_for(stream.receive(), seconds)
    except TimeoutError:
        raise ProbeError("mute", "answer", f"{peer.name} does not answer within {seconds:g} s") from None
    except (OSError, asyncio.IncompleteReadError):
        leaf = x509.load_der_x509_certificate(shown.getpeercert(binary_form=True))
        raise _refused_us(peer, leaf) from None
    finally:
        writer.close()


async def _connect(address: Address, seconds: float) -> socket.socket:
    loop = asyncio.get_running_loop()
    try:
        looked = loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        found = await asyncio.wait_for(looked, seconds)
    except (socket.gaierror, UnicodeError):
        raise ProbeError("name", "name", f"the name {address.host!r} is not known here") from None
    except TimeoutError:
        said = f"{address.host!r} cannot be resolved: the name server does not answer"
        raise ProbeError("name", "name", said) from None
    last: BaseException = OSError()
    for family, kind, protocol, _, where in found:
        tried = socket.socket(family, kind, protocol)
        tried.setblocking(False)
        try:
            await asyncio.wait_for(loop.sock_connect(tried, where), seconds)
        except (OSError, TimeoutError) as error:
            tried.close()
            last = error
        else:
            return tried
    if isinstance(last, TimeoutError):
        said = f"{address} is silent: connecting ended after {seconds:g} s without a word (a firewall that drops)"
        raise ProbeError("silent", "connect", said)
    if isinstance(last, ConnectionRefusedError):
        raise ProbeError("refused", "connect", f"nothing listens at {address}")
    assert isinstance(last, OSError)
    raise ProbeError("route", "connect", f"there is no way to {address}: {last.strerror or 'unknown reason'}")


def _no_tls(peer: Peer, error: BaseException) -> ProbeError:
    where = peer.address
    if isinstance(
        error, TimeoutError | ConnectionAbortedError
    ):  # asyncio's word for a handshake that takes too long
        return ProbeError(
            "mute", "tls", f"{where} takes the connection and says nothing (a firewall or a balancer)"
        )
    if isinstance(error, ssl.SSLError) and "EOF" not in str(error.reason):
        if "ALERT" in str(error.reason):
            return ProbeError("tls", "tls", f"{where} refuses TLS 1.3 ({error.reason}): it is no ksdp")
        return ProbeError("not-tls", "tls", f"{where} answers, and not with TLS: it is no ksdp")
    return ProbeError("hung-up", "tls", f"{where} hangs up before it has said who it is")


def _refused_us(peer: Peer, leaf: x509.Certificate) -> ProbeError:
    if off := clock_words(leaf):
        return ProbeError("clock", "clock", f"{peer.name} hangs up: its clock is {off}")
    return ProbeError("refuses-us", "certificate", f"{peer.name} does not know the key that is shown to it")


async def _who_is_it(peer: Peer, keys: Mapping[str, Ed25519PublicKey], code: int, seconds: float) -> ProbeError:
    """Whose certificate it is that was refused: looked at once more, and believed in nothing."""
    where, name = peer.address, peer.name
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        connected = await _connect(where, seconds)
        with contextlib.closing(connected):
            _, writer = await asyncio.open_connection(
                sock=connected, ssl=context, server_hostname="", ssl_handshake_timeout=seconds
            )
            shown = x509.load_der_x509_certificate(
                writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            )
            writer.close()
    except (OSError, ProtocolError, TimeoutError, ValueError, TypeError):
        return ProbeError("key", "certificate", f"the peer at {where} does not have the key of {name}")
    holder, is_ours = holder_of(shown, keys)
    if holder == name and code in (NOT_YET, EXPIRED):
        return ProbeError(
            "date", "clock", f"the certificate of {name} is out of date: its clock is {clock_words(shown)}"
        )
    if holder is not None and holder != name:
        said = f"{holder} answers at {where}, the address that is named for {name}"
        return ProbeError("swapped", "certificate", said)
    if is_ours:
        said = f"a ksdp answers at {where}, and not with the key that is named for {name}"
        return ProbeError("key", "certificate", said)
    return ProbeError(
        "proxy",
        "certificate",
        f"something at {where} terminates TLS with its own certificate ({_called(shown)}): a proxy, not {name}",
    )


def _called(shown: x509.Certificate) -> str:
    names = shown.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    text = str(names[0].value)[:60] if names else ""
    return repr(text) if text and text.isprintable() else "without a name"


def _for_checks(context: ssl.SSLContext) -> ssl.SSLContext:
    context.set_alpn_protocols([CHECK_PROTOCOL])
    return context
