"""A run over connections to all other parties: each two hold one, the later name dials the earlier."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Bodies, Round, Rounds
from ksdp.protocols.network.links import FrameStream, Link, LinkError, LinkTimes, Observer
from ksdp.protocols.network.tls import (
    BUFFER,
    EXPIRED,
    HANDSHAKE,
    NOT_YET,
    OTHER_CLOCK,
    Credentials,
    Door,
    clock_words,
    peer_of,
)
from ksdp.protocols.programs.run_terms import LARGEST_ABOUT, DifferentTerms

RUN_PROTOCOL, CHECK_PROTOCOL = "ksdp-run-1", "ksdp-check-1"
"""What a connection is for, as TLS's application protocol; one without is a run's."""
_SAME = 4
"""Connections a party that one address may have in their handshake."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0


_HOST = re.compile(r"[\w.%:-]{1,253}")
"""Letters of any script: an address is written into files, and shown."""


@dataclass(frozen=True)
class Address:
    """Where a party listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """From `host:port` or `[host]:port`."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            host = ""
        if not (colon and _HOST.fullmatch(host) and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
            raise InputError(f"`address` must be HOST:PORT, or [HOST]:PORT for IPv6; got {text!r}.")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if ":" not in self.host else f"[{self.host}]:{self.port}"


@dataclass(frozen=True)
class Peer:
    """Another party."""

    name: str
    address: Address
    key: Ed25519PublicKey = field(compare=False)


class ListenError(InputError):
    """An address cannot be listened on.

    Parameters
    ----------
    code : str
        Why, of a fixed list.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


_NO_LISTENING = {
    errno.EADDRINUSE: ("taken", "is taken: another process listens there"),
    errno.EADDRNOTAVAIL: ("not-here", "is no address of this machine"),
    errno.EACCES: ("not-allowed", "may not be listened on by this user (ports below 1024)"),
}


class Mesh:
    """An asynchronous context: listens while it is open, and answers peers who check; `join` connects.

    Parameters
    ----------
    limit : int
        Most bytes of one message.
    about : callable
        What is said to a peer who checks whether this party is there (`probes`).
    patience : mapping, optional
        Peers without whom the run goes on, and the seconds that each may let the others wait.

    Raises
    ------
    ListenError
        On entering.
    """

    def __init__(
        self,
        own: str,
        listen: Address,
        peers: Mapping[str, Peer],
        credentials: Credentials,
        *,
        limit: int,
        times: LinkTimes,
        observe: Observer,
        about: Callable[[], bytes] = bytes,
        patience: Mapping[str, float] | None = None,
    ) -> None:
        self._about, self._patience, self._longer = about, patience or {}, 0.0
        credentials.server.set_alpn_protocols([RUN_PROTOCOL, CHECK_PROTOCOL])
        for context in credentials.clients.values():
            context.set_alpn_protocols([RUN_PROTOCOL])
        self.own, self._listen, self._peers, self._credentials = own, listen, peers, credentials
        self._keys = {name: peer.key for name, peer in peers.items()}
        self._limit, self.times, self._observe = limit, times, observe
        self.links: dict[str, Link] = {}
        self._door = Door(credentials.server, self._accept, same=_SAME * (len(peers) + 1), note=self._noticed)
        self._dialling: list[asyncio.Task[None]] = []
        self._joining = False
        self.noticed = ""
        """What was turned away at the door, and why."""
        self.heard: dict[str, bytes | None] = {}
        """What peers said who check; None of one that is in a run, before `join`."""
        self.came = asyncio.Condition()
        """Notified of every peer that is heard."""
        self._trouble: dict[str, str] = {}
        self._missing = "it is not started, cannot reach this one, or has another key than named"

    async def __aenter__(self) -> Mesh:
        self.links = {
            name: Link(self.own, name, limit=self._limit, times=self.times, observe=self._observe)
            for name in self._peers
        }
        try:
            await self._door.open(self._listen.host, self._listen.port)
        except socket.gaierror:
            raise ListenError("name", f"the name {self._listen.host!r} is not known here") from None
        except OSError as error:
            other = ("listen", f"cannot be listened on: {error.strerror or error}")
            code, why = _NO_LISTENING.get(error.errno or 0, other)
            raise ListenError(code, f"{self._listen} {why}") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._door.close()
        for task in self._dialling:
            task.cancel()
        closing = (link.close() for link in self.links.values())
        await asyncio.gather(*closing, *self._dialling, return_exceptions=True)

    def _noticed(self, what: str) -> None:
        self.noticed = what
        self._observe(what, "")
        if what == OTHER_CLOCK:
            self._missing += f"; {what}: `ksdp party --check`"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        shown = writer.get_extra_info("ssl_object")
        try:
            name = peer_of(shown, self._keys)
        except ProtocolError:
            writer.close()
            return
        if shown.selected_alpn_protocol() == CHECK_PROTOCOL:
            await self._answer(name, reader, writer)
        elif self._joining and name > self.own:  # the others are dialled
            await asyncio.wait({self.links[name].attach(reader, writer)})
        else:
            writer.close()
            await self._hear(name, None)

    async def _answer(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Tell a peer who checks what it asks for; the run is not touched."""
        stream = FrameStream(reader, writer, LARGEST_ABOUT)
        with contextlib.suppress(OSError, ProtocolError, TimeoutError, asyncio.IncompleteReadError):
            heard = await asyncio.wait_for(stream.receive(), HANDSHAKE)
            await stream.send(self._about())
            await self._hear(name, heard)
        writer.close()

    async def _hear(self, name: str, heard: bytes | None) -> None:
        async with self.came:
            if heard is not None or name not in self.heard:
                self.heard[name] = heard
            self.came.notify_all()

    async def _dial(self, peer: Peer) -> None:
        link, pause = self.links[peer.name], _FIRST_PAUSE
        while not link.over:
            with contextlib.suppress(OSError, ProtocolError, TimeoutError):
                reader, writer = await self._connect(peer)
                pause = _FIRST_PAUSE
                await asyncio.wait({link.attach(reader, writer)})
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _connect(self, peer: Peer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        another = f"whoever answers at {peer.address} does not have the key that is named for {peer.name}"
        # What was learnt before says more.
        self._trouble.setdefault(peer.name, f"nobody answers at {peer.address}")
        try:
            reader, writer = await asyncio.open_connection(
                peer.address.host,
                peer.address.port,
                ssl=self._credentials.clients[peer.name],
                server_hostname="",
                ssl_handshake_timeout=HANDSHAKE,
                limit=BUFFER,
            )
        except ssl.SSLCertVerificationError as error:
            clocks = f"the clocks of {peer.name} and here differ by days: `ksdp party --check` says by how many"
            self._trouble[peer.name] = clocks if error.verify_code in (NOT_YET, EXPIRED) else another
            raise
        shown = writer.get_extra_info("ssl_object")
        if peer_of(shown, self._keys) != peer.name:
            writer.close()
            self._trouble[peer.name] = another
            raise ProtocolError(another)
        off = clock_words(x509.load_der_x509_certificate(shown.getpeercert(binary_form=True)))
        why = f"its clock is {off}" if off else f"its file may name another key for {self.own}"
        self._trouble[peer.name] = f"it hung up: {why}"
        return reader, writer

    async def join(self, wait: float) -> None:
        """Dial, and return once all others are connected; without those that may be lost when the time is over."""
        self._joining, self._longer, optional = True, wait, self._patience.keys()
        self._dialling = [
            asyncio.create_task(self._dial(peer)) for name, peer in self._peers.items() if name < self.own
        ]
        coming = asyncio.create_task(self._all_here())
        failures = [link.failed for name, link in self.links.items() if name not in optional]
        either: set[asyncio.Future[Any]] = {coming, *failures}
        try:
            await asyncio.wait(either, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            coming.cancel()
        for failure in failures:
            if failure.done():
                raise failure.result()
        absent = sorted(name for name, link in self.links.items() if not link.connected.is_set())
        for name in optional & set(absent):
            self.links[name].fail(f"{name} did not come.", "gone")
        absent = [name for name in absent if name not in optional]
        if absent:
            why = [self._trouble.get(name, self._missing) for name in absent]
            said = "; ".join(f"{name}: {reason}" for name, reason in zip(absent, why, strict=True))
            raise ProtocolError(f"Not all parties came within {wait:g} seconds. {said}.")
        for link in self.links.values():
            link.begin()

    async def _all_here(self) -> None:
        while absent := [each for each in self.links.values() if not (each.connected.is_set() or each.over)]:
            here = asyncio.create_task(absent[0].connected.wait())
            either: set[asyncio.Future[Any]] = {here, absent[0].failed}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                here.cancel()

    async def exchange(self, messages: Mapping[str, bytes]) -> dict[str, bytes]:
        """Send each peer its message and return what each sends in turn; nothing of one that is lost and may be.

        Raises
        ------
        LinkError
            If there is no way on with one of the others.
        """
        tasks = {name: asyncio.create_task(self._swap(name, body)) for name, body in messages.items()}
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        self._longer = 0.0
        return {name: body for name, task in tasks.items() if (body := task.result()) is not None}

    async def _swap(self, name: str, body: bytes) -> bytes | None:
        """What a peer sends in turn for a message; None of one that is lost and may be."""
        link, within = self.links[name], self._patience.get(name)
        if within is not None:  # who comes last may have waited for others before
            within += self._longer
        receiving, sending = asyncio.create_task(link.receive(within)), asyncio.create_task(link.send(body))
        try:
            await asyncio.gather(receiving, sending)
        except LinkError:
            if name not in self._patience:
                raise
            await link.abort("gone", name)
            return None
        finally:
            receiving.cancel()
            sending.cancel()
            await asyncio.gather(receiving, sending, return_exceptions=True)
        return receiving.result()

    async def finish(self, wait: float) -> None:
        """Part in peace: all has arrived here; give the others time to say the same."""
        here = [link for link in self.links.values() if not link.failed.done()]
        await asyncio.gather(*(link.finish(wait) for link in here))

    async def abort(self, word: str, who: str = "") -> None:
        """Tell all others, except whom it is about, that the run is over."""
        await asyncio.gather(*(link.abort(word, who) for name, link in self.links.items() if name != who))


Note = Callable[..., None]
"""Told of every event by keyword: kinds, names, sizes, never a value."""
_PARTING = 5.0
"""Seconds to wait for the others' goodbye; they have all they need by then, unless a connection broke."""
_Outcome = TypeVar("_Outcome")


async def run_over_mesh(rounds: Rounds[_Outcome], mesh: Mesh, *, present: float, note: Note) -> _Outcome:
    """Wait for the others, run, part.

    Parameters
    ----------
    rounds : Rounds
        The protocol.
    mesh : Mesh
        Open.
    present : float
        Seconds to wait for the others.

    Raises
    ------
    ProtocolError
        If anybody disappears, deviates or ends the run; the others are told, and nobody has a result.
    InputError
        If this party's own input is refused on the way; the others are told that much.
    """
    note(what="waiting", peers=sorted(mesh.links))
    await mesh.join(present)
    note(what="all present")
    try:
        step = await asyncio.to_thread(_step_of, rounds, None)
        while isinstance(step, Round):
            for peer, message in sorted(step.messages.items()):
                note(what="sent", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
            arrived = await mesh.exchange(step.messages)
            for peer, message in sorted(arrived.items()):
                note(what="received", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
            step = await asyncio.to_thread(_step_of, rounds, arrived)
    except BaseException as error:
        with contextlib.suppress(ValueError):  # a step may still be running in its thread
            rounds.close()
        await mesh.abort(*_told(error))
        raise
    await mesh.finish(_PARTING)
    outcome: _Outcome = step
    return outcome


def _step_of(rounds: Rounds[Any], arrived: Bodies | None) -> Any:
    """The next round, or the result (no thread may let a `StopIteration` out)."""
    try:
        return next(rounds) if arrived is None else rounds.send(arrived)
    except StopIteration as stop:
        return stop.value


def _told(error: BaseException) -> tuple[str, str]:
    """What the others are told: a word of a fixed list, and whom it is about."""
    if isinstance(error, LinkError):
        return error.word, error.peer
    if isinstance(error, DifferentTerms):
        return "terms", ""
    if isinstance(error, ProtocolError):
        return "fault", ""
    return ("refused" if isinstance(error, InputError) else "stopped"), ""
