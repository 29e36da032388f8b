"""Gain and advice: what a party learns by joining, and which setting is worth auditing."""

from __future__ import annotations

import math
import shlex
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.certifying import paired_advantages
from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.learning.gain import GainSummary, Interval, MeasureGain, Score, gain_scores, summarise_gain
from ksdp.audit.learning.learners import exact_of
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.party_view import size_base
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.registry import mechanism_of, own_code
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.advice import (
    ADVICE_VERSION,
    CERTIFIED,
    LEVERS,
    LOOKS,
    MOST,
    Advice,
    Baselines,
    Leak,
    Lever,
    Setting,
    Tried,
    advice_sentences,
    advise,
    at_setting,
    certifying,
    described,
    lever_space,
    paired_plan,
    sampled_leak,
    settings,
    times_words,
    trial_plan,
)
from ksdp.audit.screening.certified_noise import GRID, CertifiedNoise, certified_noise, check_pairs
from ksdp.audit.screening.rounds import fewest_drawn, most_allowed
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import LeversSpec, Spec
from ksdp.dashboards.learning import render_advice
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import current
from ksdp.flows.prepare import prepare_corpus
from ksdp.protocols.programs.programs import check_program
from ksdp.storage.corpora import RawCorpus, find_source, left_names, read_source, weighed_corpus
from ksdp.storage.gain_rows import gain_rows
from ksdp.storage.learning import (
    advice_page,
    kept_step,
    write_advice,
    write_advice_page,
    write_advised_spec,
    write_gain,
)
from ksdp.storage.readers.spec_files import at_urls
from ksdp.storage.store import Store
from ksdp.tasks.provenance import code_hash


def measure_gain(spec: Spec, base: Path, store: Path | None = None) -> GainSummary:
    """Every learner over random splits, as `spec.gain` says, in this process.

    Parameters
    ----------
    store : Path, optional
        Where it is kept, for the reports and pages of this spec's audits.
    """
    mechanism, source = mechanism_of(spec.mechanism), spec_rows(spec, base)
    rows = gain_rows(source, spec, nonnegative=traits_of(mechanism).nonnegative)
    scores = tuple(gain_scores(mechanism, rows, spec.gain, spec.seed))
    summary = summarise_gain(scores, mechanism.name, spec.gain, rows.party is not None)
    if store is not None:
        write_gain(Store.open(store), spec.hash, _corpus(source, spec).hash, summary.to_json())
    return summary


def spec_rows(spec: Spec, base: Path) -> RawCorpus:
    """What the file of a spec holds, read once for all its settings."""
    file = find_source(spec.corpus, base)
    return read_source(file, nonnegative=traits_of(mechanism_of(spec.mechanism)).nonnegative)


def _corpus(source: RawCorpus, spec: Spec) -> Corpus:
    """The corpus of a spec whose rows were read."""
    nonnegative = traits_of(mechanism_of(spec.mechanism)).nonnegative
    return weighed_corpus(source.under(spec.corpus), nonnegative=nonnegative)


_MORE = 4
"""Runs of a setting that is not settled, in place of one."""
_KEPT = 10
"""Pairs of runs that are kept together."""
_TIMES = tuple(2.0 ** (step / 4) for step in range(1, 33))
"""As many documents as there are: what is tried."""


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    tried: int = 8
    """Settings at most; all, where there are fewer."""
    documents: int = 250
    """Drawn for each."""
    runs: int = 200
    """In either arm, before a setting is given up or found safe; four times as many where it is neither."""
    quota: float = 0.05
    """In (0, 1): the largest share of documents that may be above the margin."""
    levers: tuple[str, ...] = LEVERS


@dataclass(frozen=True, eq=False)
class Searched:
    """Advice, what it rests on, and the spec that it recommends."""

    advice: Advice
    gain: GainSummary
    """Of the spec that is recommended; of the spec as it stands, where none is."""
    spec: Spec | None
    """With a seed that the search has not used."""
    corpus: str
    """Hash of the corpus as the spec has it."""
    advised: Corpus | None
    """Of the spec that is recommended."""


