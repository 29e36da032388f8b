"""Add noise to what parties announce, and keep the transcript; or give back another run's announcements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.party_side import (
    Broadcast,
    LocalNoise,
    NoisySum,
    OneNoiseSum,
    PartyProgram,
    Request,
    Sizes,
    Upload,
    drive,
)
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS, draw, on_grid

Collect = Callable[[Sequence[Floats], Sequence[Floats], Sequence[int]], tuple[Floats, float]]


@dataclass(frozen=True, eq=False)
class Announcement:
    """One noisy number, vector or matrix that somebody outside the parties gets to see."""

    public: Floats
    """What is announced to all, and what the mechanism goes on with."""
    seen: Floats
    """The same without the coalition's own shares and noise."""
    exact: Floats
    """`seen` without noise; no adversary has it."""
    deviation: float
    """Of the noise in `seen`, per entry."""


class Announcer:
    """Adds noise to what is announced and keeps the transcript of one run.

    Parameters
    ----------
    outside : collection of int
        Parties that are not in the coalition.
    sampler : str
        Of `ksdp.audit.mechanisms.privacy.noise.SAMPLERS`.
    factor : float
        What the noise is multiplied with: 1, but in a mechanism that is broken on purpose.
    """

    def __init__(
        self, outside: Sequence[int], sampler: str, rng: np.random.Generator, factor: float = 1.0
    ) -> None:
        self.outside = frozenset(outside)
        self.transcript: list[Announcement] = []
        self._sampler, self._rng, self._factor = sampler, rng, factor

    def total(self, shares: Sequence[Floats], deviations: Sequence[float]) -> Floats:
        """Announce the sum of the parties' shares, each with its own noise of its own deviation."""
        noisy = [self._noisy(*part) for part in zip(shares, deviations, strict=True)]
        inside = [i for i in range(len(shares)) if i in self.outside]
        if not inside:
            raise SpecError("a sum of the coalition's own shares is no announcement.")
        # The public sum first: for a lone party or an empty coalition it is what is seen, to the last bit.
        public = _added(noisy)
        seen = public if len(inside) == len(shares) else _added([noisy[i] for i in inside])
        exact = _added([shares[i] for i in inside])
        spread = self._factor * math.sqrt(math.fsum(deviations[i] ** 2 for i in inside))
        self.transcript.append(Announcement(public, seen, exact, spread))
        return public

    def upload(self, party: int, share: Floats, deviation: float) -> Floats:
        """Send one party's share, with noise, to whoever collects; what the coalition sends it knows."""
        noisy = self._noisy(share, deviation)
        if party in self.outside:
            self.transcript.append(Announcement(noisy, noisy, share, self._factor * deviation))
        return noisy

    def publish(self, array: Floats, deviation: float) -> Floats:
        """Announce, with more noise, something that follows from what was announced before."""
        return self.upload(0, array, deviation)  # the victim is never in the coalition

    def keep(self, share: Floats, deviation: float) -> Floats:
        """Add noise to something that never leaves its party."""
        return self._noisy(share, deviation)

    def choose(self, among: int) -> int:
        """A number below `among` that nobody knows."""
        return int(self._rng.integers(among))

    def _noisy(self, share: Floats, deviation: float) -> Floats:
        base: Floats = share
        if self._sampler == "discrete":
            base = np.asarray(on_grid(share) * 2.0**-FRACTION_BITS, dtype=np.float64)
        return np.asarray(base + draw(self._sampler, share.shape, self._factor * deviation, self._rng))


class Replay(Announcer):
    """Gives back what another run announced and keeps what it would have been without noise.

    Noise that never left a party is not known to whoever replays: it is left out. The deviation that is kept is
    the one that the mechanism asks for on this database.
    """

    def __init__(self, outside: Sequence[int], announced: Sequence[Announcement]) -> None:
        super().__init__(outside, "fast", np.random.default_rng(0))
        self._announced = iter(announced)

    def total(self, shares: Sequence[Floats], deviations: Sequence[float]) -> Floats:
        """Keep the exact sum; return what was announced."""
        inside = [i for i in range(len(shares)) if i in self.outside]
        spread = math.sqrt(math.fsum(deviations[i] ** 2 for i in inside))
        return self._replayed(_added([shares[i] for i in inside]), spread)

    def upload(self, party: int, share: Floats, deviation: float) -> Floats:
        """Keep the share; return what was announced, or the share itself where the coalition sent it."""
        return self._replayed(share, deviation) if party in self.outside else share

    def keep(self, share: Floats, deviation: float) -> Floats:
        """Return it without noise."""
        return share

    def choose(self, among: int) -> int:
        """The first: what is replayed does not depend on it."""
        return 0

    def _replayed(self, exact: Floats, deviation: float) -> Floats:
        was = next(self._announced)
        self.transcript.append(Announcement(was.public, was.seen, exact, deviation))
        return was.public


@dataclass(eq=False)
class Driven:
    """What came of driving all parties of a database."""

    transcript: Sequence[Announcement]
    uploads: list[list[Floats]] = field(default_factory=list)
    """What each party sent to the server, upload by upload."""
    beside: list[list[Floats]] = field(default_factory=list)
    """And what it sent without noise."""
    means: list[Floats] = field(default_factory=list)
    """What the server sent to all."""
    public: dict[str, Floats] = field(default_factory=dict)
    """What every party ends with."""


def simulate(parties: Sequence[PartyProgram], collected: Collect, announcer: Announcer) -> Driven:
    """Run all parties in this process: the ideal functionality, with noise by the announcer.

    Raises
    ------
    ProtocolError
        If the parties request different things: they would drift apart among hosts.
    SpecError
        If they request an exact sum: no transcript of noise could hold it.
    """
    driven = Driven(announcer.transcript)
    sizes: list[int] = []

    def answers(requests: Sequence[Request]) -> Sequence[Any]:
        match requests[0]:
            case Sizes():
                sizes[:] = [each.rows for each in requests if isinstance(each, Sizes)]
                return [tuple(sizes)] * len(requests)
            case Broadcast(array=array):
                return [array] * len(requests)
            case LocalNoise():
                return [announcer.keep(e.array, e.deviation) for e in requests if isinstance(e, LocalNoise)]
            case NoisySum(after=after):
                sums = [each for each in requests if isinstance(each, NoisySum)]
                total = announcer.total([each.share for each in sums], [each.deviation for each in sums])
            case OneNoiseSum(after=after):
                ones = [each for each in requests if isinstance(each, OneNoiseSum)]
                kept = announcer.choose(len(ones))
                noises = [each.deviation if i == kept else 0.0 for i, each in enumerate(ones)]
                total = announcer.total([each.share for each in ones], noises)
            case Upload(after=after):
                sent = [each for each in requests if isinstance(each, Upload)]
                noisy = [announcer.upload(i, each.share, each.deviation) for i, each in enumerate(sent)]
                driven.uploads.append([each.send(array) for each, array in zip(sent, noisy, strict=True)])
                driven.beside.append([each.beside for each in sent])
                total, deviation = collected(driven.uploads[-1], driven.beside[-1], sizes)
                if deviation:
                    total = announcer.publish(total, deviation)
                driven.means.append(total)
            case _:
                raise SpecError("a mechanism with noise requests an exact sum.")
        return [after(total)] * len(requests)

    driven.public = dict(drive(parties, answers)[-1].public)
    return driven


def _added(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(arrays, axis=0), dtype=np.float64)
