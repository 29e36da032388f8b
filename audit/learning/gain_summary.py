"""What a run gains, in sentences that a person can act on; "joining gains nothing here" comes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ksdp.audit.gain_spec import GainSpec
from ksdp.audit.learning.gain import ALL, Interval, Score, interval

GAIN_VERSION = 1


@dataclass(frozen=True)
class PartyGain:
    """What one party gains, on its own held-out documents."""

    party: str
    alone: Interval
    run: Interval
    gain: Interval
    """Run less alone."""


@dataclass(frozen=True)
class MeasureGain:
    """One measure, on everybody's held-out documents and on each party's own."""

    measure: str
    run: Interval
    exact: Interval
    alone: Interval
    """Mean over parties."""
    public: Interval | None
    gain: Interval
    """Run less alone."""
    gain_exact: Interval
    """Exact run less alone."""
    over_public: Interval | None
    """Run less public data alone."""
    kept: Interval | None
    """Gain of the run over that of the exact run; None where the interval of that gain is not above 0."""
    parties: tuple[PartyGain, ...]

    @property
    def gains(self) -> bool:
        """Whether the run is better than working alone: the interval of its gain is above 0."""
        return self.gain.low > 0


@dataclass(frozen=True)
class GainSummary:
    """What is gained, all measures; the first is the one that is decided by."""

    version: int
    mechanism: str
    parties: tuple[str, ...]
    alike: bool
    splits: int
    held_out: float
    measures: tuple[MeasureGain, ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The most important first."""
        main = self.measures[0]
        whose = "parties drawn alike" if self.alike else "the parties that the corpus names"
        told = f"{main.measure}: alone {main.alone.mean:.4f}, the run {main.run.mean:.4f}"
        told += f", the exact run {main.exact.mean:.4f}"
        if main.public is not None:
            told += f", public data alone {main.public.mean:.4f}"
        sentences = []
        if not main.gains:
            sentences.append(
                f"Joining gains nothing here, for {whose}: {told}; run less alone is {_told(main.gain)} on "
                f"{ALL} held out."
            )
        else:
            share = "" if main.kept is None else f", {main.kept.mean:.0%} of what the exact run gains"
            sentences.append(f"Joining gains {_told(main.gain)} over working alone, for {whose}{share} ({told}).")
        if main.over_public is not None and main.over_public.low <= 0:
            sentences.append(f"Public data alone are as good: run less public is {_told(main.over_public)}.")
        losers = [one.party for one in main.parties if one.gain.high < 0]
        if losers:
            sentences.append(f"On their own documents these lose by joining: {', '.join(losers)}.")
        return tuple(sentences)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"sentences": list(self.sentences)}


def summarise_gain(scores: Sequence[Score], mechanism: str, asked: GainSpec, named: bool) -> GainSummary:
    """Intervals over splits of what `gain_scores` found, of the measures that the run has."""
    ratio = asked.held_out / (1 - asked.held_out)
    measures = tuple(dict.fromkeys(score.measure for score in scores if score.learner == "run"))
    order = sorted(measures, key=lambda name: ("minus RMSE" not in name, measures.index(name)))
    parties = tuple(sorted({score.party for score in scores if score.party}))
    found = tuple(_measure([s for s in scores if s.measure == name], name, parties, ratio) for name in order)
    alike = asked.parties is not None or not named
    return GainSummary(GAIN_VERSION, mechanism, parties, alike, asked.splits, asked.held_out, found)


def _measure(scores: Sequence[Score], measure: str, parties: Sequence[str], ratio: float) -> MeasureGain:
    splits = sorted({score.split for score in scores})
    table: dict[tuple[int, str, str, str], float] = {
        (s.split, s.learner, s.party, s.judged): s.value for s in scores
    }

    def of(learner: str) -> list[float]:
        return [table[split, learner, "", ALL] for split in splits]

    alone = [
        float(np.mean([table[split, "alone", p, ALL] for p in parties if (split, "alone", p, ALL) in table]))
        for split in splits
    ]
    run, exact = of("run"), of("exact")
    public = of("public") if (splits[0], "public", "", ALL) in table else None
    gain_exact = _less(exact, alone, ratio)
    kept = None
    if gain_exact.low > 0:
        # A ratio of means; its error is that of its linear part.
        best, gained = np.subtract(exact, alone), np.subtract(run, alone)
        share = gained.mean() / best.mean()
        kept = interval((share + (gained - share * best) / best.mean()).tolist(), ratio)
    return MeasureGain(
        measure,
        interval(run, ratio),
        interval(exact, ratio),
        interval(alone, ratio),
        None if public is None else interval(public, ratio),
        _less(run, alone, ratio),
        gain_exact,
        None if public is None else _less(run, public, ratio),
        kept,
        tuple(_party(table, splits, party, ratio) for party in parties if _whole(table, splits, party)),
    )


def _whole(table: dict[tuple[int, str, str, str], float], splits: Sequence[int], party: str) -> bool:
    return all(
        (split, who, name, party) in table for split in splits for who, name in (("run", ""), ("alone", party))
    )


def _party(
    table: dict[tuple[int, str, str, str], float], splits: Sequence[int], party: str, ratio: float
) -> PartyGain:
    run = [table[split, "run", "", party] for split in splits]
    alone = [table[split, "alone", party, party] for split in splits]
    return PartyGain(party, interval(alone, ratio), interval(run, ratio), _less(run, alone, ratio))


def _less(first: Sequence[float], second: Sequence[float], ratio: float) -> Interval:
    return interval([a - b for a, b in zip(first, second, strict=True)], ratio)


def _told(gain: Interval) -> str:
    return f"{gain.mean:+.4f} ({gain.low:+.4f} to {gain.high:+.4f})"
