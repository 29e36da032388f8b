"""Gain and advice: what a party learns by joining, and which setting is worth auditing."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.learning.gain import GainRows, GainSummary, Score, gain_scores, gain_words, summarise_gain
from ksdp.audit.learning.learners import exact_of
from ksdp.audit.opened import Opened, size_base
from ksdp.audit.planning import make_plan
from ksdp.audit.proofs import common_bounds
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.registry import mechanism_of
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.advice import (
    ADVICE_VERSION,
    MOST_PAIRED,
    PAIRS,
    Advice,
    Baselines,
    Checked,
    Leak,
    Setting,
    Tried,
    advice_sentences,
    at_setting,
    candidates,
    certified_share,
    frontier_of,
    in_order,
    nearest_miss,
    sampled_leak,
    trial_plan,
    wider,
)
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import CorpusSpec, Spec
from ksdp.audit.statistics.simulated import unlearnt
from ksdp.dashboards.learning import render_advice
from ksdp.flows.audits.forecast import documents_wanted
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.interruption import current
from ksdp.flows.prepare import prepare
from ksdp.flows.screening.clear import forecast_clear
from ksdp.protocols.programs.programs import check_program
from ksdp.storage.clearances import read_clearance
from ksdp.storage.corpora import RawCorpus, find_source, left_names, read_source, weighed_corpus
from ksdp.storage.gain_rows import bare, gain_rows
from ksdp.storage.learning import advice_page, write_advice, write_advice_page, write_advised_spec, write_gain
from ksdp.storage.readers.spec_files import at_urls
from ksdp.storage.store import Store


def measure_gain(spec: Spec, base: Path, store: Path | None = None, clearance: Path | None = None) -> GainSummary:
    """Every learner over random splits, as `spec.gain` says; of a clearance's documents, where one is named."""
    mechanism, source = mechanism_of(spec.mechanism), spec_rows(spec, base)
    listed = None
    if clearance is not None:
        corpus, signed = _corpus(source, spec), read_clearance(clearance)
        if signed.corpus != corpus.hash:
            raise InputError(f"{clearance.name} is for other documents than those of this spec.")
        listed = corpus.ids[signed.allows(corpus.ids)]
    rows = gain_rows(source, spec, nonnegative=traits_of(mechanism).nonnegative, listed=listed)
    summary = _by_itself(spec, rows, gain_scores(mechanism, rows, spec.gain, spec.seed))
    if store is not None and clearance is None:
        _keep_gain(Store.open(store), spec, _corpus(source, spec).hash, summary)
    return summary


def _keep_gain(store: Store, spec: Spec, corpus: str, gain: GainSummary) -> None:
    """Store a gain where the corpus, by its hash, is all that it was measured on."""
    same = spec.corpus.levers.model_copy(update={"drawn": None}) == bare(spec).levers
    if same and spec.gain.target is None and spec.gain.time is None:
        write_gain(store, spec, corpus, gain.to_json())


def spec_rows(spec: Spec, base: Path) -> RawCorpus:
    """Read the rows of a spec's file, once for all its settings."""
    file = find_source(spec.corpus, base)
    return read_source(file, nonnegative=traits_of(mechanism_of(spec.mechanism)).nonnegative)


def _corpus(source: RawCorpus, spec: Spec) -> Corpus:
    nonnegative = traits_of(mechanism_of(spec.mechanism)).nonnegative
    return weighed_corpus(source.under(spec.corpus), nonnegative=nonnegative)


@dataclass(frozen=True)
class Limits:
    """How far a search goes."""

    quota: float = 1 / 3
    """In (0, 1): the largest share of documents that may stay out."""
    documents: int = 250
    """Drawn where a setting is measured, before a whole audit."""
    runs: int = 200
    audits: int = 2
    """Whole audits of settings that no proof holds for, at most."""

    def __post_init__(self) -> None:
        if not 0 < self.quota < 1:
            raise InputError(f"`quota` must be in (0, 1); got {self.quota:g}.")


