"""One document measured again under one statistic, from the seed alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ksdp.audit.interim_looks import Stage
from ksdp.audit.kept_runs import levelled
from ksdp.audit.plan import Plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.testing import compare_arms

__all__ = ["measured_again", "narrowed_to"]


def narrowed_to(plan: Plan, look: Stage, row: int, statistic: str) -> Plan:
    """The plan of a look for one document and one statistic, as far as its design can do without the others."""
    return plan.narrowed(dataclasses.replace(look, rows=np.array([row]), statistics=(statistic,)))


def measured_again(plan: Plan, row: int, done: Callable[[int], object]) -> dict[str, float]:
    """Run the mechanism for a document of a plan that `narrowed_to` gave, and test it.

    Parameters
    ----------
    row : int
        Of the corpus.
    done : callable
        Told how many runs each block was.
    """
    (statistic,) = plan.statistics
    lane = next(n for n in range(plan.design.lanes) if row in plan.design.targets(n))
    place = plan.design.targets(lane).tolist().index(row)
    parts = []
    for block in plan.blocks:
        if block.lane != lane:
            continue
        measured = measure(plan, block, sample(plan, block), plan.statistics)
        parts.append(measured)
        done(len(block))
    one = slice(place, place + 1)
    inclusion = np.concatenate([part.inclusion[one] for part in parts], axis=1)
    values = np.concatenate([part.values[statistic.name][one] for part in parts], axis=1)
    some = [part.kept[one] for part in parts if part.kept is not None]
    kept = np.concatenate(some, axis=1) if some else None
    bits, (read,) = levelled(inclusion, kept, [values], plan.read_runs)
    tests = compare_arms({statistic.name: read}, bits)
    return {
        "n_with": int(tests.n_with[0, 0]),
        "n_without": int(tests.n_without[0, 0]),
        "distance": float(tests.distance[0, 0]),
        "log10_p": float(tests.log10_p[0, 0]),
    }
