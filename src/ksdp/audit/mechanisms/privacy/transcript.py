"""Noise on what parties announce: the transcript of a run, its replay, and likelihood ratios."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import OPENS, Database, Guarantee, Observables, Release, Traits
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.parameters import check_one_of
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
    noise_left,
)
from ksdp.audit.mechanisms.privacy.noise import (
    FRACTION_BITS,
    Accounting,
    PrivacyCost,
    account,
    check_sampler,
    draw,
    epsilon_together,
    on_grid,
)
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistics.linear.releases import LinearReleases, statistics_of_sums

ANY_PARTIES = 2**31
"""More parties than a run has."""
Collect = Callable[[Sequence[Floats], Sequence[Floats], Sequence[int]], tuple[Floats, float]]


@dataclass(frozen=True, eq=False)
class Announcement:
    """One noisy number, vector or matrix that somebody outside the parties gets to see."""

    public: Floats
    """The announcement to all, with which the mechanism goes on."""
    seen: Floats
    """The same without the coalition's own shares and noise."""
    exact: Floats
    """`seen` without noise; no adversary has it."""
    deviation: float
    """Standard deviation of the noise in `seen`, per entry."""


class Announcer:
    """Adds noise to what is announced and keeps the transcript of one run.

    Parameters
    ----------
    outside : collection of int; parties that are not in the coalition
    sampler : of `ksdp.audit.mechanisms.privacy.noise.SAMPLERS`
    factor : what the noise is multiplied with: 1, but in a mechanism that is broken on purpose
    made_by : parties that make noise together; 0: it is what is left of it to those who know most
    """

    def __init__(
        self, outside: Sequence[int], sampler: str, rng: np.random.Generator, factor: float = 1.0, made_by: int = 0
    ) -> None:
        self.outside, self.made_by = frozenset(outside), made_by
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
    """Results of driving all parties of a database."""

    transcript: Sequence[Announcement]
    uploads: list[list[Floats]] = field(default_factory=list)
    """Messages of each party to the server, upload by upload."""
    beside: list[list[Floats]] = field(default_factory=list)
    """And what it sent without noise."""
    means: list[Floats] = field(default_factory=list)
    """Messages of the server to all."""
    public: dict[str, Floats] = field(default_factory=dict)
    """Results that every party ends with."""


def simulate(parties: Sequence[PartyProgram], collected: Collect, announcer: Announcer) -> Driven:
    """Run all parties in this process: the ideal functionality, with noise by the announcer."""
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
                total = announcer.total([each.share for each in sums], _deviations(sums, announcer))
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


def _deviations(sums: Sequence[NoisySum], announcer: Announcer) -> list[float]:
    colluders, insiders = sums[0].colluders, len(sums) - len(announcer.outside)
    if colluders is None:
        deviations = [each.deviation for each in sums]
        attackers = 0 if insiders or announcer.made_by else sums[0].attackers
        for party in sorted(range(1, len(sums)), key=lambda i: -deviations[i])[:attackers]:
            deviations[party] = 0.0
        return deviations
    makers, unseen = announcer.made_by, noise_left(sums[0].deviation, len(sums), colluders, insiders)
    total = sums[0].part(makers) * math.sqrt(makers) if makers else unseen
    each = total / math.sqrt(len(announcer.outside))
    return [each if i in announcer.outside else 0.0 for i in range(len(sums))]


def _added(arrays: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(arrays, axis=0), dtype=np.float64)


_ROUNDING = 2.0**-40
"""Rounding error of adding up some thousand terms, relative to a value's norm: 2^13 terms of 2^-53 each."""
_WIDE = 2**31
"""More features than any rank: names do not depend on their number."""


