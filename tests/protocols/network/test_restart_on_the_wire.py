"""A party that is killed and started anew, over real TLS: every byte that any link writes, before and after."""

from __future__ import annotations

import asyncio
import struct
from collections import defaultdict
from typing import Any

import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.network.framing import HEADER_BYTES, Kind
from ksdp.protocols.network.kept_run import KeptRun, begin_again
from ksdp.protocols.network.links import Link, LinkTimes
from ksdp.protocols.network.mesh_run import run_over_mesh
from ksdp.protocols.network.places import OtherRunError
from ksdp.protocols.runs.handshake import RunOutcome
from ksdp.protocols.runs.party_rounds import party_rounds
from ksdp.protocols.runs.programs import party_program
from ksdp.protocols.runs.run_terms import Statement

from .conftest import Party, all_ends, parties, party_matrix
from .test_kept_run import Disk
from .test_mesh_run import agree

_HEADER = struct.Struct(">4sBQQQ")
Written = dict[tuple[str, str], list[bytes]]
"""By sender and receiver, what each connection carried."""


class Killed(BaseException):
    """The process is gone: it tells nobody, and forgets nothing."""


class Recorder:
    """Writes, and remembers what."""

    def __init__(self, writer: asyncio.StreamWriter, written: list[bytes]) -> None:
        self._writer, self._written = writer, written
        written.append(b"")

    def write(self, data: bytes) -> None:
        self._written[-1] += data
        self._writer.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    found: Written = defaultdict(list)
    attach = Link.attach

    def recorded(link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> asyncio.Task[None]:
        return attach(link, reader, Recorder(writer, found[link.own, link.peer]))  # type: ignore[arg-type]

    monkeypatch.setattr(Link, "attach", recorded)
    return found


def frames(connection: bytes) -> list[tuple[int, bytes]]:
    """Numbers and payloads of the `DATA` frames; a last one that was cut off is left out."""
    found, at = [], 0
    while at + HEADER_BYTES <= len(connection):
        _, kind, number, _, length = _HEADER.unpack_from(connection, at)
        payload = connection[at + HEADER_BYTES : at + HEADER_BYTES + length]
        at += HEADER_BYTES + length
        if kind == Kind.DATA and len(payload) == length:
            found.append((number, payload))
    return found


async def process(party: Party, disk: Disk, killed: tuple[str, int] | None) -> RunOutcome:
    """What one process of a party does; killed where it notes an event."""
    kept = KeptRun(disk)
    if killed is not None:
        kept.forget = lambda: None  # type: ignore[method-assign]
    program = party_program(party.mechanism, party_matrix(party.name))
    rounds = party_rounds(
        party.terms, party.name, party.identity, program, Statement(cleared=False), random_bytes=kept.random_bytes
    )
    begun = begin_again(rounds, kept)
    mesh = party.mesh()
    mesh.go_on(begun)

    def note(**event: Any) -> None:
        party.note(**event)
        if killed is not None and (event["what"], event.get("round")) == killed:
            raise Killed

    async def nobody_is_told(word: str, who: str = "") -> None:
        pass

    if killed is not None:
        mesh.abort = nobody_is_told  # type: ignore[method-assign]
    async with mesh:
        return await run_over_mesh(rounds, mesh, begun=begun, present=30.0, note=note)


async def lives(party: Party, *kills: tuple[str, int]) -> RunOutcome:
    """One process after the other, until none is killed."""
    disk = Disk()
    for killed in kills:
        with pytest.raises(Killed):
            await process(party, disk, killed)
    outcome = await process(party, disk, None)
    assert not disk.gone, "whoever writes the result forgets the rest"
    return outcome


def three(**times: float) -> dict[str, Party]:
    all_of = parties()
    for party in all_of.values():
        party.times = LinkTimes(**({"message": 60.0, "reconnect": 60.0} | times))
    return all_of


BOB: list[tuple[str, int]] = [("sent", 4), ("received", 4), ("received", 7), ("sent", 8)]
CYD: list[tuple[str, int]] = [("received", 5), ("sent", 9)]


def test_no_link_ever_writes_two_payloads_under_one_number(written: Written) -> None:
    async def play() -> list[RunOutcome | BaseException]:
        all_of = three()
        return await all_ends(lives(all_of["ada"]), lives(all_of["bob"], *BOB), lives(all_of["cyd"], *CYD))

    agree(asyncio.run(play()))
    again = 0
    for way, connections in written.items():
        said = defaultdict[int, set[bytes]](set)
        for connection in connections:
            for number, payload in frames(connection):
                again += payload in said[number]
                said[number].add(payload)
        assert {len(payloads) for payloads in said.values()} == {1}, way
        assert sorted(said) == list(range(max(said) + 1))
    assert again > 0, "some were written more than once"
    assert max(map(len, written.values())) > 2


def test_who_comes_back_too_late_finds_nobody_and_the_others_have_said_its_name() -> None:
    async def play() -> Any:
        all_of = three(reconnect=0.3)
        disk = Disk()

        async def bob() -> Any:
            with pytest.raises(Killed):
                await process(all_of["bob"], disk, ("received", 5))

        ends = await all_ends(process(all_of["ada"], Disk(), None), bob(), process(all_of["cyd"], Disk(), None))
        others = all_ends(process(all_of["ada"], Disk(), None), process(all_of["cyd"], Disk(), None))
        waiting = asyncio.ensure_future(others)
        with pytest.raises(OtherRunError, match="has begun another run since"):
            await process(all_of["bob"], disk, None)
        return ends, await all_ends(process(all_of["bob"], Disk(), None), waiting)

    ends, (bob, others) = asyncio.run(play())
    for end in (ends[0], ends[2]):
        assert isinstance(end, ProtocolError)
        assert "bob disappeared" in str(end) or "it lost bob" in str(end) or "bob had ended it" in str(end)
    agree([bob, *others])
