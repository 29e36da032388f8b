"""One party's side of a mechanism with noise, as a generator: it asks, and is told.

Written once for both uses. The audit drives all parties of a database in one process, with simulated noise
(`privacy.released`); a run among hosts drives one party, with noise of its own and secure sums
(`ksdp.protocols`). A generator holds one party's rows and what is public, nothing else, and draws nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Ask", "Asks", "Keep", "OneNoise", "Show", "Sizes", "Sum", "Upload"]

Array = NDArray[np.float64]


def _as_it_is(array: Array) -> Any:
    return array


def _nothing() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Sum:
    """Told: the sum over the parties, each having added noise of its own; everybody learns it."""

    share: Array
    """Of the same shape at every party."""
    deviation: float
    """Of this party's noise, per entry."""
    after: Callable[[Array], Any] = _as_it_is
    """What is made of it, from what is public alone: told in its place. A simulation makes it once for all."""


@dataclass(frozen=True, eq=False)
class OneNoise:
    """Told: the sum over the parties with the noise of one of them, nobody knowing whose; everybody learns it.

    The server learns it first; no party and no server sees the sum without noise (FedPower, Algorithm 2).
    """

    share: Array
    """Of the same shape at every party."""
    deviation: float
    """Of the one noise that is left, per entry; the same at every party."""
    after: Callable[[Array], Any] = _as_it_is
    """What is made of it, from what is public alone: told in its place. A simulation makes it once for all."""


@dataclass(frozen=True, eq=False)
class Upload:
    """Told: what the server makes of all uploads (the mechanism's `collected`); everybody learns that."""

    share: Array
    deviation: float
    """Of the noise that this party adds to its share."""
    send: Callable[[Array], Array] = _as_it_is
    """What is made of the noisy share before it leaves the party."""
    beside: Array = field(default_factory=_nothing)
    """Numbers that the server gets without noise."""
    after: Callable[[Array], Any] = _as_it_is
    """What is made of it, from what is public alone: told in its place. A simulation makes it once for all."""


@dataclass(frozen=True, eq=False)
class Keep:
    """Told: the array with noise. It never leaves the party."""

    array: Array
    deviation: float


@dataclass(frozen=True, eq=False)
class Show:
    """Told: the first party's array as it is; everybody learns it. What the others hold is not asked for."""

    array: Array


@dataclass(frozen=True)
class Sizes:
    """Told: the rows of every party, in the parties' order. They are public."""

    rows: int


Ask = Sum | OneNoise | Upload | Keep | Show | Sizes
Asks = Generator[Ask, Any, Mapping[str, Array]]
"""Yields what it asks, is sent what it is told; returns what is public at the end by name, the same everywhere."""
