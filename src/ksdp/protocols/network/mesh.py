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
from typing import Any, NoReturn, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Bodies, Round, Rounds
from ksdp.protocols.network.links import MISSING, STOPPED, Link, LinkError, LinkTimes, Observer
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
from ksdp.protocols.programs.run_terms import DifferentTerms

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


_NO_LISTENING = {
    errno.EADDRINUSE: "is taken: another process listens there (`ss -ltnp` names it)",
    errno.EADDRNOTAVAIL: "is no address of this machine: `--listen 0.0.0.0:PORT`, and forward it there",
    errno.EACCES: "may not be listened on by this user: `--listen` with a port above 1023",
}


_COMPARE = "compare keys by telephone"
_CLOCKS = "`timedatectl set-ntp true` where the clock is wrong"
_NOT_COME = "it has not come: start it"


def _another_key(peer: Peer) -> str:
    return (
        f"whoever answers at {peer.address} does not have the key that is named for {peer.name}: {_COMPARE}, "
        "correct its `address`, and let a proxy pass TCP through"
    )


def _no_way(peer: Peer, error: Exception) -> str:
    where = peer.address
    match error:
        case socket.gaierror() | UnicodeError():
            return f"the name {where.host!r} is not known here: correct its `address`"
        case ssl.SSLCertVerificationError(verify_code=code):
            dates = f"the clocks of {peer.name} and here differ by days: {_CLOCKS}"
            return dates if code in (NOT_YET, EXPIRED) else _another_key(peer)
        case ConnectionRefusedError():
            return f"{_NOT_COME}; nothing listens at {where}: lead {where} to where it listens (`--listen`)"
        case ConnectionError() | TimeoutError() | ssl.SSLEOFError():
            return f"{where} takes the connection and ends it without a word: lead it to ksdp, past any balancer"
        case ssl.SSLError():
            return f"{where} answers, and not as ksdp (TLS 1.3): correct its `address`"
    return f"there is no way to {where}: correct its `address`, or the route"


