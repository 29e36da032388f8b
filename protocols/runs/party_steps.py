"""One party's side of an algorithm, as a generator: it asks for sums over the parties and is given them.

The same generator is driven with plain sums (the ideal functionality), with the secure sums of machines in one
process, and by a transport among hosts. It holds one party's rows and everything public, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.factorisation.power_iteration import normed_sec_sum, sec_sum

__all__ = ["PartyResult", "Steps", "Wanted", "drive", "plain_total"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Wanted:
    """A sum over the parties that the next step needs."""

    share: Array
    """This party's, of the same shape at every party."""
    normed: bool = False
    """Every row of the sum divided by its norm, which nobody learns (NormedSecSum); shape (rows, d)."""


@dataclass(frozen=True, eq=False)
class PartyResult:
    """What a party holds at the end."""

    public: Mapping[str, NDArray[Any]]
    """What everybody has learnt, by the names of the mechanism's observables; the same bits at every party."""
    own: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What stays with this party."""


Steps = Generator[Wanted, Array, PartyResult]
"""Yields what it wants summed, is sent the total, returns the result."""


def plain_total(wanted: Sequence[Wanted]) -> Array:
    """What a trusted third party would announce: the plain sum, or its rows divided by their norms."""
    shares = [want.share for want in wanted]
    return normed_sec_sum(shares)[0] if wanted[0].normed else sec_sum(shares)


def drive(
    parties: Sequence[Steps], total: Callable[[Sequence[Wanted]], Array] = plain_total
) -> tuple[PartyResult, ...]:
    """Run all parties in this process; `total` sums what they want.

    Raises
    ------
    ProtocolError
        If the parties stop asking at different steps, or ask for different things.
    """
    wanted: list[Wanted] = []
    results: list[PartyResult] = []
    sent: Array | None = None
    while not results:
        wanted = []
        for steps in parties:
            try:
                wanted.append(next(steps) if sent is None else steps.send(sent))
            except StopIteration as stop:
                results.append(stop.value)
        if results and wanted:
            raise ProtocolError("Some parties are done, others are not: they drifted apart.")
        if wanted:
            if len({(want.share.shape, want.normed) for want in wanted}) != 1:
                raise ProtocolError("The parties ask for different sums: they drifted apart.")
            sent = total(wanted)
    return tuple(results)
