"""Dask workers for an audit: processes of one thread each, on this machine or where somebody runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Workers", "open_workers"]


@dataclass(frozen=True)
class Workers:
    """Where the blocks go."""

    address: str
    dashboard: str | None
    count: int


@contextmanager
def open_workers(count: int | None = None, address: str | None = None) -> Iterator[Workers]:
    """Start a local cluster, or name the one at `address`.

    The nanny's own malloc setting turns off glibc's dynamic threshold, and NumPy then runs up to ten times
    slower in workers than outside; both thresholds are set here.
    """
    import dask
    from distributed import Client, LocalCluster

    if address is not None:
        with Client(address, timeout="10s") as client:
            info = client.scheduler_info(n_workers=-1)
            yield Workers(address, client.dashboard_link, len(info["workers"]))
        return
    environment = {
        "MALLOC_TRIM_THRESHOLD_": 512 * 2**20,
        "MALLOC_MMAP_THRESHOLD_": 32 * 2**20,
        "OPENBLAS_NUM_THREADS": 1,
        "OMP_NUM_THREADS": 1,
    }
    settings: dict[str, object] = {
        f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in environment.items()
    }
    settings |= {"distributed.scheduler.worker-saturation": 1.5, "distributed.admin.log-format": "%(message)s"}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=count or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit="4GiB",
            silence_logs=40,
        ) as cluster,
    ):
        yield Workers(cluster.scheduler_address, cluster.dashboard_link, len(cluster.workers))
