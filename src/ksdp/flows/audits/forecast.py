"""Forecast the cost and the power of an audit before it runs. Nothing is written."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ksdp.audit.absence import absence_shown, pull
from ksdp.audit.contract import traits_of
from ksdp.audit.coverage import coverage_of, telling
from ksdp.audit.errors import InputError
from ksdp.audit.learning.enough import documents_useful
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.recorded import is_own
from ksdp.audit.numeric.sparse_rows import rows_of
from ksdp.audit.opened import Opened, size_base
from ksdp.audit.plan import CONTROLS, VALUES_AT_ONCE, Plan, document_parts, keeps_values
from ksdp.audit.planning import corpus_notes, make_plan
from ksdp.audit.proofs import copies_bound
from ksdp.audit.registry import lent
from ksdp.audit.reviewing import visible
from ksdp.audit.run_subsampling import more_runs
from ksdp.audit.runs import measure, sample, try_own_code
from ksdp.audit.screening.advice import documents_needed, needed_words, sampled_leak, trial_plan
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.specs.own_names import mechanism_words
from ksdp.audit.statistics.simulated import unlearnt
from ksdp.audit.verdicts.power import (
    minimal_detectable,
    runs_for_limit,
    runs_for_margin,
    smallest_limit,
    smallest_margin,
)
from ksdp.flows.audits.costs import MEMORY_FACTOR, costs_of, is_known, likely_runs, memory_of, start_seconds
from ksdp.flows.audits.place import processes_here
from ksdp.storage.blocks import ROW_GROUP

_BLOCK = 4096
"""Bytes of a block's footer and headers, about: a column costs some hundred."""
_HANDED = 8
"""Rows of the corpus in a byte of what a run was handed."""


@dataclass(frozen=True)
class Bill:
    """Bytes of the looks, fresh runs and certificates left out."""

    values: int
    """Values and canaries of the documents, and which runs held them."""
    observables: int
    """Bytes of the runs' releases; zeros are kept too, so this is a bound."""
    corpus: int

    @property
    def kept(self) -> int:
        """In the store, or at its URL, when the audit is done; the corpus too."""
        return self.values + self.observables + self.corpus

    def moved(self, machines: int) -> int:
        """Over the network, where blocks are at a URL: all is written, values read again, the corpus by all."""
        return self.observables + 2 * self.values + self.corpus * (1 + machines)


def bill(plan: Plan) -> Bill:
    """The bytes of a plan."""
    rows = len(plan.audited) / plan.design.lanes + CONTROLS
    columns = len(plan.statistics) + 1  # and the canary
    bits = (2 - plan.reading.all) / 8  # which runs held a document; which of its values are kept
    values = plan.runs * rows * (columns * plan.measured * plan.bytes_a_value + bits)
    announced = plan.kept_bytes + len(plan.corpus) / _HANDED
    observables = plan.runs * announced if plan.spec.store.observables != "none" else 0
    matrix, blocks = plan.corpus.matrix, len(plan.blocks) * _BLOCK
    corpus = sum(part.nbytes for part in (matrix.data, matrix.indices, matrix.indptr))
    corpus += sum(len(str(name)) + 8 for name in plan.corpus.ids)
    return Bill(int(values) + blocks, int(observables) + (blocks if observables else 0), corpus)


_UNITS = {"TB": 1e12, "GB": 1e9, "MB": 1e6, "kB": 1e3}


def forecast_words(forecast: Mapping[str, Any]) -> str:
    """Return the text of `ksdp plan`, from a forecast."""
    hours, first_look = forecast["cpu_hours"], forecast.get("first_look_seconds")
    spent = f"{hours:.2f} CPU hours" if hours >= 0.1 else f"{3600 * hours:.0f} CPU seconds"
    decides = "of them where the first look decides all, as is likely here"
    lines = [f"{forecast['sentence']}"] if "sentence" in forecast else []
    lines += [f"expect    {expected}"] if (expected := forecast.get("expect")) else []
    lines += [
        f"{forecast['documents']} {forecast['unit']}s, {forecast['runs']} runs in {forecast['blocks']} blocks, "
        f"{len(forecast['statistics'])} statistics",
        *([f"publishes {', '.join(coverage)}"] if (coverage := forecast.get("coverage")) else []),
        *(
            [f"pairs     {forecast['certificate_runs']} runs besides, for the certificate"]
            if forecast["certificate_runs"]
            else []
        ),
        f"cost      {spent} at most, within a factor of two "
        f"({forecast['seconds_a_run'] * 1e3:.1f} ms a run), "
        f"{_bytes(forecast['bytes'])}{_passing(forecast) or ' kept'}",
        f"          with blocks at a URL {_bytes(forecast['moved_bytes'])} moved, and "
        f"{_bytes(forecast['corpus_bytes'])} more for each machine",
        "          CPU seconds: "
        + ", ".join(f"{stage} {seconds:.0f}" for stage, seconds in forecast["cpu_seconds"].items()),
        *([] if first_look is None else [f"          {first_look:.0f} {decides}"]),
        f"memory    {_bytes(forecast['memory']['worker'])} a worker and {_bytes(forecast['memory']['start'])} the "
        f"starting process at its peak, within a factor of {MEMORY_FACTOR:g}",
        f"finds     a leak of advantage {forecast['detectable_D']:.2f}, 8 times in 10, even as the only one",
        f"clears    at a margin of {forecast['certifiable_margin']:.2f}, 8 times in 10, where there is no leak",
        *_margin(forecast),
        *_low_fpr(forecast),
    ]
    lines += [f"{key:9} {statement['sentence']}" for key in ("safe", "useful") if (statement := forecast.get(key))]
    lines += [f"note      {note}" for note in forecast.get("notes", ())]
    if (proof := forecast.get("promise")) is not None:
        lines.append(f"proof     {proof}")
    if copies := forecast.get("certified_copies"):
        lines.append(
            f"copies    {copies} documents have so many that they are clear against every attack, whatever a run "
            "shows"
        )
    lines += before_words(before) if (before := forecast.get("before")) else []
    if forecast["unread"]:
        lines.append(f"unread    nothing tests {', '.join(forecast['unread'])}; so no document can be clear")
    return "\n".join(lines)


