"""What needs the others: is everybody there, is it who is meant, does everybody mean the same, hop by hop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import ProtocolError
from ksdp.flows.interruption import Clock
from ksdp.flows.runs.check_words import Finding, Meant, about_of, mend
from ksdp.protocols.network.certificates import Credentials, make_credentials
from ksdp.protocols.network.mesh import Address, Peer
from ksdp.protocols.network.probes import ProbeError, ProbeListener, probe
from ksdp.protocols.runs.about import LARGEST_ABOUT, About, different_terms
from ksdp.tasks.provenance import code_hash

_CLOCKS = 300.0
"""Seconds that two clocks may differ: dates of clearances and of certificates are days."""
_PAUSE = 0.3
_AGAIN = frozenset({"refused", "mute", "silent", "hung-up", "name"})
"""What may pass: the other end is started, or mended, while this one waits."""


@dataclass(frozen=True, eq=False)
class PeerCheck:
    """Who looks, how long, and by which clock."""

    run: Meant
    me: str
    identity: Ed25519PrivateKey
    grounds: str
    listen: Address | None
    wait: float
    """Seconds for peers to come."""
    hop: float
    """Seconds for each hop."""
    clock: Clock


def check_peers(asked: PeerCheck, tell: Callable[[Finding], None]) -> tuple[Finding, ...]:
    """Listen, probe those whose names come earlier, wait for those whose names come later; compare.

    Parameters
    ----------
    tell : callable
        Told of each finding as it is made.
    """
    findings: list[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        tell(finding)

    asyncio.run(look(asked, note))
    return tuple(findings)


async def look(asked: PeerCheck, note: Callable[[Finding], None]) -> None:
    """The same within an event loop."""
    run, me = asked.run, asked.me
    there = run.speaks_with(me)
    keys = {node.name: Ed25519PublicKey.from_public_bytes(node.identity) for node in run.who if node.name in there}
    credentials = make_credentials(asked.identity, keys, now=asked.clock())
    listen = asked.listen or run.address(me)

    def say() -> bytes:
        return about_of(run, asked.grounds, asked.clock()).to_bytes()

    door = ProbeListener(listen, credentials, keys, say, seconds=asked.hop, limit=LARGEST_ABOUT)
    async with contextlib.AsyncExitStack() as stack:
        listens = True
        try:
            await stack.enter_async_context(door)
            note(Finding(me, "listen", f"{listen} is free"))
        except ProbeError as error:
            listens = False
            words = {"port": listen.port, "address": run.address(me), "host": listen.host, "peer": me}
            note(Finding(me, error.hop, str(error), error.code, mend(error.code, **words)))
        looks = [
            _dial(asked, Peer(name, run.address(name), key), credentials, keys, say, note)
            for name, key in keys.items()
            if name < me
        ]
        looks += [_await(asked, door, name, note) for name in keys if name > me and listens]
        await asyncio.gather(*looks)


async def _dial(
    asked: PeerCheck,
    peer: Peer,
    credentials: Credentials,
    keys: dict[str, Ed25519PublicKey],
    say: Callable[[], bytes],
    note: Callable[[Finding], None],
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + asked.wait
    while True:
        try:
            heard = await probe(peer, credentials, keys, say(), seconds=asked.hop, limit=LARGEST_ABOUT)
        except ProbeError as error:
            if error.code in _AGAIN and loop.time() < end:
                await asyncio.sleep(_PAUSE)
                continue
            words = {
                "peer": peer.name,
                "address": peer.address,
                "host": peer.address.host,
                "port": peer.address.port,
            }
            words |= {"me": asked.me, "ksdp": version("ksdp")}
            code = "key-there" if error.code == "key" else error.code
            note(Finding(peer.name, error.hop, str(error), code, mend(code, **words)))
            return
        except ProtocolError as error:
            note(
                Finding(
                    peer.name,
                    "answer",
                    f"{peer.name} {error}",
                    "old",
                    mend("old", peer=peer.name, ksdp=version("ksdp")),
                )
            )
            return
        for finding in compare(asked.run, peer.name, heard, asked.clock()):
            note(finding)
        return


async def _await(asked: PeerCheck, door: ProbeListener, name: str, note: Callable[[Finding], None]) -> None:
    async def here() -> None:
        async with door.came:
            await door.came.wait_for(lambda: name in door.heard)

    try:
        await asyncio.wait_for(here(), asked.wait)
    except TimeoutError:
        own = asked.run.address(asked.me)
        fault = f"{name} has not knocked at {own} within {asked.wait:g} s: its own check says why"
        note(Finding(name, "connect", fault, "nobody", mend("nobody", peer=name, own=own)))
        return
    heard = door.heard[name]
    if heard is None:
        note(Finding(name, "answer", f"{name} reaches this party, and waits in a run already"))
        return
    for finding in compare(asked.run, name, heard, asked.clock()):
        note(finding)


def compare(run: Meant, peer: str, heard: bytes, now: datetime) -> list[Finding]:
    """What a peer says of itself beside what is so here."""
    try:
        there = About.from_bytes(heard)
    except ProtocolError as error:
        return [Finding(peer, "answer", f"{peer} {error}", "old", mend("old", peer=peer, ksdp=version("ksdp")))]
    findings: list[Finding] = []
    ours = version("ksdp")
    if there.ksdp != ours:
        fault = f"{peer} has ksdp {there.ksdp}, this is {ours}"
        findings.append(Finding(peer, "version", fault, "version", mend("version", ksdp=ours)))
    elif there.code != code_hash():
        fault = f"{peer} has ksdp {ours} too, and other code ({there.code[:8]}; {code_hash()[:8]} here)"
        findings.append(Finding(peer, "version", fault, "version", mend("version", ksdp=ours)))
    off = there.clock - now.timestamp()
    if abs(off) > _CLOCKS:
        how = f"{abs(off) / 60:.0f} minutes {'ahead of' if off > 0 else 'behind'} the clock here"
        findings.append(Finding(peer, "clock", f"the clock of {peer} is {how}", "clock", mend("clock")))
    findings += [
        Finding(peer, "terms", line, "terms", mend("terms")) for line in different_terms(run.said, there.terms)
    ]
    if there.grounds == "uncleared":
        findings.append(Finding(peer, "clearance", f"{peer} enters its documents WITHOUT A CLEARANCE"))
    if all(finding.fine for finding in findings):
        findings.insert(0, Finding(peer, "terms", f"{peer} is there, with its key, and means the same run"))
    return findings
