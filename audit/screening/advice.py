"""From settings that were tried to advice: the frontier of gain against leak, and what to confirm, or why none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ksdp.audit.learning.gain import Interval
from ksdp.audit.screening.leak import Leak
from ksdp.audit.screening.lever_space import Setting, described

__all__ = ["ADVICE_VERSION", "Advice", "Baselines", "Tried", "advise", "documents_needed"]

ADVICE_VERSION = 1
_AIM = 0.75
"""Of the margin: where D has to lie for a whole audit to clear most documents."""


@dataclass(frozen=True)
class Tried:
    """One setting: what it gains and gives away; or why it was refused."""

    setting: Setting
    gain: Interval | None = None
    """Of the run over working alone."""
    kept: float | None = None
    """Of what the exact run gains over working alone."""
    value: float | None = None
    """Of the measure, for the run."""
    leak: Leak | None = None
    refused: str | None = None

    def good(self, quota: float) -> bool:
        """Whether it gains, and few enough documents are above the margin, for certain."""
        return (
            self.gain is not None
            and self.leak is not None
            and self.gain.low > 0
            and self.leak.limit <= quota
            and not self.leak.unread
        )


@dataclass(frozen=True)
class Baselines:
    """What there is without this run."""

    measure: str
    alone: float
    exact: float
    public: float | None


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
    sentences: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)


def documents_needed(leak: Leak, margin: float, documents: int) -> int:
    """Documents from which on D would be small enough, as D falls with the root of their number.

    Chance is taken out of the measured D first, in squares. An estimate and no bound.
    """
    own = math.sqrt(max(leak.high**2 - leak.chance**2, 0.0))
    return math.ceil(documents * max(1.0, (own / (_AIM * margin)) ** 2))


def advise(
    tried: Sequence[Tried],
    baselines: Baselines,
    *,
    margin: float,
    quota: float,
    confidence: float,
    documents: int,
) -> Advice:
    """Choose: of the settings that are both useful and safe the one that gains most."""
    measured = [place for place, one in enumerate(tried) if one.gain is not None and one.leak is not None]
    frontier = tuple(
        place for place in measured if not any(_beats(tried[other], tried[place]) for other in measured)
    )
    good = [place for place in measured if tried[place].good(quota)]
    best = max(good, key=lambda place: (_value(tried[place]), -_high(tried[place])), default=None)
    needed = None
    useful = [place for place in measured if (gain := tried[place].gain) is not None and gain.low > 0]
    if best is None and useful:
        needed = min(
            documents_needed(leak, margin, documents) for p in useful if (leak := tried[p].leak) is not None
        )
    found = Advice(
        ADVICE_VERSION, margin, quota, confidence, documents, baselines, tuple(tried), frontier, best, needed
    )
    return Advice(**{**vars(found), "sentences": _sentences(found, bool(useful))})


def _value(one: Tried) -> float:
    return -math.inf if one.value is None else one.value


def _high(one: Tried) -> float:
    return math.inf if one.leak is None else one.leak.high


def _beats(one: Tried, other: Tried) -> bool:
    at_least = _value(one) >= _value(other) and _high(one) <= _high(other)
    return at_least and (_value(one) > _value(other) or _high(one) < _high(other))


def _sentences(found: Advice, useful: bool) -> tuple[str, ...]:
    said = []
    tried = f"{len(found.tried)} settings"
    if found.best is not None:
        one = found.tried[found.best]
        assert one.leak is not None
        kept = (
            "" if one.kept is None else f" It keeps {one.kept:.0%} of what the exact run gains over working alone."
        )
        said.append(
            f"Run with {described(one.setting)}: at most {one.leak.limit:.1%} of the documents have a measured D "
            f"above {found.margin:g}.{kept} Confirm it by a whole audit, then screen it."
        )
    elif not useful:
        said.append(
            f"No setting within these levers gains anything over working alone: {tried} tried. Work alone, or "
            "with other parties."
        )
    else:
        said.append(
            f"No setting within these levers is both useful and safe: {tried} tried."
            + (f" Useful and safe from about {found.needed:,} documents on." if found.needed else "")
        )
    public = found.baselines.public
    best = None if found.best is None else found.tried[found.best].value
    if public is not None and best is not None and best <= public:
        said.append("Public data alone are as good: nobody need join.")
    return tuple(said)