@dataclass(frozen=True, eq=False)
class Searched:
    """Advice, what it rests on, and the spec that it recommends."""

    advice: Advice
    gain: GainSummary
    """Gain of the listed documents, on splits of their own; of the spec as it stands, if none is listed."""
    spec: Spec | None
    """Recommended, or else the nearest miss, where there is one; with a seed that the search has not used."""
    corpus: str
    """Hash of the corpus as the spec has it."""
    summary: Summary | None = None
    """Summary of the audit that says which documents may be signed, if a spec is recommended."""


def search_settings(spec: Spec, base: Path, limits: Limits, store: Store, place: Place = ANYWHERE) -> Searched:
    """Ask the cheapest question first: what is gained, what is proved, and what an audit says."""
    source = spec_rows(spec, base)
    corpus = spec.corpus.model_copy(update={"weighting": source.file.weighting})  # as their kind of file says
    spec, bound = spec.model_copy(update={"corpus": corpus}), _row_bound(source)
    settings = candidates(spec, source.features, bound)
    search = begin_search(spec, source, limits, store, place)
    proofs = [setting for setting in settings[1:] if setting.drawn is not None or setting.advantage is not None]
    search.ask([settings[0], *proofs])
    for number in in_order(search.tried, spec.decision.margin):
        if result := search.checked(number):
            return result
    search.ask([setting for setting in settings[1:] if setting not in proofs])
    for number in (*search.certified(), *search.measured()):
        if result := search.checked(number):
            return result
    if not any(trial.useful for trial in search.tried):
        return Searched(search.advice(), search.gain, None, search.corpus)
    for setting in wider(spec, search.tried[search.useful()[0]].setting, source.features, bound):
        if search.gained(setting).useful:
            break
    advice = search.advice(needed=search.needed())
    missed = None if advice.nearest is None else search.at(advice.nearest)
    return Searched(advice, search.gain, missed, search.corpus)


def _row_bound(source: RawCorpus) -> float | None:
    """Public bound on the length of rows under the spec's weighting; None if there is none."""
    file = source.file
    if file.spec.levers.clip is not None:
        return file.spec.levers.clip
    if file.rows == "l2":
        return 1.0
    return math.sqrt(source.features) if file.weighting == "standardised" else None


def begin_search(spec: Spec, source: RawCorpus, limits: Limits, store: Store, place: Place = ANYWHERE) -> Search:
    """The documents, splits and baselines that settings share."""
    corpus = _corpus(source, spec)
    population = size_base(spec, corpus)
    search = Search(spec, source, limits, place, population, corpus.hash, store)
    current().stage("baseline", 1)
    _ = search.gain
    current().advance(1)
    return search


