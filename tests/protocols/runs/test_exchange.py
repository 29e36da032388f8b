"""Rounds are numbered and named, and nobody speaks out of turn."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.wire import pack, pack_number, unpack
from ksdp.protocols.runs.exchange import Round, Talk


def message(kind: str, number: int, body: bytes) -> bytes:
    return pack("round", kind.encode(), pack_number(number), body)


def answered(hops: Generator[Round, Any, Any], *arrived: dict[str, bytes]) -> Any:
    """What some hops return when so much arrives."""
    next(hops)
    try:
        for mail in arrived:
            hops.send(mail)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("more rounds than messages")


def test_everybody_is_sent_something_and_nothing_is_as_named_as_the_rest() -> None:
    spoken = next(Talk("ada", ("bob", "cyd")).exchange("noise", {"cyd": b"mine"}))
    assert (spoken.number, spoken.kind) == (0, "noise")
    assert unpack("round", spoken.messages["bob"], 3) == (b"noise", pack_number(0), b"")
    assert unpack("round", spoken.messages["cyd"], 3) == (b"noise", pack_number(0), b"mine")


def test_rounds_are_numbered_on() -> None:
    talk = Talk("ada", ("bob",))
    assert answered(talk.hear("first", "bob"), {"bob": message("first", 0, b"a")}) == b"a"
    assert answered(talk.everybody("then", b"b"), {"bob": message("then", 1, b"")}) == {"bob": b""}
    with pytest.raises(ProtocolError, match="bob is at another step"):
        answered(talk.hear("then", "bob"), {"bob": message("then", 1, b"c")})


@pytest.mark.parametrize(
    ("mail", "fault"),
    [
        ({"bob": message("told", 0, b""), "cyd": message("told", 0, b"")}, "bob said nothing where something is"),
        ({"bob": message("told", 0, b"a"), "cyd": message("told", 0, b"b")}, "cyd said something where nothing"),
        ({"bob": message("tell", 0, b"a"), "cyd": message("told", 0, b"")}, "bob is at another step"),
        ({"bob": b"?", "cyd": message("told", 0, b"")}, "round message was expected"),
    ],
)
def test_who_is_silent_or_speaks_out_of_turn_ends_the_run(mail: dict[str, bytes], fault: str) -> None:
    with pytest.raises(ProtocolError, match=fault):
        answered(Talk("ada", ("bob", "cyd")).hear("told", "bob"), mail)
