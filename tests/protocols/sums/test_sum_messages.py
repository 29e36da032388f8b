"""What travels comes back unchanged, or is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.wire import pack
from ksdp.protocols.sums.sum_messages import Contribution, SumTerms, tag, what_follows

from ..conftest import participant

MESSAGE = Contribution(bytes(32), "ada", 3, (2, 1), b"coding", bytes(16), (("bob", bytes(16)),))


@given(
    st.binary(max_size=40),
    st.text(max_size=5),
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 2**64 - 1), max_size=3).map(tuple),
    st.binary(max_size=40),
    st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=16)), max_size=3).map(tuple),
)
def test_contributions_travel_unchanged(
    session: bytes,
    sender: str,
    number: int,
    shape: tuple[int, ...],
    payload: bytes,
    tags: tuple[tuple[str, bytes], ...],
) -> None:
    message = Contribution(session, sender, number, shape, b"coding", payload, tags)
    assert Contribution.from_bytes(message.to_bytes()) == message


@pytest.mark.parametrize(
    "packed",
    [
        pack("contribution", MESSAGE.header()),
        pack("contribution", MESSAGE.header(), b"", b"bob"),
        pack("contribution", pack("sum-header", b"", b"ada", bytes(8)), b""),
        pack("contribution", pack("sum-header", b"", b"\xff", bytes(8), b""), b""),
        pack("contribution", pack("sum-header", b"", b"ada", bytes(7), b""), b""),
        pack("hello", MESSAGE.header(), b""),
    ],
)
def test_anything_else_is_refused(packed: bytes) -> None:
    with pytest.raises(ProtocolError):
        Contribution.from_bytes(packed)


def test_a_tag_depends_on_everything() -> None:
    key = bytes(16)
    tags = {
        tag(key, 0, MESSAGE.header(), b"payload"),
        tag(b"1" * 16, 0, MESSAGE.header(), b"payload"),
        tag(key, 1, MESSAGE.header(), b"payload"),
        tag(key, 0, replace(MESSAGE, shape=(1, 2)).header(), b"payload"),
        tag(key, 0, MESSAGE.header(), b"payloae"),
    }
    assert len(tags) == 5


def test_a_session_is_all_that_was_agreed() -> None:
    ada, bob, cyd = (participant(name) for name in ("ada", "bob", "cyd"))
    sessions = {
        SumTerms((ada, bob), b"agreed").session,
        SumTerms((ada, bob), b"agreed otherwise").session,
        SumTerms((ada, cyd), b"agreed").session,
        SumTerms((ada, bob, cyd), b"agreed").session,
        SumTerms((ada, replace(bob, identity=cyd.identity)), b"agreed").session,
    }
    assert len(sessions) == 5
    with pytest.raises(InputError, match="at least 2; got 1"):
        SumTerms((ada,), b"agreed")


def test_what_follows_is_said_for_two_and_for_more() -> None:
    assert "each learns the other's input" in what_follows(2)
    assert "Any 4 of the 5 parties" in what_follows(5)
