"""A peer with a good key that does not keep to the frames: a message twice, early, late or too long."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from ksdp.protocols.network.links import Frame, Kind, Link, LinkError, Resume
from ksdp.protocols.network.tls import make_credentials

from .conftest import parties

ID = bytes(range(16))


def data(number: int, received: int = 0, payload: bytes = b"x") -> bytes:
    return Frame(Kind.DATA, number, received, payload).to_bytes()


def hello(own: bytes = ID, other: bytes = bytes(16), received: int = 0) -> bytes:
    return Frame(Kind.RESUME, payload=Resume(own, other, received).to_bytes()).to_bytes()


Talk = Callable[[Link], Awaitable[None]]


def said_by_bob(*connections: bytes, before: Talk | None = None) -> tuple[LinkError, list[bytes]]:
    """Why ada's link to bob failed when he says this, on one connection after the other; and what got through."""

    async def play() -> tuple[LinkError, list[bytes]]:
        all_of = parties(2)
        ada, bob = all_of["ada"], all_of["bob"]
        keys = {"ada": ada.identity.public_key()}
        credentials = make_credentials(bob.identity, keys, now=datetime.now(UTC))
        async with ada.mesh() as mesh:
            link, joining = mesh.links["bob"], asyncio.create_task(mesh.join(5.0))
            for number, said in enumerate(connections):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", ada.port, ssl=credentials.clients["ada"], server_hostname=""
                )
                writer.write(said)
                await writer.drain()
                if number == 0:
                    await link.connected.wait()
                    link.begin()
                    if before:
                        await before(link)
                if number + 1 < len(connections):
                    await asyncio.sleep(0.1)  # let it be read
                    writer.close()
            error = await asyncio.wait_for(asyncio.shield(link.failed), 5)
            got = [link._inbox.get_nowait() for _ in range(link._inbox.qsize())]
            writer.close()
            joining.cancel()
            return error, got

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (data(0) + data(0), "bob sent message 0 a second time"),
        (data(0) + data(1) + data(0), "bob sent message 0 a second time"),
        (data(1), "bob sent message 1 where 0 was due"),
        (data(0) + data(2) + data(1), "bob sent message 2 where 1 was due"),
        (data(0, received=1), "bob acknowledged messages that were never sent"),
        (hello(), "bob greeted twice"),
        (b"GET / HTTP/1.1\r\nHost: ada.example.org\r\n\r\n", "no frame of this protocol"),
        (data(0)[:4] + b"\x09" + data(0)[5:], "no frame of this protocol"),
        (data(0)[:21] + (1 << 40).to_bytes(8, "big"), "bob sent a frame of 1099511627776 bytes; at most"),
        (Frame(Kind.ABORT, payload=b"gone cyd").to_bytes(), "cyd disappeared: bob heard nothing more of it."),
        (Frame(Kind.ABORT, payload=b"ended cyd").to_bytes(), "cyd ended the run, as bob has heard."),
        (Frame(Kind.ABORT, payload=b"\x1b[31m \x1b[0m").to_bytes(), "bob ended the run: it gave no reason."),
        (
            Frame(Kind.ABORT, payload=b"gone \x1b[0m").to_bytes(),
            "somebody disappeared: bob heard nothing more of it.",
        ),
    ],
)
def test_what_nobody_may_send_ends_the_run(said: bytes, reason: str) -> None:
    error, _ = said_by_bob(hello() + said)
    assert reason in str(error)


@pytest.mark.parametrize(("who", "word"), [("cyd", "gone"), ("bob", "ended")])
def test_who_says_of_itself_that_it_is_gone_is_not(who: str, word: str) -> None:
    """It has heard so from another, who could choose by this who stays."""
    error, _ = said_by_bob(hello() + Frame(Kind.ABORT, payload=f"gone {who}".encode()).to_bytes())
    assert (error.peer, error.word) == (who, word)


def test_nothing_but_a_greeting_opens_a_connection() -> None:
    error, got = said_by_bob(hello() + data(0), data(1))
    assert "did not begin with a greeting" in str(error) or "at most 0" in str(error)
    assert got == [b"x"]


def test_an_earlier_connection_replayed_is_refused() -> None:
    """The same bytes on a new connection: the greeting is taken, message 0 is not."""
    whole = hello() + data(0) + data(1)
    error, got = said_by_bob(whole, whole)
    assert str(error) == "bob sent message 0 a second time."
    assert got == [b"x", b"x"]


def test_who_was_started_anew_cannot_go_on() -> None:
    error, _ = said_by_bob(hello() + data(0), hello(own=ID[::-1]))
    assert "was restarted during a run" in str(error)


@pytest.mark.parametrize("received", [0, 3])
def test_asking_again_for_what_was_acknowledged_is_refused(received: int) -> None:
    async def two_messages(link: Link) -> None:
        await link.send(b"a")
        await link.send(b"b")

    error, _ = said_by_bob(hello(), hello(received=1), hello(received=received), before=two_messages)
    assert "asked for messages that it has acknowledged" in str(error)
