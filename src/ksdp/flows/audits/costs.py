"""CPU seconds that an audit takes, within a factor of two: from its sizes and a table of measured constants.

`python -m benchmarks forecasts` prints the constants, measured anew, and forecasts beside what audits took.
Somebody's own code has no constant: what it costs is unknown, or follows from one run that is timed.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import NamedTuple

from ksdp.audit.contract import traits_of
from ksdp.audit.coverage import telling
from ksdp.audit.mechanisms.recorded import own_parts
from ksdp.audit.plan import CONTROLS, Plan, reads_one_document
from ksdp.audit.statistics.linear.solve import fits_dense_solver
from ksdp.audit.statistics.simulated import MOST_NUMBERS, SimulatedStatistic
from ksdp.storage.blocks import ROW_GROUP
from ksdp.tasks.slices import SLICE_BYTES


class Constants(NamedTuple):
    """CPU seconds of a mechanism."""

    run: float
    """A run, however small."""
    entry: float
    """A stored entry of the run's databases, for each topic or direction."""
    number: float
    """A number that the run announces."""
    linear: float
    """A document that may be in the run, in a noisy or large linear system that says who was."""
    pair: float = 0.0
    """A pair of features, where products of two are released with noise; four times that in a linear system."""


MECHANISMS = {
    "pd-svd": Constants(4e-3, 60e-9, 18e-9, 28e-6),
    "pd-svd, final": Constants(1.5e-3, 13e-9, 25e-9, 28e-6),
    "pd-pca": Constants(3e-3, 60e-9, 30e-9, 30e-6),
    "pd-pca, final": Constants(1.5e-3, 13e-9, 25e-9, 30e-6),
    **dict.fromkeys(("sigma-svd", "counted-svd"), Constants(3e-3, 60e-9, 25e-9, 28e-6)),
    "pd-nmf": Constants(2e-3, 27e-9, 17e-9, 25e-6),
    "pd-nmf, weighted": Constants(2e-3, 27e-9, 17e-9, 200e-6),
    "noisy": Constants(5e-3, 100e-9, 65e-9, 85e-6),
    "fedpower": Constants(3e-3, 25e-9, 45e-9, 10e-6),
    "fedpower-utility": Constants(2.4e-3, 15e-9, 85e-9, 10e-6),
    "dp-nmf": Constants(12e-3, 110e-9, 25e-9, 75e-6),
    "dpdispca": Constants(1e-3, 15e-9, 25e-9, 10e-6, 220e-9),
    "moments": Constants(1e-3, 15e-9, 25e-9, 10e-6, 140e-9),
    "term-counts": Constants(0.5e-3, 0.0, 150e-9, 15e-6),
    **dict.fromkeys(("hardt-roth", "broken-power", "fedpower-private"), Constants(1.2e-3, 10e-9, 35e-9, 10e-6)),
    **dict.fromkeys(("pem-kmeans", "pem-logistic", "pem-apriori"), Constants(5e-3, 15e-9, 90e-9, 50e-6)),
    **dict.fromkeys(("null", "planted-leak", "recorded"), Constants(0.5e-3, 0.0, 20e-9, 0.0)),
}
"""By name, with rows of their own for the final output alone and for ratings, where these differ."""
SYSTEM, EXACT = 4e-3, 7e-9
"""A linear system, however small; an exact one, a stored entry of the documents times a document in the run."""
STATISTIC, ENTRY = 0.4e-3, 0.8e-9
"""Another statistic in a run; a stored entry of the documents, for each topic or direction."""
LEARNT, TRAINED, TAUGHT = 4e-6, 1.5e-3, 3e-6
"""A training run, each time that what it taught is applied; learning from it; for each document besides."""
STORED = 10e-9
"""A stored byte."""
TEST, TESTED, PAIR = 5e-6, 40e-9, 0.25e-9
"""Tests of a document under a statistic; a run that they read; the square of the runs in the smaller arm."""
EFFECT = 1e-3
"""Seconds of a document on fresh runs."""
START, READ, ONCE = 5.0, 100e-9, 0.5
"""A process, from its start to the page; an entry of the corpus; what is worked out before the first run."""
FORKED, SERVED, WORKER = 1.2, 7.0, 2.5
"""A worker that is forked here; Prefect's server and its flow; a worker of Dask."""


IMPORTED, STARTED, COPIES, MEMORY_FACTOR = 330e6, 430e6, 8.0, 1.5
"""Bytes of a worker and of the starting process before work; copies of corpus and run; factor of the error."""


@dataclass(frozen=True)
class Memory:
    """Bytes that processes of an audit hold at their peak, within `MEMORY_FACTOR`."""

    worker: float
    start: float
    """The starting process, which takes the part of a worker too."""

    def of(self, workers: int) -> float:
        """All processes together; a single worker is the starting process."""
        return self.start + (self.worker * workers if workers > 1 else 0.0)