def search_levers(spec: Spec, base: Path, limits: Limits, store: Store) -> Searched:
    """Try settings, the spec's own first; Optuna's sampler chooses the others (NSGA-II over gain and leak).

    Every setting is an audit of the same random documents, here and now, each in half of the runs; the level is
    split evenly over all settings that may be tried, so that every limit holds at once. Gain is measured on the
    spec's splits. The store keeps what each setting gives away, so that a search goes on where it was stopped.
    """
    source = spec_rows(spec, base)
    features = source.features
    space = lever_space(spec, features, limits.levers)
    count = min(limits.tried, math.prod(len(lever.values) for lever in space))
    search = begin_search(spec, source, limits, store, count)
    advice = search.advice(_tried(search, space, count))
    if advice.best is None:
        return Searched(advice, search.gain, None, search.corpus, None)
    best = at_setting(spec, advice.tried[advice.best].setting, features)
    found = Spec.model_validate(best.tables() | {"seed": derived_seed(best.seed, Purpose.SEARCHED)})
    gain = search.gains[advice.best] or search.gain
    return Searched(advice, gain, found, search.corpus, _corpus(source, found))


def begin_search(spec: Spec, source: RawCorpus, limits: Limits, store: Store, count: int) -> Search:
    """The documents, splits and baselines that settings share.

    Parameters
    ----------
    count : int
        How many settings may be tried, at most.

    Raises
    ------
    InputError
        If so few documents cannot show the quota at the level that each setting has.
    """
    mechanism = mechanism_of(spec.mechanism)
    level = spec.decision.level / count
    corpus = _corpus(source, spec)
    population = size_base(spec, corpus)
    drawn = min(limits.documents, population)
    if most_allowed(drawn, level / LOOKS, population, limits.quota) is None:
        raise InputError(
            f"`quota` {limits.quota:g} cannot be shown by {drawn} documents and {count} settings; "
            f"{fewest_drawn(level / LOOKS, population, limits.quota)} can (`documents`)."
        )
    current().stage("baseline", 1)
    rows = gain_rows(source, spec, nonnegative=traits_of(mechanism).nonnegative)
    scores = tuple(gain_scores(mechanism, rows, spec.gain, spec.seed))
    gain = summarise_gain(scores, mechanism.name, spec.gain, rows.party is not None)
    search = Search(spec, source, limits, level, drawn, population, scores, gain, corpus.hash, store)
    _ = search.exact
    current().advance(1)
    return search


def _tried(search: Search, space: tuple[Lever, ...], count: int) -> list[Tried]:
    """As many settings as asked for, each once."""
    current().stage("settings", count)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    began = time.monotonic()
    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=optuna.samplers.NSGAIISampler(seed=search.spec.seed % 2**31)
    )
    for proposed in _first(space, count):
        study.enqueue_trial(dict(proposed))
    tried: list[Tried] = []
    asked: list[Setting] = []
    for _ in range(20 * count):
        if len(tried) >= count:
            break
        trial = study.ask()
        setting: dict[str, Any] = {
            lever.name: trial.suggest_categorical(lever.name, lever.values) for lever in space
        }
        one = next((one for one, before in zip(tried, asked, strict=True) if before == setting), None)
        if one is None:
            one = search.attempt(setting)
            tried.append(one)
            asked.append(setting)
            current().advance(1)
            current().say(
                f"setting {len(tried)} of {count}, {described(one.setting) or 'as it stands'}: "
                f"{_seen(one, search.spec.decision.margin)}{_left(began, len(tried), count)}"
            )
        if one.value is None or one.leak is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, [one.value, one.leak.net])
    return tried


def _left(began: float, done: int, count: int) -> str:
    """How long the settings that are left will take, by those that are done; nothing behind the last."""
    seconds = (time.monotonic() - began) / done * (count - done)
    return f"; about {seconds:.0f} s left" if done < count else ""


def _first(space: tuple[Lever, ...], count: int) -> list[Setting]:
    """The spec's own, the ends of each lever by itself, and the end of all: what spans the frontier."""
    every = list(settings(space))
    if count >= len(every):
        return every
    own = every[0]
    single = [{**own, lever.name: value} for lever in space for value in lever.values[1:2]]
    return [own, *single, every[-1]][:count]


