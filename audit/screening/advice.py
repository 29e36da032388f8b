"""From settings that were tried to advice: the frontier of gain against leak, and what to confirm, or why none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ksdp.audit.learning.gain import Interval
from ksdp.audit.screening.leak import Leak
from ksdp.audit.screening.lever_space import Setting

ADVICE_VERSION = 2
_AIM = 0.75
"""Of the margin: where D has to lie for a whole audit to clear most documents."""
_NEARLY = 0.95
"""Settings that gain this much of the best one's gain are as good; of those the one that gives least away."""


@dataclass(frozen=True)
class Tried:
    """One setting: what it gains and gives away; or why it was refused."""

    setting: Setting
    gain: Interval | None = None
    """Of the run over working alone."""
    kept: Interval | None = None
    """Of what the exact run gains over working alone."""
    value: float | None = None
    """Of the measure, for the run."""
    leak: Leak | None = None
    promised: float | None = None
    """What bounds the advantage of every attack on every document, where the mechanism proves a bound."""
    announced: int = 0
    """Numbers that a run opens."""
    cannot_run: str | None = None
    """Why parties cannot run it as it is."""
    refused: str | None = None

    @property
    def useful(self) -> bool:
        """Whether the interval of its gain is above 0."""
        return self.gain is not None and self.gain.low > 0

    def proved(self, margin: float) -> bool:
        """Whether no attack on any document exceeds the margin, by the mechanism's own proof."""
        return self.promised is not None and self.promised <= margin

    def safe(self, quota: float, margin: float) -> bool:
        """Whether few enough documents are above the margin, by proof or by the limit that the sample gives."""
        if self.leak is None or self.leak.unread:
            return False
        return self.proved(margin) or self.leak.limit <= quota

    def good(self, quota: float, margin: float) -> bool:
        """Useful and safe."""
        return self.useful and self.safe(quota, margin)


@dataclass(frozen=True)
class Baselines:
    """What there is without this run."""

    measure: str
    alone: float
    exact: float
    public: float | None
    exact_leak: Leak | None = None
    """What the exact run gives away: the same documents, without levers and noise. None where it was not run."""


@dataclass(frozen=True)
class Advice:
    """The result of a search over levers."""

    version: int
    margin: float
    quota: float
    """Largest share of documents that may be above the margin."""
    confidence: float
    """With which all limits of all settings hold together."""
    documents: int
    """Of the corpus."""
    baselines: Baselines
    tried: tuple[Tried, ...]
    frontier: tuple[int, ...]
    """Places in `tried` of the settings that none other beats in both."""
    best: int | None
    """Place of the one to confirm."""
    needed: int | None
    """Documents from which on the setting that gains most would give little enough away; an estimate."""
    unsettled: tuple[int, ...]
    """Places of useful settings that more documents and runs may show to be safe."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def documents_needed(leak: Leak, margin: float, documents: int) -> int:
    """Documents from which on D would be small enough, as D falls with the root of their number.

    An estimate and no bound.
    """
    return math.ceil(documents * max(1.0, (leak.net / (_AIM * margin)) ** 2))


def advise(
    tried: Sequence[Tried], baselines: Baselines, *, margin: float, quota: float, confidence: float, documents: int
) -> Advice:
    """Choose among the settings that are both useful and safe; those that parties can run come first."""
    measured = [place for place, one in enumerate(tried) if one.gain is not None and one.leak is not None]
    frontier = tuple(
        place for place in measured if not any(_beats(tried[other], tried[place]) for other in measured)
    )
    good = [place for place in measured if tried[place].good(quota, margin)]
    best = _chosen(tried, good, margin)
    needed: int | None = None
    unsettled: tuple[int, ...] = ()
    if best is None:
        useful = [(place, tried[place].leak) for place in measured if tried[place].useful]
        read = [(place, leak) for place, leak in useful if leak is not None and not leak.unread]
        unsettled = tuple(place for place, leak in read if leak.least <= quota)
        counts = [documents_needed(leak, margin, documents) for _, leak in read]
        needed = min((count for count in counts if count > documents), default=None)
    return Advice(
        ADVICE_VERSION,
        margin,
        quota,
        confidence,
        documents,
        baselines,
        tuple(tried),
        frontier,
        best,
        needed,
        unsettled,
    )


def _chosen(tried: Sequence[Tried], good: Sequence[int], margin: float) -> int | None:
    """Of those that parties can run, where there are any, and that gain nearly the most, the safest."""
    runnable = [place for place in good if tried[place].cannot_run is None]
    among = runnable or list(good)
    if not among:
        return None
    most = max(_gained(tried[place]) for place in among)
    near = [place for place in among if _gained(tried[place]) >= _NEARLY * most]

    def order(place: int) -> tuple[bool, float, float]:
        one = tried[place]
        return not one.proved(margin), 0.0 if one.proved(margin) else _net(one), -_gained(one)

    return min(near, key=order)


def _gained(one: Tried) -> float:
    return -math.inf if one.gain is None else one.gain.mean


def _value(one: Tried) -> float:
    return -math.inf if one.value is None else one.value


def _net(one: Tried) -> float:
    return math.inf if one.leak is None else one.leak.net


def _beats(one: Tried, other: Tried) -> bool:
    at_least = _value(one) >= _value(other) and _net(one) <= _net(other)
    return at_least and (_value(one) > _value(other) or _net(one) < _net(other))
