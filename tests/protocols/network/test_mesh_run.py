"""Runs over real TLS among parties in one event loop: they agree; what a bad network or a bad peer does."""

import asyncio
import contextlib
import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.contract import Database
from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.protocols.network import tls
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Mesh
from ksdp.protocols.programs.programs import party_program
from ksdp.protocols.programs.rounds import RunOutcome, party_rounds
from ksdp.protocols.programs.run_terms import Statement

from .conftest import NAMES, NMF, Meddle, Party, all_ends, free_ports, parties, party_matrix, proxy


def agree(ends: list[RunOutcome | BaseException]) -> None:
    outcomes = [end for end in ends if isinstance(end, RunOutcome)]
    assert len(outcomes) == len(ends), ends
    assert len({outcome.digest for outcome in outcomes}) == 1
    database = Database(tuple(party_matrix(name) for name in NAMES[: len(ends)]))
    ideal = NMF.run(database, np.random.default_rng(0))["T"]
    np.testing.assert_allclose(outcomes[0].result.public["T"], ideal, rtol=0, atol=1e-7)


def test_parties_may_come_in_any_order_and_one_may_start_over_before_all_are_there() -> None:
    async def play() -> list[RunOutcome | BaseException]:
        all_of = parties()
        early = asyncio.create_task(all_of["bob"].run())
        runs = [asyncio.create_task(all_of["cyd"].run())]
        await asyncio.sleep(0.5)
        early.cancel()
        await asyncio.wait({early})
        return await all_ends(all_of["bob"].run(), *runs, all_of["ada"].run())

    agree(asyncio.run(play()))


def run_all(all_of: dict[str, Party]) -> list[RunOutcome | BaseException]:
    """How a run ends for all who take part from its start."""

    async def play() -> list[RunOutcome | BaseException]:
        return await all_ends(*(party.run() for party in all_of.values()))

    return asyncio.run(play())


def played(all_of: dict[str, Party], meddle: Meddle) -> list[RunOutcome | BaseException]:
    """How a run ends for all, where bob's connection to ada goes through a proxy that meddles with it."""
    (port,) = free_ports(1)
    all_of["bob"].ports["ada"] = port

    async def play() -> list[RunOutcome | BaseException]:
        async with proxy(port, all_of["ada"].port, meddle):
            return await all_ends(*(party.run() for party in all_of.values()))

    return asyncio.run(play())


def test_a_lost_connection_is_taken_up_where_it_was() -> None:
    """Cut three times, each within a message: nothing is lost, nothing comes twice."""
    seen = 0

    async def cut(number: int, data: bytes) -> bytes | None:
        nonlocal seen
        seen += len(data)
        return None if number <= 3 and seen > number * 4000 else data

    all_of = parties()
    agree(played(all_of, cut))
    assert sum(event["what"] == "reconnected" for event in all_of["bob"].events) >= 2, "one may hit a handshake"


