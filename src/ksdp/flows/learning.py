"""Gain and advice: what a party learns by joining, and which setting is worth auditing."""

from __future__ import annotations

import math
import shlex
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.learning.gain import GainSummary, Interval, MeasureGain, Score, gain_scores, summarise_gain
from ksdp.audit.learning.learners import exact_of
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.party_view import size_base
from ksdp.audit.plan import Plan
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.registry import mechanism_of, own_code
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.advice import (
    ADVICE_VERSION,
    LEVERS,
    LOOKS,
    MOST,
    Advice,
    Baselines,
    Leak,
    Setting,
    Tried,
    advice_sentences,
    advise,
    at_setting,
    grid,
    sampled_leak,
    times_words,
    trial_plan,
)
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
    """Every learner over random splits, as `spec.gain` says, in this process."""
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
    nonnegative = traits_of(mechanism_of(spec.mechanism)).nonnegative
    return weighed_corpus(source.under(spec.corpus), nonnegative=nonnegative)


_MORE = 4
"""Runs of a setting that is not settled, in place of one."""
_TIMES = tuple(2.0 ** (step / 4) for step in range(1, 33))
"""As many documents as there are: what is tried."""


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    tried: int = 8
    """Settings that are sampled, at most; one that gains nothing is not."""
    documents: int = 250
    """Drawn for each of these."""
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
    """Or else the nearest miss, where there is one; with a seed that the search has not used."""
    corpus: str
    """Hash of the corpus as the spec has it."""
    advised: Corpus | None
    """Of the spec that is recommended."""


def search_levers(spec: Spec, base: Path, limits: Limits, store: Store) -> Searched:
    """Try a grid of settings, the spec's own first, then by the numbers that a run opens, fewest first.

    What a setting gains is asked first, on the spec's splits, and one that gains nothing costs no level. Every
    other is an audit of the same random documents, here and now, each in half of the runs; the level is split
    evenly over all that may be sampled, so that every limit holds at once. The store keeps what each setting gives
    away, so that a search goes on where it was stopped.
    """
    source = spec_rows(spec, base)
    features = source.features
    settings = grid(spec, features, limits.levers)
    count = min(limits.tried, len(settings))
    search = begin_search(spec, source, limits, store, count)
    advice = search.advice(_tried(search, settings, count))
    chosen = advice.nearest if advice.best is None else advice.best
    if chosen is None:
        return Searched(advice, search.gain, None, search.corpus, None)
    best = at_setting(spec, advice.tried[chosen].setting, features)
    found = Spec.model_validate(best.tables() | {"seed": derived_seed(best.seed, Purpose.SEARCHED)})
    gain = search.gain if advice.best is None else search.gains[chosen] or search.gain
    return Searched(advice, gain, found, search.corpus, _corpus(source, found))


def begin_search(spec: Spec, source: RawCorpus, limits: Limits, store: Store, count: int) -> Search:
    """The documents, splits and baselines that settings share."""
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


def _tried(search: Search, settings: Sequence[Setting], count: int) -> list[Tried]:
    current().stage("settings", len(settings))
    tried: list[Tried] = []
    for setting in settings:
        tried.append(search.attempt(setting))
        current().advance(1)
        current().say(
            f"setting {len(tried)} of {len(settings)}, {setting.name}: "
            f"{_seen(tried[-1], search.spec.decision.margin)}"
        )
        if sum(one.leak is not None for one in tried) == count:
            break
    return tried


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
        """What the run gains at a setting, and what it gives away; or why it is refused."""
        try:
            spec = at_setting(of or self.spec, setting, self.source.features)
            mechanism = mechanism_of(spec.mechanism)
            gain = self._gain(spec, mechanism)
            main = gain.measures[0]
            corpus = _corpus(self.source, spec)
            times = self._times(spec, mechanism, corpus.features, main)
            if main.gain.mean <= 0:  # working alone is better, and gives nothing away
                self.gains.append(gain)
                told = _nothing(main.gain) + ("" if times is None else f"; {times_words(times)}")
                return Tried(setting, main.gain, main.kept, main.run.mean, refused=told)
            plan = trial_plan(spec, corpus, self.drawn, self.limits.runs * (_MORE if main.gains else 1))
            bound = spec.corpus.levers.enters * (1.0 if plan.promise is None else plan.promise.bound)
            leak = self._leak(plan, self.level)
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


def _step_of(plan: Plan) -> dict[str, Any]:
    own = own_code(plan.spec.mechanism.model_dump(mode="json"), [plan.mechanism])
    return {"spec": plan.spec.hash, "corpus": plan.corpus.hash, "code": code_hash(), "own": own}


def _cannot_run(spec: Spec, mechanism: Mechanism, source: RawCorpus) -> str | None:
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
    """Search, keep what was found, and write the recommended spec, or else the nearest miss."""
    if write.resolve().parent != base.resolve():
        raise InputError(f"`--write` must name a file in the spec's folder, {base.name}: its paths start there.")
    opened = Store.open(store)
    search = search_levers(spec, base, limits, opened)
    found, corpus = search.spec, search.advised
    advised = None if search.advice.best is None else found
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
        "missed": None,
        "confirmed": None,
        "commands": [],
    }
    if found is not None and advised is None:
        nearest = write.with_name(f"{write.name.removesuffix('.toml').removesuffix('.advised')}.nearest.toml")
        missed = f"The nearest miss of `ksdp advise`, {name}: it was not shown to be within the margin."
        write_advised_spec(nearest, _tables(found), missed)
        content["missed"] = str(nearest)
    if advised is not None and corpus is not None:
        write_advised_spec(write, _tables(advised), f"Recommended by `ksdp advise`, {name}.")
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


def _tables(spec: Spec) -> dict[str, Any]:
    tables = spec.model_dump(mode="json", exclude_defaults=True)
    if spec.cluster is not None:
        tables["cluster"] = spec.cluster.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return tables


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
    """What to type next, in order: audit the whole corpus, clear it, run it among parties."""
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
            ("what all parties agree on", f"ksdp plan {at} --party NAME@HOST:PORT --party ... > protocol.toml"),
            (why, f"ksdp party protocol.toml --me ME --key ME.key {entered} --out result"),
        ]
    return [{"why": why, "command": command} for why, command in commands]
