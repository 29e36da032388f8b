"""How a normed sum's material can be made by the parties themselves; all of them must do it the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.rounds import Script
from ksdp.protocols.norms.lattice_offline import (
    LatticeSetup,
    largest_lattice,
    lattice_batch,
    lattice_script,
    lattice_setup_script,
)
from ksdp.protocols.norms.normed_material import NormedMaterial
from ksdp.protocols.norms.normed_offline import batch_of, largest_offline, offline_script
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.ot_setup import OtSetup, setup_script


@dataclass(frozen=True)
class OfflineWay:
    """One way; what `setup` makes serves all sums of one session and of the same parameters."""

    setup: Callable[[bytes, int, NormedSumParameters, RandomBytes], Script[Any]]
    """Session, party, parameters, source of secrets; once a session."""
    material: Callable[[Any, NormedSumParameters, int, RandomBytes], Script[NormedMaterial]]
    """What `setup` made, parameters, number of the sum, source of secrets."""
    batch: Callable[[Any, NormedSumParameters, int], bytes]
    """32 bytes that name this sum, the same at parties that mean the same."""
    largest: Callable[[NormedSumParameters], int]
    """Bytes: no message has more, its header aside."""


def _transfers_setup(
    session: bytes, party: int, parameters: NormedSumParameters, random_bytes: RandomBytes
) -> Script[OtSetup]:
    return setup_script(session, party, parameters.parties, random_bytes=random_bytes)


def _transfers(
    setup: OtSetup, parameters: NormedSumParameters, number: int, random_bytes: RandomBytes
) -> Script[NormedMaterial]:
    return offline_script(setup, parameters, number, random_bytes=random_bytes)


def _lattice_setup(
    session: bytes, party: int, parameters: NormedSumParameters, random_bytes: RandomBytes
) -> Script[LatticeSetup]:
    return lattice_setup_script(session, party, parameters, random_bytes=random_bytes)


def _lattice(
    setup: LatticeSetup, parameters: NormedSumParameters, number: int, random_bytes: RandomBytes
) -> Script[NormedMaterial]:
    if setup.terms.parameters != parameters:
        raise InputError("`setup` is of sums with other parameters.")
    return lattice_script(setup, number, random_bytes=random_bytes)


OFFLINE_WAYS = MappingProxyType(
    {
        "transfers": OfflineWay(_transfers_setup, _transfers, batch_of, largest_offline),
        "lattice": OfflineWay(_lattice_setup, _lattice, lattice_batch, largest_lattice),
    }
)
"""By the name that the protocol file gives. A dealer is none: it is for tests."""