_BAR, _NAMED = 30, 5
"""Letters of the longest bar; documents that are named."""


def known_before(plan: Plan) -> dict[str, Any]:
    """Count the documents that are proved before any run, by tenths of D, and name those that pull at V most."""
    proved = np.zeros(0) if plan.absent is None else plan.absent.bound
    before: dict[str, Any] = {"sensitive": len(proved), "unit": plan.units.word}
    tenths = np.bincount(np.minimum((10 * proved).astype(np.int64), 9), minlength=10)
    before["tenths"] = {f"{n / 10:.1f}": int(count) for n, count in enumerate(tenths) if count}
    rank, shown = traits_of(plan.mechanism).rank, absence_shown(plan.releases.read)
    if rank is not None and shown == "factor":
        mine = plan.holdings.victim
        moves = pull(rows_of(plan.units.matrix, mine), plan.holdings.size, rank)
        furthest = plan.audited[np.argsort(-moves[np.searchsorted(mine, plan.audited)], kind="stable")]
        before["furthest"] = [str(name) for name in plan.units.ids[furthest[:_NAMED]]]
    return before


def before_words(figures: Mapping[str, Any]) -> list[str]:
    """The same for people, with a bar for each tenth of D."""
    lines, most = [], max(figures["tenths"].values(), default=1)
    if figures["sensitive"]:
        many = f"{figures['sensitive']:,} {figures['unit']}s are sensitive before any run"
        lines.append(f"before    {many}, by their rarest feature alone; lower bounds of their D:")
        for tenth, count in figures["tenths"].items():
            lines.append(f"          {tenth}  {'#' * math.ceil(_BAR * count / most):{_BAR}} {count:,}")
    if figures.get("furthest"):
        names = ", ".join(visible(name) for name in figures["furthest"])
        whose = f"{'':10}of the others, these" if lines else "before    these documents"
        lines.append(f"{whose} move the released V furthest: {names}")
    return lines


def _bytes(count: float) -> str:
    unit = next(unit for unit in ("TB", "GB", "MB", "kB") if count >= _UNITS[unit] or unit == "kB")
    return f"{count / _UNITS[unit]:.1f} {unit}"


def _passing(forecast: Mapping[str, Any]) -> str:
    if not forecast.get("passing_bytes"):
        return ""
    again = ", which run the mechanism anew" if forecast.get("runs_again") else ""
    parts = f", documents in {forecast['parts']} parts{again}" if forecast.get("parts", 1) > 1 else ""
    return f" kept, and {forecast['passing_bytes'] / 1e9:.1f} GB of values that pass{parts}"


def _margin(forecast: Mapping[str, Any]) -> list[str]:
    if not forecast["margin"] or forecast["runs_for_margin"] is None or forecast["proved"]:
        return []
    if forecast["certifiable_margin"] <= forecast["margin"]:
        return [f"          the spec's {forecast['margin']:.2f} needs no more runs"]
    takes = f"          the spec's {forecast['margin']:.2f} takes {forecast['runs_for_margin']} runs"
    more = forecast.get("with_runs_for_margin")
    return [f"{takes}: set `design.with_runs = {more}`" if more else takes]


def forecast(opened: Opened) -> dict[str, Any]:
    """Plan an audit, and say what to expect."""
    with lent(opened.own):
        plan = make_plan(opened)
        try_own_code(plan)
        return _forecast(plan) | {"notes": corpus_notes(opened)}


