"""Leaks for an audit to find: planted for documents that it called clear, they tell how strong its attacks are.

Each leak has a size: the advantage of an attacker who knows it and looks at the numbers that it changes, in
simulated runs that carry all other leaks too. An attacker who looks at everything has at least that. A leak is
made as large as wanted on its own, and measured again beside the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.planted import KINDS, ArrayLeak
from ksdp.audit.mechanisms.recorded import ENOUGH
from ksdp.audit.numeric.array_types import Bits, Floats, Ints
from ksdp.audit.numeric.sparse_rows import same_rows
from ksdp.audit.plan import Plan
from ksdp.audit.results.strength import AttackStrength, Planted
from ksdp.audit.specs.models import PlantedSpec
from ksdp.audit.statistics.simulated import SimulatedStatistic, simulated_runs
from ksdp.audit.verdicts.laws import widest_gap
from ksdp.audit.verdicts.verdict import VERDICTS

ABOVE = (0.0, 0.1, 0.2, 0.3)
"""Sizes of leaks, above the margin."""
MOST_LEAKS = 96
_RUNS = 1000
_CANDIDATES = 512
"""Announced numbers, chosen at random, in which leaks are planted."""
_TOGETHER = 32
_STEPS = 40
_FAR = 64.0
"""The largest amount that is tried, in deviations; of `spread`, the largest factor."""


@dataclass(frozen=True, eq=False)
class _Pilot:
    """Some announced numbers in simulated runs."""

    names: Sequence[str]
    places: Ints
    numbers: Floats
    """Shape (n_runs, n_numbers)."""
    integral: Bits
    """Whether a number is a count; then it stays one."""
    centres: Floats
    deviations: Floats


def _pilot(plan: Plan, rng: np.random.Generator) -> _Pilot:
    shapes = {array.name: array.shape for array in plan.releases.read}
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    chosen = np.sort(rng.permutation(sum(sizes))[:_CANDIDATES])
    array = np.searchsorted(np.cumsum(sizes), chosen, side="right")
    places = chosen - np.concatenate([[0], np.cumsum(sizes)])[array]
    names = np.array(list(shapes))[array]
    runs = [
        np.array([seen[name].reshape(-1)[place] for name, place in zip(names, places, strict=True)], np.float64)
        for _, seen in simulated_runs(plan.pool, shapes, _RUNS, rng)
    ]
    if not runs:
        raise InputError(f"no leak can be planted: its size is measured in runs to learn from; record {ENOUGH}.")
    numbers = np.array(runs).reshape(len(runs), len(chosen))
    kept = np.flatnonzero(numbers.std(axis=0) > 1e-9 * np.abs(numbers).max(axis=0, initial=0.0))
    if not len(kept):
        raise InputError("no leak can be planted: what runs announce does not vary.")
    of = numbers[:, kept]
    integral, centres = (of == np.round(of)).all(axis=0), np.median(of, axis=0)
    centres = np.where(integral, np.round(centres), centres)
    return _Pilot([str(name) for name in names[kept]], places[kept], of, integral, centres, of.std(axis=0))


def _known_score(leak: ArrayLeak, numbers: Floats, deviations: Floats) -> Floats:
    off = numbers - leak.centres
    if leak.kind == "spread":
        return np.asarray(np.abs(off[:, 0]))
    if leak.kind == "agreement":
        return np.asarray(np.sign(np.prod(off, axis=1)))
    return np.asarray((off / deviations * np.sign(leak.amounts)).sum(axis=1))


def _distance(included: Floats, excluded: Floats) -> float:
    gap = widest_gap(included, excluded)
    return 0.0 if gap is None else gap.distance


def _size(leak: ArrayLeak, numbers: Floats, deviations: Floats, coins: Floats) -> float:
    """The largest difference of the two arms' distribution functions, the same runs with the leak and without."""
    arms = (_known_score(leak, some, deviations) for some in (leak.moved(numbers, coins), numbers))
    return _distance(*arms)


def _of_size(leak: ArrayLeak, pilot: _Pilot, at: Ints, wanted: float, coins: Floats) -> ArrayLeak | None:
    """The leak, its amounts made as large as wanted; None where it cannot be."""
    none = 1.0 if leak.kind == "spread" else 0.0
    integral = pilot.integral[at] if leak.kind != "agreement" else np.zeros(1, np.bool_)
    numbers, deviations = pilot.numbers[:, at], pilot.deviations[at]

    def grown(step: float) -> ArrayLeak:
        amounts = none + (leak.amounts - none) * step
        return replace(leak, amounts=np.where(integral, np.round(amounts), amounts))

    low, high = 0.0, 1.0
    if _size(grown(high), numbers, deviations, coins) < wanted:
        return None
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _size(grown(middle), numbers, deviations, coins) >= wanted else (middle, high)
    return grown(high)