class Mesh:
    """An asynchronous context: listens while it is open; `join` connects.

    Parameters
    ----------
    limit : int
        Most bytes of one message.
    patience : mapping, optional
        Peers without whom the run goes on, and the seconds that each may let the others wait.
    checks : bool
        Connect with peers that only check, too.

    Raises
    ------
    InputError
        On entering, if the address cannot be listened on.
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
        patience: Mapping[str, float] | None = None,
        checks: bool = False,
    ) -> None:
        self._patience, self._longer, self._checks = patience or {}, 0.0, checks
        self.own, self._listen, self._peers, self._credentials = own, listen, peers, credentials
        self._keys = {name: peer.key for name, peer in peers.items()}
        self._limit, self.times, self._observe = limit, times, observe
        self.links: dict[str, Link] = {}
        self._door = Door(credentials.server, self._accept, same=_SAME * (len(peers) + 1), note=self._noticed)
        self._dialling: list[asyncio.Task[None]] = []
        self._joining = False
        self._trouble: dict[str, str] = {}
        self._missing = f"{_NOT_COME}; it must reach {listen}, and name the key of {own} that is used here"

    async def __aenter__(self) -> Mesh:
        self.links = {
            name: Link(
                self.own, name, limit=self._limit, times=self.times, observe=self._observe, checks=self._checks
            )
            for name in self._peers
        }
        try:
            await self._door.open(self._listen.host, self._listen.port)
        except OSError as error:
            why = _NO_LISTENING.get(error.errno or 0, f"cannot be listened on: {error.strerror or error}")
            raise InputError(f"{self._listen} {why}") from None
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
        self._observe(what, "")
        if what == OTHER_CLOCK:
            self._missing += f"; {what}: {_CLOCKS}"

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            name = peer_of(writer.get_extra_info("ssl_object"), self._keys)
        except ProtocolError:
            writer.close()
            return
        if self._joining and name > self.own:  # the others are dialled
            await asyncio.wait({self.links[name].attach(reader, writer)})
        else:
            writer.close()

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
        # What was learnt before says more.
        silent = f"{_NOT_COME}; nobody answers at {peer.address}: let TCP through the firewalls at both ends"
        self._trouble.setdefault(peer.name, silent)
        try:
            reader, writer = await asyncio.open_connection(
                peer.address.host,
                peer.address.port,
                ssl=self._credentials.clients[peer.name],
                server_hostname="",
                ssl_handshake_timeout=HANDSHAKE,
                limit=BUFFER,
            )
        except (OSError, UnicodeError) as error:
            self._trouble[peer.name] = _no_way(peer, error)
            raise OSError from error
        shown = writer.get_extra_info("ssl_object")
        if peer_of(shown, self._keys) != peer.name:
            writer.close()
            self._trouble[peer.name] = _another_key(peer)
            raise ProtocolError(_another_key(peer))
        off = clock_words(x509.load_der_x509_certificate(shown.getpeercert(binary_form=True)))
        why = (
            f"its clock is {off}: {_CLOCKS}"
            if off
            else f"its file may name another key for {self.own}: {_COMPARE}"
        )
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
            self.links[name].fail(self._trouble.get(name, self._missing), "gone")
        if absent := [name for name in absent if name not in optional]:
            await self._give_up(absent, wait)
        for link in self.links.values():
            link.begin()

    async def _give_up(self, absent: list[str], wait: float) -> NoReturn:
        """Name who has not come, to all who have; who left before for want of the same is not to blame."""
        missed = {name: self.links[name].missed for name in absent}
        missing = [name for name in absent if not {*missed[name]} & {*absent}] or absent
        here = (link for link in self.links.values() if link.connected.is_set())
        await asyncio.gather(*(link.abort(MISSING, ", ".join(missing)) for link in here))
        why = {name: self._trouble.get(name, self._missing) for name in missing}
        departed = {name: ", ".join(names) for name, names in missed.items() if names and name in missing}
        why |= {name: f"it has left, as {names} did not come to it" for name, names in departed.items()}
        reasons = "; ".join(f"{name}: {reason}" for name, reason in why.items())
        raise ProtocolError(f"Not all parties came within {wait:g} seconds. {reasons}.")

    async def _all_here(self) -> None:
        while absent := [each for each in self.links.values() if not (each.connected.is_set() or each.over)]:
            here = asyncio.create_task(absent[0].connected.wait())
            either: set[asyncio.Future[Any]] = {here, absent[0].failed}
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                here.cancel()

    async def exchange(self, messages: Mapping[str, bytes], *, may_leave: bool = False) -> dict[str, bytes]:
        """Send each peer its message and return the answers, but of those that may be lost or leave."""
        swaps = {name: self._swap(name, body, may_leave) for name, body in messages.items()}
        tasks = {name: asyncio.create_task(swap) for name, swap in swaps.items()}
        try:
            await asyncio.gather(*tasks.values())
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)
        self._longer = 0.0
        return {name: body for name, task in tasks.items() if (body := task.result()) is not None}

    async def _swap(self, name: str, body: bytes, may_leave: bool) -> bytes | None:
        link, within = self.links[name], self._patience.get(name)
        if within is not None:  # who comes last may have waited for others before
            within += self._longer
        receiving, sending = asyncio.create_task(link.receive(within)), asyncio.create_task(link.send(body))
        try:
            await asyncio.gather(receiving, sending)
        except LinkError as error:
            leaves = error.word in ("gone", STOPPED) and error.peer == name
            if name not in self._patience and not (may_leave and leaves):
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
    """Wait for the others, run, part."""
    note(what="waiting", peers=sorted(mesh.links))
    await mesh.join(present)
    note(what="all present")
    try:
        step = await asyncio.to_thread(_step_of, rounds, None)
        while isinstance(step, Round):
            for peer, message in sorted(step.messages.items()):
                note(what="sent", kind=step.kind, round=step.number, peer=peer, bytes=len(message))
            arrived = await mesh.exchange(step.messages, may_leave=step.may_leave)
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
    try:
        return next(rounds) if arrived is None else rounds.send(arrived)
    except StopIteration as stop:
        return stop.value


def _told(error: BaseException) -> tuple[str, str]:
    if isinstance(error, LinkError):
        return "ended" if error.word == STOPPED else error.word, error.peer
    if isinstance(error, DifferentTerms):
        return "terms", ""
    if isinstance(error, ProtocolError):
        return "fault", ""
    return ("refused" if isinstance(error, InputError) else "stopped"), ""
