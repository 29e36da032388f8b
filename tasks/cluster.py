"""Dask workers for an audit: processes of one thread each, on this machine or where somebody runs them.

Dask carries pickles: whoever reaches a scheduler runs code as its owner. The cluster that is started here speaks
TLS with a key that is made for it, is never written to a file, and that both sides must show; so another user of
this machine who finds its ports gets nowhere. Its web pages are off.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ksdp.audit.cluster_spec import ClusterSpec
from ksdp.audit.errors import InputError
from ksdp.tasks.interrupts import interrupts_blocked
from ksdp.tasks.named_cluster import first_worker, named_cluster

_INSECURE = "insecure+"
_TRIES = 3
_SECURE = ("tls://", "wss://")
_ours: dict[str, Any] = {}
"""What it takes to speak to the clusters that this process started, by address."""
_here: set[str] = set()
"""Addresses of those that it started on this machine, with its own settings."""


@dataclass(frozen=True)
class Workers:
    """Where the blocks go."""

    address: str
    dashboard: str | None
    """Dask's own pages, where somebody else runs the cluster and shows them."""
    count: int


def dask_address(address: str | None, insecure: bool) -> str | None:
    """The address of an external scheduler, as `open_workers` takes it.

    Raises
    ------
    InputError
        If it is not a TLS address, and nobody said that this is meant.
    """
    if address is None or address.startswith((*_SECURE, _INSECURE)):
        return address
    if not insecure:
        raise InputError(
            f"`--dask` must be an address with TLS (tls://HOST:PORT); got {address!r}. Whoever reaches a "
            "scheduler without TLS runs code as you; `--insecure-dask` says that nobody else can reach it."
        )
    return _INSECURE + address


def credentials(address: str) -> Any:
    """What a client shows and asks for at this address: ours where it is ours, else what Dask's settings name."""
    from distributed.security import Security

    return _ours.get(address) or Security()


def is_ours(address: str) -> bool:
    """Whether this process started the scheduler and its workers, on this machine."""
    return address in _here


def open_workers(
    count: int | None = None, address: str | None = None, asked: ClusterSpec | None = None
) -> AbstractContextManager[Workers]:
    """Start a local cluster, or name the one at `address`, or what a spec asks for.

    Parameters
    ----------
    count : int, optional
        Processes; one a core by default.
    address : str, optional
        As `dask_address` gives it. Keys and certificates are named in Dask's settings (`distributed.comm.tls`).
    asked : ClusterSpec, optional
        What it says goes where there is no `address`.

    Raises
    ------
    InputError
        If the address is not one with TLS, nothing answers there, or a cluster that is asked for does not start.
    """
    if address is None and asked is not None and asked.cluster_class is not None:
        return _of_class(asked)
    if address is None and asked is not None:
        address = dask_address(asked.address, asked.insecure)
    return _of_this_machine(count or os.cpu_count() or 1) if address is None else _at(address)


@contextmanager
def _of_class(asked: ClusterSpec) -> Iterator[Workers]:
    """A cluster of the class that a spec names."""
    from distributed.security import Security

    with named_cluster(asked) as cluster:
        _ours[cluster.scheduler_address] = getattr(cluster, "security", None) or Security()
        try:
            yield _waited(cluster, asked)
        finally:
            _ours.pop(cluster.scheduler_address, None)


@contextmanager
def _at(address: str) -> Iterator[Workers]:
    """Somebody's cluster, at an address as `dask_address` gives it."""
    from distributed import Client

    address = str(dask_address(address, insecure=False)).removeprefix(_INSECURE)
    try:
        client = Client(address, timeout="10s", security=credentials(address), set_as_default=False)
    except (OSError, TypeError, ValueError, RuntimeError) as error:  # no scheduler; no certificate; no such scheme
        raise InputError(
            f"no Dask scheduler answers at {address} ({type(error).__name__}); with TLS, certificate "
            "and key are named by Dask's settings `distributed.comm.tls`."
        ) from error
    with client:
        info = client.scheduler_info(n_workers=-1)
        yield Workers(address, client.dashboard_link, len(info["workers"]))


@contextmanager
def _of_this_machine(count: int) -> Iterator[Workers]:
    """So many worker processes of one thread each, which hear this machine alone.

    The nanny's own malloc setting turns off glibc's dynamic threshold, and NumPy then runs up to ten times
    slower in workers than outside; both thresholds are set here.
    """
    import dask
    from distributed.security import Security

    environment = {
        "MALLOC_TRIM_THRESHOLD_": 512 * 2**20,
        "MALLOC_MMAP_THRESHOLD_": 32 * 2**20,
        "OPENBLAS_NUM_THREADS": 1,
        "OMP_NUM_THREADS": 1,
    }
    settings: dict[str, object] = {
        **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in environment.items()},
        "distributed.scheduler.worker-saturation": 1.5,
        "distributed.admin.log-format": "%(message)s",
        # An HTTP server starts in any case: it has nothing to show, and hears this machine alone.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.worker.profile.enabled": False,  # it would stop the kernels a hundred times a second
    }
    security = Security.temporary()
    with (
        dask.config.set(settings),
        _started(
            n_workers=count,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            protocol="tls://",
            security=security,
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            memory_limit="4GiB",
            silence_logs=40,
        ) as cluster,
    ):
        started = cluster.scheduler_address
        _ours[started] = security
        _here.add(started)
        try:
            yield Workers(started, None, len(cluster.workers))
        finally:
            _ours.pop(started, None)
            _here.discard(started)


def _waited(cluster: Any, asked: ClusterSpec) -> Workers:
    """A cluster of somebody's class, as soon as it has a worker."""
    from distributed import Client

    address = cluster.scheduler_address
    with Client(address, security=credentials(address), set_as_default=False) as client:
        count = first_worker(client, asked.patience, f"`cluster.class` {asked.cluster_class!r}")
        return Workers(address, getattr(cluster, "dashboard_link", None), count)


def _started(**options: Any) -> Any:
    """A local cluster, started where no Ctrl-C arrives.

    A terminal sends Ctrl-C to every process of the command, and a worker that is still importing prints where it
    was. Processes inherit what the thread that starts them lets through, so a thread of its own starts these; who
    stops the command while it does waits for it, and ends them as always.
    """
    with interrupts_blocked():
        pool = ThreadPoolExecutor(1, thread_name_prefix="ksdp-workers")
        starting = pool.submit(_tried, options)
    try:
        return starting.result()
    except KeyboardInterrupt:
        with suppress(RuntimeError):
            starting.result().close()
        raise
    finally:
        pool.shutdown(wait=False)


def _tried(options: dict[str, Any]) -> Any:
    """One of whose workers was killed while they started is started again."""
    from distributed import LocalCluster

    for left in reversed(range(_TRIES)):
        try:
            return LocalCluster(**options)
        except RuntimeError:  # whatever kept it from starting
            if not left:
                raise
    raise AssertionError("one try is made at least")
