"""Steps once and in order; a fault ends, refused input does not."""

from __future__ import annotations

import pytest

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.state_machine import Machine, one_each
from ksdp.protocols.sums.secure_sum import SumParty
from ksdp.protocols.sums.sum_messages import SumTerms

from ..conftest import identity, participant


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


def test_messages_are_sorted_by_sender_one_each() -> None:
    terms = SumTerms(tuple(participant(name) for name in ("ada", "cyd")), b"agreed")
    hellos = [SumParty(terms, name, identity(name)).hello() for name in ("cyd", "ada")]
    assert list(one_each(hellos, {"ada", "cyd"}, "message")) == ["ada", "cyd"]
    with pytest.raises(ProtocolError, match="not expected to send one"):
        one_each(hellos, {"ada"}, "message")
    with pytest.raises(ProtocolError, match="ada sent its message twice"):
        one_each([hellos[1], hellos[1]], {"ada"}, "message")
