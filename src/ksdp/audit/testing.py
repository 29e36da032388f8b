"""Test all documents of a slice, judge the controls, and measure one document again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.plan import CONTROLS, NULL_CONTROLS, Plan
from ksdp.audit.run_subsampling import levelled
from ksdp.audit.runs import Stored, measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.audit.verdicts.controls import CANARY, Canaries
from ksdp.audit.verdicts.laws import ArmTests, in_order, ks_table, ks_tables
from ksdp.audit.verdicts.looks import Stage
from ksdp.audit.verdicts.low_fpr import LowFpr
from ksdp.audit.verdicts.multiplicity import weighted_minimum
from ksdp.audit.verdicts.tails import tail_table
from ksdp.audit.verdicts.ties import tied_table

# Controls are judged so strictly that a sound audit is called void once in a hundred thousand.
_CONTROL_LEVEL = 1e-5


def compare_arms(
    values: Mapping[str, NDArray[Any]], inclusion: NDArray[np.bool_], low_fpr: LowFpr | None = None
) -> ArmTests:
    """Test every document under every statistic: Kolmogorov-Smirnov, exact given ties, and the tails beside it."""
    columns = list(values.values())
    ordered = [in_order(array) for array in columns]  # once, for all three
    tables = ks_tables(columns, inclusion, ordered)
    exact = [tied_table(v, inclusion, table, o) for v, table, o in zip(columns, tables, ordered, strict=True)]
    tail = [tail_table(v, inclusion, o).log10_p for v, o in zip(columns, ordered, strict=True)]
    distances, tails = np.stack(exact, axis=1), np.stack(tail, axis=1)
    rare = {}
    if low_fpr is not None:
        log_p = [low_fpr.log10_p(v, inclusion, o) for v, o in zip(columns, ordered, strict=True)]
        below, above = (np.stack(part, axis=1) for part in zip(*log_p, strict=True))
        rare = {"log10_low_below": below, "log10_low_above": above}
    return ArmTests(
        np.stack([t.n_with for t in tables], axis=1),
        np.stack([t.n_without for t in tables], axis=1),
        np.stack([t.distance for t in tables], axis=1),
        weighted_minimum(distances, tails),
        tails,
        **rare,
    )


def canary_arms(values: NDArray[np.floating], inclusion: NDArray[np.bool_]) -> ArmTests:
    """Tests of canaries, in one column. One whose score falls when its document is present gets D = 0, p = 1.

    D knows no direction: were every bit of a document negated, it would be 1 as it is of a sound audit.
    """
    tests = compare_arms({CANARY: values}, inclusion)
    total = values.sum(axis=1, dtype=np.float64)
    sums = np.where(inclusion, values, 0).sum(axis=1, dtype=np.float64)
    sizes = tests.n_with[:, 0], tests.n_without[:, 0]
    higher = sums * sizes[1] > (total - sums) * sizes[0]
    upside_down = (~higher & ~np.isnan(tests.distance[:, 0]))[:, None]
    return replace(
        tests,
        distance=np.where(upside_down, 0.0, tests.distance),
        log10_p=np.where(upside_down, 0.0, tests.log10_p),
        log10_tail=np.where(upside_down, 0.0, tests.log10_tail),
    )


def shuffled_log10_p(
    values: Mapping[str, NDArray[Any]], inclusion: NDArray[np.bool_], order: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Log10 p of real documents whose inclusion bits come from other runs, shape (n_documents, n_statistics).

    The check of a null mechanism: run r's values against the bits of run order[r], a random order, are what a
    mechanism that looks at none of these documents would give, with this audit's values, ties and arms. The
    p-values must be uniform (or larger, where few values are possible); where they are not, values, bits or
    tests are mixed up.
    """
    dealt = np.ascontiguousarray(inclusion[:, order])
    columns = [np.ascontiguousarray(array) for array in values.values()]
    return np.stack([tied_table(array, dealt, ks_table(array, dealt)) for array in columns], axis=1)


