"""What the stages of an audit will cost, in CPU seconds, from some seconds of trying each.

Timed are a few runs of the mechanism with their statistics, and the tests of some documents at the sizes that the
audit's arms will have. What cannot be tried without writing (blocks, their checksums, reading them again) are
constants that were measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.run_subsampling import RunSubsampling
from ksdp.audit.sampling import measure, sample
from ksdp.audit.specs.design import Block, Shared
from ksdp.audit.testing import canary_arms, compare_arms
from ksdp.audit.verdicts.effects import best_threshold, measure_effect
from ksdp.audit.verdicts.looks import Stage

_TESTED = 256
"""Documents whose tests stand for all: enough of them share the arms whose law is worked out together."""
_TRIED = 64
"""Most runs that are timed: more would not make the figure better."""
_FEW = 4
"""Runs, and documents, of the trial that tells what a run costs however many documents are measured."""
BRIEF = 0.5
"""Seconds of runs that tell whether an audit is small (`ksdp.flows.audits.place`)."""
_WRITTEN, _READ = 6e-9, 4e-9
"""CPU seconds a stored byte: Parquet and checksum, and reading it for the tests."""


@dataclass(frozen=True)
class Calibration:
    """CPU seconds."""

    sample: float
    """A run of the mechanism, its statistics, and writing both."""
    test: float
    """All tests of a document."""
    fresh: float
    """All fresh runs, where every document is flagged: at most."""
    start: float = 0.0
    """Before the first run, and after the last (`ksdp.flows.audits.place`)."""
    again: float = 0.0
    """What of a run's statistics depends on no document, such as a filter: paid for each part of the documents."""
    once: float = 0.0
    """What each process works out before its first run, such as what is expected of all."""
    trial: float = 0.0
    """What half a second of trying runs takes, once aside: a command without `--workers` does so to choose."""

    def stages(self, plan: Plan, runs: int, parts: int = 1) -> dict[str, float]:
        """CPU seconds by stage for `runs` runs, with the documents measured in `parts` parts: at most."""
        return {
            "start": self.start,
            "sample": self.once + (self.sample + self.again * (parts - 1)) * runs,
            "test": self.test * len(plan.audited),
            "confirm": self.fresh,
        }


def _tested(plan: Plan, clock: Callable[[], float]) -> float:
    """Seconds for the tests of one document, half of the documents leaking and half not; its canary's too."""
    rng, rows = np.random.default_rng(0), min(_TESTED, len(plan.audited))
    bits = rng.random((rows, plan.read_runs)) < min(plan.arms[0] / plan.read_runs, 0.5)
    shift = np.where(np.arange(rows) % 2, 1.5, 0.0)[:, None] * bits
    values = {s.name: (rng.normal(size=bits.shape) + shift).astype(np.float32) for s in plan.statistics}
    canary = rng.normal(size=bits.shape) + 10.0 * bits
    compare_arms({name: column[:2] for name, column in values.items()}, bits[:2])  # compiles
    began = clock()
    compare_arms(values, bits)
    canary_arms(canary, bits)
    return (clock() - began) / rows


def _effect(plan: Plan, clock: Callable[[], float]) -> float:
    """Seconds of what is said of one document on fresh runs."""
    rng = np.random.default_rng(0)
    held, free = (rng.normal(size=max(round(plan.fresh_runs * part), 2)) for part in _parts(plan))
    spent = 0.0
    for at in range(_FEW + 1):  # the first one compiles
        began = clock()
        attack = best_threshold(held, free)
        measure_effect(0, "", attack, held, free, plan.spec.rule.level, plan.spec.rule.margin)
        spent += (clock() - began) * (at > 0)
    return spent / _FEW


def _parts(plan: Plan) -> tuple[float, float]:
    share = plan.design.share
    return share, (1 - share) / plan.fresh_every


def _fixed(plan: Plan, names: Sequence[str], clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a run's mechanism, and of some statistics for a few documents; 0 where all must be looked at."""
    if not isinstance(plan.design, Shared):
        return 0.0, 0.0
    few = plan.narrowed(Stage("", plan.design.seed, plan.design.runs, plan.audited[:_FEW], tuple(names)))
    some = Block(0, 0, min(_FEW, plan.block_runs, plan.design.runs))
    measure(few, some, list(sample(few, some)), few.statistics)  # what is known of these documents in every run
    began = clock()
    runs = list(sample(few, some))
    drawn = clock()
    measure(few, some, runs, few.statistics)
    return (drawn - began) / len(some), (clock() - drawn) / len(some)


def calibrate(plan: Plan, budget: float = 10.0, clock: Callable[[], float] = time.process_time) -> Calibration:
    """Try each stage for some seconds in this process.

    Parameters
    ----------
    budget : float
        Seconds for the runs; 64 of them at most, and four at least.
    clock : CPU seconds of this process by default
    """
    first = plan.reading.early  # where every document reads all runs, they cost more than elsewhere
    one = Block(0, first, first + 1)
    begun = began = clock()
    measure(plan, one, sample(plan, one), plan.statistics)  # compiles, and what is expected is worked out
    once = clock() - began
    done, spent, most = 0, 0.0, min(plan.block_runs, plan.design.runs - first, _TRIED)
    while done < most and (spent < budget or done < 4):
        some = Block(0, first + done, first + min(done + max(done, 4), most))
        began = clock()
        measure(plan, some, sample(plan, some), plan.statistics)
        spent += clock() - began
        done += len(some)
    share = RunSubsampling(plan.reading.every).measured(plan.design.runs, plan.design.share)
    columns = len(plan.statistics) + 1  # and the canary
    stored = (len(plan.audited) / plan.design.lanes + CONTROLS) * columns * plan.bytes_a_value
    observables = plan.kept_bytes
    a_test = _tested(plan, clock) + _READ * plan.read_runs * columns * plan.bytes_a_value
    kept = RunSubsampling(plan.fresh_every).measured(plan.design.runs, plan.design.share)
    every = [s.name for s in plan.statistics]
    mechanism, statistics = _fixed(plan, every, clock)
    looked = max(spent / done - mechanism - statistics, 0.0)
    written = _WRITTEN * stored * plan.measured
    a_run = spent / done + looked * (plan.measured / share - 1) + written + _WRITTEN * observables
    fresh_runs = plan.fresh_runs * plan.design.lanes
    fresh = fresh_runs * (mechanism + statistics + looked * kept / share)
    stored_runs = plan.from_store and plan.spec.store.observables != "none"
    said = _effect(plan, clock) if fresh_runs else 0.0
    return Calibration(
        sample=a_run,
        test=a_test,
        fresh=fresh + len(plan.audited) * said,
        again=statistics + (0.0 if stored_runs else mechanism),
        once=max(once - spent / done, 0.0),
        trial=max(clock() - begun - once - max(spent - BRIEF, 0.0), 0.0),
    )
