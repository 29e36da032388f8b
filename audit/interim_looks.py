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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.decision_spec import DecisionSpec
from ksdp.audit.design import Design, Shared
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.spec import Spec
from ksdp.audit.statistics.contract import Statistic
from ksdp.audit.statistics.solved_parts import few_enough
from ksdp.audit.verdicts.sequential import look_levels

FIRST = ""
"""Name of the first look, which needs no file: the plan alone decides it."""
FRESH = "fresh"
AGAIN = "again"
"""The runs of the first look, for what was detected, where the values of the first look are gone."""
DRAWN = "drawn"
"""Begins the names of stages of the documents whose curves are drawn, likewise."""


EARLY = {0.1: 0.1, 0.17: 0.05, 0.3: 0.05, 1.0: 0.8}
"""Looks that a spec leaves open: at which part of the runs, and with which part of the level. What leaks plainly
is decided by little of it; who was in too few runs of the first tenth, at the next look. The last look's bands are
within a hundredth of those of all of it."""
_LARGE = 10**7
"""Documents that may be in, times runs: below, nobody waits."""
_SOLVED = 10**6
"""The same of as few documents as equations are solved for in every run, which is most of what an audit costs."""
_PLAIN = 20
"""Numbers that a run without noise announces for each of its documents, from which on most leak plainly by what it
ends with: those whose terms are not all in the support of V, or T, were not in."""
FEWEST_WITH = 8
"""Runs with a document at the first look, below which hardly anything is decided."""


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


def decides_on_the_way(rule: DecisionSpec) -> bool:
    """Whether planned looks may decide documents before all runs are done."""
    return rule.stopping == "planned" and rule.margin > 0 and not rule.joint


def early_looks_pay(spec: Spec, design: Design, statistics: Sequence[Statistic], numbers: float = 0.0) -> bool:
    """Whether an audit whose spec leaves its looks open decides early, too: by sizes alone, never by a machine.

    Where equations are solved, of every round or of V, most documents are decided by a tenth of the runs, and
    these filters cost most of an audit. By what a run ends with they are, too, where it is exact and many numbers
    a document: small parties, long vocabularies. A look must be able to decide somebody, and what a spec asks for
    go with looks.

    Parameters
    ----------
    numbers : exact ones that a run announces, for each document in it; 0 where they have noise
    """
    few = min(design.share, 1 - design.share) * design.runs * min(EARLY) < FEWEST_WITH
    apart = spec.certificate is None and decides_on_the_way(spec.rule)
    dear = any(statistic.family == "rounds" or hasattr(statistic, "asks_for") for statistic in statistics)
    documents = len(design.pool) if isinstance(design, Shared) else 0
    large = documents * design.runs >= (_SOLVED if dear and few_enough(documents) else _LARGE)
    plain = numbers >= _PLAIN or dear
    return spec.design.looks == "needed" and apart and large and plain and not few


def plan_looks(spec: Spec, runs: int, block_runs: int, early: bool = False) -> tuple[Look, ...]:
    """Where the looks are, in whole blocks of runs, and at what level each decides.

    With `stopping` anytime, p-values and bands hold at all looks together, and each decides at the whole level.

    Parameters
    ----------
    runs : int
        Of a lane.
    early : bool
        Whether looks that the spec leaves open are `EARLY`; otherwise there is one, at the end.
    """
    asked = spec.design.looks
    if asked == "needed":
        asked = tuple(EARLY) if early else 1
    fractions = tuple((n + 1) / asked for n in range(asked)) if isinstance(asked, int) else asked
    ends = sorted(
        {min(-(-round(part * runs) // block_runs) * block_runs, runs) for part in fractions} - {0} | {runs}
    )
    if spec.decision.stopping == "anytime":
        return tuple(Look(end, spec.decision.level) for end in ends)
    if early:  # looks that fall together have their parts together
        parts = dict.fromkeys(ends, 0.0)
        for share, part in EARLY.items():
            parts[min(end for end in ends if end >= round(share * runs))] += part
        return tuple(Look(end, spec.decision.level * part) for end, part in parts.items())
    levels = look_levels([end / runs for end in ends], spec.decision.level, spec.decision.spending)
    return tuple(Look(end, float(level)) for end, level in zip(ends, levels, strict=True))


def fresh_seed(seed: int) -> int:
    """Seed of the fresh runs, below 2^53."""
    return derived_seed(seed, Purpose.FRESH)
