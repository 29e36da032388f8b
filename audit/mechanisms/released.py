"""Mechanisms that release nothing but sums with Gaussian noise: how they are run, and replayed.

Such a mechanism is a function of what is announced, except where it announces: `transcribe(database, announcer)`
hands every party's share to the announcer and goes on with what comes back. Drawing noise, it is a run. Given
back a run's announcements, it is a replay, which says what each announcement would have been without noise *had
the database been another one*. This is what an adversary who knows all records but one computes, so the
likelihood ratio of two neighbouring databases comes from the mechanism's own code.

Every party adds its own noise to its own share, and the secure sum hides the shares. The coalition knows its own
shares and its own noise; `seen` is what is left after it has subtracted both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Announced, Database, Observables
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.noise import FRACTION_BITS, Accounting, account, check_sampler, draw, on_grid

__all__ = ["Announcement", "Announcer", "GaussianReleases", "Replay", "log_likelihood_ratio"]

Floats = NDArray[np.float64]


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
        Of `ksdp.audit.mechanisms.noise.SAMPLERS`.
    rng : numpy.random.Generator
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

    Noise that never left a party is not known to whoever replays: it is left out.
    """

    def __init__(self, outside: Sequence[int], announced: Sequence[Announcement]) -> None:
        super().__init__(outside, "fast", np.random.default_rng(0))
        self._announced = iter(announced)

    def total(self, shares: Sequence[Floats], deviations: Sequence[float]) -> Floats:
        """Keep the exact sum; return what was announced."""
        inside = [i for i in range(len(shares)) if i in self.outside]
        return self._replayed(_added([shares[i] for i in inside]))

    def upload(self, party: int, share: Floats, deviation: float) -> Floats:
        """Keep the share; return what was announced, or the share itself where the coalition sent it."""
        return self._replayed(share) if party in self.outside else share

    def keep(self, share: Floats, deviation: float) -> Floats:
        """Return it without noise."""
        return share

    def choose(self, among: int) -> int:
        """The first: what is replayed does not depend on it."""
        return 0

    def _replayed(self, exact: Floats) -> Floats:
        was = next(self._announced)
        self.transcript.append(Announcement(was.public, was.seen, exact, was.deviation))
        return was.public


@dataclass(frozen=True)
class GaussianReleases(ABC):
    """Base of the mechanisms whose announcements are sums with Gaussian noise.

    Parameters
    ----------
    sampler : {"fast", "discrete"}
        Who draws the noise: a simulation, or the vetted sampler, which no seed gives back.
    delta : float
        At which epsilon is stated.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    noise_factor: ClassVar[float] = 1.0
    """1; a control that is broken on purpose has less."""

    sampler: str = "fast"
    delta: float = 1e-5

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        if isinstance(self.delta, bool) or not 0 < self.delta < 1:
            raise SpecError(f"`delta` must be in (0, 1); got {self.delta!r}.")

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, to whom."""

    @abstractmethod
    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces."""

    @abstractmethod
    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over L2 sensitivity of each release, for parties of these sizes, which are public."""

    @abstractmethod
    def transcribe(self, database: Database, announcer: Announcer) -> Mapping[str, Any]:
        """Run once, with noise by `announcer`; return the observables by name."""

    @abstractmethod
    def neighbours(self) -> tuple[Database, Database]:
        """A worst case: two databases that differ in one record, for which the claim is as tight as it gets."""

    def accounting(self, sizes: Sequence[int], features: int) -> Accounting:
        """Epsilon at `delta` for parties of these sizes, by four ways of counting."""
        return account(self.multipliers(sizes, features), self.delta)

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) that the mechanism claims for parties of these sizes, all releases together."""
        return self.accounting(sizes, features).exact, self.delta

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; `rng` draws the noise, unless the sampler is the vetted one."""
        announcer = Announcer(database.outside, self.sampler, rng, self.noise_factor)
        found = self.transcribe(database, announcer)
        return Observables({name: np.asarray(array, dtype=np.float64) for name, array in found.items()})

    def transcript(self, database: Database, rng: np.random.Generator) -> list[Announcement]:
        """Everything that one run announces."""
        announcer = Announcer(database.outside, self.sampler, rng, self.noise_factor)
        self.transcribe(database, announcer)
        return announcer.transcript


def log_likelihood_ratio(
    mechanism: GaussianReleases, transcript: Sequence[Announcement], pair: tuple[Database, Database]
) -> float:
    """ln of P(transcript | first database) / P(transcript | second): the best statistic there is.

    Sum over announcements of <seen - (a + b) / 2, a - b> / deviation^2, a and b being what the announcement would
    have been without noise on either database, given all earlier announcements. Exact where nothing is random but
    the announced noise; otherwise a statistic like any other.
    """
    exact = []
    for database in pair:
        replay = Replay(database.outside, transcript)
        mechanism.transcribe(database, replay)
        exact.append([announcement.exact for announcement in replay.transcript])
    ratio = 0.0
    for was, a, b in zip(transcript, *exact, strict=True):
        if was.deviation > 0:
            ratio += float(np.vdot(was.seen - (a + b) / 2, a - b)) / was.deviation**2
        elif not np.array_equal(a, b):
            return math.inf if np.array_equal(was.seen, a) else -math.inf
    return ratio


def _added(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(arrays, axis=0), dtype=np.float64)
