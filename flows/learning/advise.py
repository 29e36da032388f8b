"""Search the levers together for a run that is both useful and safe; the advice is confirmed by a whole audit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.learning.gain import ALL, Score, gain_scores, interval
from ksdp.audit.learning.gain_summary import GainSummary, summarise_gain
from ksdp.audit.party_view import size_base
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening.advice import Advice, Baselines, Tried, advise
from ksdp.audit.screening.leak import sampled_leak
from ksdp.audit.screening.lever_space import LEVERS, Setting, at_setting, described, lever_space, settings
from ksdp.audit.screening.search_sample import pool_size, sampled_spec
from ksdp.audit.screening.share_limit import most_allowed
from ksdp.audit.spec import Spec
from ksdp.flows.prepare import spec_corpus
from ksdp.flows.progress import current
from ksdp.storage.corpora import corpus_columns
from ksdp.storage.learning.levered import load_rows

__all__ = ["Limits", "Searched", "search_levers"]


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    tried: int = 16
    """Settings at most; all, where there are fewer."""
    documents: int = 150
    """Drawn for each."""
    runs: int = 200
    """In either arm."""
    quota: float = 0.05
    """In (0, 1): the largest share of documents that may be above the margin."""
    levers: tuple[str, ...] = LEVERS


@dataclass(frozen=True, eq=False)
class Searched:
    """Advice, what it rests on, and the spec that it recommends."""

    advice: Advice
    gain: GainSummary
    """Of the spec as it stands."""
    spec: Spec | None


def search_levers(spec: Spec, base: Path, limits: Limits) -> Searched:
    """Try settings, the spec's own first; Optuna's sampler chooses the others (NSGA-II over gain and leak).

    Every setting is an audit of the same random documents, here and now, each in half of the runs; the level is
    split evenly over all settings that may be tried, so that every limit holds at once. Gain is measured on the
    spec's splits.

    Raises
    ------
    InputError
        If anything is refused, or so few documents cannot show so small a share.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
    rows = load_rows(spec, base, nonnegative=getattr(mechanism, "nonnegative", False))
    features = corpus_columns(spec.corpus, base)
    space = lever_space(spec, features, limits.levers)
    count = min(limits.tried, math.prod(len(lever.values) for lever in space))
    level = spec.decision.level / count
    corpus = spec_corpus(spec, base)
    population = size_base(spec, corpus)
    drawn = min(limits.documents, population)
    if most_allowed(drawn, level, population, limits.quota) is None:
        raise InputError(
            f"`quota` {limits.quota:g} cannot be shown by {drawn} documents and {count} settings; draw more."
        )
    scores = tuple(gain_scores(mechanism, rows, spec.gain, spec.seed))
    gain = summarise_gain(scores, mechanism.name, spec.gain, rows.party is not None)
    measure = gain.measures[0].measure
    tried: list[Tried] = []
    asked = _Search(spec, base, limits, features, level, drawn, population)

    def attempt(setting: Setting) -> Tried:
        one = asked.attempt(setting, scores, measure)
        tried.append(one)
        current().say(f"setting {len(tried)} of {count}, {described(setting) or 'as it stands'}: {_seen(one)}")
        return one

    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=optuna.samplers.NSGAIISampler(seed=spec.seed % 2**31)
    )
    for proposed in _first(space, count):
        study.enqueue_trial(dict(proposed))
    for _ in range(20 * count):
        if len(tried) >= count:
            break
        trial = study.ask()
        setting: dict[str, Any] = {
            lever.name: trial.suggest_categorical(lever.name, lever.values) for lever in space
        }
        known = next((one for one in tried if dict(one.setting) == setting), None)
        one = known or attempt(setting)
        if one.value is None or one.leak is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, [one.value, one.leak.high])
    first = gain.measures[0]
    baselines = Baselines(
        measure, first.alone.mean, first.exact.mean, None if first.public is None else first.public.mean
    )
    advice = advise(
        tried,
        baselines,
        margin=spec.decision.margin,
        quota=limits.quota,
        confidence=1 - spec.decision.level,
        documents=population,
    )
    best = None if advice.best is None else at_setting(spec, advice.tried[advice.best].setting, features)
    return Searched(advice, gain, best)


def _first(space: tuple[Any, ...], count: int) -> list[Setting]:
    """The spec's own, the ends of each lever by itself, and the end of all: what spans the frontier."""
    every = list(settings(space))
    if count >= len(every):
        return every
    own = every[0]
    single = [{**own, lever.name: value} for lever in space for value in lever.values[1:2]]
    return [own, *single, every[-1]][:count]


@dataclass(frozen=True, eq=False)
class _Search:
    spec: Spec
    base: Path
    limits: Limits
    features: int
    level: float
    drawn: int
    population: int

    def attempt(self, setting: Setting, scores: tuple[Score, ...], measure: str) -> Tried:
        """What the run gains at a setting, and what it gives away; or why it is refused."""
        try:
            spec = at_setting(self.spec, setting, self.features)
            mechanism = make_mechanism(spec.mechanism.name, spec.mechanism.parameters)
            rows = load_rows(spec, self.base, nonnegative=getattr(mechanism, "nonnegative", False))
            found = tuple(gain_scores(mechanism, rows, spec.gain, spec.seed, baselines=False))
            sampled = _sampled(spec, spec_corpus(spec, self.base), self.drawn, self.limits.runs)
            plan = make_plan(sampled[0], sampled[1])
            leak = sampled_leak(plan, level=self.level, population=self.population)
        except InputError as error:
            return Tried(setting, refused=str(error))
        ratio = spec.gain.held_out / (1 - spec.gain.held_out)
        run = [score.value for score in found if score.measure == measure]
        alone, exact = _baseline(scores, measure, "alone"), _baseline(scores, measure, "exact")
        gained = interval([r - a for r, a in zip(run, alone, strict=True)], ratio)
        best = float(np.mean(exact) - np.mean(alone))
        kept = gained.mean / best if best > 0 else None
        return Tried(setting, gained, kept, float(np.mean(run)), leak)


def _baseline(scores: tuple[Score, ...], measure: str, learner: str) -> list[float]:
    """By split; of parties alone, their mean."""
    of = [score for score in scores if score.measure == measure and score.learner == learner]
    of = [score for score in of if score.judged == ALL]
    return [
        float(np.mean([score.value for score in of if score.split == split]))
        for split in sorted({score.split for score in of})
    ]


def _sampled(spec: Spec, corpus: Corpus, drawn: int, runs: int) -> tuple[Spec, Corpus]:
    """The spec that audits some documents, each in half of the runs."""
    units = size_base(spec, corpus)
    tables = sampled_spec(spec, units, pool_size(spec, units), drawn).model_dump(mode="json")
    tables["design"] |= {"with_runs": runs, "looks": 1, "fresh_runs": 0, "without_runs": "all"}
    return Spec.model_validate(tables), corpus


def _seen(one: Tried) -> str:
    if one.leak is None or one.gain is None:
        return f"refused: {one.refused}"
    kept = "" if one.kept is None else f", keeps {one.kept:.0%}"
    return (
        f"gain {one.gain.mean:+.4f}{kept}; D median {one.leak.median:.2f}, 95 % below {one.leak.high:.2f}, "
        f"{one.leak.above} of {one.leak.documents} above the margin"
    )
