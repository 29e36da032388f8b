"""Claimed against measured: what an adversary proves about a differentially private mechanism on its worst case.

A claim is about the worst pair of neighbouring databases, so one fixed pair is enough to refute it: two databases
that differ in one record, chosen to be as hard as the mechanism's own `neighbours` can make it, run many times
with the mechanism's own noise. The statistic is the likelihood ratio of the whole transcript, the most powerful
there is, and `epsilon_lower_bound` turns its values into an epsilon that holds with the stated confidence.

A bound below the claim proves nothing but that this adversary failed. A bound above it refutes the claim, except
with probability 1 - confidence. From n runs an arm no bound above about ln(n / 10) can come, whatever the
mechanism.

`gaussian_low` is sharper and assumes more: that the two laws of the transcript are as far apart as two normals
whose means differ by mu (so they are where every release is Gaussian). It bounds mu by the threshold 0, chosen
beforehand (Nasr et al. 2023, https://arxiv.org/abs/2302.07956). It refutes nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.stats import norm

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.mechanisms.guarantee import Guarantee, guarantee_of
from ksdp.audit.mechanisms.privacy.noise import Counted
from ksdp.audit.verdicts.effect import epsilon_lower_bound, share_interval

__all__ = ["LEAST_RUNS", "ClaimFinding", "Claims", "audit_claim", "check_runs", "claim_generator", "claiming"]

LEAST_RUNS = 20
"""Of each arm."""


@runtime_checkable
class Claims(Protocol):
    """A mechanism that claims differential privacy and can be run on its own worst case."""

    @property
    def name(self) -> str:
        """In specs and reports."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        ...

    @property
    def gaussian(self) -> bool:
        """Whether every release is a sum with normal noise."""
        ...

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) that is claimed for parties of these sizes."""
        ...

    def counts(self, sizes: Sequence[int], features: int) -> tuple[Counted, ...]:
        """The epsilon of all releases together, by several ways of counting."""
        ...

    def neighbours(self) -> tuple[Database, Database]:
        """Two databases that differ in one record, for which the claim is as tight as it gets."""
        ...

    def transcript(self, database: Database, rng: np.random.Generator) -> Any:
        """Everything that one run announces."""
        ...

    def log_likelihood_ratio(self, transcript: Any, pair: tuple[Database, Database]) -> float:
        """ln of P(transcript | first database) / P(transcript | second), by what `transcript` returned."""
        ...


@dataclass(frozen=True)
class ClaimFinding:
    """A claim and what the runs say about it."""

    mechanism: str
    guarantee: Guarantee
    claimed_epsilon: float
    claimed_delta: float
    counted: tuple[Counted, ...]
    """By the mechanism's own ledger, for the sizes of the pair."""
    measured_low: float
    """The epsilon at the claimed delta that the runs prove, at least; holds with `confidence`."""
    gaussian_low: float | None
    """The same, if both laws are normal; with the same confidence. None where the noise is not normal."""
    runs: int
    """Of each arm."""
    confidence: float
    rows: int
    features: int

    @property
    def refuted(self) -> bool:
        """Whether the runs prove more than is claimed."""
        return self.measured_low > self.claimed_epsilon

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        more = {"guarantee": self.guarantee.as_json(), "counted": [asdict(way) for way in self.counted]}
        return asdict(self) | more | {"refuted": self.refuted}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ClaimFinding:
        """What `as_json` gave."""
        plain = {field.name: stored[field.name] for field in fields(cls)}
        plain["guarantee"] = Guarantee.from_json(stored["guarantee"])
        plain["counted"] = tuple(Counted(**way) for way in stored["counted"])
        return cls(**plain)

    def sentence(self) -> str:
        """For people."""
        claim = f"claims epsilon {self.claimed_epsilon:.3g} at delta {self.claimed_delta:.1g}"
        measured = f"{self.runs} runs an arm prove at least {self.measured_low:.3g}"
        also = "" if self.gaussian_low is None else f" ({self.gaussian_low:.3g} if the noise is normal)"
        verdict = "REFUTED" if self.refuted else "not refuted"
        return f"{self.mechanism} {claim}; {measured}{also}: {verdict}. Noise: {self.guarantee.sampler}."


