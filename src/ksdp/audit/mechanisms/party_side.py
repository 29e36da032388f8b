"""One party's side of a mechanism, as a generator: it yields a request and is sent the answer.

Written once for all uses. The audit drives all parties of a database in one process, with exact sums
(`trusted_party`) or simulated noise (`privacy.announcer`). A run among hosts drives one party, with noise of its
own and secure sums (`ksdp.protocols.programs`). A generator holds one party's rows and what is public, and draws
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError, ProtocolError
from ksdp.audit.mechanisms.factorisation.power_iteration import normed_sec_sum, sec_sum
from ksdp.audit.numeric.lockstep import lockstep

Array = NDArray[np.float64]


def _as_it_is(array: Array) -> Any:
    return array


@dataclass(frozen=True, eq=False)
class SecSum:
    """Answer: the sum over the parties, exactly; everybody learns it."""

    share: Array
    """An array of the same shape at every party."""


@dataclass(frozen=True, eq=False)
class NormedSecSum:
    """Answer: the sum over the parties, every row divided by its norm, which nobody learns."""

    share: Array
    """Shape (rows, d), the same at every party."""


@dataclass(frozen=True, eq=False)
class NoisySum:
    """Answer: the sum over the parties, with noise; everybody learns it."""

    share: Array
    """An array of the same shape at every party."""
    deviation: float
    """Deviation of this party's noise per entry; with `colluders`, of the part that so many do not know."""
    after: Callable[[Array], Any] = _as_it_is
    """Applied to the answer, from what is public alone. A simulation applies it once for all parties."""
    colluders: int | None = None
    """Parties that may put together what they know of noise that all make together; None: each makes its own."""
    attackers: int = 1
    """Parties that may put together what they know where each makes its own noise: one, by itself."""

    def part(self, parties: int) -> float:
        """The deviation of one party's noise, of so many parties."""
        return noise_part(self.deviation, parties, self.colluders)


def noise_part(deviation: float, parties: int, colluders: int | None) -> float:
    """The deviation of one party's noise, where `deviation` is left of all to colluders who know theirs."""
    if colluders is None:
        return deviation
    if parties <= colluders:
        raise CorpusError(f"`colluders` must be below the number of parties ({parties}); got {colluders}.")
    return deviation / math.sqrt(parties - colluders)


def noise_left(deviation: float, parties: int, colluders: int, insiders: int) -> float:
    """The deviation of the noise that is left of all to so many of the parties: no less than to `colluders`."""
    if insiders <= colluders:
        return deviation
    return noise_part(deviation, parties, colluders) * math.sqrt(parties - insiders)


@dataclass(frozen=True, eq=False)
class OneNoiseSum:
    """Answer: the sum over the parties with the noise of one of them, nobody knowing whose; everybody learns it.

    The server learns it first; no party and no server sees the sum without noise (FedPower, Algorithm 2).
    """

    share: Array
    """An array of the same shape at every party."""
    deviation: float
    """Standard deviation of the one noise that remains, per entry; the same at every party."""
    after: Callable[[Array], Any] = _as_it_is
    """As in `NoisySum`."""


@dataclass(frozen=True, eq=False)
class Upload:
    """Answer: what the server makes of all uploads (the mechanism's `collected`); everybody learns that."""

    share: Array
    deviation: float
    """Standard deviation of the noise that this party adds to its share."""
    send: Callable[[Array], Array] = _as_it_is
    """Applied to the noisy share before it leaves the party."""
    beside: Array = field(default_factory=lambda: np.zeros(0))
    """Numbers that the server gets without noise."""
    after: Callable[[Array], Any] = _as_it_is
    """As in `NoisySum`."""


@dataclass(frozen=True, eq=False)
class LocalNoise:
    """Answer: the array with noise. It never leaves the party."""

    array: Array
    deviation: float


@dataclass(frozen=True, eq=False)
class Broadcast:
    """Answer: the first party's array as it is; everybody learns it. What the others pass is not used."""

    array: Array


@dataclass(frozen=True)
class Sizes:
    """Answer: the number of rows of every party, in the parties' order. They are public."""

    rows: int


Request = SecSum | NormedSecSum | NoisySum | OneNoiseSum | Upload | LocalNoise | Broadcast | Sizes


@dataclass(frozen=True, eq=False)
class PartyResult:
    """Results of a run at one party."""

    public: Mapping[str, NDArray[Any]]
    """Results for everybody, by the names of the mechanism's observables; the same bits at every party."""
    own: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Results that stay with this party."""


PartyProgram = Generator[Request, Any, PartyResult]
"""Yields requests, is sent the answers, returns the result."""
Answers = Callable[[Sequence[Request]], Sequence[Any]]
"""Given the requests of all parties, which are of one type, the answer to each."""


def _kind(request: Request) -> tuple[type, tuple[int, ...]]:
    if isinstance(request, SecSum | NormedSecSum | NoisySum | OneNoiseSum):
        return type(request), request.share.shape
    return type(request), ()


def trusted_party(requests: Sequence[Request]) -> list[Any]:
    """Answer requests without noise as a trusted third party would: the ideal functionality of exact sums."""
    exact = [request.share for request in requests if isinstance(request, SecSum)]
    normed = [request.share for request in requests if isinstance(request, NormedSecSum)]
    if not exact and not normed:
        raise ProtocolError("The parties request what has noise, where all answers are exact.")
    return [normed_sec_sum(normed)[0] if normed else sec_sum(exact)] * len(requests)


def answered(
    program: PartyProgram, answer: Callable[[Request], Generator[Any, Any, Any]]
) -> Generator[Any, Any, PartyResult]:
    """Run a program inside another generator: what `answer` yields for a request goes to whoever runs both."""
    reply: Any = None
    while True:
        try:
            request = program.send(reply)
        except StopIteration as stop:
            result: PartyResult = stop.value
            return result
        reply = yield from answer(request)


def drive(parties: Sequence[PartyProgram], answers: Answers = trusted_party) -> tuple[PartyResult, ...]:
    """Run all parties in this process, in step."""
    results: list[PartyResult] = []
    replies: Sequence[Any] = [None] * len(parties)
    while not results:
        requests, results = lockstep(parties, replies)
        if requests:
            if len(set(map(_kind, requests))) > 1:
                raise ProtocolError("The parties request different things: they are out of step.")
            replies = answers(requests)
    return tuple(results)