@dataclass(frozen=True)
class GaussianReleases(ABC):
    """Base of the mechanisms whose announcements are sums with Gaussian noise.

    Parameters
    ----------
    opens : {"every round", "final"}; whether a run shows its parties every release, or the final output alone
    sampler : {"fast", "discrete"}; who draws the noise: a simulation, or the vetted sampler, which no seed gives
        back
    delta : the delta at which epsilon is stated
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    gaussian: ClassVar[bool] = True
    exact_ratio: ClassVar[bool] = False
    """Whether nothing is random but the announced noise, so that `log_likelihood_ratio` is that of the laws."""
    noise_factor: ClassVar[float] = 1.0
    """1; a control that is broken on purpose has less."""
    tells_rows: ClassVar[bool] = False
    """Whether every party says how many documents it enters."""

    sampler: str = "fast"
    delta: float = 1e-5
    opens: str = OPENS[0]

    def __post_init__(self) -> None:
        check_sampler(self.sampler)
        check_one_of(self, "opens", OPENS)
        if isinstance(self.delta, bool) or not 0 < self.delta < 1:
            raise SpecError(f"`delta` must be in (0, 1); got {self.delta!r}.")

    @property
    def traits(self) -> Traits:
        """The order of documents does not matter."""
        return Traits(self.opens, order_free=True, tells_rows=self.tells_rows)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""

    @property
    def holds_against(self) -> int:
        """Parties whose noise an observer may know with the promise kept; -1: it is for outsiders alone."""
        return -1

    @abstractmethod
    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over L2 sensitivity of each release, for parties of these sizes, which are public."""

    @abstractmethod
    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """One of so many parties' side, with its rows; ends with what is public, by the observables' names."""

    def collected(
        self, uploads: Sequence[Floats], beside: Sequence[Floats], sizes: Sequence[int]
    ) -> tuple[Floats, float]:
        """Return the server's result of the parties' uploads, and the deviation of the noise that it adds."""
        raise SpecError(f"{self.name} has no server.")

    @property
    def statistics(self) -> tuple[LinearReleases, ...]:
        """The attacks that solve each noisy sum, for whoever sees it."""
        return statistics_of_sums(self.releases(_WIDE))

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.releases(_WIDE))

    @abstractmethod
    def releases(self, features: int) -> tuple[Release, ...]:
        """Everything that a run shows its parties, and its server."""

    def observed(self, driven: Driven) -> dict[str, Floats]:
        """The observables, from all that happened; ``sums`` are every sum as the coalition sees it."""
        names = self._names
        sums = {"sums": np.stack([a.seen for a in driven.transcript])} if "sums" in names else {}
        return {name: (driven.public | sums)[name] for name in names}

    @abstractmethod
    def neighbours(self) -> tuple[Database, Database]:
        """A worst case: two databases that differ in one record, for which the claim is as tight as it gets."""

    def transcribe(self, database: Database, announcer: Announcer) -> Mapping[str, Any]:
        """Run once, with noise by `announcer`; return the observables by name."""
        self.releases(database.parties[0].shape[1])
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

    def run(self, database: Database, rng: np.random.Generator, made_by: int = 0) -> Observables:
        """Run once; `rng` draws the noise, unless the sampler is the vetted one; `made_by` as in `Announcer`."""
        announcer = Announcer(database.outside, self.sampler, rng, self.noise_factor, made_by)
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
        exact = [
            [(announcement.exact, announcement.deviation) for announcement in self._replayed(transcript, d)]
            for d in pair
        ]
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
        """max(0, 1 - P(y | other) / P(y | base)) of one y of `base`, whose mean is their total variation."""
        transcript = self.transcript(base, coins())

        def against(other: Database) -> float:
            return max(0.0, -math.expm1(-max(self.log_likelihood_ratio(transcript, (base, other)), 0.0)))

        return against

    def noise_depends_on_data(self, transcript: Sequence[Announcement], pair: tuple[Database, Database]) -> bool:
        """Whether the noise would have been of another size on the other database, given what was announced."""
        first, second = ([announcement.deviation for announcement in self._replayed(transcript, d)] for d in pair)
        return first != second

    def _replayed(self, transcript: Sequence[Announcement], database: Database) -> list[Announcement]:
        replay = Replay(database.outside, transcript)
        self.transcribe(database, replay)
        return replay.transcript


@dataclass(frozen=True)
class GaussianBasis(GaussianReleases):
    """Base of those that learn a basis of so many rows.

    Parameters
    ----------
    rank : k
    """

    rank: int = 7

    @property
    def traits(self) -> Traits:
        """Properties, with this rank."""
        return replace(super().traits, rank=self.rank)