def memory_of(plan: Plan) -> Memory:
    """Estimate the memory of a plan: imports, the corpus, a block of runs or a slice of values, equations."""
    matrix, columns = plan.corpus.matrix, len(plan.statistics) + 1
    rows = len(plan.audited) / plan.design.lanes + CONTROLS
    run = 8.0 * sum(math.prod(array.shape) for array in plan.releases.recorded)
    corpus = sum(part.nbytes for part in (matrix.data, matrix.indices, matrix.indptr))
    values = rows * columns * plan.measured * plan.bytes_a_value
    block = plan.block_runs * (values + plan.kept_bytes * (plan.spec.store.observables != "none"))
    tested = min(SLICE_BYTES, 4.0 * min(rows, ROW_GROUP) * plan.read_runs * columns)
    linear = any(statistic.name.startswith("linear-") for statistic in plan.statistics)
    pool = plan.holdings.unknown * fits_dense_solver(plan.holdings.unknown)
    taught = max((s.runs for s in plan.statistics if isinstance(s, SimulatedStatistic)), default=0)
    learnt = 4.0 * taught * (min(run / 8.0, MOST_NUMBERS) + plan.holdings.unknown)
    work = COPIES * (corpus + run) + 2 * max(block, tested) + linear * 8.0 * pool**2 + learnt
    return Memory(IMPORTED + work, STARTED + work)


@dataclass(frozen=True)
class Costs:
    """CPU seconds of an audit; at most, as every document is measured on fresh runs."""

    run: float
    """A run of the mechanism, its statistics, and writing both."""
    again: float
    """Seconds of a run that are paid for each part of the documents."""
    once: float
    """Seconds of each process before its first run."""
    test: float
    """All tests of all documents."""
    fresh: float
    """All fresh runs, and what they say of all documents."""

    def stages(self, runs: int, parts: int = 1) -> dict[str, float]:
        """By stage, for so many runs, with the documents measured in so many parts."""
        sampled = (self.run + self.again * (parts - 1)) * runs
        return {"sample": self.once + sampled, "test": self.test, "confirm": self.fresh}


def is_known(plan: Plan) -> bool:
    """Whether the table has constants of it: the mechanism and all statistics are the package's own."""
    return not own_parts(plan.mechanism) and reads_one_document(plan.statistics)


def costs_of(plan: Plan, own: float = math.inf) -> Costs:
    """Estimate the costs of a plan; `own` are the seconds of a run and its statistics if the table has none."""
    audited, pool, rank = len(plan.audited), plan.holdings.unknown, traits_of(plan.mechanism).rank or 1
    measured = plan.measured * audited / plan.design.lanes
    learnt = [statistic for statistic in plan.statistics if isinstance(statistic, SimulatedStatistic)]
    systems = sum(statistic.name.startswith("linear-") for statistic in plan.statistics)
    ran, attacked, looked = own, sum(LEARNT * s.runs for s in learnt), 0.0
    if is_known(plan):
        name, traits = plan.mechanism.name.partition("#")[0], traits_of(plan.mechanism)
        mechanism = MECHANISMS.get(f"{name}, {'weighted' if traits.weighted else traits.opens}", MECHANISMS[name])
        row = plan.corpus.matrix.nnz / len(plan.units)
        in_run = plan.holdings.size + plan.holdings.entering + len(plan.holdings.coalition)
        numbers = sum(math.prod(array.shape) for array in plan.releases.recorded)
        pairs = mechanism.pair * plan.corpus.matrix.shape[1] ** 2
        ran = mechanism.run + mechanism.entry * row * in_run * rank + mechanism.number * numbers + pairs
        exact = traits.noise_free and not traits.weighted and fits_dense_solver(pool)
        system = EXACT * row * pool * in_run if exact else mechanism.linear * pool + 4.0 * pairs
        attacked += systems * (SYSTEM + system)
        others = len(plan.statistics) - systems - len(learnt)
        looked = others * (STATISTIC + ENTRY * row * measured * rank)
    columns = len(plan.statistics) + 1  # and the canary
    kept = plan.kept_bytes * (plan.spec.store.observables != "none")
    run = ran + attacked + looked + STORED * (measured * columns * plan.bytes_a_value + kept)
    tests = TEST + TESTED * plan.read_runs + PAIR * min(plan.arms) ** 2
    sampled_again = not plan.from_store or plan.spec.store.observables == "none"
    return Costs(
        run=run,
        again=attacked + ran * sampled_again,
        once=ONCE + sum((s.runs + s.further) * ran + s.runs * (TRAINED + TAUGHT * pool) for s in learnt),
        test=tests * columns * audited,
        fresh=plan.fresh_runs * plan.design.lanes * run + EFFECT * audited * (plan.fresh_runs > 0),
    )


def likely_runs(plan: Plan) -> int:
    """Runs that an audit takes where the first look decides all, as it does where equations tell who is in."""
    return plan.runs * plan.looks[0].runs // plan.looks[-1].runs if telling(plan, 1.0) else plan.runs


def start_seconds(plan: Plan, once: float, processes: int | None) -> float:
    """Estimate the seconds of starting `processes` of this machine, or a server and workers of Dask (None)."""
    alone = START + READ * float(plan.corpus.matrix.nnz)
    if processes == 1:
        return alone
    if processes is not None:
        return alone + FORKED * (processes + 1) + once * (processes - 1)
    cores = os.cpu_count() or 1
    return alone + SERVED + WORKER * cores + once * (cores - 1)
