"""Where an audit is run: where somebody asks for it; else on this machine, as far as nobody watches a server."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ksdp.audit.errors import InputError
from ksdp.audit.plan import Plan
from ksdp.flows.audits.costs import MEMORY_FACTOR, costs_of, likely_runs, memory_of
from ksdp.flows.interruption import current
from ksdp.flows.prefect_server import within_a_run
from ksdp.storage.prefect_home import server_address
from ksdp.storage.store import Store

_ALONE = 10.0
"""CPU seconds up to which one process is done before others have started."""


@dataclass(frozen=True)
class Place:
    """Where an audit is run, as far as the caller chose."""

    workers: int | None = None
    """Worker processes. Default: one per core; of this machine alone, none where the work takes seconds."""
    dask: str | None = None
    """Address of a Dask scheduler, as `dask_address` gives it, to use instead of what the spec's `[cluster]` says;
    its workers must see the store under the same path, or the spec names `cluster.blocks`."""
    here: bool = False
    """No Prefect server and no Dask: everything in this process, or in `workers` processes of this machine. The
    default where no Prefect server is there to show the audit, and no cluster is named."""


ANYWHERE = Place()
HERE = Place(here=True)


def chosen_place(place: Place, store: Store, plans: Sequence[Plan]) -> Place:
    """The place asked for; by default processes of this machine, where no cluster is named and no server waits."""
    if place != ANYWHERE or plans[0].spec.cluster is not None or not nobody_watches(store):
        return place
    workers = processes_here(plans)
    where = "this process" if workers == 1 else f"{workers} processes"
    current().say(f"the audit runs in {where}, without Prefect and Dask (`--dask N` asks for them)")
    return Place(workers, here=True)


def nobody_watches(store: Store) -> bool:
    """Whether no Prefect server is configured or running for this store."""
    named = os.environ.get("PREFECT_API_URL")
    return not named and not within_a_run() and server_address(store.prefect) is None


def processes_here(plans: Sequence[Plan], own: float = math.inf) -> int:
    """Processes of this machine: one for seconds of work, else one per core that works as long as it learns."""
    costs = [(plan, costs_of(plan, own)) for plan in plans]
    work = sum(sum(cost.stages(likely_runs(plan)).values()) - cost.once for plan, cost in costs)
    pairs = any(plan.spec.certificate is not None and not plan.proved for plan in plans)
    if work <= _ALONE and not pairs:
        return 1
    cores, learning = os.cpu_count() or 1, max(cost.once for _, cost in costs)
    return cores if pairs else max(1, int(min(cores, work / learning)))


_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat", "anon"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.stat", "total_rss"),
)
"""Limits of a container in both versions of Linux's control groups, and where it says what it uses."""


def available_memory() -> int:
    """Bytes that this machine has left, or the container that this process is in."""
    import psutil

    free = [int(psutil.virtual_memory().available)]
    for limit, usage, name in _CGROUPS:
        with suppress(OSError, ValueError):  # no such file, or the limit is "max"
            used = dict(line.split() for line in Path(usage).read_text(encoding="ascii").splitlines())
            free.append(int(Path(limit).read_text(encoding="ascii")) - int(used.get(name, 0)))
    return max(0, min(free))


def check_memory(plans: Sequence[Plan], workers: int) -> None:
    """Refuse audits that need far more memory than there is; `workers` run on this machine."""
    need = max((memory_of(plan) for plan in plans), key=lambda memory: memory.of(workers))
    there = available_memory()
    if need.of(workers) / MEMORY_FACTOR <= there:
        return
    split = f" ({workers} workers of {need.worker / 1e9:.1f} GB and the starting process)" if workers > 1 else ""
    fewer = max((n for n in range(1, workers) if need.of(n) <= there), default=0)
    remedy = f"choose fewer workers (`--here {fewer}`)" if fewer else "take a smaller corpus, or fewer documents"
    raise InputError(
        f"this audit needs about {need.of(workers) / 1e9:.1f} GB of memory{split}, where {there / 1e9:.1f} GB are "
        f"available: {remedy}."
    )
