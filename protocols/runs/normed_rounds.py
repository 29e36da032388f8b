"""Normed sums within a run: base transfers once, then for every share the machines of all its rows.

The rows of one iteration do not depend on each other, so that the online phases of all of them share rounds.
Offline phases follow one another, because their messages are large.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.round_machine import RoundMachine, RoundMessage
from ksdp.protocols.channel.wire import pack, unpack
from ksdp.protocols.norms.normed_offline import NormedOfflineParty, largest_offline
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_sum import NormedSumParty
from ksdp.protocols.norms.ot_setup import OtSetup, OtSetupParty
from ksdp.protocols.runs.agreement import RunTerms

__all__ = ["NormedRounds", "check_normed", "largest_batch"]

Bodies = Mapping[str, bytes]
Exchange = Callable[[str, Bodies], Generator[Any, Bodies, dict[str, bytes]]]
Talking = Generator[Any, Bodies, None]
_HEADERS = 128
"""Bytes around one message of a machine, at most."""
_BASE = 1 << 13


def _parameters(terms: RunTerms) -> NormedSumParameters:
    p = terms.precision
    return NormedSumParameters(terms.parties, terms.features, p.fraction_bits, p.integer_bits(terms.parties))


def check_normed(terms: RunTerms) -> None:
    """Refuse terms that no normed sum can keep.

    Raises
    ------
    InputError
        If the bits, the bound or the number of features are out of range.
    """
    try:
        _parameters(terms)
    except InputError as error:
        raise InputError(f"`precision` does not fit normed sums: {error}") from None


def largest_batch(terms: RunTerms) -> int:
    """No message of `NormedRounds` has more bytes."""
    p = _parameters(terms)
    rank = int(getattr(terms.mechanism, "rank", 1))
    online = max(p.ring.width * p.dimension, 2 * p.scalar_ring.width)
    return max(_BASE, largest_offline(p), rank * (online + _HEADERS)) + (1 << 12)


class NormedRounds:
    """One party's normed sums of one run.

    Parameters
    ----------
    terms : RunTerms
    name : str
        Which participant this is.
    session : bytes
        Of the run.
    exchange : callable
        Carries one message to each of the others, and theirs back.
    random_bytes : callable
        Source of secrets.
    """

    def __init__(
        self, terms: RunTerms, name: str, session: bytes, exchange: Exchange, random_bytes: RandomBytes
    ) -> None:
        self._names = [p.name for p in terms.participants]
        self._me = self._names.index(name)
        self._parameters = _parameters(terms)
        self._session = hashlib.sha256(pack("normed-rounds", session)).digest()
        self._exchange, self._random_bytes = exchange, random_bytes
        self._setup: OtSetup | None = None
        self.taken = 0
        """Normed sums so far, of one row each."""
        self.reveals = ""
        """What follows from them, in plain words."""

    def begin(self) -> Talking:
        """Base transfers between all pairs."""
        machine = OtSetupParty(self._session, self._me, len(self._names), random_bytes=self._random_bytes)
        yield from self._carry("base transfers", [machine])
        self._setup = machine.result

    def total(self, share: NDArray[np.float64]) -> Generator[Any, Bodies, NDArray[np.float64]]:
        """Every row of the parties' sum divided by its norm, shape (rows, d).

        Raises
        ------
        InputError
            If a row is longer than the bound.
        ProtocolError
            If a row of the sum is zero or too short to have a direction.
        """
        assert self._setup is not None
        machines = []
        for row in share:
            offline = NormedOfflineParty(
                self._setup, self._parameters, self.taken, random_bytes=self._random_bytes
            )
            yield from self._carry("normed offline", [offline])
            machines.append(NormedSumParty(offline.result, row))
            self.taken += 1
        yield from self._carry("normed sum", machines)
        self.reveals = machines[0].result.reveals
        return np.stack([machine.result.values for machine in machines])

    def _carry(self, kind: str, machines: Sequence[RoundMachine[Any]]) -> Talking:
        spoken = [machine.start() for machine in machines]
        while any(spoken):
            bodies = {}
            for index, name in enumerate(self._names):
                if index != self._me:
                    sent = (message for said in spoken for message in said if message.receiver == index)
                    bodies[name] = pack("machines", *(message.to_bytes() for message in sent))
            arrived = yield from self._exchange(kind, bodies)
            heard: list[list[RoundMessage]] = [[] for _ in machines]
            for name, body in arrived.items():
                for at, part in enumerate(unpack("machines", body, len(machines))):
                    message = RoundMessage.from_bytes(part)
                    if message.sender != self._names.index(name):
                        raise ProtocolError(f"{name} sent a message of somebody else.")
                    heard[at].append(message)
            spoken = [
                tuple(answer for message in messages for answer in machine.receive(message))
                for machine, messages in zip(machines, heard, strict=True)
            ]
