"""Mechanisms that release nothing but sums with Gaussian noise: how they are run, and replayed.

Such a mechanism is written as what one party does (`mechanisms.party_side`). `transcribe` drives all parties,
hands every share to an announcer and tells the parties what comes back. Drawing noise, it is a run. Given back a
run's announcements, it is a replay, which says what each announcement would have been without noise *had the
database been another one*. This is what an adversary who knows all records but one computes, so the likelihood
ratio of two neighbouring databases comes from the mechanism's own code.

Every party adds its own noise to its own share, and the secure sum hides the shares. The coalition knows its own
shares and its own noise; `seen` is what is left after it has subtracted both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_one_of
from ksdp.audit.mechanisms.contract import OPENS, Announced, Database, Observables
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.party_side import PartyProgram
from ksdp.audit.mechanisms.privacy.announcer import Announcement, Announcer, Driven, Replay, simulate
from ksdp.audit.mechanisms.privacy.noise import Accounting, PrivacyCost, account, check_sampler, epsilon_together

_WIDE = 2**31
"""More features than any rank: names do not depend on their number."""


@dataclass(frozen=True)
class GaussianReleases(ABC):
    """Base of the mechanisms whose announcements are sums with Gaussian noise.

    Parameters
    ----------
    opens : {"every round", "final"}
        Whether a run shows its parties every release, or the final output alone.
    sampler : {"fast", "discrete"}
        Who draws the noise: a simulation, or the vetted sampler, which no seed gives back.
    delta : float
        The delta at which epsilon is stated.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 2
    gaussian: ClassVar[bool] = True
    order_free: ClassVar[bool] = True
    exact_ratio: ClassVar[bool] = False
    """Whether nothing is random but the announced noise, so that `log_likelihood_ratio` is that of the laws."""
    noise_factor: ClassVar[float] = 1.0
    """1; a control that is broken on purpose has less."""

    sampler: str = "fast"
    delta: float = 1e-5
    opens: str = OPENS[0]

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        check_one_of(self, "opens", OPENS)
        chosen: tuple[str, ...] = getattr(self, "announce", ())
        if self.opens == "final" and chosen:
            raise SpecError('`announce` must be left out where `opens` is "final".')
        if isinstance(self.delta, bool) or not 0 < self.delta < 1:
            raise SpecError(f"`delta` must be in (0, 1); got {self.delta!r}.")

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, to whom."""

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces: all, or what `announce` says."""
        chosen: tuple[str, ...] = getattr(self, "announce", ())
        shown = {a.name: a for a in self.shows(features)}
        return tuple(shown[name] for name in (chosen or shown))

    @abstractmethod
    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over L2 sensitivity of each release, for parties of these sizes, which are public."""

    @abstractmethod
    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """One of so many parties' side, with its rows; ends with what is public, by the observables' names."""

    def collected(
        self, uploads: Sequence[Floats], beside: Sequence[Floats], sizes: Sequence[int]
    ) -> tuple[Floats, float]:
        """What the server makes of the parties' uploads, and the deviation of the noise that it adds."""
        raise SpecError(f"{self.name} has no server.")

    @property
    def opened(self) -> tuple[str, ...]:
        """Everything that a run shows its parties, and its server."""
        return tuple(a.name for a in self.shows(_WIDE))

    @abstractmethod
    def shows(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of everything that a run shows its parties, and its server."""

    def observed(self, driven: Driven) -> dict[str, Floats]:
        """The observables, from all that happened: where the coalition sees more than what is public."""
        return driven.public

    @abstractmethod
    def neighbours(self) -> tuple[Database, Database]:
        """A worst case: two databases that differ in one record, for which the claim is as tight as it gets."""

    def transcribe(self, database: Database, announcer: Announcer) -> Mapping[str, Any]:
        """Run once, with noise by `announcer`; return the observables by name."""
        self.observables(database.parties[0].shape[1])
        parties = [self.party(matrix, len(database.parties)) for matrix in database.parties]
        return self.observed(simulate(parties, self.collected, announcer))

    def accounting(self, sizes: Sequence[int], features: int) -> Accounting:
        """Epsilon at `delta` for parties of these sizes, by four ways of counting."""
        return account(self.multipliers(sizes, features), self.delta)

    def counts(self, sizes: Sequence[int], features: int) -> tuple[PrivacyCost, ...]:
        """The same, way by way."""
        return self.accounting(sizes, features).counts()

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) that the mechanism claims for parties of these sizes, all releases together."""
        return epsilon_together(self.multipliers(sizes, features), self.delta), self.delta

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; `rng` draws the noise, unless the sampler is the vetted one."""
        announcer = Announcer(database.outside, self.sampler, rng, self.noise_factor)
        driven = self.transcribe(database, announcer)
        return Observables({name: np.asarray(array, dtype=np.float64) for name, array in driven.items()})

    def transcript(self, database: Database, rng: np.random.Generator) -> list[Announcement]:
        """Everything that one run announces."""
        announcer = Announcer(database.outside, self.sampler, rng, self.noise_factor)
        self.transcribe(database, announcer)
        return announcer.transcript

    def log_likelihood_ratio(self, transcript: Sequence[Announcement], pair: tuple[Database, Database]) -> float:
        """ln of P(transcript | first database) / P(transcript | second): the best statistic there is.

        Sum over announcements of <seen - (a + b) / 2, a - b> / deviation^2, a and b being what the announcement
        would have been without noise on either database, given all earlier announcements. Exact where nothing is
        random but the announced noise; otherwise a statistic like any other. Where the deviation itself depends on
        the database, each of the two laws has its own.
        """
        exact = [[(told.exact, told.deviation) for told in self._replayed(transcript, d)] for d in pair]
        ratio = 0.0
        for was, (a, first), (b, second) in zip(transcript, *exact, strict=True):
            if was.deviation > 0 and first != second and min(first, second) > 0:
                wide, narrow = self.noise_factor * second, self.noise_factor * first
                ratio += was.seen.size * math.log(wide / narrow)
                ratio += float(((was.seen - b) ** 2).sum()) / (2 * wide**2)
                ratio -= float(((was.seen - a) ** 2).sum()) / (2 * narrow**2)
            elif was.deviation > 0:
                ratio += float(np.vdot(was.seen - (a + b) / 2, a - b)) / was.deviation**2
            elif not np.array_equal(a, b):
                return math.inf if np.array_equal(was.seen, a) else -math.inf
        return ratio

    def uncertified(self, features: int) -> str | None:
        """Why no bound on every attack is known; None where one is."""
        if not self.exact_ratio:
            return "draws more than the noise that it announces, so that the law of what it announces is not known"
        if self.sampler != "fast":
            return "draws its noise from the operating system, which no pair of runs can do again: use `fast`"
        return None

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """max(0, 1 - P(y | other) / P(y | base)) of one transcript y of `base`: its mean is their total variation.

        Each release depends on the noise of those before it, so that no single distance is known, but the
        likelihood ratio is. What somebody sees of the transcript, the `final` output alone say, shows no more.
        """
        told = self.transcript(base, coins())

        def against(other: Database) -> float:
            return max(0.0, -math.expm1(-max(self.log_likelihood_ratio(told, (base, other)), 0.0)))

        return against

    def noise_depends_on_data(self, transcript: Sequence[Announcement], pair: tuple[Database, Database]) -> bool:
        """Whether the noise would have been of another size on the other database, given what was announced."""
        first, second = ([told.deviation for told in self._replayed(transcript, d)] for d in pair)
        return first != second

    def _replayed(self, transcript: Sequence[Announcement], database: Database) -> list[Announcement]:
        replay = Replay(database.outside, transcript)
        self.transcribe(database, replay)
        return replay.transcript