@dataclass(frozen=True, eq=False)
class Search:
    """State of a search: what all settings share (`begin_search`), and the result of each."""

    spec: Spec
    source: RawCorpus
    limits: Limits
    place: Place
    population: int
    corpus: str
    """Hash of the corpus as the spec has it."""
    store: Store
    tried: list[Tried] = field(default_factory=list)
    checks: list[Checked] = field(default_factory=list)
    baselines: dict[tuple[Mechanism, CorpusSpec], tuple[Score, ...]] = field(default_factory=dict)
    """By exact run and how rows are weighed: what parties learn alone, and the exact run."""
    corpora: dict[tuple[CorpusSpec, bool], Corpus] = field(default_factory=dict)
    """By how rows are weighed, whoever is drawn, and whether negative entries are refused."""

    @cached_property
    def gain(self) -> GainSummary:
        """Gain of the spec as it stands."""
        return self._alone(self.spec)

    def advice(self, best: int | None = None, needed: str | None = None) -> Advice:
        """Return the advice on all settings, beside the spec as it stands and work alone."""
        first, decision = self.gain.measures[0], self.spec.decision
        public = None if first.public is None else first.public.mean
        return Advice(
            ADVICE_VERSION,
            decision.margin,
            self.limits.quota,
            self.population,
            self.spec.design.unit,
            Baselines(first.measure, first.alone.mean, first.exact.mean, public),
            tuple(self.tried),
            frontier_of(self.tried),
            best,
            nearest_miss(self.tried, self.checks) if best is None else None,
            tuple(self.checks),
            needed,
        )

    def at(self, place: int) -> Spec:
        """The spec of a setting that was tried, with a seed that the search has not used."""
        spec = at_setting(self.spec, self.tried[place].setting, self.source.features)
        return Spec.model_validate(spec.tables() | {"seed": derived_seed(spec.seed, Purpose.SEARCHED)})

    def ask(self, settings: Sequence[Setting]) -> None:
        """Measure the gain of each setting, and find its proof."""
        current().stage("settings", len(settings))
        for setting in settings:
            trial = self.gained(setting)
            proved = "" if trial.promised is None else f", proved {trial.promised:.2g}"
            proved += f", {trial.absent} documents given away before any run" if trial.absent else ""
            note = f"refused: {trial.refused}" if trial.gain is None else f"gains {gain_words(trial.gain)}{proved}"
            current().say(f"{setting.name}: {note}")
            current().advance(1)

    def gained(self, setting: Setting, of: Spec | None = None) -> Tried:
        """Measure the gain and the proof at a setting; a spec that is given is held against its own rank."""
        try:
            spec = at_setting(of or self.spec, setting, self.source.features)
            mechanism = mechanism_of(spec.mechanism)
            main = self._against(spec, spec if of is None else self.spec).measures[0]
            plan = make_plan(Opened.of(spec, self.weighed(spec)))
            bound = spec.corpus.levers.enters * (1.0 if plan.promise is None else plan.promise.bound)
            trial = Tried(
                setting,
                main.gain,
                main.kept,
                main.run.mean,
                None,
                bound if bound < 1 else None,
                "; ".join(proof.trust for proof in common_bounds(plan)),
                _cannot_run(spec, mechanism, self.source),
                0 if plan.absent is None else len(plan.absent.units),
            )
        except InputError as error:
            trial = Tried(setting, refused=str(error))
        self.tried.append(trial)
        return trial

    def certified(self) -> list[int]:
        """Places of useful settings whose noise a certificate is likely to bound every attack by."""
        most, places = MOST_PAIRED // PAIRS, []
        for trial in [self.tried[n] for n in self.useful() if self.population <= most]:
            if trial.setting.noise is None or trial.promised is not None:
                continue
            setting = replace(trial.setting, pairs=PAIRS)
            spec = at_setting(self.spec, setting, self.source.features)
            within = certified_share(spec, self.weighed(spec))
            current().say(
                f"{setting.name}: {within:.0%} of a few documents well within the margin for every attack"
            )
            if within >= 1 - self.limits.quota / 2:
                places.append(len(self.tried))
                self.tried.append(replace(trial, setting=setting))
        return places

    def measured(self) -> list[int]:
        """Places of the useful settings without a proof that a sample of documents does not speak against."""
        most = self.limits.quota * self.population
        open_yet = [n for n, t in enumerate(self.tried) if t.promised is None and t.setting.pairs is None]
        useful = [n for n in self.useful() if n in open_yet and 2 * self.tried[n].absent <= most]
        useful = [n for n in useful if self.tried[n].setting.rank == self.tried[useful[0]].setting.rank]
        current().stage("samples", len(useful))
        fit = []
        for n in useful:
            setting, level = self.tried[n].setting, self.spec.decision.level / len(useful)
            leak = self.leak(at_setting(self.spec, setting, self.source.features), level)
            self.tried[n] = replace(self.tried[n], leak=leak)
            seen = f"{leak.above} of {leak.documents} above {self.spec.decision.margin:g}"
            current().say(f"{setting.name}: 95 % of D below {leak.high:.2f} (chance {leak.chance:.2f}), {seen}")
            if not (self.speaks_against(leak) or leak.unread):
                fit.append(n)
            current().advance(1)
        return sorted(fit, key=lambda n: self.tried[n].reach or 0.0)[: self.limits.audits]

    def useful(self) -> list[int]:
        """Places of the useful settings: of the smallest rank first, as more directions leak more."""
        places = [n for n, trial in enumerate(self.tried) if trial.useful]
        return sorted(places, key=lambda n: self.tried[n].setting.rank or 0)

    def leak(self, spec: Spec, level: float) -> Leak:
        """Measure the leak of a sample under a setting; learning only if no other statistic speaks against it."""
        limits, population = self.limits, self.population
        plan = trial_plan(spec, self.weighed(spec), min(limits.documents, population), limits.runs)
        ask = partial(sampled_leak, plan, level=level, population=population, quota=limits.quota)
        cheap = unlearnt(plan.statistics)
        if cheap and len(cheap) < len(plan.statistics) and self.speaks_against(leak := ask(statistics=cheap)):
            return leak
        return ask()

    def speaks_against(self, leak: Leak) -> bool:
        """Whether so many of a sample are above the margin that audits of a list would not end."""
        return 2 * leak.above > self.limits.quota * leak.documents

    def checked(self, place: int) -> Searched | None:
        """Audit a setting, and its list by itself, as `ksdp clear` does; None where the listed gain nothing."""
        spec, trial = self.at(place), self.tried[place]
        proved = trial.proved(self.spec.decision.margin)
        gain = self._alone(spec) if proved else None
        if gain is not None and not gain.measures[0].gains:
            self.tried[place] = replace(trial, gain=gain.measures[0].gain, kept=gain.measures[0].kept)
            self.checks.append(Checked(place, 0, 0, None, "on other splits it gains nothing for sure"))
            return None
        current().say(f"{trial.setting.name}: the audit that `ksdp clear` signs by")
        most = self.limits.quota * self.population
        prepared = prepare(Opened.of(spec, self.weighed(spec)), self.store.root)
        ended = forecast_clear(prepared, self.place, math.ceil(self.population - most))
        listed = ended.units
        if listed and (gain is None or listed < self.population):
            gain = self._alone(spec, ended.listed)
        main = None if gain is None else gain.measures[0]
        run_gain = None if main is None or not listed else main.gain
        self.checks.append(Checked(place, listed, ended.every_attack, run_gain, ended.reason))
        if run_gain is None or gain is None or run_gain.low <= 0 or self.population - listed > most:
            return None
        self.tried[place] = replace(trial, gain=run_gain, kept=None if main is None else main.kept)
        return Searched(self.advice(place), gain, spec, self.corpus, ended.summary)

    def needed(self) -> str | None:
        """From how many documents on the spec as it stands is safe or useful: what `ksdp plan` says of it."""
        return documents_wanted(make_plan(Opened.of(self.spec, self.weighed(self.spec))))

    def weighed(self, spec: Spec) -> Corpus:
        """The documents as a spec weighs them; settings that weigh alike share them."""
        return self._weigh(spec.corpus, traits_of(mechanism_of(spec.mechanism)).nonnegative)

    def _weigh(self, of: CorpusSpec, nonnegative: bool) -> Corpus:
        key = of.model_copy(update={"levers": of.levers.model_copy(update={"drawn": None})}), nonnegative
        if key not in self.corpora:
            self.corpora[key] = weighed_corpus(self.source.under(of), nonnegative=nonnegative)
        return self.corpora[key]

    def _alone(self, spec: Spec, listed: Sequence[str] | None = None) -> GainSummary:
        rows = self._rows(spec, listed)
        return _by_itself(spec, rows, gain_scores(mechanism_of(spec.mechanism), rows, spec.gain, spec.seed))

    def _rows(self, spec: Spec, listed: Sequence[str] | None = None) -> GainRows:
        nonnegative = traits_of(mechanism_of(spec.mechanism)).nonnegative
        weigh = partial(self._weigh, nonnegative=nonnegative)
        return gain_rows(self.source, spec, nonnegative=nonnegative, listed=listed, weigh=weigh)

    def _against(self, spec: Spec, other: Spec) -> GainSummary:
        mechanism, exact = mechanism_of(spec.mechanism), exact_of(mechanism_of(other.mechanism))
        key, seed = (exact, bare(other)), self.spec.seed
        if key not in self.baselines:
            scores = gain_scores(exact, self._rows(other), other.gain, seed, owners=False)
            self.baselines[key] = tuple(score for score in scores if score.learner != "run")
        measures = {score.measure for score in self.baselines[key]}  # topics have some that an exact PD-SVD lacks
        own = gain_scores(mechanism, rows := self._rows(spec), spec.gain, seed, baselines=False, owners=False)
        return _by_itself(spec, rows, [*(s for s in own if s.measure in measures), *self.baselines[key]])


