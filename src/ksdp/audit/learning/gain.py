"""Gain of a party by joining, per measure, with its spread."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import t as student

from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.learning.learners import Learnt, exact_of, learn, quickly
from ksdp.audit.learning.measures import coherence, diversity, energy, foretold, rated, regression, topic_match
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.specs.models import GainSpec

ALL = "everybody's documents"
OTHERS = "documents of others than "
"""Before a party's name: what is judged are all held-out documents but its own."""
MANY_SPLITS, FEW_SPLITS, FEW_ENTRIES = 20, 5, 300_000
"""Splits where a spec names no number: few where the corpus has more entries, and a split takes seconds."""
_LEVEL = 0.05


HELD_OUT = 0.1
"""Share of the documents that nobody learns from, in each split."""


@dataclass(frozen=True, eq=False)
class GainRows:
    """A corpus with and without levers, the same documents in the same order."""

    learn: sp.csr_array
    """With: what the run gets."""
    judge: sp.csr_array
    """Without: what the exact run and parties alone get, and what all are judged on."""
    lift: sp.csr_array | None
    """From the columns of `learn` to those of `judge`; None where they are the same."""
    party: NDArray[np.str_] | None = None
    target: Floats | None = None
    ratings: bool = False
    later: sp.csr_array | None = None
    """Ratings that nobody learns from, in the columns of `judge`, which holds the others: to be predicted."""
    basis: Floats | None = None
    """Public directions in the columns of `judge`, shape (features, r)."""
    drawn: float | None = None
    """The share of the documents that enter a run; whoever works alone uses all of its own."""
    listed: NDArray[np.bool_] | None = None
    """Which documents may enter a run; None: all."""
    group: NDArray[np.str_] | None = None
    """Name of each document's group, if groups enter or stay out as a whole."""

    @cached_property
    def unit(self) -> NDArray[np.int64]:
        """Number of what is held out, drawn and dealt together with each document."""
        names = np.arange(self.judge.shape[0]) if self.group is None else self.group
        return np.unique(names, return_inverse=True)[1]


@dataclass(frozen=True)
class Score:
    """One number: how good what one learner learnt is on some documents of one split."""

    split: int
    learner: str
    """`run`, `exact`, `public` or `alone`."""
    party: str
    """Name of the party that learns alone; empty for the others."""
    judged: str
    """`ALL`, the party whose own held-out documents these are, or `OTHERS` before its name."""
    measure: str
    value: float


@dataclass(frozen=True)
class Interval:
    """A mean over splits, with an interval of about 95 %: too narrow where few rows are much longer than most."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float], ratio: float) -> Interval:
    """95 % interval of a mean over random splits; `ratio` is documents held out per document learnt from."""
    gains = np.asarray(values, dtype=np.float64)
    mean, count = float(gains.mean()), len(gains)
    if count < 2:
        return Interval(mean, -math.inf, math.inf)
    deviation = float(gains.std(ddof=1)) * math.sqrt(1 / count + ratio)
    half = float(student.ppf(1 - _LEVEL / 2, count - 1)) * deviation
    return Interval(mean, mean - half, mean + half)


def party_labels(rows: GainRows, spec: GainSpec, rng: np.random.Generator) -> NDArray[np.str_]:
    """Return the holder of each document: the parties that the corpus names, or parties drawn at random."""
    if spec.parties is None and rows.party is not None:
        return rows.party
    count = spec.parties or 3
    names = np.array([f"alike {number}" for number in range(1, count + 1)])
    return np.asarray(names[rng.permutation(rows.unit.max() + 1) % count][rows.unit])


@dataclass(frozen=True, eq=False)
class _Split:
    number: int
    labels: NDArray[np.str_]
    test: NDArray[np.bool_]
    train: NDArray[np.bool_]
    public: NDArray[np.bool_]
    names: tuple[str, ...] = field(default=())


def _split(rows: GainRows, spec: GainSpec, seed: int, number: int) -> _Split:
    rng = generator(seed, Purpose.LEARNING, number, 0)
    count = int(rows.unit.max()) + 1
    labels = party_labels(rows, spec, rng)
    order = rng.permutation(count)
    test_count, public = max(1, round(HELD_OUT * count)), 0 if rows.basis is not None else spec.public or 0
    test, shown = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    test[order[:test_count]] = True
    shown[order[test_count : test_count + public]] = True
    test, shown = test[rows.unit], shown[rows.unit]
    train = ~(test | shown)
    return _Split(number, labels, test, train, shown, tuple(np.unique(labels[train]).tolist()))


def _entering(rows: GainRows, seed: int, number: int) -> NDArray[np.bool_]:
    listed = np.ones(rows.judge.shape[0], dtype=bool) if rows.listed is None else rows.listed
    if rows.drawn is None:
        return listed
    chance = generator(seed, Purpose.LEARNING, number, 3).random(rows.unit.max() + 1)
    return np.asarray(listed & (chance < rows.drawn)[rows.unit])


def gain_scores(
    mechanism: Mechanism, rows: GainRows, spec: GainSpec, seed: int, *, baselines: bool = True, owners: bool = True
) -> Iterator[Score]:
    """Every learner's scores, split by split."""
    run, exact = quickly(mechanism), quickly(exact_of(mechanism))
    rank = traits_of(mechanism).rank or 1
    for number in range(spec.splits or usual_splits(rows.judge.nnz)):
        split = _split(rows, spec, seed, number)
        rng = generator(seed, Purpose.LEARNING, number, 1)
        enter = split.train & _entering(rows, seed, number)
        best = learn(exact, _parts(rows.judge, split.train, split), None, rng) if baselines else None
        learners = [("run", "", learn(run, _parts(rows.learn, enter, split), rows.lift, rng))]
        if best is not None:
            learners += [("exact", "", best), *_baselines(exact, rank, rows, split, rng)]
        for who, name, learnt in learners:
            parties = [name] if name else [*split.names] if who == "run" and len(split.names) > 1 else []
            parties = parties if owners else []
            for judged in (ALL, *parties, *(OTHERS + party for party in parties)):
                for measure, value in _judge(learnt, best, rows, split, judged).items():
                    yield Score(number, who, name, judged, measure, value)


