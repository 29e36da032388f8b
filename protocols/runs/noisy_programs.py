"""Which mechanisms with noise parties can run, and what such a run needs."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeGuard

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.audit.mechanisms.privacy.dpdispca import DPdisPCA
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.audit.mechanisms.privacy.released import GaussianReleases

__all__ = [
    "LARGEST",
    "NOISY",
    "Program",
    "check_audited",
    "check_noisy",
    "is_noisy",
    "noisy_entries",
    "program_of",
]

LARGEST = 2.0**22
"""No share with its noise may be larger: in steps of 2^-31 it is then a float64 without rounding."""


@dataclass(frozen=True)
class Program:
    """What the run of a mechanism needs besides parties and secure sums."""

    server: str = ""
    """Why a server is needed; empty where none is."""
    least: int = 2
    """Parties."""
    one_noise: bool = False
    """Whether all noises but one are taken away (`one_noise`)."""
    seen: tuple[str, ...] = ()
    """Observables of what the server gets from a single party."""


NOISY = MappingProxyType(
    {
        "hardt-roth": Program(),
        "dp-nmf": Program(),
        "fedpower-private": Program(),
        "fedpower": Program(
            "it collects the devices' uploads and adds noise of its own", seen=("uploads", "scales")
        ),
        "dpdispca": Program("it collects what the sites send and decomposes it", seen=("P",)),
        "fedpower-utility": Program("it takes the noises but one away", least=3, one_noise=True),
    }
)
"""By name: what only an audit simulates (a mechanism that is broken on purpose) is no part of it."""


def program_of(mechanism: Mechanism) -> Program:
    """What a run needs; nothing, where the mechanism has no noise."""
    return NOISY.get(mechanism.name, Program())


def is_noisy(mechanism: Mechanism) -> TypeGuard[GaussianReleases]:
    """Whether its parties add noise (`ksdp.audit.mechanisms.party_side`)."""
    return mechanism.name in NOISY and isinstance(mechanism, GaussianReleases)


def check_noisy(mechanism: GaussianReleases, fraction_bits: int, bound: float, parties: int) -> None:
    """Refuse what would not be the audited mechanism, or would protect nobody.

    Raises
    ------
    InputError
        Naming the parameter.
    """
    if mechanism.sampler != "discrete":
        raise SpecError("`sampler` must be 'discrete' in a run among parties: the other protects nobody.")
    if fraction_bits != FRACTION_BITS:
        raise InputError(
            f"`precision.fraction_bits` must be {FRACTION_BITS} for {mechanism.name}, the grid of its noise; got "
            f"{fraction_bits}."
        )
    if bound > LARGEST:
        raise InputError(
            f"`precision.bound` must be at most {LARGEST:.0f} for {mechanism.name}: beyond, a share with noise "
            f"is not exact; got {bound:g}."
        )
    least = max(program_of(mechanism).least, getattr(mechanism, "colluders", 0) + 1)
    if parties < least:
        raise InputError(f"{mechanism.name} with these parameters needs at least {least} parties; got {parties}.")


def check_audited(mechanism: GaussianReleases) -> None:
    """Refuse a clearance whose audit has not looked at what the server sees, where no proof covers that.

    Raises
    ------
    SpecError
        Naming what `announce` lacks.
    """
    promise = mechanism.guarantee
    chosen = getattr(mechanism, "announce", ())
    missing = [name for name in program_of(mechanism).seen if chosen and name not in chosen]
    if missing and not (promise.sound and promise.kind == "(epsilon, delta)"):
        raise SpecError(
            f"`announce` must name {', '.join(missing)} in a run of {mechanism.name} on clearances: the server "
            "sees them, and an audit without them has not looked."
        )


def noisy_entries(mechanism: GaussianReleases, features: int) -> int:
    """Entries of the largest array that is announced or sent."""
    rows = mechanism.intermediate if isinstance(mechanism, DPdisPCA) else getattr(mechanism, "rank", 1)
    return int(rows) * features + features + 1
