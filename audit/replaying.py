"""One document measured again, from the seed alone or from stored observables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.interim_looks import Stage
from ksdp.audit.kept_runs import levelled
from ksdp.audit.plan import Plan
from ksdp.audit.sampling import Stored, measure, sample
from ksdp.audit.spec.design import Block
from ksdp.audit.testing import compare_arms


def narrowed_to(plan: Plan, look: Stage, row: int, statistics: Sequence[str]) -> Plan:
    """The plan of a look for one document and some statistics. Designs that need the other targets keep them."""
    return plan.narrowed(dataclasses.replace(look, rows=np.array([row]), statistics=tuple(statistics)))


def values_again(
    plan: Plan, row: int, runs: Callable[[Block], Iterator[Stored]], done: Callable[[int], object]
) -> tuple[NDArray[np.bool_], dict[str, NDArray[Any]]]:
    """Which of the runs that its tests read held a document, shape (1, n_runs), and its values, statistic by
    statistic, of the same shape.

    Parameters
    ----------
    plan : Plan
        Narrowed to the document, as far as its design can do without the others.
    row : int
        Of the corpus.
    runs : callable
        The observables of each run of a block, in order.
    done : callable
        Told how many runs each block was.
    """
    lane = next(n for n in range(plan.design.lanes) if row in plan.design.targets(n))
    place = plan.design.targets(lane).tolist().index(row)
    parts = []
    for block in plan.blocks:
        if block.lane != lane:
            continue
        parts.append(measure(plan, block, runs(block), plan.statistics))
        done(len(block))
    one = slice(place, place + 1)
    inclusion = np.concatenate([part.inclusion[one] for part in parts], axis=1)
    names = [statistic.name for statistic in plan.statistics]
    values = [np.concatenate([part.values[name][one] for part in parts], axis=1) for name in names]
    some = [part.kept[one] for part in parts if part.kept is not None]
    kept = np.concatenate(some, axis=1) if some else None
    bits, read = levelled(inclusion, kept, values, plan.read_runs)
    return bits, dict(zip(names, read, strict=True))


def measured_again(plan: Plan, row: int, done: Callable[[int], object]) -> dict[str, float]:
    """Run the mechanism for a document of a plan that `narrowed_to` gave, and test it.

    Parameters
    ----------
    row : int
        Of the corpus.
    done : callable
        Told how many runs each block was.
    """
    bits, values = values_again(plan, row, lambda block: sample(plan, block), done)
    tests = compare_arms(values, bits)
    return {
        "n_with": int(tests.n_with[0, 0]),
        "n_without": int(tests.n_without[0, 0]),
        "distance": float(tests.distance[0, 0]),
        "log10_p": float(tests.log10_p[0, 0]),
    }