@dataclass(frozen=True, eq=False)
class Search:
    """What all settings of a search share (`begin_search`), and what was found of each."""

    spec: Spec
    """As it stands."""
    source: RawCorpus
    """Its rows."""
    limits: Limits
    level: float
    drawn: int
    population: int
    scores: tuple[Score, ...]
    """Of the spec as it stands, with its baselines."""
    gain: GainSummary
    """The same."""
    corpus: str
    """Hash of the corpus as the spec has it."""
    store: Store
    gains: list[GainSummary | None] = field(default_factory=list)
    """Of every setting, in order; None where it was refused."""

    def advice(self, tried: Sequence[Tried]) -> Advice:
        """Of all settings, beside what there is without them."""
        first, decision = self.gain.measures[0], self.spec.decision
        public = None if first.public is None else first.public.mean
        return advise(
            tried,
            Baselines(first.measure, first.alone.mean, first.exact.mean, public, self.exact),
            margin=decision.margin,
            quota=self.limits.quota,
            confidence=1 - decision.level,
            documents=self.population,
        )

    def attempt(self, setting: Setting, of: Spec | None = None) -> Tried:
        """What the run gains at a setting, and what it gives away; or why it is refused.

        Parameters
        ----------
        of : Spec, optional
            In place of the search's own: of the same documents, parties and `[gain]`.
        """
        of = of or self.spec
        certified = None
        try:
            if setting.get("noise") == CERTIFIED:
                certified = self._certified(of, setting)
                setting = certifying(of, setting, certified.noise)
            spec = at_setting(of, setting, self.source.features)
            mechanism = mechanism_of(spec.mechanism)
            gain = self._gain(spec, mechanism)
            main = gain.measures[0]
            corpus = _corpus(self.source, spec)
            times = self._times(spec, mechanism, corpus.features, main)
            if main.gain.mean <= 0:  # working alone is better, and gives nothing away
                self.gains.append(gain)
                told = _nothing(main.gain) + ("" if certified is None else self._enough(of, setting, certified))
                told += "" if times is None else f"; {times_words(times)}"
                return Tried(setting, main.gain, main.kept, main.run.mean, certified=certified, refused=told)
            plan = trial_plan(spec, corpus, self.drawn, self.limits.runs * (_MORE if main.gains else 1))
            bound = spec.corpus.levers.enters * (1.0 if plan.promise is None else plan.promise.bound)
            leak = self._leak(plan, self.level if certified is None else self.level / 2)
        except InputError as error:
            self.gains.append(None)
            return Tried(setting, refused=str(error))
        self.gains.append(gain)
        return Tried(
            setting,
            main.gain,
            main.kept,
            main.run.mean,
            leak,
            bound if bound < 1 else None,
            certified,
            sum(math.prod(array.shape) for array in recorded(mechanism, corpus.features)),
            _cannot_run(spec, mechanism, self.source),
            times,
        )

    @cached_property
    def exact(self) -> Leak | None:
        """What the exact run gives away, without levers; None where it cannot be run so."""
        tables, exact = self.spec.model_dump(mode="json"), exact_of(mechanism_of(self.spec.mechanism))
        tables["mechanism"] = {"name": exact.name, **parameters_of(exact)}
        tables["corpus"]["levers"] = LeversSpec(units=self.spec.corpus.levers.units).model_dump()
        if self.spec.corpus.idf == "public":
            tables["corpus"]["idf"] = "global"
        try:
            spec = Spec.model_validate(tables)
            plan = trial_plan(spec, _corpus(self.source, spec), self.drawn, self.limits.runs)
            return self._leak(plan, self.level)
        except (InputError, ValueError):
            return None

    def _gain(self, spec: Spec, mechanism: Mechanism) -> GainSummary:
        """Against the baselines of the spec as it stands."""
        rows = gain_rows(self.source, spec, nonnegative=traits_of(mechanism).nonnegative)
        scores = gain_scores(mechanism, rows, spec.gain, spec.seed, baselines=False)
        others = [score for score in self.scores if score.learner != "run"]
        known = {score.measure for score in others}  # topics have some that an exact PD-SVD lacks
        return summarise_gain(
            [*(score for score in scores if score.measure in known), *others],
            mechanism.name,
            spec.gain,
            not self.gain.alike,
        )

    def _leak(self, plan: Plan, level: float) -> Leak:
        population, quota = self.population, self.limits.quota
        return kept_step(
            self.store,
            _step_of(plan) | {"level": level, "population": population, "quota": quota},
            Leak,
            lambda: sampled_leak(plan, level=level, population=population, quota=quota),
        )

    def _certified(self, of: Spec, setting: Setting) -> CertifiedNoise:
        """The least noise that certifies enough documents, by pairs of runs of a sample, at half of the level."""
        spec = at_setting(of, certifying(of, setting, GRID[-1]), self.source.features)
        quiet = self._gain_at(of, setting, GRID[0])
        if quiet.mean <= 0:
            raise InputError(_nothing(quiet) + " with next to no noise")
        assert spec.certificate is not None
        pairs, corpus = spec.certificate.pairs, _corpus(self.source, spec)
        documents = make_plan(spec, corpus).counted
        check_pairs(spec, pairs, documents)
        plan = paired_plan(spec, corpus, self.drawn)
        current().say(f"{pairs} pairs of runs of {self.drawn} documents: {pairs * (1 + self.drawn):,} runs")
        return certified_noise(
            plan,
            np.concatenate([self._pairs(plan, at, min(at + _KEPT, pairs)) for at in range(0, pairs, _KEPT)], 1),
            documents=documents,
            level=self.level / 2,
            population=self.population,
            quota=self.limits.quota,
        )

    def _pairs(self, plan: Plan, first: int, stop: int) -> Floats:
        kept = kept_step(
            self.store,
            _step_of(plan) | {"first": first, "stop": stop},
            _Pairs,
            lambda: _Pairs(paired_advantages(plan, first, stop).tolist()),
        )
        return np.array(kept.advantages)

    def _gain_at(self, of: Spec, setting: Setting, noise: float) -> Interval:
        spec = at_setting(of, certifying(of, setting, noise), self.source.features)
        return self._gain(spec, mechanism_of(spec.mechanism)).measures[0].gain

    def _enough(self, of: Spec, setting: Setting, certified: CertifiedNoise) -> str:
        """From how many documents on a gain would be left, as one moves the output by 1 / n."""
        sizes = [noise for noise in GRID if noise < certified.noise]
        place = bisect_left(sizes, True, key=lambda noise: self._gain_at(of, setting, noise).mean <= 0)
        needed = math.ceil(self.population * certified.noise / sizes[max(place - 1, 0)])
        return f"; it would gain something from about {needed:,} documents on, where {self.population:,} are"

    def _times(self, spec: Spec, mechanism: Mechanism, features: int, main: MeasureGain) -> float | None:
        """V depends on noise over documents: an m-th of the noise stands for m times as many documents."""
        if not isinstance(mechanism, Moments) or main.kept is None or main.kept.mean >= MOST:
            return None
        fixed, scale = mechanism, mechanism.scale(features)

        def enough(times: float) -> bool:
            kept = self._gain(spec, replace(fixed, noise=scale / times)).measures[0].kept
            return kept is not None and kept.mean >= MOST

        place = bisect_left(_TIMES, True, key=enough)
        return None if place == len(_TIMES) else _TIMES[place]