def claiming(mechanism: Mechanism | Claims) -> Claims:
    """The mechanism, if it claims differential privacy and can be run on its worst case.

    Raises
    ------
    SpecError
        Otherwise.
    """
    if guarantee_of(mechanism).kind != "(epsilon, delta)":
        raise SpecError(
            f"mechanism {mechanism.name!r} claims no epsilon; `ksdp mechanisms` says what each claims."
        )
    if not isinstance(mechanism, Claims):
        raise SpecError(
            f"mechanism {mechanism.name!r} has no worst case to run; "
            "it needs what `ksdp.audit.claims.Claims` lists."
        )
    return mechanism


def claim_generator(seed: int) -> np.random.Generator:
    """The draws of a claim's audit: those of the seed itself, which no audit of documents uses."""
    return np.random.default_rng(seed)


def check_runs(runs: int, confidence: float) -> None:
    """Refuse too few runs, or a confidence outside (0, 1)."""
    if runs < LEAST_RUNS:
        raise SpecError(f"`runs` must be at least {LEAST_RUNS}; got {runs}.")
    if not 0 < confidence < 1:
        raise SpecError(f"`confidence` must be in (0, 1); got {confidence}.")


def audit_claim(
    mechanism: Claims,
    *,
    runs: int,
    rng: np.random.Generator,
    confidence: float = 0.95,
    progress: Callable[[int], None] | None = None,
) -> ClaimFinding:
    """Run the mechanism on its worst pair of neighbours and compare what is proved with what is claimed.

    Parameters
    ----------
    runs : int
        Of each arm.
    rng : numpy.random.Generator
        Of the noise, where the sampler is the fast one.
    confidence : float in (0, 1)
    progress : callable, optional
        Called with the number of finished runs of both arms.

    Raises
    ------
    SpecError
        If `runs` or `confidence` is out of range, or the mechanism has no worst case.
    """
    check_runs(runs, confidence)
    claiming(mechanism)
    pair = mechanism.neighbours()
    sizes = [part.shape[0] for part in pair[0].parties]
    features = pair[0].parties[0].shape[1]
    epsilon, delta = mechanism.claim(sizes, features)
    arms = np.empty((2, runs))
    for run in range(runs):
        for arm, database in enumerate(pair):
            arms[arm, run] = mechanism.log_likelihood_ratio(mechanism.transcript(database, rng), pair)
        if progress is not None:
            progress(2 * (run + 1))
    return ClaimFinding(
        mechanism=mechanism.name,
        guarantee=mechanism.guarantee,
        claimed_epsilon=epsilon,
        claimed_delta=delta,
        counted=mechanism.counts(sizes, features),
        measured_low=epsilon_lower_bound(arms[0], arms[1], confidence, delta),
        gaussian_low=_gaussian_low(arms[0], arms[1], confidence, delta) if mechanism.gaussian else None,
        runs=runs,
        confidence=confidence,
        rows=sum(sizes),
        features=features,
    )


def _gaussian_low(first: np.ndarray, second: np.ndarray, confidence: float, delta: float) -> float:
    """Epsilon at delta of two normals apart by the smallest mu that the runs allow."""
    import dp_accounting

    level = 1 - confidence  # half of it for each arm, one-sided: `share_interval` halves it itself
    hits, _ = share_interval(int((first > 0).sum()), len(first), level)
    _, alarms = share_interval(int((second > 0).sum()), len(second), level)
    mu = float(norm.ppf(hits) - norm.ppf(alarms)) if hits > 0 and alarms < 1 else 0.0
    return float(dp_accounting.get_epsilon_gaussian(1 / mu, delta)) if mu > 1e-6 else 0.0
