"""A wrong sensitivity, found by one run and its replay on the neighbouring database.

Noise of a given size hides a record only while the record moves the exact value by no more than the sensitivity
that the noise was made for. A run on the first database is recorded, value by value, noise and all. The second
database goes through the same run: every round starts from the noisy values of the first. What both would have
been without noise then differs by one record alone, and the distance is compared with the sensitivity. Two runs
find what thousands of noisy ones may not (record and replay of primitives, https://arxiv.org/abs/2602.17454).

Twice: on the worst pair as it is, and with all its records 16 times as long, which finds a bound on records that
is missing or too high. A distance that is found is a proof; none is not. Noise that is too small for a sensitivity
that is right is not seen here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ksdp.audit.contract import Database, Replayable
from ksdp.audit.errors import InputError

LONGER = 16
"""How many times as long the records of the second pair are."""


@dataclass(frozen=True)
class MovedValue:
    """How far one record moves one noisy value before its noise, given all noisy values before it."""

    release: str
    """Which value, for people."""
    norm: str
    """L2 or L1, as the noise needs it."""
    distance: float
    sensitivity: float
    """What the noise was made for."""
    rounding: float = 0.0
    """What floating point may have added to the distance, at most."""
    unknown: str = ""
    """Why the sensitivity is not known; empty where it is."""

    @property
    def too_far(self) -> bool:
        """Whether the distance is above the sensitivity, which then is wrong."""
        return not self.unknown and self.distance > self.sensitivity + self.rounding


@dataclass(frozen=True)
class Replayed:
    """What a run and its replay say of the sensitivities that a claim rests on."""

    values: int
    """Noisy values of the run whose sensitivity is known."""
    farthest: MovedValue | None
    """Of these the one that moves farthest for its sensitivity."""
    not_checked: str
    """Why others, or all, were not compared; empty where all were."""

    @property
    def refuted(self) -> bool:
        """Whether a value moves farther than its noise was made for."""
        return self.farthest is not None and self.farthest.too_far

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Replayed:
        """What `dataclasses.asdict` gave."""
        farthest = stored["farthest"]
        return cls(stored["values"], MovedValue(**farthest) if farthest else None, stored["not_checked"])

    def sentence(self) -> str:
        """For people, on one line."""
        unchecked = f" NOT CHECKED: {self.not_checked}." if self.not_checked else ""
        if (far := self.farthest) is None:
            return f"Replay:{unchecked}"
        if far.too_far:
            return (
                f"Replay REFUTES the sensitivity: one record moves {far.release} by {far.distance:.6g} "
                f"({far.norm}), its noise was made for {far.sensitivity:.6g}. Bound what a record adds, or make "
                f"the noise for {far.distance:.6g} at least.{unchecked}"
            )
        return (
            f"Replay: of {self.values} noisy values none moves farther than its noise was made for; farthest "
            f"{far.release}, {far.distance:.6g} of {far.sensitivity:.6g} ({far.norm}).{unchecked}"
        )


def replayed(mechanism: object, pair: tuple[Database, Database], rng: np.random.Generator) -> Replayed:
    """Run a mechanism once on the first of two neighbours, replay the run on the second, and compare.

    Parameters
    ----------
    mechanism : object
        One without `moved` is not checked.
    pair : tuple of Database
        They differ in one record.
    rng : numpy.random.Generator
        Of the noise of the one run.
    """
    if not isinstance(mechanism, Replayable):
        return Replayed(0, None, "the mechanism has no `moved`, which records values before their noise")
    found = [*mechanism.moved(pair, rng)]
    if not any(one.too_far for one in found):
        found += _with_longer(mechanism, pair, rng)
    known = [one for one in found if not one.unknown]
    unknown = next((f"{one.release}: {one.unknown}" for one in found if one.unknown), "")
    farthest = max(known, key=lambda one: (one.too_far, _share(one)), default=None)
    return Replayed(len(known), farthest, unknown if known or unknown else "the run has no noisy value")


def _with_longer(
    mechanism: Replayable, pair: tuple[Database, Database], rng: np.random.Generator
) -> list[MovedValue]:
    """The same, of records that a bound must cut."""
    records = f"records {LONGER} times as long"
    try:
        found = mechanism.moved((_longer(pair[0]), _longer(pair[1])), rng)
    except InputError as refused:
        return [MovedValue(records, "", 0.0, 0.0, unknown=f"refused, {refused}".removesuffix("."))]
    return [replace(one, release=f"{one.release} ({records})") for one in found]


def _longer(database: Database) -> Database:
    return replace(database, parties=tuple(LONGER * part for part in database.parties))


def _share(one: MovedValue) -> float:
    """Of the sensitivity, what the distance takes; equal where only rounding differs."""
    return round(one.distance / one.sensitivity, 9) if one.sensitivity else one.distance
