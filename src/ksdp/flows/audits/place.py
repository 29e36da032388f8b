"""Where an audit is run, and what starting there costs: where somebody said; else where it is done first."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ksdp.audit.coverage import telling
from ksdp.audit.plan import Plan
from ksdp.flows.audits.calibration import BRIEF, Calibration, calibrate
from ksdp.flows.interruption import current
from ksdp.flows.prefect_server import within_a_run
from ksdp.storage.prefect_home import server_address
from ksdp.storage.store import Store

_ALONE = 10.0
"""CPU seconds up to which one process is done before others have started."""
_BRIEF = 60.0
"""Seconds up to which nobody waits for a page to follow an audit on."""
_MOST_LOOKS = 2e8
"""Documents x runs x statistics: with more, an audit is not small, and nothing is tried."""


@dataclass(frozen=True)
class Place:
    """Where an audit is run, as far as the caller chose."""

    workers: int | None = None
    """Worker processes. Default: one per core; none where the work is forecast to take seconds."""
    dask: str | None = None
    """Address of a Dask scheduler, as `dask_address` gives it, to use instead of what the spec's `[cluster]` says;
    its workers must see the store under the same path, or the spec names `cluster.blocks`."""
    here: bool = False
    """No Prefect server and no Dask: everything in this process, or in `workers` processes of this machine. The
    default where the work is forecast to take less than a minute and no Prefect server is there to show it."""
    performance: Path | None = None
    """Where Dask's performance report goes; with it, work is Dask's however small."""


ANYWHERE = Place()
HERE = Place(here=True)


def chosen_place(asked: Place, store: Store, plans: Sequence[Plan]) -> Place:
    """The place asked for; by default this machine alone, where a minute does and no Prefect server waits."""
    if asked != ANYWHERE or plans[0].spec.cluster is not None or not nobody_watches(store):
        return asked
    workers = workers_here(work_of(plans, most=_most(os.cpu_count())))
    if workers is None:
        return asked
    where = "this process" if workers == 1 else f"{workers} processes"
    current().say(f"a small audit: in {where}, without Prefect and Dask (`--workers` asks for them)")
    return Place(workers, here=True)


def nobody_watches(store: Store) -> bool:
    """Whether no Prefect server is there that would miss an audit: neither named, nor that of `ksdp serve`."""
    named = os.environ.get("PREFECT_API_URL")
    return not named and not within_a_run() and server_address(store.prefect) is None


def work_of(
    plans: Sequence[Plan], clock: Callable[[], float] = time.process_time, most: float = math.inf
) -> float:
    """CPU seconds that some audits take together, without start and end; infinite where nobody can forecast it.

    Tried are a few runs and tests, which compiles what is needed; no more of them once it is above `most`.
    """
    if any(map(never_small, plans)):
        return math.inf
    seconds = 0.0
    for plan in plans:
        seconds += _work(plan, calibrate(plan, BRIEF, clock))
        if seconds > most:
            break
    return seconds


def _most(cores: int | None) -> float:
    """CPU seconds that the cores of this machine do while nobody waits."""
    return _BRIEF * (cores or 1)


def workers_here(work: float, cores: int | None = None) -> int | None:
    """Processes of this machine that do so many CPU seconds of work; None: Prefect and Dask do it."""
    cores = cores or os.cpu_count() or 1
    if work > _most(cores):
        return None
    return 1 if work <= _ALONE else cores


def likely_runs(plan: Plan) -> int:
    """Runs that an audit will take, as far as is known: its first look's where equations tell who is in."""
    return plan.runs * plan.looks[0].runs // plan.looks[-1].runs if telling(plan, 1.0) else plan.runs


def _work(plan: Plan, costs: Calibration) -> float:
    stages = costs.stages(plan, likely_runs(plan))
    return sum(stages.values()) - stages["start"]


def never_small(plan: Plan) -> bool:
    """Whether the audit is certainly too long for this process, without a trial."""
    looks = float(plan.read_runs) * len(plan.audited) * len(plan.columns)
    return plan.spec.certificate is not None or looks > _MOST_LOOKS


_IMPORTS = "import ksdp.flows.audits.run"
_REPORT = 1.0
"""Times the imports: kernels and modules that are loaded on the way, findings, curves, the page."""
_SERVER, _WORKER = 3.0, 2.3
"""Times the imports: the server and the flow that reports to it; a worker with what watches it."""
_FORKED = 0.5
"""Times the imports: a worker of this machine, and as much once for what it is forked from."""


@cache
def import_seconds() -> float:
    """CPU seconds until a process of this machine could audit."""
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", _IMPORTS], os.environ)
    used = os.wait4(process, 0)[2]
    return used.ru_utime + used.ru_stime


def processes_here(plan: Plan, costs: Calibration) -> int | None:
    """Those of this machine that do an audit unless somebody asks otherwise; None: Prefect and Dask do it."""
    if plan.spec.cluster is not None or never_small(plan):
        return None
    return workers_here(_work(plan, costs))


def start_seconds(plan: Plan, costs: Calibration, imports: float, prepared: float) -> float:
    """What starting and ending take, all processes together; where nobody asks for workers.

    Parameters
    ----------
    imports : float
        As `import_seconds` says.
    prepared : float
        The corpus was read and the plan made in so many.
    """
    alone = imports * (1.0 + _REPORT) + prepared
    if plan.spec.cluster is None and not never_small(plan):
        alone += costs.trial
    count = processes_here(plan, costs)
    if count == 1:
        return alone
    if count is not None:
        return alone + imports * _FORKED * (count + 1) + costs.once * count
    count = os.cpu_count() or 1
    return alone + imports * (_SERVER + _WORKER * count) + costs.once * (count - 1)
