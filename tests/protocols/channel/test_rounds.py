"""Rounds and the machines that speak in them."""

from collections.abc import Generator
from typing import Any

import pytest

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Machine, Round, RoundEngine, Rounds, run_together
from ksdp.protocols.channel.wire import pack, pack_number, unpack


def message(kind: str, number: int, body: bytes) -> bytes:
    return pack("round", kind.encode(), pack_number(number), body)


def answered(rounds: Generator[Round, Any, Any], *arrived: dict[str, bytes]) -> Any:
    """What some rounds return when so much arrives."""
    next(rounds)
    try:
        for mail in arrived:
            rounds.send(mail)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("more rounds than messages")


def test_everybody_is_sent_something_and_nothing_is_as_named_as_the_rest() -> None:
    spoken = next(RoundEngine("ada", ("bob", "cyd")).exchange("noise", {"cyd": b"mine"}))
    assert (spoken.number, spoken.kind) == (0, "noise")
    assert unpack("round", spoken.messages["bob"], 3) == (b"noise", pack_number(0), b"")
    assert unpack("round", spoken.messages["cyd"], 3) == (b"noise", pack_number(0), b"mine")


def test_rounds_are_numbered_on() -> None:
    engine = RoundEngine("ada", ("bob",))
    assert answered(engine.hear("first", "bob"), {"bob": message("first", 0, b"a")}) == b"a"
    assert answered(engine.everybody("then", b"b"), {"bob": message("then", 1, b"")}) == {"bob": b""}
    with pytest.raises(ProtocolError, match="bob is at another step"):
        answered(engine.hear("then", "bob"), {"bob": message("then", 1, b"c")})


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
        answered(RoundEngine("ada", ("bob", "cyd")).hear("told", "bob"), mail)


NAMES = ("ada", "bob", "cyd")


def node(me: int, rounds: int = 3) -> Rounds[int]:
    """Everybody says a number, then the total so far, and so on."""
    engine, value = RoundEngine(NAMES[me], [name for name in NAMES if name != NAMES[me]]), me + 1
    for _ in range(rounds):
        arrived = yield from engine.exchange("chain", dict.fromkeys(engine.others, bytes([value])), engine.others)
        value += sum(data[0] for data in arrived.values())
    return value


def test_nodes_hear_each_other_round_by_round() -> None:
    results, sent = run_together({name: node(me) for me, name in enumerate(NAMES)})
    assert list(results.values()) == [54] * 3
    assert [each.number for _, each in sent] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_a_repeated_and_an_early_message_are_refused() -> None:
    first, second = ({name: message("chain", at, b"1") for name in NAMES[1:]} for at in (0, 1))
    for mail in ([first, first], [second]):
        rounds = node(0)
        with pytest.raises(ProtocolError, match="bob is at another step"):
            answered(rounds, *mail)
        with pytest.raises(StopIteration):
            rounds.send(mail[-1])  # a generator that has ended cannot be asked again


def test_nodes_that_end_at_different_rounds_have_drifted_apart() -> None:
    with pytest.raises(ProtocolError, match="out of step"):
        run_together({name: node(me, rounds=2 if me else 1) for me, name in enumerate(NAMES)})


class TwoSteps(Machine):
    def __init__(self) -> None:
        super().__init__("first")
        self.secret = "kept"

    def first(self, fault: BaseException | None = None) -> None:
        with self._step("first", "second"):
            if fault:
                raise fault

    def second(self) -> None:
        with self._step("second", "done"):
            pass

    def _forget(self) -> None:
        self.secret = "forgotten"


def test_steps_are_taken_once_and_in_order() -> None:
    machine = TwoSteps()
    with pytest.raises(ProtocolError, match="`first` is due, not `second`"):
        machine.second()
    machine.first()
    with pytest.raises(ProtocolError, match="`second` is due, not `first`"):
        machine.first()
    machine.second()
    for step in (machine.first, machine.second):
        with pytest.raises(ProtocolError, match="nobody may be asked twice"):
            step()
    assert machine.due == "done"


@pytest.mark.parametrize("fault", [ProtocolError("a lie"), MemoryError(), KeyboardInterrupt(), KeyError("x")])
def test_any_fault_ends_the_machine_and_forgets(fault: BaseException) -> None:
    machine = TwoSteps()
    with pytest.raises(type(fault)):
        machine.first(fault)
    assert (machine.due, machine.secret) == ("ended", "forgotten")
    with pytest.raises(ProtocolError, match="ended with an error"):
        machine.first()


def test_refused_input_changes_nothing() -> None:
    machine = TwoSteps()
    with pytest.raises(InputError, match="too long"):
        machine.first(InputError("too long"))
    assert (machine.due, machine.secret) == ("first", "kept")
    machine.first()
