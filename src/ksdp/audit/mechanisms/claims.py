"""Claimed against measured: what an adversary proves about a differentially private mechanism on its worst case.

A claim is about the worst pair of neighbouring databases, so one fixed pair is enough to refute it: two databases
that differ in one record, chosen to be as hard as the mechanism's own `neighbours` can make it, run many times
with the mechanism's own noise. The statistic is the likelihood ratio of the whole transcript, the most powerful
there is, and `epsilon_lower_bound` turns its values into an epsilon that holds with the stated confidence.

A bound below the claim proves nothing but that this adversary failed. A bound above it refutes the claim, except
with probability 1 - confidence. From n runs an arm no bound above about ln(n / 10) can come, whatever the
mechanism.

`gaussian_low` is sharper where every release is Gaussian: the likelihood ratio is then normal in both arms, with
one variance, and its means lie mu standard deviations apart, whatever the deviation of the noise really is. So mu
has the exact lower bound of two normal samples (noncentral t), and Gaussian differential privacy turns it into an
epsilon (Dong, Roth & Su 2019, https://arxiv.org/abs/1905.02383). Nothing else comes near: with 2,000 runs an arm
it refutes noise of seven tenths of what is claimed, where events refute a tenth. It is used only while both arms
spread alike (F test); where they do not, the size of the noise depends on the data, and is said to.

The two bounds have equal parts of 1 - confidence: they hold together.

**Power.** A claim that is not refuted means little if nothing would have been. The same mechanism with half of its
noise, simulated, is audited beside it by as many runs: where that is not refuted either, the finding says that it
has no power. `refutable_factor` is the largest share of the noise that would have been refuted nine times in ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from ksdp.audit.contract import Database, Guarantee, Mechanism, guarantee_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.privacy.noise import PrivacyCost
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.mechanisms.schema import with_sampler
from ksdp.audit.verdicts.effects import epsilon_lower_bound, gaussian_epsilon_low, refutable_factor, spread_differs

LEAST_RUNS = 20
"""Fewest runs of each arm."""

_HALF = 0.5


Transcript = TypeVar("Transcript")
"""Everything that one run announces."""


@runtime_checkable
class Claims(Protocol[Transcript]):
    """A mechanism that claims differential privacy and can be run on its own worst case."""

    @property
    def name(self) -> str:
        """In specs and reports."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise that is tested."""

    @property
    def gaussian(self) -> bool:
        """Whether every release is a sum with normal noise."""

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) that is claimed for parties of these sizes."""

    def counts(self, sizes: Sequence[int], features: int) -> tuple[PrivacyCost, ...]:
        """The epsilon of all releases together, by several ways of counting."""

    def neighbours(self) -> tuple[Database, Database]:
        """Two databases that differ in one record, for which the claim is as tight as it gets."""

    def transcript(self, database: Database, rng: np.random.Generator) -> Transcript:
        """Everything that one run announces."""

    def log_likelihood_ratio(self, transcript: Transcript, pair: tuple[Database, Database]) -> float:
        """ln of P(transcript | first database) / P(transcript | second), by what `transcript` returned."""


@dataclass(frozen=True)
class ClaimFinding:
    """A claim and what the runs say about it."""

    mechanism: str
    guarantee: Guarantee
    claimed_epsilon: float
    claimed_delta: float
    counted: tuple[PrivacyCost, ...]
    """By the mechanism's own ledger, for the sizes of the pair."""
    measured_low: float
    """The epsilon at the claimed delta that the runs prove, at least."""
    gaussian_low: float | None
    """The same where both laws are normal. None where the noise is not normal, or its size depends on the data."""
    runs: int
    """Runs of each arm."""
    confidence: float
    """Probability that `measured_low` and `gaussian_low` hold together."""
    rows: int
    features: int
    half_refuted: bool | None = None
    """Whether so many runs refuted half of the noise; None where nothing can be run with less."""
    refutable_factor: float | None = None
    """The largest share of the claimed noise that so many runs refute nine times in ten; normal noise only."""
    data_dependent: bool = False
    """The size of the noise depends on the data: the mechanism says so itself, or the arms spread differently."""

    @property
    def refuted(self) -> bool:
        """Whether the runs prove more than is claimed."""
        return max(self.measured_low, self.gaussian_low or 0.0) > self.claimed_epsilon

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        table = {"guarantee": self.guarantee.as_json(), "counted": [asdict(way) for way in self.counted]}
        return asdict(self) | table | {"refuted": self.refuted, "has_power": self.has_power}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ClaimFinding:
        """Return the finding that `as_json` wrote."""
        plain = {field.name: stored[field.name] for field in fields(cls)}
        plain["guarantee"] = Guarantee.from_json(stored["guarantee"])
        plain["counted"] = tuple(PrivacyCost(**way) for way in stored["counted"])
        return cls(**plain)

    def sentence(self) -> str:
        """For people."""
        claim = f"claims epsilon {self.claimed_epsilon:.3g} at delta {self.claimed_delta:.1g}"
        measured = f"{self.runs} runs an arm prove at least {self.measured_low:.3g}"
        also = "" if self.gaussian_low is None else f" ({self.gaussian_low:.3g} if the noise is normal)"
        verdict = "REFUTED" if self.refuted else "not refuted"
        noise = f"Noise: {self.guarantee.sampler}. {self.power()}"
        return f"{self.mechanism} {claim}; {measured}{also}: {verdict}. {noise}"

    @property
    def has_power(self) -> bool | None:
        """Whether half of the noise was refuted, and would be nine times in ten where that is known."""
        if self.half_refuted and self.refutable_factor is not None:
            return self.refutable_factor >= _HALF
        return self.half_refuted

    def power(self) -> str:
        """Say which claims these runs could have refuted, for people."""
        sentence = {
            True: "The same with half of the noise was refuted.",
            False: "NO POWER: so few runs do not surely refute half of the noise either; take more.",
            None: "It cannot be run with less noise, so what these runs could refute is not known.",
        }[self.has_power]
        if self.refutable_factor is not None:
            sentence += f" These runs refute up to {self.refutable_factor:.2f} of the noise claimed."
        if self.data_dependent:
            sentence += " The size of the noise DEPENDS ON THE DATA."
        if self.guarantee.sampler == "fast":
            sentence += " The noise was simulated: this says nothing of what real parties draw."
        return sentence


