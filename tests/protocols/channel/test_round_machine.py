"""What is refused, and what a run that was ended does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.round_machine import Exchange, RoundMachine, RoundMessage, Script
from ksdp.protocols.norms.normed_simulation import deliver

SESSION = b"x" * 32


def chain(me: int, parties: int, rounds: int = 3) -> Script[int]:
    """Everybody says a number, then the total so far, and so on."""
    value = me + 1
    for _ in range(rounds):
        arrived = yield Exchange.broadcast(value.to_bytes(4, "big"), me, parties)
        value += sum(int.from_bytes(data, "big") for data in arrived.values())
    return value


def machines(parties: int = 3) -> list[RoundMachine[int]]:
    return [RoundMachine(SESSION, me, parties, chain(me, parties), largest=8) for me in range(parties)]


def test_everybody_gets_the_same_result_in_whatever_order() -> None:
    parties = machines()
    sent = deliver(parties)
    assert {party.result for party in parties} == {6 * 3 * 3}
    assert len(sent) == 3 * 2 * 3
    assert all(party.rounds == 3 and party.sent_bytes == 6 * (44 + 4) for party in parties)
    assert all(party.received_bytes == party.sent_bytes for party in parties)

    late = machines()
    waiting = [message for party in late for message in party.start()]
    while waiting:
        message = waiting.pop()  # last in, first out: some run a round ahead
        waiting += late[message.receiver].receive(message)
    assert {party.result for party in late} == {54}


def test_messages_survive_the_journey() -> None:
    message = RoundMessage(SESSION, 1, 2, 7, b"payload")
    assert RoundMessage.from_bytes(message.to_bytes()) == message
    for data in (b"", message.to_bytes()[:43], b"KNS2" + message.to_bytes()[4:]):
        with pytest.raises(ProtocolError, match="expected"):
            RoundMessage.from_bytes(data)


GOOD = RoundMessage(SESSION, 1, 0, 0, b"\0\0\0\2")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (replace(GOOD, session=b"y" * 32), "another session"),
        (replace(GOOD, receiver=2), "for party 2"),
        (replace(GOOD, sender=0), "from whom none is due"),
        (replace(GOOD, sender=3), "from whom none is due"),
        (replace(GOOD, round=2), "round 2"),
        (replace(GOOD, payload=b"\0\0\2"), "3 bytes"),
        (replace(GOOD, payload=b"\0\0\0\0\2"), "5 bytes"),
        (replace(GOOD, round=1, payload=bytes(9)), "9 bytes"),
    ],
)
def test_a_message_that_does_not_fit_ends_the_run(message: RoundMessage, reason: str) -> None:
    party = machines()[0]
    party.start()
    with pytest.raises(ProtocolError, match=reason):
        party.receive(message)
    with pytest.raises(ProtocolError, match="over"):
        party.receive(GOOD)
    with pytest.raises(ProtocolError, match="ended"):
        _ = party.result


def test_a_repeated_message_is_refused() -> None:
    party = machines()[0]
    party.start()
    assert party.receive(GOOD) == ()
    with pytest.raises(ProtocolError, match="twice"):
        party.receive(GOOD)


def test_an_old_message_is_refused() -> None:
    party = machines()[0]
    party.start()
    party.receive(GOOD)
    assert party.receive(replace(GOOD, sender=2))
    with pytest.raises(ProtocolError, match="round 0"):
        party.receive(GOOD)


def test_an_early_message_waits_and_is_measured_when_it_is_due() -> None:
    party = machines()[0]
    party.start()
    assert party.receive(replace(GOOD, round=1, payload=bytes(8))) == ()
    party.receive(GOOD)
    party.receive(replace(GOOD, sender=2))
    with pytest.raises(ProtocolError, match="8 bytes"):
        party.receive(replace(GOOD, sender=2, round=1))


def test_nothing_comes_of_a_missing_message() -> None:
    party = machines()[0]
    party.start()
    assert party.receive(GOOD) == ()
    assert not party.done
    with pytest.raises(ProtocolError, match="yet"):
        _ = party.result


def test_a_run_starts_once_and_before_it_receives() -> None:
    party = machines()[0]
    with pytest.raises(ProtocolError, match="not begun"):
        party.receive(GOOD)
    party.start()
    with pytest.raises(ProtocolError, match="started before"):
        party.start()