def _forecast(plan: Plan) -> dict[str, Any]:
    spec = plan.spec
    documents = len(plan.audited) + (0 if plan.absent is None else len(plan.absent.units))
    n_with, n_without = plan.arms
    cost = bill(plan)
    stays = keeps_values(plan)
    parts = 1 if stays else len(document_parts(plan, ROW_GROUP))
    paired = 0 if spec.certificate is None or plan.proved else spec.certificate.pairs * (1 + len(plan.audited))
    own = math.inf if is_known(plan) else _seconds_of_a_run(plan)
    costs, processes = costs_of(plan, own), None if spec.cluster else processes_here([plan], own)
    start, first = start_seconds(plan, costs.once, processes), likely_runs(plan)
    stages = {"start": start, **costs.stages(plan.runs, parts)}
    copies, covered = copies_bound(plan), coverage_of(plan)
    # The last look decides what can be detected and cleared; learned columns count, too.
    last = plan.looks[-1].level
    clear_level = spec.decision.for_clear * last / spec.decision.level
    rule = spec.decision_in_run.model_copy(update={"level": last, "clear_level": clear_level})
    columns = len(plan.columns)
    arms = (n_with, n_without, plan.counted, columns, rule)
    needed = _runs_for_margin(plan, columns, rule)
    safe = None if covered.unread else _safe(plan, costs.run)
    return {
        "sentence": _sentence(plan, documents),
        "expect": _expected(plan, safe),
        "with_runs_for_margin": None if needed is None else plan.reading.with_runs(needed, plan.design.share),
        "documents": documents,
        "unit": plan.units.word,
        "runs": plan.runs,
        "blocks": len(plan.blocks),
        "statistics": [s.name for s in plan.statistics],
        "skipped_statistics": plan.tested.skipped,
        "opens": traits_of(plan.mechanism).opens,
        "coverage": {name: list(who) for name, who in covered.read_by.items()},
        "unread": list(covered.unread),
        "certified_copies": 0 if copies is None else int(spec.decision_in_run.accepts(copies.advantage).sum()),
        "before": known_before(plan),
        "proved": plan.proved,
        "promise": _promise(plan),
        "seconds_a_run": costs.run,
        "processes_here": processes,
        "cpu_seconds": stages,
        "first_look_seconds": start + sum(costs.stages(first, parts).values()) if first < plan.runs else None,
        "memory": asdict(memory_of(plan)),
        "certificate_runs": paired,
        "cpu_hours": (sum(stages.values()) + costs.run * paired) / 3600,
        "bytes": stays * cost.values + cost.observables + cost.corpus,
        "moved_bytes": cost.moved(0),
        "corpus_bytes": cost.corpus,
        "passing_bytes": 0 if stays else min(cost.values, VALUES_AT_ONCE),
        "parts": parts,
        "runs_again": parts > 1 and not (plan.from_store and spec.store.observables != "none"),
        "n_with": n_with,
        "n_without": n_without,
        "detectable_D": float(minimal_detectable(*arms)),
        "certifiable_margin": float(min(smallest_margin(*arms), 1.0)),
        "margin": spec.decision_in_run.margin,
        **_at_low_fpr(plan, rule),
        "runs_for_margin": needed,
        "safe": safe,
        "useful": _useful(plan),
    }


def _seconds_of_a_run(plan: Plan) -> float:
    """CPU seconds of a run and its statistics without those that are learnt; the first run imports."""
    statistics = unlearnt(plan.statistics)
    for _ in range(2):
        began, block = time.process_time(), Block(0, 0, 1)
        measure(plan, block, sample(plan, block), statistics)
    return time.process_time() - began


def _low_fpr(forecast: Mapping[str, Any]) -> list[str]:
    limit = forecast.get("margin_at_low_fpr")
    if limit is None or forecast["proved"]:
        return []
    what = f"          {limit:g} true positives at 1 % false ones: "
    if not forecast["can_clear_at_low_fpr"]:
        return [f"{what}so few runs cannot prove it, even if nothing leaks: nobody can be clear"]
    if forecast["certifiable_at_low_fpr"] <= limit:
        return [f"{what}these runs are enough"]
    return [f"{what}these runs prove {forecast['certifiable_at_low_fpr']:.2f} at best, 8 times in 10"]


def _runs_for_margin(plan: Plan, columns: int, rule: DecisionSpec) -> int | None:
    if not rule.margin:
        return None
    share, low = plan.design.share, plan.low_fpr
    needed = runs_for_margin(share, rule.margin, plan.counted, columns, rule)
    if low is not None:
        needed = max(needed, runs_for_limit(share, plan.counted, columns, rule, low))
    return math.ceil(needed * more_runs(share, plan.reading.every))