def _by_itself(spec: Spec, rows: GainRows, scores: Iterable[Score]) -> GainSummary:
    return summarise_gain(tuple(scores), mechanism_of(spec.mechanism).name, spec.gain, rows.party is not None)


def _cannot_run(spec: Spec, mechanism: Mechanism, source: RawCorpus) -> str | None:
    try:
        check_program(mechanism)
        left_names(source.under(spec.corpus).file.spec)
    except InputError as error:
        return str(error)
    return None


def advise_spec(
    spec: Spec, base: Path, store: Path, limits: Limits, *, write: Path, workers: int | None = None
) -> dict[str, Any]:
    """Search, keep what was found, and write the recommended spec, or else the nearest miss."""
    if write.resolve().parent != base.resolve():
        raise InputError(f"`--write` must name a file in the spec's folder, {base.name}: its paths start there.")
    opened, place = Store.open(store), ANYWHERE if workers is None else Place(workers)
    search = search_settings(spec, base, limits, opened, place)
    candidate, best = search.spec, search.advice.best
    request = {"advice": ADVICE_VERSION, "spec": spec.hash, "gain": spec.gain.model_dump(), "limits": vars(limits)}
    name = content_key(request | {"corpus": search.corpus})[:12]
    content = search.advice.to_json() | {
        "name": name,
        "asked": spec.hash,
        "gain_asked": spec.gain.model_dump(mode="json"),
        "corpus": search.corpus,
        "mechanism": spec.mechanism.name,
        "sentences": list(advice_sentences(search.advice)),
        "gain": search.gain.to_json(),
        "advised": None,
        "spec": None,
        "missed": None,
        "commands": [],
    }
    if candidate is not None and best is None:
        nearest = write.with_name(f"{write.name.removesuffix('.toml').removesuffix('.advised')}.nearest.toml")
        missed = f"The nearest miss of `ksdp advise`, {name}: it was not shown to be within the margin."
        write_advised_spec(nearest, _tables(candidate), missed)
        content["missed"] = str(nearest)
    if candidate is not None and best is not None and search.summary is not None:
        write_advised_spec(write, _tables(candidate), f"Recommended by `ksdp advise`, {name}.")
        audit, corpus = search.summary.audit, search.summary.corpus
        content |= {"advised": candidate.hash, "advised_corpus": corpus, "spec": str(write), "audit": audit}
        if next(check for check in search.advice.checked if check.place == best).listed == search.advice.documents:
            _keep_gain(opened, candidate, corpus, search.gain)
        runnable = search.advice.tried[best].cannot_run is None
        content["commands"] = next_commands(write, store, runnable=runnable, here=not at_urls(candidate.corpus))
    write_advice(opened, name, content)
    write_advice_page(opened, name, render_advice(opened, name))
    return content | {"report": str(advice_page(opened, name))}


