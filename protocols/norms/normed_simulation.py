"""All parties of a normed sum in one process: for tests, examples and benchmarks, not among real parties.

Each party keeps its own machine and its own randomness; what they tell each other passes through `deliver`, which
gives back everything that a listener on all lines would have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.round_machine import RoundMachine, RoundMessage
from ksdp.protocols.norms.normed_material import NormedMaterial, Offline, deal
from ksdp.protocols.norms.normed_offline import NormedOfflineParty
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_sum import NormedSum, NormedSumParty
from ksdp.protocols.norms.ot_setup import OtSetup, OtSetupParty

__all__ = ["deliver", "simulate_material", "simulate_normed_sum", "simulate_setup"]


def deliver(parties: Iterable[RoundMachine[Any]]) -> tuple[RoundMessage, ...]:
    """Start all parties and carry messages until nobody has anything to say.

    Returns
    -------
    tuple of RoundMessage
        All that were sent, in the order of sending.
    """
    machines = {machine.party: machine for machine in parties}
    waiting = [message for machine in machines.values() for message in machine.start()]
    sent: list[RoundMessage] = []
    while waiting:
        sent += waiting
        waiting = [answer for message in waiting for answer in machines[message.receiver].receive(message)]
    return tuple(sent)


def simulate_setup(
    parties: int, session: bytes | None = None, *, random_bytes: RandomBytes = os_random
) -> tuple[OtSetup, ...]:
    """Base transfers between all pairs."""
    session = random_bytes(32) if session is None else session
    machines = [OtSetupParty(session, party, parties, random_bytes=random_bytes) for party in range(parties)]
    deliver(machines)
    return tuple(machine.result for machine in machines)


def simulate_material(
    parameters: NormedSumParameters,
    setups: Sequence[OtSetup],
    number: int = 0,
    *,
    random_bytes: RandomBytes = os_random,
) -> tuple[NormedMaterial, ...]:
    """Everybody's material for sum `number`, by oblivious transfer."""
    machines = [NormedOfflineParty(setup, parameters, number, random_bytes=random_bytes) for setup in setups]
    deliver(machines)
    return tuple(machine.result for machine in machines)


def simulate_normed_sum(
    vectors: ArrayLike,
    *,
    fraction_bits: int = 31,
    integer_bits: int = 16,
    floor_bits: int | None = None,
    offline: Offline = "ot",
    random_bytes: RandomBytes = os_random,
) -> NormedSum:
    """The whole protocol on the rows of a matrix, one party a row.

    Parameters
    ----------
    vectors : array_like of shape (M, d)
        Everybody's input.
    fraction_bits, integer_bits, floor_bits : int
        As in `NormedSumParameters`.
    offline : {"ot", "dealer"}
        Where the material comes from.
    random_bytes : callable
        Source of secrets.

    Examples
    --------
    >>> found = simulate_normed_sum([[1.0, 2.0], [2.0, 2.0]], offline="dealer")
    >>> found.values.round(8), found.offline
    (array([0.6, 0.8]), 'dealer')
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2:
        raise InputError(f"`vectors` must have two dimensions; got {rows.ndim}.")
    parameters = NormedSumParameters(len(rows), rows.shape[1], fraction_bits, integer_bits, floor_bits)
    if offline == "dealer":
        materials = deal(parameters, random_bytes)
    else:
        setups = simulate_setup(parameters.parties, random_bytes=random_bytes)
        materials = simulate_material(parameters, setups, random_bytes=random_bytes)
    parties = [NormedSumParty(material, row) for material, row in zip(materials, rows, strict=True)]
    deliver(parties)
    return parties[0].result
