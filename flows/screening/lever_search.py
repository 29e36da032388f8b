"""Where leaving documents out does not help: search what would, one parameter after the other."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.groups import unit_count
from ksdp.audit.learning.quality import MEASURE, NotLearnt
from ksdp.audit.level_part import tables_at_part
from ksdp.audit.screening.lever_search import first_good, most_allowed, share_upper_limit
from ksdp.audit.screening.levers import DIALS, Dial, make_dial, pool_size
from ksdp.audit.screening.screen_summary import RefusedValue, SearchAnswer, SearchSummary, TriedValue
from ksdp.audit.screening.search_sample import LearningQuality, learning_quality, public_scale, sampled_spec
from ksdp.audit.spec import Spec
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare_stored
from ksdp.flows.progress import current
from ksdp.storage.screening.screens import largest_distances
from ksdp.storage.store import Store

__all__ = ["Search", "SearchLimits", "plan_search", "run_search"]


@dataclass(frozen=True)
class SearchLimits:
    """What a search has to show, and on how many documents."""

    quota: float = 0.05
    """In (0, 1): the largest share of the documents that may exceed the margin."""
    documents: int = 200
    """Drawn for every audit of it; all, where there are fewer."""


@dataclass(frozen=True, eq=False)
class Search:
    """What will be searched, decided before any work."""

    spec: Spec
    """As it stands, with the documents drawn and its level split."""
    quota: float
    drawn: int
    population: int
    """Documents that the sample is drawn from."""
    level: float
    """Of each audit; all together hold the spec's level."""
    dials: tuple[Dial, ...]
    refused: dict[str, str] = field(default_factory=dict)
    """Dials that this spec does not have, and why."""

    @property
    def names(self) -> tuple[str, ...]:
        """Dials that were asked for, in their order."""
        return tuple(name for name in DIALS if name in self.refused or name in {d.name for d in self.dials})


def plan_search(
    spec: Spec, corpus: Corpus, *, quota: float = 0.05, documents: int = 200, names: Sequence[str] = tuple(DIALS)
) -> Search:
    """Decide what to search and refuse what cannot show anything.

    Each value is one audit of the same random documents: a balanced one, in which each of them is in half of the
    runs, where they fit into the party; a shared one elsewhere. The level is split evenly over all values of all
    dials, tried or not, so that every limit holds at once, whatever the search does next.

    Parameters
    ----------
    quota : float in (0, 1)
        The largest share of the documents that may exceed the margin.
    documents : int
        Size of the sample; all, where there are fewer.
    names : sequence of str
        Keys of `DIALS`.

    Raises
    ------
    InputError
        If a number is out of range, or so few documents cannot show so small a share.
    """
    if spec.parties.me is not None:
        raise InputError("a search along one lever is not for one party's view: `ksdp advise` is.")
    if not 0 < quota < 1:
        raise InputError(f"`quota` must be in (0, 1); got {quota}.")
    if documents < 1:
        raise InputError(f"`documents` of a search must be at least 1; got {documents}.")
    named = spec.design.documents if isinstance(spec.design.documents, tuple) else None
    units = unit_count(corpus, spec.design.unit)
    pool = pool_size(spec, units)
    population = pool if named is None else len(set(named))
    drawn = min(documents, population)
    found: list[Dial] = []
    refused: dict[str, str] = {}
    base = sampled_spec(spec, units, pool, drawn)
    for name in names:
        try:
            found.append(make_dial(name, base, units))
        except InputError as error:
            refused[name] = str(error)
    audits = 1 + sum(len(dial.values) for dial in found)
    level = spec.decision.level / audits
    if most_allowed(drawn, level, population, quota) is None:
        raise InputError(
            f"`quota` {quota:g} cannot be shown: even if none of {drawn} documents stood out, up to "
            f"{share_upper_limit(0, drawn, level, population):.3f} of {population} might. Allow more or draw more."
        )
    at_level = Spec.model_validate(tables_at_part(base, lambda whole: whole / audits))
    dials = tuple(make_dial(dial.name, at_level, units) for dial in found)
    if any(dial.name == "noise" for dial in dials):
        scale = public_scale(at_level, corpus)
        dials = tuple(dial.scaled(scale) for dial in dials)
    return Search(at_level, quota, drawn, population, level, dials, refused)


