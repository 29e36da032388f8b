"""Where every document of an audit stands after some looks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.interim_looks import Look
from ksdp.audit.spec import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.decide import Decisions, Verdict, decide, flagged_by

__all__ = ["Standing", "after_look", "open_documents", "without_clear"]

_Table = TypeVar("_Table", ArmTests, Decisions)


@dataclass(frozen=True, eq=False)
class Standing:
    """One entry a document, as of the last look that tested it."""

    tests: ArmTests
    decisions: Decisions
    """`log10_adjusted` is scaled to the whole audit's level: at or below it where the document is sensitive."""
    look: NDArray[np.int64]
    """Number of that look, from 0."""
    alone: NDArray[np.bool_]
    """Whether each column alone would have said sensitive, shape (n_documents, n_columns)."""
    paper: NDArray[np.bool_]
    """Whether the paper's own statistics alone would have."""


def open_documents(standing: Standing) -> NDArray[np.int64]:
    """Places of the documents that are undecided, ascending."""
    return np.flatnonzero(standing.decisions.verdict == Verdict.UNDECIDED)


def after_look(
    before: Standing | None,
    tests: ArmTests,
    number: int,
    look: Look,
    rule: DecisionSpec,
    paper: Sequence[int],
    may_clear: bool = True,
) -> Standing:
    """Decide the documents that were open, and keep what was said of the others.

    Parameters
    ----------
    before : Standing or None
        None at the first look.
    tests : ArmTests
        Of `open_documents(before)`, in that order; of every document at the first look.
    number : int
        Of the look, from 0.
    look : Look
    rule : DecisionSpec
    paper : columns of the paper's own statistics
    may_clear : bool
        False where something that the run announces was looked at by nobody: then no document is clear.
    """
    among = len(tests) if before is None else len(before.look)
    decisions = decide(tests, rule, level=look.level, among=among)
    scaled = np.minimum(decisions.log10_adjusted + math.log10(rule.level / look.level), 0.0)
    decisions = replace(decisions, log10_adjusted=scaled)
    decisions = decisions if may_clear else without_clear(decisions)
    columns = range(tests.distance.shape[1])
    alone = [flagged_by(tests.columns([c]), rule, look.level, among) for c in columns]
    own = flagged_by(tests.columns(paper), rule, look.level, among) if paper else np.zeros(len(tests), np.bool_)
    now = Standing(tests, decisions, np.full(len(tests), number), np.stack(alone, axis=1), own)
    if before is None:
        return now
    at = open_documents(before)
    return Standing(
        _placed(before.tests, now.tests, at),
        _placed(before.decisions, now.decisions, at),
        _put(before.look, now.look, at),
        _put(before.alone, now.alone, at),
        _put(before.paper, now.paper, at),
    )


def without_clear(decisions: Decisions) -> Decisions:
    """The same with nothing proved clear: undecided, and no number of runs would decide."""
    clear = decisions.verdict == Verdict.CLEAR
    return replace(
        decisions,
        verdict=np.where(clear, Verdict.UNDECIDED.value, decisions.verdict).astype(np.str_),
        runs_to_decide=np.where(clear, np.inf, decisions.runs_to_decide),
    )


def _put(whole: NDArray[Any], part: NDArray[Any], at: NDArray[np.int64]) -> NDArray[Any]:
    out = whole.copy()
    out[at] = part
    return out


def _placed(whole: _Table, part: _Table, at: NDArray[np.int64]) -> _Table:
    placed: dict[str, Any] = {}
    for f in fields(whole):
        old, new = getattr(whole, f.name), getattr(part, f.name)
        placed[f.name] = None if old is None else _put(old, new, at)
    return type(whole)(**placed)