def _largest(kind: str, pilot: _Pilot, at: Ints, unit: int, rng: np.random.Generator) -> ArrayLeak:
    """A leak at these numbers, with the largest amounts that are tried."""
    signs = np.where(rng.random(len(at)) < 0.5, -1.0, 1.0)
    amounts = {"spread": np.array([_FAR]), "agreement": np.ones(1)}.get(kind, _FAR * signs * pilot.deviations[at])
    return ArrayLeak(unit, kind, pilot.names[at[0]], pilot.places[at], amounts, pilot.centres[at])


def _numbers_for(kind: str, pilot: _Pilot, first: int, rng: np.random.Generator) -> Ints:
    """Which of the pilot's numbers a leak changes: that one, and others of its array."""
    count = {"numbers": _TOGETHER, "agreement": 2}.get(kind, 1)
    others = [at for at in range(len(pilot.places)) if pilot.names[at] == pilot.names[first] and at != first]
    return np.array([first, *rng.permutation(others)[: count - 1].astype(int)])


def planted_leaks(plan: Plan, clear: Ints, rng: np.random.Generator) -> tuple[tuple[PlantedSpec, float], ...]:
    """Return leaks of every kind and size for clear documents, each with its excess over the margin."""
    first = same_rows(plan.units.matrix, plan.units.matrix)
    alone = clear[np.bincount(first)[first[clear]] == 1]
    if not len(alone):
        raise InputError(f"no leak can be planted: every clear {plan.units.word} has a copy in the corpus.")
    pilot, margin = _pilot(plan, rng), plan.spec.decision_in_run.margin
    order, coins = rng.permutation(len(pilot.places)), rng.random(len(pilot.numbers))
    cells = list(product(KINDS, ABOVE))
    chosen = rng.permutation(alone)[: min(MOST_LEAKS, max(len(cells), len(order)))]  # more drown one another
    made: list[tuple[ArrayLeak, Ints, float]] = []
    for number, unit in enumerate(chosen):
        kind, above = cells[number % len(cells)]
        at = _numbers_for(kind, pilot, int(order[number % len(order)]), rng)
        if len(at) < 2 and kind in ("numbers", "agreement"):
            continue
        largest = _largest(kind, pilot, at, int(unit), rng)
        leak = _of_size(largest, pilot, at, margin + above, coins)
        if leak is not None:
            made.append((leak, at, above))
    sizes = _measured(pilot, made, rng)
    return tuple(
        (_spec_of(leak, str(plan.units.ids[leak.unit]), size), above)
        for (leak, _, above), size in zip(made, sizes, strict=True)
    )


def _measured(
    pilot: _Pilot, made: Sequence[tuple[ArrayLeak, Ints, float]], rng: np.random.Generator
) -> list[float]:
    """The size of each leak where every run carries a random half of the others, one after the other."""
    coins = rng.random((len(made), len(pilot.numbers)))
    bits, sizes = rng.random(coins.shape) < 0.5, []
    for number, (leak, at, _) in enumerate(made):
        arms = []
        for bit in (True, False):
            inclusion = bits.copy()
            inclusion[number] = bit
            numbers = _carried(pilot.numbers, made, inclusion, coins)[:, at]
            arms.append(_known_score(leak, numbers, pilot.deviations[at]))
        sizes.append(_distance(*arms))
    return sizes


def _carried(numbers: Floats, made: Iterable[tuple[ArrayLeak, Ints, float]], bits: Bits, coins: Floats) -> Floats:
    changed = numbers.copy()
    for (leak, at, _), included, coin in zip(made, bits, coins, strict=True):
        changed[np.ix_(included, at)] = leak.moved(changed[np.ix_(included, at)], coin[included])
    return changed


def _spec_of(leak: ArrayLeak, document: str, size: float) -> PlantedSpec:
    kept = leak.kind in ("spread", "agreement")
    tables = {
        "document": document,
        "kind": leak.kind,
        "array": leak.array,
        "places": leak.places.tolist(),
        "amounts": leak.amounts.tolist(),
        "centres": leak.centres.tolist() if kept else [],
        "advantage": round(size, 4),
    }
    return PlantedSpec.model_validate(tables)


def strength_of(
    plan: Plan,
    audit: str,
    planted: Sequence[tuple[PlantedSpec, float]],
    verdicts: Mapping[str, str],
    finished: str,
) -> AttackStrength:
    """Return the verdicts on the leaks, by kind and size."""
    rows = []
    for kind, above in product(KINDS, ABOVE):
        mine = [leak for leak, size in planted if (leak.kind, size) == (kind, above)]
        if mine:
            called = [verdicts[leak.document] for leak in mine]
            counts = {word: called.count(word) for word in VERDICTS}
            size = round(float(np.mean([leak.advantage for leak in mine])), 3)
            rows.append(Planted(KINDS[kind], above, size, counts))
    learnt = any(isinstance(statistic, SimulatedStatistic) for statistic in plan.statistics)
    return AttackStrength(audit, plan.spec.decision_in_run.margin, tuple(rows), learnt, finished)
