"""Base transfers between all pairs of parties, once a session; everything after is symmetric cryptography.

Two rounds: every party announces a point to every peer, and answers the points that it got. Afterwards every
ordered pair (receiver, sender) can extend, as often as wanted: `OtSetup.take` numbers the extensions and gives no
number twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import Exchange, Script
from ksdp.protocols.norms.base_ot import BaseReceiver, BaseSender
from ksdp.protocols.norms.ot_extension import SECURITY

_POINT = 32
_SESSION_BYTES = 32


@dataclass(frozen=True, eq=False, repr=False)
class OtSetup:
    """One party's seeds with every peer; secret to it."""

    session: bytes
    party: int
    parties: int
    pairs: dict[int, list[tuple[bytes, bytes]]]
    """By peer: both seeds of 128 transfers, for extensions in which this party receives."""
    deltas: dict[int, NDArray[np.uint8]]
    """By peer: 128 secret bits, for extensions in which this party sends."""
    seeds: dict[int, list[bytes]]
    """By peer: the seeds that those bits chose."""
    _taken: set[int] = field(default_factory=set)

    def take(self, number: int) -> None:
        """Use up a number of an extension, from 0.

        Raises
        ------
        InputError
            If it is out of range.
        ProtocolError
            If it was used before: the streams would repeat.
        """
        if not 0 <= number < 1 << 32:
            raise InputError(f"`number` must be from 0 to 2^32 - 1; got {number}.")
        if number in self._taken:
            raise ProtocolError(f"Extension {number} of these seeds has been made before.")
        self._taken.add(number)


def setup_script(
    session: bytes, party: int, parties: int, *, random_bytes: RandomBytes = os_random
) -> Script[OtSetup]:
    """One party of the base transfers.

    Parameters
    ----------
    session : bytes
        32 bytes that all agree on and nobody uses twice, such as a hash of the terms.
    party, parties : int
        Which party this is, from 0, and how many there are.
    random_bytes : callable
        Source of secrets; the operating system's unless a test injects another.
    """
    if len(session) != _SESSION_BYTES:
        raise InputError(f"`session` must be {_SESSION_BYTES} bytes; got {len(session)}.")
    if not 0 <= party < parties:
        raise InputError(f"`party` must be from 0 to {parties - 1}; got {party}.")
    return _script(session, party, parties, random_bytes)


def _script(session: bytes, me: int, parties: int, random_bytes: RandomBytes) -> Script[OtSetup]:
    peers = [peer for peer in range(parties) if peer != me]

    def label(receiver: int, sender: int) -> bytes:  # of the base transfer
        return session + receiver.to_bytes(2, "big") + sender.to_bytes(2, "big")

    senders = {peer: BaseSender(label(peer, me), random_bytes) for peer in peers}
    points = yield Exchange(
        {peer: sender.announcement for peer, sender in senders.items()}, dict.fromkeys(peers, _POINT)
    )
    deltas, receivers = {}, {}
    for peer in peers:
        packed = np.frombuffer(random_bytes(SECURITY // 8), dtype=np.uint8)
        deltas[peer] = np.unpackbits(packed, bitorder="little")
        receivers[peer] = BaseReceiver(label(me, peer), points[peer], deltas[peer].tolist(), random_bytes)
    answers = yield Exchange(
        {peer: receiver.answer for peer, receiver in receivers.items()}, dict.fromkeys(peers, _POINT * SECURITY)
    )
    pairs = {peer: senders[peer].keys(answers[peer]) for peer in peers}
    return OtSetup(session, me, parties, pairs, deltas, {peer: receivers[peer].keys for peer in peers})
