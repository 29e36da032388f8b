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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.spec.design import Design, Shared
from ksdp.audit.spec.models import Spec

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
"""Runs with a document before the first look, below which hardly anything is decided."""


@dataclass(frozen=True)
class Look:
    """A planned look."""

    runs: int
    """Runs of a lane that are done by then."""
    level: float
    """At which the look decides."""


@dataclass(frozen=True, eq=False)
class Stage:
    """Which documents are measured in which runs."""

    name: str
    seed: int
    runs: int
    """Of a lane, from run 0."""
    rows: NDArray[np.int64]
    """Rows of the corpus, ascending."""
    statistics: tuple[str, ...]
    """Columns to measure, in the plan's order."""
    before: str | None = None
    """The stage that measured the first of these runs."""
    strongest: NDArray[np.int64] | None = None
    """Of each row the one of `statistics` that is measured; None: all of them."""


def planned_looks(spec: Spec, design: Design, whole_runs: int) -> tuple[Look, ...]:
    """The looks of an audit, from its sizes alone, each at the end of whole blocks.

    Parameters
    ----------
    design : Design
        With the runs of a lane.
    whole_runs : int
        Runs that an early look is a multiple of. Looks that fall together have their parts of the level together.
    """
    runs, level = design.runs, spec.decision.level
    documents = len(design.pool) if isinstance(design, Shared) else 0
    few = min(design.share, 1 - design.share) * runs * min(LOOKS) < _LEAST_WITH
    if spec.design.looks == "end" or few or documents * runs < _LEAST_VALUES:
        return (Look(runs, level),)
    parts: dict[int, float] = {}
    for share, part in LOOKS.items():
        end = min(-(-round(share * runs) // whole_runs) * whole_runs, runs)
        parts[end] = parts.get(end, 0.0) + part
    return tuple(Look(end, level * part) for end, part in parts.items())


def fresh_seed(seed: int) -> int:
    """Seed of the fresh runs, below 2^53."""
    return derived_seed(seed, Purpose.FRESH)
