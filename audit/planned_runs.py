"""How many runs an audit makes, in which blocks, when it looks, and which runs the tests of a document read."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ksdp.audit.design import Design, Shared
from ksdp.audit.document_parts import reads_one_document
from ksdp.audit.interim_looks import Look, planned_looks
from ksdp.audit.mechanisms.contract import Announced
from ksdp.audit.plan import CONTROLS
from ksdp.audit.reading import EVERY_RUN, Reading, best_every, more_runs
from ksdp.audit.spec import Spec
from ksdp.audit.statistics.contract import Statistic
from ksdp.audit.statistics.plain import COEFFICIENTS

# A block's values and observables stay below this, so that a worker's memory does not depend on the corpus.
_BLOCK_BYTES = 64 * 2**20
_STATISTICS_GUESS = 8
# Families whose last bit depends on a document's place among others.
_BY_PLACE = ("paper-blocks", COEFFICIENTS)
# Strata of blocks before the first look, where a part of the without runs is kept.
_FEWEST_STRATA = 4


@dataclass(frozen=True, eq=False)
class PlannedRuns:
    """The runs of an audit."""

    design: Design
    """Which documents are in which run, with the runs of a lane."""
    block_runs: int
    """Runs in a block."""
    looks: tuple[Look, ...]
    """When it decides, and at what level."""
    reading: Reading
    """Which part of the runs a document's tests read (`ksdp.audit.kept_runs`)."""


def planned_runs(
    spec: Spec,
    design: Design,
    kept: Sequence[Announced],
    statistics: Sequence[Statistic],
    learners: Sequence[str],
) -> PlannedRuns:
    """Decide blocks, looks and reading, and add the runs that reading a part of them costs.

    Parameters
    ----------
    design : Design
        With as many runs as tests that read all of them need.
    kept : sequence of Announced
        The observables that go to the store.
    """
    block_runs = _block_runs(design, kept)
    every, drawn = _partly_read(spec, design, block_runs)
    looks = planned_looks(spec, drawn, block_runs * every)
    if _reads_all(statistics) or learners:  # these read whole runs
        return PlannedRuns(drawn, block_runs, looks, EVERY_RUN)
    # A first look of few blocks reads all of them.
    lumpy = len(looks) > 1 and looks[0].runs < _FEWEST_STRATA * every * block_runs
    return PlannedRuns(drawn, block_runs, looks, Reading(every, looks[0].runs if lumpy and every > 1 else 0))


def _block_runs(design: Design, kept: Sequence[Announced]) -> int:
    """Runs in a block: a power of two from the sizes alone, so that audits of the same runs share blocks."""
    audited = len(design.pool if isinstance(design, Shared) else design.targets(0)) + CONTROLS
    observables = sum(int(np.prod(a.shape)) for a in kept)
    fits = _BLOCK_BYTES // (4 * (audited * _STATISTICS_GUESS + observables))
    return int(2 ** np.clip(np.floor(np.log2(max(fits, 1))), 4, 8))


def _partly_read(spec: Spec, design: Design, block_runs: int) -> tuple[int, Design]:
    """Of how many blocks one may keep a document's without arm, and the design with the runs that this takes.

    Both follow from the design alone, so that audits of the same runs under other statistics have the same number
    of them: whole strata of blocks, and so many that the tests are as strong as if they read all runs.
    """
    needed = spec.design.without_runs == "needed" and spec.design.unit == "document"
    if not (needed and isinstance(design, Shared)) or design.share >= 0.5:
        return 1, design
    every = best_every(design.share)
    # With few blocks the draw is lumpy, and there is little to save.
    while every > 1 and design.runs < _FEWEST_STRATA * every * block_runs:
        every //= 2
    if every == 1:
        return 1, design
    whole = every * block_runs
    runs = whole * math.ceil(design.runs * more_runs(design.share, every) / whole)
    return every, dataclasses.replace(design, runs=runs)


def _reads_all(statistics: Sequence[Statistic]) -> bool:
    """Whether tests need all runs of every document.

    Statistics of other packages may look at who else is measured, which is then not the same in both arms.
    """
    by_place = any(statistic.family in _BY_PLACE for statistic in statistics)
    return by_place or not reads_one_document(statistics)
