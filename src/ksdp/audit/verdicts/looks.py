"""The parts of an audit: looks at a growing number of runs, and fresh runs for what they flagged.

A **look** tests the documents whose verdict is open in all runs so far. Its level is planned before the first
run, and it counts every document of the audit: those decided before go on
with p = 1, which makes their p-values no smaller and so keeps every correction valid. The false alarms of all
looks together are then held to the sum of the looks' levels, and so are their bands. Decided documents are no
longer measured, and where none is open the audit stops: that is what looks save.

**Fresh** runs have a seed of their own. What is measured there of a flagged document was not selected for being
large.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.run_subsampling import EVERY_RUN, RunSubsampling
from ksdp.audit.specs.design import Design, Shared
from ksdp.audit.specs.models import DecisionSpec, Spec
from ksdp.audit.verdicts.decide import Decisions, Proof, Verdict, adjusted_among, decide, flagged_by
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.power import likely_distance

FIRST = ""
"""Name of the first look, which needs no file: the plan alone decides it."""
FRESH = "fresh"
AGAIN = "again"
"""The runs of the first look, for what was detected, where the values of the first look are gone."""
DRAWN = "drawn"
"""Begins the names of stages of the documents whose curves are drawn, likewise."""

LOOKS = {0.1: 0.1, 0.17: 0.05, 0.3: 0.05, 1.0: 0.8}
"""When an audit decides: at which parts of its runs, each with which part of the level. Plain leaks take little of
the level; a document that was in too few of the first runs is decided at the next look; the bands of the last look
are within a hundredth of those of the whole level."""
_LEAST_VALUES = 10**6
"""Documents times runs below which an audit looks at the end only: nothing would be saved."""
_LEAST_WITH = 8
"""Runs with a document before a look, below which hardly anything is decided: it has its part at the next look."""


@dataclass(frozen=True)
class Look:
    """A planned look."""

    runs: int
    """Runs of a lane that are done by then."""
    level: float


@dataclass(frozen=True, eq=False)
class Stage:
    """Which documents are measured in which runs."""

    name: str
    seed: int
    runs: int
    rows: NDArray[np.int64]
    """Rows of the corpus, ascending."""
    statistics: tuple[str, ...]
    """Columns to measure, in the plan's order."""
    before: str | None = None
    """The stage that measured the first of these runs."""
    strongest: NDArray[np.int64] | None = None
    """Place in `statistics` of the one that is measured for each row; None: all are."""


