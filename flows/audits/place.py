"""Where an audit is run: where somebody said; else a small one in this process.

Server and workers take longer to start than a small one takes.

Results are the same bit for bit wherever they are made, so that a clock may decide.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ksdp.audit.plan import Plan
from ksdp.flows.audits.calibration import calibrate
from ksdp.flows.prefect_server import within_a_run
from ksdp.flows.progress import current
from ksdp.storage.prefect_home import server_address
from ksdp.storage.store import Store

__all__ = ["ANYWHERE", "HERE", "Place", "chosen_place", "fits_here", "nobody_watches"]

_START_SECONDS = 15.0
"""That server and workers take to start."""
_TRIED_SECONDS = 0.5
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
    """No Prefect server and no Dask: everything in this process, or in the worker processes asked for."""


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
    cores = max(cores or os.cpu_count() or 1, 2)
    most, seconds = _START_SECONDS * cores / (cores - 1), 0.0
    if any(map(_never_small, plans)):
        return False
    for plan in plans:
        stages = calibrate(plan, _TRIED_SECONDS, clock).stages(plan, plan.runs)
        seconds += sum(stages.values()) - stages["start"]
        if seconds > most:
            return False
    return True


def _never_small(plan: Plan) -> bool:
    looks = float(plan.read_runs) * len(plan.audited) * len(plan.columns)
    return bool(plan.learners) or plan.spec.certificate is not None or looks > _MOST_LOOKS