def run_search(
    search: Search, corpus: Corpus, store: Path, *, workers: int | None = None, dask: str | None = None
) -> SearchSummary:
    """Try the spec as it stands; if too many documents stand out, turn each dial until few do.

    A document stands out if the measured D of any statistic exceeds the margin; noise raises a measured D, so this
    errs on the side of standing out. A value satisfies if the upper confidence limit of the share of documents
    that stand out is at most the quota. A void or refused audit satisfies nothing.

    Parameters
    ----------
    corpus : Corpus
        The whole one.
    workers, dask : optional
        As for `run_audit`.
    """
    started = time.monotonic()

    def learn(spec: Spec) -> LearningQuality | NotLearnt:
        return learning_quality(spec, corpus, search.spec.seed)

    def attempt(dial: Dial | None, value: float | None, spec: Spec) -> TriedValue | RefusedValue:
        tried = dataclasses.replace(_attempt(search, spec, corpus, store, workers, dask), value=value)
        what = "as it stands" if dial is None else f"{dial.name} {value:g}"
        current().say(f"search, {what}: {_seen(tried)}")
        return tried

    present = dataclasses.replace(attempt(None, None, search.spec), quality=learn(search.spec))
    answers: list[SearchAnswer] = []
    for name in () if present.good else search.names:
        dial = next((d for d in search.dials if d.name == name), None)
        if dial is None:
            answers.append(SearchAnswer(name, None, (), f"Nothing to search: {search.refused[name]}"))
        else:
            answers.append(_turn(dial, attempt, learn, search))
    return SearchSummary(
        quota=search.quota,
        margin=search.spec.decision.margin,
        confidence=1 - search.level * (1 + sum(len(dial.values) for dial in search.dials)),
        level_each=search.level,
        sampled=search.drawn,
        population=search.population,
        design=search.spec.design.kind,
        measure=MEASURE,
        present=present,
        answers=tuple(answers),
        reason=_conclusion(search, present, answers),
        seconds=round(time.monotonic() - started, 3),
    )


def _turn(
    dial: Dial,
    attempt: Callable[[Dial | None, float | None, Spec], TriedValue | RefusedValue],
    learn: Callable[[Spec], LearningQuality | NotLearnt],
    search: Search,
) -> SearchAnswer:
    tried: dict[float, TriedValue | RefusedValue] = {}

    def good(value: float) -> bool:
        tried[value] = attempt(dial, value, dial.turn(value))
        return tried[value].good

    found = first_good(dial.values, good)
    return SearchAnswer(
        search=dial.name,
        parameter=dial.parameter,
        present=dial.present,
        scale=dial.scale,
        values=tuple(dial.values),
        found=found,
        tried=tuple(tried[value] for value in dial.values if value in tried),
        quality=None if found is None else learn(dial.turn(found)),
        reason=_sentence(dial, None if found is None else tried[found], search),
    )


def _attempt(
    search: Search, spec: Spec, corpus: Corpus, store: Path, workers: int | None, dask: str | None
) -> TriedValue | RefusedValue:
    try:
        prepared = prepare_stored(spec, corpus, store, may_sample=True)
    except InputError as error:
        return RefusedValue(None, str(error))
    audit = prepared.ref.audit
    summary = run_prepared([prepared], workers=workers, dask=dask)[0]
    if not summary.valid:
        return RefusedValue(None, f"void: {summary.controls.reason}", audit, summary.runs, valid=False)
    largest = largest_distances(Store(Path(prepared.ref.store)), audit)
    above = int((largest > spec.decision.margin).sum())
    limit = share_upper_limit(above, len(largest), search.level, max(search.population, len(largest)))
    return TriedValue(
        value=None,
        good=limit <= search.quota,
        audit=audit,
        runs=summary.runs,
        documents=len(largest),
        above_margin=above,
        share=above / len(largest),
        upper_limit=limit,
        median_D=float(median(largest.tolist())),
        largest_D=float(largest.max()),
    )


def _seen(tried: TriedValue | RefusedValue) -> str:
    if isinstance(tried, RefusedValue):
        return tried.refused
    return f"{tried.above_margin} of {tried.documents} documents above the margin"


def _few(search: Search) -> str:
    return (
        f"at most {search.quota:.1%} of the documents have a measured D above {search.spec.decision.margin:g}, "
        "with the confidence stated"
    )


def _sentence(dial: Dial, found: TriedValue | RefusedValue | None, search: Search) -> str:
    name = dial.name.replace("-", " ")
    if not isinstance(found, TriedValue):
        return f"No {name} from {dial.values[0]:g} to {dial.values[-1]:g} was found at which {_few(search)}."
    return (
        f"At a {name} of {found.value:g} in place of {dial.present:g}, {_few(search)}: {found.above_margin} of "
        f"{found.documents} were above it, so at most {found.upper_limit:.1%} of all."
    )


def _conclusion(search: Search, present: TriedValue | RefusedValue, answers: Sequence[SearchAnswer]) -> str:
    if present.good:
        return f"As it stands, {_few(search)}: nothing need be changed for that."
    helps = [answer.search.replace("-", " ") for answer in answers if answer.found is not None]
    if not helps:
        return "Nothing that was tried brings few enough documents above the margin."
    return f"What would help: {', '.join(helps)}. Nothing is said of any single document: screen again there."
