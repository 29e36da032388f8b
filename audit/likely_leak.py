"""How much documents leak, guessed from a few runs: enough to say what an audit will cost, and nothing else.

A few runs hold each document once or twice. Together they tell how its values lie among those of the runs without
it: each value of a with run is ranked among the document's own without runs (0 to 1, uniform where there is no
leak), and the ranks of all documents are pooled. Their largest distance from uniform is about the advantage of a
typical document, and what differs from document to document beyond chance is its spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.plan import Plan
from ksdp.audit.sampling import BlockValues
from ksdp.audit.verdicts.bands import band_width

_RANKED = 512
"""Documents whose values are ranked: more would tell nothing more."""
_NOISE = 0.87
"""Mean of the largest distance of n uniform numbers from uniform, times the root of n."""
_NEAR = 0.9
"""Columns whose advantage is at least this part of the strongest's are strongest for some document."""


@dataclass(frozen=True)
class LikelyLeak:
    """What is guessed of the documents of an audit."""

    still_open: tuple[float, ...]
    """The share of them that each look measures, and the share that is open in the end."""
    flagged: float
    """The share that is detected, and so measured on fresh runs."""
    columns: tuple[str, ...]
    """That are strongest for somebody."""


def likely_leak(plan: Plan, blocks: Sequence[BlockValues]) -> LikelyLeak:
    """Guess from some runs of the first lane who is decided when."""
    if not plan.tested:
        return LikelyLeak((1.0,) * (len(plan.looks) + 1), 1.0, ())
    rows = len(plan.documents(0))
    chosen = np.unique(np.linspace(0, rows - 1, min(rows, _RANKED)).astype(np.int64))
    held = np.concatenate([block.inclusion[chosen] for block in blocks], axis=1)
    found = {
        s.name: pooled_distance(np.concatenate([block.values[s.name][chosen] for block in blocks], axis=1), held)
        for s in plan.tested
    }
    best = max(distance for distance, _ in found.values())
    strongest = max(found, key=lambda name: found[name][0])
    near = tuple(name for name, (distance, _) in found.items() if distance >= _NEAR * best)
    rule, shares = plan.spec.rule, [1.0]
    for look in plan.looks:
        arms = plan.reading.arms(look.runs, plan.design.share)
        sensitive = _share_above(plan, found[strongest], arms, look.level, rule.margin)
        clear = 0.0
        if rule.margin and plan.coverage.may_clear:
            width = _width(plan, arms, rule.for_clear * look.level / rule.level, 1.0)
            clear = _below(rule.margin - width, found[strongest], arms)
        shares.append(min(shares[-1], max(1.0 - sensitive - clear, 0.0)))
    arms = plan.reading.arms(plan.looks[-1].runs, plan.design.share)
    flagged = _share_above(plan, found[strongest], arms, plan.looks[-1].level, 0.0)
    return LikelyLeak(tuple(shares), flagged, near)


def pooled_distance(values: NDArray[np.floating], held: NDArray[np.bool_]) -> tuple[float, float]:
    """The advantage of a typical document by one column, and how far that differs between documents.

    Parameters
    ----------
    values : shape (n_documents, n_runs); NaN where they were not measured
    held : bool, of the same shape
    """
    known = np.isfinite(values)
    ranks, means, counts = [], [], []
    for row, bits, there in zip(values, held, known, strict=True):
        mine, others = row[bits & there], np.sort(row[~bits & there])
        if len(mine) and len(others) > 1:
            at = np.searchsorted(others, mine) + np.searchsorted(others, mine, side="right")
            ranks.append(at / (2 * len(others)))
            means.append(ranks[-1].mean())
            counts.append(len(mine))
    if not ranks:
        return 0.0, 0.0
    pooled = np.sort(np.concatenate(ranks))
    n = len(pooled)
    steps = np.arange(n + 1) / n
    largest = max(float((steps[1:] - pooled).max()), float((pooled - steps[:-1]).max()))
    within = float(np.mean(np.var(pooled) / np.array(counts)))
    between = max(float(np.var(means)) - within, 0.0)
    return math.sqrt(max(largest**2 - _NOISE**2 / n, 0.0)), 2.0 * math.sqrt(between)


def _share_above(
    plan: Plan, found: tuple[float, float], arms: tuple[int, int], level: float, margin: float
) -> float:
    """The share whose advantage is proved above a margin: the more there are, the less a correction asks."""
    share = 1.0
    for _ in range(8):
        share = 1.0 - _below(margin + _width(plan, arms, level, share), found, arms)
    return share


def _width(plan: Plan, arms: tuple[int, int], level: float, share: float) -> float:
    documents = plan.counted
    together = max(share * documents, 1.0) / documents
    if plan.spec.rule.correction == "by":
        together /= math.log(documents) + 0.58  # the harmonic number
    elif plan.spec.rule.correction == "holm":
        together = 1.0 / documents
    with_, without = (np.array([n]) for n in arms)
    return float(band_width(with_, without, level * min(together, 1.0) / len(plan.columns))[0])


def _below(limit: float, found: tuple[float, float], arms: tuple[int, int]) -> float:
    """The share of documents measured below a limit: advantages and noise are normal around a typical one's."""
    distance, spread = found
    noise = max(distance * (1.0 - distance), 0.01) * (1.0 / arms[0] + 1.0 / arms[1])
    return 0.5 * math.erfc((distance - limit) / math.sqrt(2.0 * (spread**2 + noise)))
