"""What the stages of an audit will cost, in CPU seconds, from some seconds of trying each.

Timed are a few runs of the mechanism with their statistics, and the tests of some documents at the sizes that the
audit's arms will have. What cannot be tried without writing (blocks, their checksums, reading them again) and the
start of server and workers are constants that were measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ksdp.audit.design import Block, Shared
from ksdp.audit.interim_looks import Stage
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.reading import Reading
from ksdp.audit.sampling import measure, sample
from ksdp.audit.testing import ArmTests, canary_arms, compare_arms, joint_log10_p, learn_arms
from ksdp.audit.verdicts.raw_filter import RAW

__all__ = ["Calibration", "calibrate"]

_TESTED = 256
"""Documents whose tests stand for all: enough of them share the arms whose law is worked out together."""
_LEARNED = 8
"""The same, for learners and permutations, which take a hundred times as long."""
_TRIED = 64
"""Most runs that are timed: more would not make the figure better."""
_FEW = 4
"""Runs, and documents, of the trial that tells what a run costs however many documents are measured."""
_WRITTEN, _READ = 6e-9, 4e-9
"""CPU seconds a stored byte: Parquet and checksum, and reading it for the tests."""
_START = 30.0
"""CPU seconds of a server, a scheduler and what each process imports."""


@dataclass(frozen=True)
class Calibration:
    """CPU seconds."""

    sample: float
    """A run of the mechanism, its statistics, and writing both."""
    test: float
    """All tests of a document."""
    fresh: float
    """All fresh runs, where every document is flagged: at most."""
    start: float
    again: float = 0.0
    """What of a run's statistics depends on no document, such as a filter: paid for each part of the documents."""

    def stages(self, plan: Plan, runs: int, parts: int = 1) -> dict[str, float]:
        """CPU seconds by stage for `runs` runs, with the documents measured in `parts` parts."""
        return {
            "start": self.start,
            "sample": (self.sample + self.again * (parts - 1)) * runs,
            "test": self.test * len(plan.audited),
            "confirm": self.fresh,
        }


def _tested(plan: Plan, clock: Callable[[], float]) -> float:
    """Seconds for the tests of one document, half of the documents leaking and half not; its canary's too."""
    rng, rows = np.random.default_rng(0), min(_TESTED, len(plan.audited))
    bits = rng.random((rows, plan.read_runs)) < min(plan.arms[0] / plan.read_runs, 0.5)
    shift = np.where(np.arange(rows) % 2, 1.5, 0.0)[:, None] * bits
    values = {s.name: (rng.normal(size=bits.shape) + shift).astype(np.float32) for s in plan.tested}
    canary = rng.normal(size=bits.shape) + 10.0 * bits
    compare_arms({name: column[:2] for name, column in values.items()}, bits[:2])  # compiles
    began = clock()
    tests = compare_arms(values, bits)
    canary_arms(canary, bits)
    spent = (clock() - began) / rows
    few, names = min(_LEARNED, rows), [name for name in plan.learners if name != RAW]
    columns = [column[:few] for column in values.values()]
    if names:
        began = clock()
        tests = ArmTests.beside([tests[:few], learn_arms(columns, bits[:few], names)])
        spent += (clock() - began) / few
    if plan.permutations:
        began = clock()
        joint_log10_p(columns, bits[:few], tests[:few], plan.permutations, rng)
        spent += (clock() - began) / few
    return spent


def _fixed(plan: Plan, clock: Callable[[], float]) -> tuple[float, float]:
    """Seconds of a run's mechanism, and of its statistics for hardly a document; 0 where all must be looked at."""
    if not isinstance(plan.design, Shared):
        return 0.0, 0.0
    names = tuple(s.name for s in plan.statistics)
    few = plan.narrowed(Stage("", plan.design.seed, plan.design.runs, plan.audited[:_FEW], names))
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
    measure(plan, one, sample(plan, one), plan.statistics)  # compiles
    done, spent, most = 0, 0.0, min(plan.block_runs, plan.design.runs - first, _TRIED)
    while done < most and (spent < budget or done < 4):
        some = Block(0, first + done, first + min(done + max(done, 4), most))
        began = clock()
        measure(plan, some, sample(plan, some), plan.statistics)
        spent += clock() - began
        done += len(some)
    share = Reading(plan.reading.every).measured(plan.design.runs, plan.design.share)
    columns = len(plan.statistics) + 1  # and the canary
    stored = (len(plan.audited) / plan.design.lanes + CONTROLS) * columns * plan.bytes_a_value
    observables = plan.kept_values * plan.bytes_a_value
    a_test = _tested(plan, clock) + _READ * plan.read_runs * columns * plan.bytes_a_value
    kept = Reading(plan.fresh_every).measured(plan.design.runs, plan.design.share)
    mechanism, statistics = _fixed(plan, clock)
    looked = max(spent / done - mechanism - statistics, 0.0)
    a_run = spent / done + looked * (plan.measured / share - 1) + _WRITTEN * (stored * plan.measured + observables)
    fresh = plan.fresh_runs * plan.design.lanes * (mechanism + statistics + looked * kept / share)
    stored_runs = plan.from_store and plan.spec.store.observables != "none"
    return Calibration(a_run, a_test, fresh, _START, statistics + (0.0 if stored_runs else mechanism))
