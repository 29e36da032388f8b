"""The parts of an audit: looks at a growing number of runs, and fresh runs for what they flagged.

A **look** tests the documents whose verdict is open in all runs so far. Its level is planned before the first
run (`ksdp.audit.verdicts.sequential`), and it counts every document of the audit: those decided before go on
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
from ksdp.audit.spec import Spec
from ksdp.audit.verdicts.sequential import look_levels

__all__ = ["AGAIN", "FIRST", "FRESH", "Look", "Stage", "fresh_seed", "plan_looks"]

FIRST = ""
"""Name of the first look, which needs no file: the plan alone decides it."""
FRESH = "fresh"
AGAIN = "again"
"""The runs of the first look, for what was detected, where the values of the first look are gone."""


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
    """Columns to measure."""
    before: str | None = None
    """The stage that measured the first of these runs."""


def plan_looks(spec: Spec, runs: int, block_runs: int) -> tuple[Look, ...]:
    """Where the looks are, in whole blocks of runs, and at what level each decides.

    With `stopping` anytime, p-values and bands hold at all looks together, and each decides at the whole level.

    Parameters
    ----------
    runs : int
        Of a lane.
    """
    asked = spec.design.looks
    fractions = tuple((n + 1) / asked for n in range(asked)) if isinstance(asked, int) else asked
    ends = sorted(
        {min(-(-round(part * runs) // block_runs) * block_runs, runs) for part in fractions} - {0} | {runs}
    )
    if spec.decision.stopping == "anytime":
        return tuple(Look(end, spec.decision.level) for end in ends)
    levels = look_levels([end / runs for end in ends], spec.decision.level, spec.decision.spending)
    return tuple(Look(end, float(level)) for end, level in zip(ends, levels, strict=True))


def fresh_seed(seed: int) -> int:
    """Seed of the fresh runs, below 2^53."""
    return derived_seed(seed, Purpose.FRESH)