def usual_splits(entries: int) -> int:
    """Splits of a corpus of so many entries where a spec names no number."""
    return MANY_SPLITS if entries <= FEW_ENTRIES else FEW_SPLITS


def _parts(matrix: sp.csr_array, of: NDArray[np.bool_], split: _Split) -> list[sp.csr_array]:
    masks = (of & (split.labels == name) for name in split.names)
    return [_rows(matrix, mask) for mask in masks if mask.any()]


def _baselines(
    exact: Mechanism, rank: int, rows: GainRows, split: _Split, rng: np.random.Generator
) -> Iterator[tuple[str, str, Learnt]]:
    for name, matrix in zip(split.names, _parts(rows.judge, split.train, split), strict=True):
        if matrix.shape[0] > rank:
            yield "alone", name, learn(exact, [matrix], None, rng)
    if rows.basis is not None:
        yield "public", "", Learnt(rows.basis[:, :rank].T, None, False)
    elif split.public.any():
        yield "public", "", learn(exact, [_rows(rows.judge, split.public)], None, rng)


def _judge(learnt: Learnt, best: Learnt | None, rows: GainRows, split: _Split, judged: str) -> Mapping[str, float]:
    others = judged.startswith(OTHERS)
    named = (split.labels == judged.removeprefix(OTHERS)) != others
    of = np.ones(len(split.test), dtype=bool) if judged == ALL else named
    if not (split.test & of).any():
        return {}
    test = _rows(rows.judge, split.test & of)
    measured = {"energy": energy(learnt, test)}
    if rows.target is not None and (split.train & of).sum() > len(learnt.rows) + 1:
        train = _rows(rows.judge, split.train & of), rows.target[split.train & of]
        measured["regression (minus RMSE)"] = regression(learnt, train, (test, rows.target[split.test & of]))
    if rows.later is not None:
        later = _rows(rows.later, split.test & of)
        measured["later ratings (minus RMSE)"], measured["NDCG@10"] = foretold(learnt, test, later)
    elif rows.ratings:
        rng = generator(0, Purpose.LEARNING, split.number, 2)  # everybody is asked for the same ratings
        measured["ratings (minus RMSE)"], measured["NDCG@10"] = rated(learnt, test, rng)
    if learnt.nonnegative and judged == ALL:
        measured |= {"coherence (NPMI)": coherence(learnt, rows.judge), "diversity": diversity(learnt)}
        if best is not None:
            measured["topic match"] = topic_match(learnt, best)
    return measured


def _rows(matrix: sp.csr_array, mask: NDArray[np.bool_]) -> sp.csr_array:
    return sp.csr_array(matrix[np.flatnonzero(mask)])


GAIN_VERSION = 1


@dataclass(frozen=True)
class PartyGain:
    """Gain of one party, on its own held-out documents."""

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
    over_public: Interval | None
    kept: Interval | None
    """Gain of the run over that of the exact run; None where the interval of that gain is not above 0."""
    own: Interval | None
    """Run less alone on each party's own documents, mean over parties; None where some have none in a split."""
    others: Interval | None
    """The same on the documents of the others."""
    parties: tuple[PartyGain, ...]

    @property
    def gains(self) -> bool:
        """Whether the run is better than working alone: the interval of its gain is above 0."""
        return self.gain.low > 0


