"""Every stream of random numbers that a seed gives, named once; and secret bytes, which no seed gives.

A stream belongs to a purpose and a place (lane, run, round, ...). Its spawn key is the purpose's number followed
by the place, so streams of different purposes are independent (NumPy's `SeedSequence`), in whatever order they
are used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import IntEnum, unique

import numpy as np

RandomBytes = Callable[[int], bytes]
"""A source of secret bytes: asked for n, it gives n."""


@unique
class Purpose(IntEnum):
    """Purposes of random streams. A number keeps its meaning for ever, as every stored result rests on it."""

    DRAW = 1
    """Which documents a run holds; place: lane or target, run."""
    CONTROL = 2
    """Bits and noise of the control documents; place: lane, run."""
    PARTIES = 3
    """Which rows each party holds."""
    TARGETS = 4
    """Which documents a balanced design audits."""
    MECHANISM = 5
    """Chance of the mechanism; place: lane, run."""
    ADVERSARY = 6
    """Which documents the adversary knows, where its coalition holds none."""
    SHUFFLE = 7
    """Runs dealt anew for the shuffled control; place: lane."""
    CANARY = 8
    """Noise of the canaries; place: lane, run."""
    CERTIFICATE = 9
    """Documents in a pair of runs; place: pair, then document."""
    CERTIFICATE_COINS = 10
    """Chance of the mechanism in both runs of a pair; place: pair."""
    OTHERS = 11
    """Which documents the other parties hold, where nobody knows; place: lane, run."""
    KEPT = 12
    """Which blocks of runs keep a document's without runs; place: lane, stratum of blocks."""
    PLANTED = 13
    """Coins of planted leaks; place: lane, run. Without a place, what is planted."""
    POOL = 14
    """Which documents databases are drawn from, where these are some."""
    SCREEN = 101
    """Seeds of the rounds of a screen; place: round."""
    FRESH = 102
    """Seed of the fresh runs."""
    SCHEDULE = 103
    """Seeds of the audits of a schedule; place: number of the audit."""
    SAMPLE = 104
    """Documents and parties that a search over levers looks at."""
    LEARNING = 105
    """Runs that measure what is learnt."""
    MORE = 106
    """Seed of the audit that looks again at documents chosen by an earlier one; place: runs asked for."""
    SEARCHED = 107
    """Seed of the spec that a search over levers recommends: its audit shares no run with the search."""
    AUDITED = 108
    """Seed of the runs of an audit that counts none but those it audits; place: their rows."""


def generator(seed: int, purpose: Purpose, *place: int) -> np.random.Generator:
    """The stream of a purpose at a place."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(purpose), *place)))


def derived_seed(seed: int, purpose: Purpose, *place: int) -> int:
    """A seed from which further streams are derived: 53 bits, so that JSON and TOML store it exactly."""
    drawn = np.random.SeedSequence(seed, spawn_key=(int(purpose), *place)).generate_state(1, np.uint64)
    return int(drawn[0] >> np.uint64(11))


def os_random(n: int) -> bytes:
    """n secret bytes from the operating system; what every protocol uses unless a test injects another source."""
    return os.urandom(n)