def _tables(spec: Spec) -> dict[str, Any]:
    tables = spec.model_dump(mode="json", exclude_defaults=True)
    if spec.cluster is not None:
        tables["cluster"] = spec.cluster.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return tables


def next_commands(spec: Path, store: Path, *, runnable: bool, here: bool) -> list[dict[str, str]]:
    """Return the commands to type next: a key, unless it is there, a clearance, and the run among parties."""
    at, stem = shlex.quote(str(spec)), spec.with_suffix("")
    kept, clearance = shlex.quote(str(store)), shlex.quote(f"{stem}.clearance")
    commands = [] if Path("me.key").exists() else [("a key of your own", "ksdp keys me")]
    to = "" if kept == "ksdp-store" else f" --store {kept}"
    commands.append(
        (
            "sign what the audit has proved",
            f'ksdp clear {at} --clearance {clearance} --key me.key --who "YOUR NAME"{to}',
        )
    )
    if runnable:
        entered, why = f"--corpus {at} --clearance {clearance}", "take part, with the others"
        if not here:
            entered = "--corpus HERE.toml --clearance HERE.clearance"
            why += "; HERE.toml names copies of the files on this machine, and is what was cleared"
        commands += [
            ("what all parties agree on", f"ksdp plan {at} --party NAME@HOST:PORT --party ... > protocol.toml"),
            (why, f"ksdp party protocol.toml --me ME --key me.key {entered} --out result"),
        ]
    return [{"why": why, "command": command} for why, command in commands]