def claiming(mechanism: Mechanism | Claims[Any]) -> Claims[Any]:
    """The mechanism, if it claims differential privacy and can be run on its worst case."""
    if guarantee_of(mechanism).kind != "(epsilon, delta)":
        raise SpecError(
            f"mechanism {mechanism.name!r} claims no epsilon; `ksdp mechanisms` says what each claims."
        )
    if not isinstance(mechanism, Claims):
        raise SpecError(
            f"mechanism {mechanism.name!r} has no worst case to run; "
            "it needs what `ksdp.audit.mechanisms.claims.Claims` lists."
        )
    return mechanism


def check_runs(runs: int, confidence: float) -> None:
    """Refuse too few runs, or a confidence outside (0, 1)."""
    if runs < LEAST_RUNS:
        raise SpecError(f"`runs` must be at least {LEAST_RUNS}; got {runs}.")
    if not 0 < confidence < 1:
        raise SpecError(f"`confidence` must be in (0, 1); got {confidence}.")


def audit_claim(
    mechanism: Claims[Any],
    *,
    runs: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
) -> ClaimFinding:
    """Run the mechanism on its worst pair of neighbours and compare what is proved with what is claimed."""
    check_runs(runs, confidence)
    claiming(mechanism)
    pair = mechanism.neighbours()
    sizes = [part.shape[0] for part in pair[0].parties]
    features = pair[0].parties[0].shape[1]
    epsilon, delta = mechanism.claim(sizes, features)
    arms = _arms(mechanism, pair, runs, rng, progress)
    uneven = mechanism.gaussian and spread_differs(arms)
    if isinstance(mechanism, GaussianReleases):
        uneven = uneven or mechanism.noise_depends_on_data(mechanism.transcript(pair[0], rng), pair)
    normal = mechanism.gaussian and not uneven
    each = 1 - (1 - confidence) / (2 if normal else 1)
    half = None
    if (weak := _with_half_the_noise(mechanism)) is not None:
        weakened = _arms(weak, pair, runs, rng, None)
        lows = [epsilon_lower_bound(weakened[0], weakened[1], each, delta)]
        if normal and not spread_differs(weakened):
            lows.append(gaussian_epsilon_low(weakened, each, delta))
        half = max(lows) > epsilon
    return ClaimFinding(
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee,
        claimed_epsilon=epsilon,
        claimed_delta=delta,
        counted=mechanism.counts(sizes, features),
        measured_low=epsilon_lower_bound(arms[0], arms[1], each, delta),
        gaussian_low=gaussian_epsilon_low(arms, each, delta) if normal else None,
        runs=runs,
        confidence=confidence,
        rows=sum(sizes),
        features=features,
        half_refuted=half,
        refutable_factor=refutable_factor(epsilon, delta, runs, each) if normal else None,
        data_dependent=bool(uneven),
    )


def _arms(
    mechanism: Claims[Any],
    pair: tuple[Database, Database],
    runs: int,
    rng: np.random.Generator,
    progress: Callable[[int], None] | None,
) -> np.ndarray:
    arms = np.empty((2, runs))
    for run in range(runs):
        for arm, database in enumerate(pair):
            arms[arm, run] = mechanism.log_likelihood_ratio(mechanism.transcript(database, rng), pair)
        if progress is not None:
            progress(2 * (run + 1))
    return arms


def _with_half_the_noise(mechanism: Claims[Any]) -> Claims[Any] | None:
    kind = type(mechanism)
    if not is_dataclass(mechanism) or not hasattr(kind, "noise_factor"):
        return None
    broken: Any = type(kind.__name__, (kind,), {"noise_factor": _HALF * kind.noise_factor})
    weak: Claims[Any] = broken(**given_fields(mechanism))
    return with_sampler(weak, "fast")
