"""Where an audit is run, and what starting there costs: where somebody said; else a small one in this process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ksdp.audit.plan import Plan
from ksdp.flows.audits.calibration import BRIEF, Calibration, calibrate
from ksdp.flows.interruption import current
from ksdp.flows.prefect_server import within_a_run
from ksdp.storage.prefect_home import server_address
from ksdp.storage.store import Store

_START_SECONDS = 15.0
"""That server and workers take to start."""
_MOST_LOOKS = 2e8
"""Documents x runs x statistics: with more, an audit is not small, and nothing is tried."""


@dataclass(frozen=True)
class Place:
    """Where an audit is run, as far as the caller chose."""

    workers: int | None = None
    """Worker processes. Default: one per core; none where the work is forecast to take seconds and no Prefect
    server is there to show it."""
    dask: str | None = None
    """Address of a Dask scheduler, as `dask_address` gives it, to use instead of what the spec's `[cluster]` says;
    its workers must see the store under the same path, or the spec names `cluster.blocks`."""
    here: bool = False
    """No Prefect server and no Dask: everything in this process, or in `workers` processes of this machine."""
    performance: Path | None = None
    """Where Dask's performance report goes; with it, work is Dask's however small."""


ANYWHERE = Place()
HERE = Place(here=True)


def chosen_place(asked: Place, store: Store, plans: Sequence[Plan]) -> Place:
    """The place asked for; by default this process, if all audits take seconds and no Prefect server waits."""
    if asked != ANYWHERE or plans[0].spec.cluster is not None or not nobody_watches(store) or not fits_here(plans):
        return asked
    current().say("a small audit: in this process, without Prefect and Dask (`--workers` asks for them)")
    return HERE


def nobody_watches(store: Store) -> bool:
    """Whether no Prefect server is there that would miss an audit: neither named, nor that of `ksdp serve`."""
    named = os.environ.get("PREFECT_API_URL")
    return not named and not within_a_run() and server_address(store.prefect) is None


def fits_here(
    plans: Sequence[Plan], cores: int | None = None, clock: Callable[[], float] = time.process_time
) -> bool:
    """Whether some audits together are done here before workers, one a core, would have done them.

    Tried are a few runs and tests, which compiles what is needed. Learned statistics and pairs of runs are never
    small.
    """
    if any(map(never_small, plans)):
        return False
    seconds = 0.0
    for plan in plans:
        seconds += _work(plan, calibrate(plan, BRIEF, clock))
        if seconds > _most(cores):
            return False
    return True


def takes_seconds(plan: Plan, costs: Calibration) -> bool:
    """The same of one audit whose costs are known."""
    return not never_small(plan) and _work(plan, costs) <= _most(None)


def _most(cores: int | None) -> float:
    """CPU seconds up to which nothing else need be started."""
    cores = max(cores or os.cpu_count() or 1, 2)
    return _START_SECONDS * cores / (cores - 1)


def _work(plan: Plan, costs: Calibration) -> float:
    stages = costs.stages(plan, plan.runs)
    return sum(stages.values()) - stages["start"]


def never_small(plan: Plan) -> bool:
    """Whether nobody has to try an audit to know that it takes more than seconds."""
    looks = float(plan.read_runs) * len(plan.audited) * len(plan.columns)
    return bool(plan.learners) or plan.spec.certificate is not None or looks > _MOST_LOOKS


_IMPORTS = "import ksdp.flows.audits.run"
_REPORT = 1.0
"""Times the imports: kernels and modules that are loaded on the way, findings, curves, the page."""
_SERVER, _WORKER = 3.5, 2.3
"""Times the imports: the server and the flow that reports to it; a worker with what watches it."""


def import_seconds() -> float:
    """CPU seconds until a process of this machine could audit."""
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", _IMPORTS], os.environ)
    used = os.wait4(process, 0)[2]
    return used.ru_utime + used.ru_stime


def is_small(plan: Plan, costs: Calibration) -> bool:
    """Whether the audit is done in the command's own process unless somebody asks otherwise."""
    return plan.spec.cluster is None and takes_seconds(plan, costs)


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
    if is_small(plan, costs):
        return alone
    count = os.cpu_count() or 1
    return alone + imports * (_SERVER + _WORKER * count) + costs.once * (count - 1)