def planned_looks(spec: Spec, design: Design, whole_runs: int) -> tuple[Look, ...]:
    """The looks of an audit, from its sizes alone, each at the end of whole blocks."""
    runs, level = design.runs, spec.decision.level
    documents = len(design.pool) if isinstance(design, Shared) else 0
    if spec.design.looks == "end" or documents * runs < _LEAST_VALUES:
        return (Look(runs, level),)
    rarer, before = min(design.share, 1 - design.share), 0.0
    parts: dict[int, float] = {}
    for share, part in LOOKS.items():
        end = min(-(-round(share * runs) // whole_runs) * whole_runs, runs)
        before += part
        if end == runs or rarer * share * runs >= _LEAST_WITH:
            parts[end], before = parts.get(end, 0.0) + before, 0.0
    return tuple(Look(end, level * part) for end, part in parts.items())


def fresh_seed(seed: int) -> int:
    """Seed of the fresh runs, below 2^53."""
    return derived_seed(seed, Purpose.FRESH)


_Table = TypeVar("_Table", ArmTests, Decisions)


@dataclass(frozen=True)
class LookScope:
    """Facts about the audit that a look needs beyond its own tests.

    In the shared design every document can be tested in the same runs, whoever is audited, and in the literal one
    a document's runs are the same whoever else is. Ids may have been named because of what was seen there, so
    where ids are named the whole pool counts. In the balanced design, and where a number of documents is drawn,
    other documents mean other runs.
    """

    documents: int
    """Number of documents that the corrections count: at least those that are audited."""
    fresh: bool = False
    """Whether fresh runs follow the last look."""
    reading: RunSubsampling = EVERY_RUN
    """Which part of the runs a document's tests read."""
    may_clear: bool = True
    """False where something that the run announces was looked at by nobody: then no document is clear."""


@dataclass(frozen=True, eq=False)
class InterimVerdicts:
    """One entry a document, as of the last look that tested it."""

    tests: ArmTests
    decisions: Decisions
    """Adjusted p-values, and `log10_p_below`, are scaled to the whole audit's level and the smallest over looks:
    `log10_adjusted` is at or below the level where a leak was detected, and so on for the other two. The levels of
    the looks add up to the whole one, so that this smallest is a p-value again."""
    look: NDArray[np.int64]
    alone: NDArray[np.bool_]
    """Whether each column alone would have said sensitive, shape (n_documents, n_columns)."""
    paper: NDArray[np.bool_]
    """Whether the paper's own statistics alone would have detected a leak."""
    counted: LookScope
    settled: NDArray[np.bool_]
    """Undecided for good: below the margin in all that was looked at, where something was looked at by nobody."""


def without_verdicts(interim: InterimVerdicts) -> InterimVerdicts:
    """The same measurements; nothing is detected or decided, by all columns together or by one alone."""
    nothing = np.zeros_like(interim.decisions.detected)
    verdict = np.full_like(interim.decisions.verdict, Verdict.UNDECIDED)
    decisions = replace(
        interim.decisions, verdict=verdict, proof=np.full_like(interim.decisions.proof, ""), detected=nothing
    )
    alone, paper = np.zeros_like(interim.alone), np.zeros_like(interim.paper)
    return replace(interim, decisions=decisions, alone=alone, paper=paper)


def open_documents(interim: InterimVerdicts) -> NDArray[np.int64]:
    """Places of the documents that are undecided and that another look may decide, ascending."""
    return np.flatnonzero((interim.decisions.verdict == Verdict.UNDECIDED) & ~interim.settled)


def detected_documents(interim: InterimVerdicts) -> NDArray[np.int64]:
    """Places of the documents under which a leak was detected, ascending."""
    return np.flatnonzero(interim.decisions.detected)


def after_look(
    before: InterimVerdicts | None,
    tests: ArmTests,
    number: int,
    look: Look,
    rule: DecisionSpec,
    paper: Sequence[int],
    counted: LookScope | None = None,
) -> InterimVerdicts:
    """Decide the documents that were open, and keep the verdicts of the others."""
    counted = before.counted if before is not None else counted or LookScope(len(tests))
    among = counted.documents
    decisions = decide(tests, rule, level=look.level, among=among, fresh=counted.fresh)
    decisions = replace(decisions, runs_to_decide=counted.reading.total(decisions.runs_to_decide))
    settled = (decisions.verdict == Verdict.CLEAR) & (not counted.may_clear)
    decisions = decisions if counted.may_clear else without_clear(decisions, tests, rule)
    scale = math.log10(rule.level / look.level)
    scaled = {name: np.minimum(getattr(decisions, name) + scale, 0.0) for name in _SCALED}
    decisions = replace(decisions, **scaled)
    columns = range(tests.distance.shape[1])
    alone = [flagged_by(tests.columns([c]), rule, look.level, among, above=True) for c in columns]
    own = flagged_by(tests.columns(paper), rule, look.level, among) if paper else np.zeros(len(tests), np.bool_)
    if before is None:
        look_of = np.full(len(tests), number)
        return InterimVerdicts(tests, decisions, look_of, np.stack(alone, axis=1), own, counted, settled)
    at = open_documents(before)
    kept = {name: np.minimum(getattr(before.decisions, name)[at], scaled[name]) for name in _SCALED}
    decisions = replace(decisions, detected=before.decisions.detected[at] | decisions.detected, **kept)
    return InterimVerdicts(
        _placed(before.tests, tests, at),
        _placed(before.decisions, decisions, at),
        _put(before.look, np.full(len(tests), number), at),
        _put(before.alone, before.alone[at] | np.stack(alone, axis=1), at),
        _put(before.paper, before.paper[at] | own, at),
        counted,
        _put(before.settled, settled, at),
    )


_SCALED = ("log10_adjusted", "log10_adjusted_above", "log10_adjusted_below", "log10_p_below")


def without_clear(decisions: Decisions, tests: ArmTests, rule: DecisionSpec) -> Decisions:
    """The same if no statistic reads some announced array: "at least the margin" has p = 1 for every document.

    So no document is clear, and no number of runs decides one that does not seem to be above the margin.
    """
    open_ = decisions.verdict != Verdict.SENSITIVE
    nothing = np.zeros(len(tests))
    return replace(
        decisions,
        verdict=np.where(open_, Verdict.UNDECIDED.value, decisions.verdict).astype(np.str_),
        proof=np.full(len(tests), "", decisions.proof.dtype),
        log10_p_below=nothing,
        log10_adjusted_below=nothing,
        runs_to_decide=np.where(open_ & (likely_distance(tests) <= rule.margin), np.inf, decisions.runs_to_decide),
    )


def after_certificate(interim: InterimVerdicts, bound: NDArray[np.float64], rule: DecisionSpec) -> InterimVerdicts:
    """Call clear, against every attack, whose bound is accepted, unless it was proved sensitive."""
    decisions = interim.decisions
    proved = rule.accepts(bound) & (decisions.verdict != Verdict.SENSITIVE)
    verdict = np.where(proved, Verdict.CLEAR.value, decisions.verdict).astype(np.str_)
    proof = np.where(proved, Proof.EVERY_ATTACK.value, decisions.proof).astype(np.str_)
    needed = np.where(proved, np.nan, decisions.runs_to_decide)
    return replace(interim, decisions=replace(decisions, verdict=verdict, proof=proof, runs_to_decide=needed))


def for_fresh_runs(interim: InterimVerdicts, rule: DecisionSpec) -> NDArray[np.int64]:
    """Places of the documents whose advantage the fresh runs may prove to be above the margin, ascending.

    Chosen by the audit's own runs: undecided, a leak detected, and measured above the margin.
    """
    decisions, distance = interim.decisions, np.nan_to_num(interim.tests.distance)
    strongest = np.take_along_axis(distance, decisions.strongest[:, None], axis=1)[:, 0]
    chosen = decisions.detected & (strongest > rule.margin) & (decisions.verdict == Verdict.UNDECIDED)
    return np.flatnonzero(chosen & (rule.margin > 0) & interim.counted.fresh)


def after_fresh(interim: InterimVerdicts, log10_p: ArrayLike, rule: DecisionSpec) -> InterimVerdicts:
    """Call sensitive what fresh runs prove to be above the margin, at their half of the level.

    Given the audit's own runs, which chose these documents and their attacks, the fresh ones are a new sample: the
    correction counts the chosen ones only. The false ones of both halves are together at most those of the level.
    """
    at = for_fresh_runs(interim, rule)
    if not len(at):
        return interim
    decisions = interim.decisions
    raised = np.minimum(adjusted_among(np.asarray(log10_p, dtype=np.float64), rule, len(at)) + math.log10(2), 0.0)
    adjusted = decisions.log10_adjusted_above.copy()
    adjusted[at] = np.minimum(adjusted[at], raised)
    proved = at[raised <= math.log10(rule.level)]
    verdict, needed = decisions.verdict.copy(), decisions.runs_to_decide.copy()
    verdict[proved], needed[proved] = Verdict.SENSITIVE, np.nan
    decisions = replace(decisions, log10_adjusted_above=adjusted, verdict=verdict, runs_to_decide=needed)
    return replace(interim, decisions=decisions)


def _put(values: NDArray[Any], part: NDArray[Any], at: NDArray[np.int64]) -> NDArray[Any]:
    out = values.astype(np.promote_types(values.dtype, part.dtype))
    out[at] = part
    return out


def _placed(table: _Table, part: _Table, at: NDArray[np.int64]) -> _Table:
    names = [f.name for f in fields(table)]
    return type(table)(*(_put(getattr(table, name), getattr(part, name), at) for name in names))