def judge_controls(
    controls: Sequence[ArmTests], shuffled: Sequence[NDArray[np.float64]], canaries: Canaries | None = None
) -> Controls:
    """Judge the control documents of every lane, the shuffled tests of real ones, and the real ones' canaries.

    The values of control documents stand in every statistic's column, went through the same store and the same
    test as everybody's, and their bits come from the same seed: a mixed-up run or arm shows here. What they
    cannot show is that real documents' bits are those of the databases: canaries do.
    """
    null = np.concatenate([part.log10_p[:NULL_CONTROLS].min(axis=1) for part in controls])
    planted = np.concatenate([part.log10_p[NULL_CONTROLS:CONTROLS].ravel() for part in controls])
    dealt = np.concatenate([part.ravel() for part in shuffled]) if shuffled else np.zeros(1)
    smallest, largest, lowest = 10 ** float(null.min()), 10 ** float(planted.max()), 10 ** float(dealt.min())
    bar = _planted_bar(controls)
    if canaries is not None and canaries.reason is not None:
        reason: str | None = canaries.reason
    elif smallest < _CONTROL_LEVEL / len(null):  # all columns hold the same control values
        reason = f"a null control was detected (p = {smallest:.1e})"
    elif lowest < _CONTROL_LEVEL / len(dealt):
        reason = f"a document was detected in runs that were dealt at random (p = {lowest:.1e})"
    elif bar is not None and float(planted.max()) > bar:
        reason = f"a planted leak of advantage 0.9 was missed (p = {largest:.1e})"
    else:
        reason = None
    return Controls(
        null=len(null),
        null_smallest_p=smallest,
        planted=len(controls) * (CONTROLS - NULL_CONTROLS),
        planted_largest_p=largest,
        shuffled=len(dealt),
        shuffled_smallest_p=lowest,
        reason=reason,
        canaries=0 if canaries is None else canaries.count,
        canaries_smallest_distance=1.0 if canaries is None else canaries.smallest_distance,
        canaries_sensitive=0 if canaries is None else canaries.sensitive,
    )


def _planted_bar(controls: Sequence[ArmTests]) -> float | None:
    """Log10 p that a planted leak must reach: half its distance would; None where arms are too small for that."""
    m = min(int(part.n_with[NULL_CONTROLS:].min()) for part in controls)
    n = min(int(part.n_without[NULL_CONTROLS:].min()) for part in controls)
    if min(m, n) < 20:
        return None
    return (math.log(2) - 2 * m * n / (m + n) * 0.45**2) / math.log(10)


def narrowed_to(plan: Plan, look: Stage, row: int, statistics: Sequence[str]) -> Plan:
    """The plan of a look for one document and some statistics. Designs that need the other targets keep them."""
    return plan.narrowed(dataclasses.replace(look, rows=np.array([row]), statistics=tuple(statistics)))


def values_again(
    plan: Plan, row: int, runs: Callable[[Block], Iterator[Stored]], done: Callable[[int], object]
) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
    """Which of the runs that its tests read held a document, shape (1, n_runs), and its values, statistic by
    statistic, of the same shape.
    """
    lane = next(n for n in range(plan.design.lanes) if row in plan.design.targets(n))
    place = plan.design.targets(lane).tolist().index(row)
    parts = []
    for block in plan.blocks:
        if block.lane != lane:
            continue
        parts.append(measure(plan, block, runs(block), plan.statistics))
        done(len(block))
    at_row = slice(place, place + 1)
    inclusion = np.concatenate([part.inclusion[at_row] for part in parts], axis=1)
    names = [statistic.name for statistic in plan.statistics]
    values = [np.concatenate([part.values[name][at_row] for part in parts], axis=1) for name in names]
    some = [part.kept[at_row] for part in parts if part.kept is not None]
    kept = np.concatenate(some, axis=1) if some else None
    bits, read = levelled(inclusion, kept, values, plan.read_runs)
    return bits, dict(zip(names, read, strict=True))


def measured_again(plan: Plan, row: int, done: Callable[[int], object]) -> dict[str, float]:
    """Run the mechanism for a document of a plan that `narrowed_to` gave, and test it."""
    bits, values = values_again(plan, row, lambda block: sample(plan, block), done)
    tests = compare_arms(values, bits)
    return {
        "n_with": int(tests.n_with[0, 0]),
        "n_without": int(tests.n_without[0, 0]),
        "distance": float(tests.distance[0, 0]),
        "log10_p": float(tests.log10_p[0, 0]),
    }