@pytest.mark.parametrize("kind", ["change", "truncate"])
def test_meddling_for_a_while_changes_nothing(kind: str) -> None:
    """TLS refuses the bytes, the connection is dropped, and the next one goes on."""
    met = 0

    async def meddle(number: int, data: bytes) -> bytes | None:
        nonlocal met
        if number > 1 or len(data) < 100 or (met := met + 1) < 8:
            return data
        if kind == "change":
            return data[:-1] + bytes([data[-1] ^ 1])
        return data[: len(data) // 2] if met == 8 else None

    all_of = parties()
    agree(played(all_of, meddle))
    assert any(event["what"] == "reconnected" for event in all_of["bob"].events)


def from_the_twelfth_on(instead: bytes | None) -> Meddle:
    met = itertools.count(1)

    async def meddle(number: int, data: bytes) -> bytes | None:
        return data if next(met) < 12 else instead

    return meddle


def test_a_message_that_never_comes_ends_the_run_for_all() -> None:
    all_of = parties()
    for party in all_of.values():
        party.times = LinkTimes(message=1.0, reconnect=1.0)
    ends = played(all_of, from_the_twelfth_on(b""))
    assert all(isinstance(end, ProtocolError) for end in ends), ends
    assert any("sent nothing for 1 seconds" in str(end) for end in ends)


def test_meddling_that_does_not_stop_ends_the_run_for_all() -> None:
    ends = played(parties(), from_the_twelfth_on(None))
    assert all(isinstance(end, ProtocolError) for end in ends), ends
    assert any("disappeared" in str(end) for end in ends[:2])
    assert re.match("(ada|bob) disappeared: (ada|bob) heard nothing", str(ends[2])), "cyd's connections are well"


@pytest.mark.deviation("every run: break off with the last message")
def test_who_breaks_off_with_the_last_message_has_the_result_alone() -> None:
    """Bob hears everybody's last word and keeps his own."""

    async def silent(party: Party) -> RunOutcome:
        program = party_program(party.mechanism, party_matrix(party.name))
        rounds = party_rounds(party.terms, party.name, party.identity, program, Statement(cleared=False))
        async with party.mesh() as mesh:
            await mesh.join(party.present)
            said = next(rounds)
            while said.kind != "result":
                said = rounds.send(await mesh.exchange(said.messages))
            last = {name: await link.receive() for name, link in mesh.links.items()}
        with pytest.raises(StopIteration) as stop:
            rounds.send(last)
        outcome: RunOutcome = stop.value.value
        return outcome

    async def play() -> list[RunOutcome | BaseException]:
        all_of = parties()
        for party in all_of.values():
            party.times = LinkTimes(message=2.0, reconnect=1.0)
        return await all_ends(all_of["ada"].run(), silent(all_of["bob"]), all_of["cyd"].run())

    ada, bob, cyd = asyncio.run(play())
    assert isinstance(bob, RunOutcome)
    for end in (ada, cyd):
        assert isinstance(end, ProtocolError)
        assert "bob" in str(end)


def test_who_disappears_ends_the_run_for_the_others() -> None:
    async def play() -> list[RunOutcome | BaseException]:
        all_of = parties()
        for party in all_of.values():
            party.mechanism = PDNMF(rank=2, sweeps=100_000, tolerance=0.0)
        runs = [asyncio.create_task(party.run()) for party in all_of.values()]
        while not any(event["what"] == "sent" and event["round"] > 20 for event in all_of["bob"].events):
            await asyncio.sleep(0.02)
        runs[1].cancel()
        return await all_ends(*runs)

    ada, bob, cyd = asyncio.run(play())
    assert isinstance(bob, asyncio.CancelledError)
    for end in (ada, cyd):
        assert isinstance(end, ProtocolError)
        # A party that hears of it from another before bob's own word still hears that it was bob.
        assert re.match(r"bob ended the run(: it was stopped|, as \w+ has heard)\.", str(end))


@pytest.mark.deviation(
    "sums that parties may leave: leave out parties that are there, or tell one that it is gone"
)
@pytest.mark.parametrize("lie", [False, True])
def test_who_is_stopped_leaves_and_who_is_told_that_it_is_gone_ends_the_run(
    lie: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else any party could choose who stays; bob is stopped, or hears from ada that he is gone."""
    meshes: dict[str, Mesh] = {}
    monkeypatch.setattr(
        Mesh, "join", (lambda join: lambda mesh, wait: join(meshes.setdefault(mesh.own, mesh), wait))(Mesh.join)
    )

    async def play() -> list[RunOutcome | BaseException]:
        all_of = parties()
        for party in all_of.values():
            party.mechanism = HardtRoth(rank=2, iterations=20, epsilon=2.0, sampler="discrete")
            party.threshold = 2
        runs = [asyncio.create_task(party.run()) for party in all_of.values()]
        while not any(event["what"] == "sent" and event["round"] > 20 for event in all_of["ada"].events):
            await asyncio.sleep(0.02)
        if lie:
            await meshes["ada"].links["bob"].abort("gone", "bob")
        else:
            runs[1].cancel()
        return await all_ends(*runs)

    ada, _, cyd = asyncio.run(play())
    if lie:
        assert all(re.match("bob (disappeared:|ended the run, as)", str(end)) for end in (ada, cyd))
        return
    assert isinstance(ada, RunOutcome)
    assert isinstance(cyd, RunOutcome)
    assert ada.digest == cyd.digest
    assert ada.departed.keys() == cyd.departed.keys() == {"bob"}


@pytest.mark.parametrize("missing", NAMES[:3])
def test_who_has_not_come_is_named_alike_by_all_who_have(missing: str) -> None:
    """The first to lose patience leaves: the others do not blame it, and where it comes again they go on."""
    all_of = parties()
    del all_of[missing]
    for seconds, party in enumerate(all_of.values(), start=1):
        party.present = float(seconds)
    for seconds, end in enumerate(run_all(all_of), start=1):
        start = f"Not all parties came within {seconds} seconds. {missing}: it has not come: start it; "
        assert str(end).startswith(start), end
        assert len(re.findall(r"\w+: it has", str(end))) == 1


def test_who_lost_patience_may_come_again() -> None:
    async def play() -> list[RunOutcome | BaseException]:
        all_of = parties()
        bob = asyncio.create_task(all_of["bob"].run())
        all_of["ada"].present = 1.0
        assert isinstance((await all_ends(all_of["ada"].run()))[0], ProtocolError)
        all_of["ada"].present = 60.0
        return await all_ends(bob, all_of["ada"].run(), all_of["cyd"].run())

    agree(asyncio.run(play()))


def test_two_who_do_not_reach_each_other_are_both_named() -> None:
    """Bob has another address of ada; cyd, who has both, hears whom one of them missed."""
    all_of = parties()
    (all_of["bob"].ports["ada"],) = free_ports(1)
    for name, seconds in (("ada", 1.0), ("bob", 1.0), ("cyd", 3.0)):
        all_of[name].present = seconds
    ada, bob, cyd = run_all(all_of)
    assert "1 seconds. bob: it has not come" in str(ada)
    assert "1 seconds. ada: it has not come: start it; nothing listens" in str(bob)
    assert str(cyd) in {
        f"{one} has left, as {other} did not come to it." for one, other in (NAMES[:2], NAMES[1::-1])
    }


def test_another_key_is_nobody() -> None:
    """Cyd is somebody else than the others think: nobody gets anything, and her name is said."""
    all_of = parties(3)
    all_of["cyd"].keys["cyd"] = all_of["cyd"].identity = Ed25519PrivateKey.generate()
    for party in all_of.values():
        party.present = 1.0
    ends = run_all(all_of)
    assert all(isinstance(end, ProtocolError) for end in ends), ends
    assert "Not all parties came within 1 seconds. cyd:" in str(ends[0])
    assert "ada: it hung up" in str(ends[2])


@pytest.mark.parametrize(
    ("who", "days", "other_key", "ada_says", "bob_says"),
    [
        ("bob", 3, False, "bob: .*differs by days from the one here: `timedatectl", "ada: it hung up"),
        ("bob", -40, False, "bob: .*differs by days from the one here: `timedatectl", "ada: it hung up"),
        ("ada", 3, False, "bob: it has not come: ", "ada: the clocks of ada and here differ by days"),
        ("ada", -3, True, "bob: it has not come: ", "ada: it hung up: its clock is 3 days behind"),
    ],
)
def test_a_clock_that_is_days_off_is_not_called_a_wrong_key(
    who: str, days: int, other_key: bool, ada_says: str, bob_says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves have the dates of the clock that is off; by that clock its holder's view of the others is right."""
    certificate = tls._certificate

    def dated(*names: Any, authority: bool) -> Any:
        return certificate(*names[:4], datetime.now(UTC) if authority else names[4], authority=authority)

    monkeypatch.setattr(tls, "_certificate", dated)
    all_of = parties(2)
    all_of[who].now += timedelta(days=days)
    if other_key:  # ada hangs up; by her clock it would be for the dates
        all_of["bob"].keys["bob"] = all_of["bob"].identity = Ed25519PrivateKey.generate()
    for party in all_of.values():
        party.present = 1.0
    for end, said in zip(run_all(all_of), (ada_says, bob_says), strict=True):
        assert re.search(said, str(end)), end


@pytest.mark.parametrize("early", [True, False])
def test_a_stranger_who_floods_the_port_stops_nobody(early: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Connections without a word from another address, before the run and while it goes on."""

    async def flood(party: Party, opened: list[asyncio.StreamWriter]) -> None:
        for _ in range(200):
            with contextlib.suppress(OSError):
                where = ("127.0.0.2", 0)
                _, writer = await asyncio.open_connection("127.0.0.1", party.port, local_addr=where)
                opened.append(writer)

    async def play() -> list[RunOutcome | BaseException]:
        all_of, opened = parties(), list[asyncio.StreamWriter]()
        first = asyncio.create_task(all_of["ada"].run())
        await asyncio.sleep(0.2)
        flooding = asyncio.create_task(flood(all_of["ada"], opened))
        if early:
            await flooding
        ends = await all_ends(all_of["bob"].run(), first, all_of["cyd"].run())
        await flooding
        for writer in opened:
            writer.close()
        (said,) = {event["what"] for event in all_of["ada"].events if "turned away" in event["what"]}
        assert "more than 12 connections of 127.0.0.2 are in their handshake" in said
        return ends

    agree(asyncio.run(play()))
    assert caplog.records == [], "no traceback"