@dataclass(frozen=True)
class _Pairs:
    advantages: list[list[float]]


def _step_of(plan: Plan) -> dict[str, Any]:
    """What every number of a trial depends on."""
    own = own_code(plan.spec.mechanism.model_dump(mode="json"), [plan.mechanism])
    return {"spec": plan.spec.hash, "corpus": plan.corpus.hash, "code": code_hash(), "own": own}


def _cannot_run(spec: Spec, mechanism: Mechanism, source: RawCorpus) -> str | None:
    """Why parties cannot run a spec; None where they can."""
    try:
        check_program(mechanism)
        left_names(source.under(spec.corpus).file.spec)
    except InputError as error:
        return str(error)
    return None


def _nothing(gain: Interval) -> str:
    return f"it gains nothing over working alone ({gain.mean:+.4f}, {gain.low:+.4f} to {gain.high:+.4f})"


def _seen(one: Tried, margin: float) -> str:
    if one.leak is None or one.gain is None:
        return f"refused: {one.refused}"
    kept = "" if one.kept is None else f", keeps {one.kept.mean:.0%}"
    proved = f"; proved: {one.promised:.2f}" if one.promised is not None else ""
    if one.certified is not None:
        proved += f"; certified: {one.certified.certified} of {one.certified.documents}"
    early = ", given up" if one.leak.early else ""
    return (
        f"gain {one.gain.mean:+.4f}{kept}; D median {one.leak.median:.2f}, 95 % below {one.leak.high:.2f} "
        f"(chance {one.leak.chance:.2f}), {one.leak.above} of {one.leak.documents} above {margin:g} in "
        f"{one.leak.runs} runs{early}{proved}"
    )