@dataclass(frozen=True)
class GainSummary:
    """Gain by all measures; the first one decides."""

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
        whose = "parties drawn alike from this corpus" if self.alike else "the parties that the corpus names"
        means = f"{main.measure}: alone {main.alone.mean:.4f}, the run {main.run.mean:.4f}"
        means += f", the exact run {main.exact.mean:.4f}"
        if main.public is not None:
            means += f", public data alone {main.public.mean:.4f}"
        sentences = []
        if not main.gains:
            sentences.append(
                f"Joining gains nothing here, for {whose}: {means}; run less alone is {gain_words(main.gain)} on "
                f"{ALL} held out."
            )
        else:
            share = "" if main.kept is None else f", {main.kept.mean:.0%} of what the exact run gains"
            sentences.append(
                f"Joining gains {gain_words(main.gain)} over working alone, for {whose}{share} ({means})."
            )
        if main.own is not None and main.others is not None:
            sentences.insert(not main.gains, _for_mine(main.own, main.others))
        if main.over_public is not None and main.over_public.low <= 0:
            sentences.append(f"Public data alone are as good: run less public is {gain_words(main.over_public)}.")
        losers = [party.party for party in main.parties if party.gain.high < 0]
        if losers:
            sentences.append(f"On their own documents these lose by joining: {', '.join(losers)}.")
        return tuple(sentences)

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"sentences": list(self.sentences)}


def summarise_gain(scores: Sequence[Score], mechanism: str, spec: GainSpec, named: bool) -> GainSummary:
    """Intervals over splits of what `gain_scores` found, of the measures that the run has."""
    ratio = HELD_OUT / (1 - HELD_OUT)
    measures = tuple(dict.fromkeys(score.measure for score in scores if score.learner == "run"))
    order = sorted(measures, key=lambda name: ("minus RMSE" not in name, measures.index(name)))
    parties = tuple(sorted({score.party for score in scores if score.party}))
    summaries = tuple(_measure([s for s in scores if s.measure == name], name, parties, ratio) for name in order)
    alike = spec.parties is not None or not named
    splits = len({score.split for score in scores})
    return GainSummary(GAIN_VERSION, mechanism, parties, alike, splits, HELD_OUT, summaries)


def _for_mine(own: Interval, others: Interval) -> str:
    outcome = "a party gains" if own.low > 0 else "a party gains nothing for sure:"
    outcome = "work alone is better: joining costs a party" if own.high < 0 else outcome
    return (
        f"On its own documents {outcome} {gain_words(own)}. On those of the others it gains {gain_words(others)}."
    )


def _measure(scores: Sequence[Score], measure: str, parties: Sequence[str], ratio: float) -> MeasureGain:
    splits = sorted({score.split for score in scores})
    table: _Table = {(s.split, s.learner, s.party, s.judged): s.value for s in scores}

    def of(learner: str) -> list[float]:
        return [table[split, learner, "", ALL] for split in splits]

    alone = [
        float(np.mean([table[split, "alone", p, ALL] for p in parties if (split, "alone", p, ALL) in table]))
        for split in splits
    ]
    run, exact = of("run"), of("exact")
    public = of("public") if (splits[0], "public", "", ALL) in table else None
    members = tuple(_party(table, splits, party, ratio) for party in parties if _whole(table, splits, party))
    own, others = None, None
    if members and len(members) == len(parties):
        own = _mean_gain(table, splits, [(party, party) for party in parties], ratio)
        others = _mean_gain(table, splits, [(party, OTHERS + party) for party in parties], ratio)
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
        own,
        others,
        members,
    )


_Table = dict[tuple[int, str, str, str], float]
"""By split, learner, who is alone, and what is judged."""


def _whole(table: _Table, splits: Sequence[int], party: str) -> bool:
    judged = (
        ("run", "", party),
        ("alone", party, party),
        ("run", "", OTHERS + party),
        ("alone", party, OTHERS + party),
    )
    return all((split, *where) in table for split in splits for where in judged)


def _party(table: _Table, splits: Sequence[int], party: str, ratio: float) -> PartyGain:
    run = [table[split, "run", "", party] for split in splits]
    alone = [table[split, "alone", party, party] for split in splits]
    return PartyGain(party, interval(alone, ratio), interval(run, ratio), _less(run, alone, ratio))


def _mean_gain(table: _Table, splits: Sequence[int], judged: Sequence[tuple[str, str]], ratio: float) -> Interval:
    gains = [
        [table[n, "run", "", what] - table[n, "alone", party, what] for party, what in judged] for n in splits
    ]
    return interval([float(np.mean(row)) for row in gains], ratio)


def _less(first: Sequence[float], second: Sequence[float], ratio: float) -> Interval:
    return interval([a - b for a, b in zip(first, second, strict=True)], ratio)


def gain_words(gain: Interval) -> str:
    """A mean and its interval, for people."""
    return f"{gain.mean:+.4f} ({gain.low:+.4f} to {gain.high:+.4f})"