def _sentence(plan: Plan, documents: int) -> str:
    """Describe the audit in a sentence, as a person would."""
    size, all_of_them, unit = plan.holdings.size, len(plan.units), plan.units.word
    what = mechanism_words(plan.mechanism.name, given_fields(plan.mechanism))
    return (
        f"{what} among parties of which one holds {size} of {all_of_them} {unit}s "
        f"({100 * size / all_of_them:.2g} %); {documents} are audited."
    )


def _at_low_fpr(plan: Plan, rule: DecisionSpec) -> dict[str, Any]:
    low, columns = plan.low_fpr, len(plan.columns)
    if low is None:
        return {"margin_at_low_fpr": None}
    best = low.least_limit(*plan.arms, rule.for_clear)
    return {
        "margin_at_low_fpr": low.limit,
        "can_clear_at_low_fpr": best <= low.limit,
        "certifiable_at_low_fpr": smallest_limit(*plan.arms, plan.counted, columns, rule, low),
    }


def _promise(plan: Plan) -> str | None:
    if plan.promise is None:
        return None
    bound, margin = plan.promise.bound, plan.spec.decision_in_run.limits
    what = f"the mechanism's noise keeps every attack on every document to an advantage of {bound:.3g}"
    if plan.proved:
        return f"{what}: all are clear at margin {margin} whatever a run shows; a few runs check the program"
    return f"{what}: above the margin of {margin}, so runs decide"


_DRAWN, _RUNS, _FEWEST, _SECONDS = 60, 100, 40, 20.0
"""Documents of the trial, runs in either arm, the fewest that say anything, and CPU seconds."""


def _safe(plan: Plan, seconds_a_run: float) -> dict[str, Any] | None:
    """From how many documents on a run is safe, by a trial; None where that is not asked or would last."""
    margin, population = plan.spec.decision_in_run.margin, size_base(plan.spec, plan.corpus)
    runs = min(_RUNS, int(_SECONDS / 2 / max(seconds_a_run, 1e-9)))
    if plan.proved or not margin or runs < _FEWEST or is_own(plan.mechanism):
        return None
    try:
        trial = trial_plan(plan.spec, plan.corpus, min(_DRAWN, len(plan.audited)), runs)
        leak = sampled_leak(trial, level=plan.spec.decision_in_run.level, population=population)
    except InputError:  # so few documents, or such a design
        return None
    needed = documents_needed(leak, margin, population)
    words = needed_words(needed, population)
    sentence = (
        f"D of {leak.documents} documents in {leak.runs} runs: median {leak.median:.2f}, 95 % below "
        f"{leak.high:.2f} (by chance {leak.chance:.2f}); {words}"
    )
    return {"documents": needed, "leak": asdict(leak), "needed": words, "sentence": sentence}


def _expected(plan: Plan, safe: Mapping[str, Any] | None) -> str | None:
    """Why most units will be sensitive, where that is plain before any run: by equations, or by the trial."""
    units, exact = f"{plan.units.word}s", telling(plan, plan.spec.decision_in_run.margin or 1.0)
    if exact:
        names = " and ".join(f"`{name}`" for name in exact)
        fewer = "noise" if traits_of(plan.mechanism).opens == "final" else '`mechanism.opens = "final"`'
        return (
            f"most {units} to be sensitive: {sum(exact.values()):,} exact numbers ({names}) of "
            f"{plan.holdings.unknown:,} {units} tell the average one apart by more than the margin ({fewer} helps)"
        )
    if safe is None or safe["leak"]["median"] <= max(plan.spec.decision_in_run.margin, safe["leak"]["chance"]):
        return None
    return (
        f"most {units} to be sensitive: in a trial half of them had a D above {safe['leak']['median']:.2f} "
        "(`ksdp advise` looks for settings that give less away)"
    )


def documents_wanted(plan: Plan) -> str | None:
    """From how many documents on a run is safe, or where a proof makes it so, useful: as `ksdp plan` says it."""
    answer = (
        _useful(plan) if plan.proved else None if coverage_of(plan).unread else _safe(plan, costs_of(plan).run)
    )
    return None if answer is None else str(answer["needed"])


def _useful(plan: Plan) -> dict[str, Any] | None:
    """From how many documents on noise hardly costs anything, where that can be said beforehand."""
    corpus = plan.corpus
    parties = 3 if corpus.party is None else len(set(corpus.party.tolist()))
    useful = documents_useful(plan.mechanism, corpus.matrix, parties)
    if useful is None:
        return None
    sentence = (
        f"the wanted directions are {useful.ratio:.1f} times as strong as the noise, which hardly costs anything "
        f"from about {useful.documents:,} documents on (there are {len(corpus):,}); `ksdp gain` measures it"
    )
    needed = (
        f"from about {useful.documents:,} documents on the noise hardly costs anything, "
        f"where there are {len(corpus):,}"
    )
    return asdict(useful) | {"needed": needed, "sentence": sentence}