def advise_spec(
    spec: Spec,
    base: Path,
    store: Path,
    limits: Limits,
    *,
    write: Path,
    confirm: bool = False,
    workers: int | None = None,
) -> dict[str, Any]:
    """Search, keep what was found, and write the spec that is recommended, if one is.

    Parameters
    ----------
    write : Path
        The recommended spec; in `base`, because its paths are relative to it.
    confirm : bool
        Audit it whole, on runs that the search has not seen.
    workers : int, optional
        Of that audit.

    Returns
    -------
    dict
        As `advice/<id>.json` holds it.
    """
    if write.resolve().parent != base.resolve():
        raise InputError(f"`--write` must name a file in the spec's folder, {base.name}: its paths start there.")
    opened = Store.open(store)
    search = search_levers(spec, base, limits, opened)
    advised, corpus = search.spec, search.advised
    audit = None
    if advised is not None and corpus is not None and confirm:
        current().stage("prepare", 1)
        audit = prepare_corpus(advised, corpus, store)
    asked = {"advice": ADVICE_VERSION, "spec": spec.hash, "gain": spec.gain.model_dump(), "limits": vars(limits)}
    name = content_key(asked | {"corpus": search.corpus})[:12]
    content = search.advice.to_json() | {
        "name": name,
        "asked": spec.hash,
        "corpus": search.corpus,
        "mechanism": spec.mechanism.name,
        "sentences": list(advice_sentences(search.advice)),
        "gain": search.gain.to_json(),
        "advised": None,
        "spec": None,
        "confirmed": None,
        "commands": [],
    }
    if advised is not None and corpus is not None:
        written = advised.model_dump(mode="json", exclude_defaults=True)
        if advised.cluster is not None:
            written["cluster"] = advised.cluster.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        write_advised_spec(write, written, f"Recommended by `ksdp advise`, {name}.")
        best = search.advice.tried[search.advice.best or 0]
        content |= {"advised": advised.hash, "spec": str(write)}
        write_gain(opened, advised.hash, corpus.hash, search.gain.to_json())
        if audit is not None:
            current().say("a whole audit of the recommended spec, on runs that the search has not seen")
            content["confirmed"] = _confirmed(run_prepared([audit], Place(workers))[0])
        content["commands"] = next_commands(
            write, store, audited=confirm, runnable=best.cannot_run is None, here=not at_urls(advised.corpus)
        )
    write_advice(opened, name, content)
    write_advice_page(opened, name, render_advice(opened, name))
    return content | {"report": str(advice_page(opened, name))}


def _confirmed(summary: Summary) -> dict[str, Any]:
    counts, documents = summary.verdicts, summary.documents
    sentence = f"Confirmed on fresh runs, every document: {counts.clear / documents:.1%} clear ({counts.words})."
    return {
        "audit": summary.audit,
        "valid": summary.valid,
        "documents": documents,
        "clear": counts.clear,
        "verdicts": counts.as_dict(),
        "report": summary.report,
        "sentence": sentence
        if summary.valid
        else "The audit of the recommended spec is void: its controls failed.",
    }


def next_commands(spec: Path, store: Path, *, audited: bool, runnable: bool, here: bool) -> list[dict[str, str]]:
    """What to type next, in order: audit the whole corpus, clear it, run it among parties.

    Parameters
    ----------
    here : bool
        Whether the corpus and its files are on this machine, as a party's run wants them.
    """
    at, stem = shlex.quote(str(spec)), spec.with_suffix("")
    kept, clearance = shlex.quote(str(store)), shlex.quote(f"{stem}.clearance")
    commands = [] if audited else [("the whole corpus, on fresh runs", f"ksdp audit {at} --store {kept}")]
    commands.append(
        (
            "audit the clear documents by themselves, sign what holds",
            f'ksdp clear {at} --clearance {clearance} --key ME.key --who "YOUR NAME" --store {kept}',
        )
    )
    if runnable:
        entered, why = f"--corpus {at} --clearance {clearance}", "take part, with the others"
        if not here:
            entered = "--corpus HERE.toml --clearance HERE.clearance"
            why += "; HERE.toml names copies of the files on this machine, and is what was cleared"
        commands += [
            ("what all parties agree on", f"ksdp columns {at} --party NAME@HOST:PORT --party ... > protocol.toml"),
            (why, f"ksdp party protocol.toml --me ME --key ME.key {entered} --out result"),
        ]
    return [{"why": why, "command": command} for why, command in commands]
