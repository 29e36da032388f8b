"""Dask workers for an audit: processes of one thread each, on this machine or where somebody runs them.

Dask carries pickles: whoever reaches a scheduler runs code as its owner. The cluster that is started here speaks
TLS with a key that is made for it, is never written to a file, and that both sides must show; so another user of
this machine who finds its ports gets nowhere. Its web pages are off.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from ksdp.audit.errors import InputError, KsdpError
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import ClusterSpec
from ksdp.tasks.audit_ref import AuditRef, open_plan, parts_of
from ksdp.tasks.blocks import compute_block
from ksdp.tasks.local_workers import (
    MOST_LOSSES,
    WORKER_ENVIRONMENT,
    ended_by,
    forked_from,
    interrupts_blocked,
    require_main_guard,
)
from ksdp.tasks.remote import at_worker, check_shared, computing_versions, published

_INSECURE = "insecure+"
_TRIES = 3
_SECURE = ("tls://", "wss://")
_ours: dict[str, Any] = {}
"""Keys to the clusters that this process started, by address."""
_here: set[str] = set()
"""Addresses of those that it started on this machine, with its own settings."""


@dataclass(frozen=True)
class Workers:
    """Where the blocks go."""

    address: str
    dashboard: str | None
    """Dask's own pages, where somebody else runs the cluster and shows them."""
    count: int


def dask_address(address: str | None, *, insecure: bool = False) -> str | None:
    """The address of an external scheduler, as `open_workers` takes it."""
    if address is None or address.startswith((*_SECURE, _INSECURE)):
        return address
    if not insecure:
        raise InputError(
            f"`--dask` must be an address with TLS (tls://HOST:PORT); got {address!r}. Whoever reaches a "
            "scheduler without TLS runs code as you; "
            f"`--dask {_INSECURE}{address}` says that nobody else can reach it."
        )
    return _INSECURE + address


def credentials(address: str) -> Any:
    """Return the TLS settings for an address: our own for our clusters, else those of Dask's settings."""
    from distributed.security import Security

    return _ours.get(address) or Security()


def is_ours(address: str) -> bool:
    """Whether this process started the scheduler and its workers, on this machine."""
    return address in _here


def open_workers(
    count: int | None = None, address: str | None = None, spec: ClusterSpec | None = None
) -> AbstractContextManager[Workers]:
    """Start a local cluster, or name the one at `address`, or what a spec asks for."""
    if address is None and spec is not None and spec.cluster_class is not None:
        return _of_class(spec)
    if address is None and spec is not None:
        address = dask_address(spec.address, insecure=spec.insecure)
    return _of_this_machine(count or os.cpu_count() or 1) if address is None else _at(address)


@contextmanager
def _of_class(spec: ClusterSpec) -> Iterator[Workers]:
    from distributed.security import Security

    with _named_cluster(spec) as cluster:
        _ours[cluster.scheduler_address] = getattr(cluster, "security", None) or Security()
        try:
            yield _waited(cluster, spec)
        finally:
            _ours.pop(cluster.scheduler_address, None)


@contextmanager
def _at(address: str) -> Iterator[Workers]:
    from distributed import Client

    address = str(dask_address(address)).removeprefix(_INSECURE)
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
    """So many worker processes of one thread each, which hear this machine alone."""
    require_main_guard()
    import dask
    from distributed import Nanny, Status
    from distributed.security import Security
    from distributed.system import MEMORY_LIMIT

    settings: dict[str, object] = {
        **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
        "distributed.worker.multiprocessing-method": "forkserver",
        "distributed.scheduler.worker-saturation": 1.5,
        "distributed.admin.log-format": "%(message)s",
        # An HTTP server starts in any case: it has nothing to show, and hears this machine alone.
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.worker.profile.enabled": False,  # it would stop the kernels a hundred times a second
    }
    security, going = Security.temporary(), [True]

    class Watching(Nanny):  # type: ignore[misc]  # Dask has no types
        def _on_worker_exit_sync(self, exitcode: int) -> None:
            if going and self.status == Status.running:
                _log.warning(
                    "a worker was %s. Another takes its place; what it did is done again.", ended_by(exitcode)
                )
            super()._on_worker_exit_sync(exitcode)

    forked_from("distributed.nanny", "ksdp.tasks.slices", "ksdp.tasks.blocks")
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
            worker_class=Watching,
            memory_limit=MEMORY_LIMIT // count,  # of the machine, or of its container
            silence_logs=logging.CRITICAL,  # failures are raised here; a worker without its scheduler says nothing
        ) as cluster,
    ):
        started = cluster.scheduler_address
        _ours[started] = security
        _here.add(started)
        try:
            yield Workers(started, None, len(cluster.workers))
        finally:
            going.clear()
            _ours.pop(started, None)
            _here.discard(started)


def _waited(cluster: Any, spec: ClusterSpec) -> Workers:
    from distributed import Client

    address = cluster.scheduler_address
    with Client(address, security=credentials(address), set_as_default=False) as client:
        count = _first_worker(client, f"`cluster.class` {spec.cluster_class!r}")
        return Workers(address, getattr(cluster, "dashboard_link", None), count)


def _started(**options: Any) -> Any:
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
    from distributed import LocalCluster

    for remaining in reversed(range(_TRIES)):
        try:
            return LocalCluster(**options)
        except (RuntimeError, AssertionError):  # a worker was killed; Dask's loop took over ten seconds to start
            if not remaining:
                raise
    raise AssertionError("one try is made at least")


_ENCRYPTED = ("tls://", "wss://", "gateway://", "inproc://")


def cluster_class(name: str) -> Callable[..., Any]:
    """The class that a spec names."""
    module, _, attribute = name.rpartition(".")
    top = module.partition(".")[0]
    if not _installed(top):
        raise InputError(
            f"`cluster.class` {name!r}: no installed package is called {top!r}; a class is taken from an "
            f"installed package alone (pip install {top.replace('_', '-')})."
        )
    try:
        factory = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise InputError(f"`cluster.class` {name!r} cannot be imported: {error}.") from error
    # Dask's are all called so, and nothing else is called.
    if not callable(factory) or not attribute.endswith("Cluster"):
        raise InputError(f"`cluster.class` {name!r}: the module {module!r} has no such class of clusters.")
    return cast(Callable[..., Any], factory)


@cache  # half a second each time
def _packages() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _installed(top: str) -> bool:
    """Whether a module's name is that of an installed package, and what would be imported for it lies there."""
    names = _packages().get(top, ())
    spec = importlib.util.find_spec(top) if names else None
    if spec is None:
        return False
    roots = {Path(str(importlib.metadata.distribution(name).locate_file(""))).resolve() for name in names}
    places = [spec.origin] if spec.origin and spec.origin != "namespace" else []
    places += list(spec.submodule_search_locations or ())
    return bool(places) and all(any(Path(place).resolve().is_relative_to(r) for r in roots) for place in places)


def _with_security(made: Callable[..., Any], arguments: dict[str, Any], insecure: bool) -> dict[str, Any]:
    """The arguments, with keys made for this cluster where its class takes them and nobody said anything."""
    if insecure or "security" in arguments or "protocol" in arguments:
        return arguments
    takes = inspect.signature(made).parameters
    if "security" not in takes or "scheduler_kwargs" not in takes:  # those that start everything on this machine
        return arguments
    from distributed.security import Security

    return {**arguments, "security": Security.temporary(), "protocol": "tls://"}


@contextmanager
def _named_cluster(spec: ClusterSpec) -> Iterator[Any]:
    name = str(spec.cluster_class)
    made = cluster_class(name)
    try:
        started = made(**_with_security(made, dict(spec.arguments), spec.insecure))
    except Exception as error:  # whatever somebody's class raises: it was given the spec's arguments
        raise InputError(f"`cluster.class` {name!r} does not start ({type(error).__name__}: {error}).") from error
    if not all(hasattr(started, part) for part in ("scheduler_address", "scale", "adapt", "__exit__")):
        raise InputError(f"`cluster.class` {name!r} is no Dask cluster; it made {type(started).__name__!r}.")
    with started:
        if not spec.insecure and not started.scheduler_address.startswith(_ENCRYPTED):
            raise InputError(
                f"`cluster.class` {name!r} started a scheduler without TLS; whoever reaches it runs code as you. "
                "Give it `security` and `protocol` in `cluster.arguments`, name its certificates in Dask's "
                "settings (`distributed.comm.tls`), or say `insecure = true` where nobody else can reach it."
            )
        if isinstance(spec.workers, tuple):
            started.adapt(minimum=spec.workers[0], maximum=spec.workers[1])
        elif spec.workers is not None:
            started.scale(spec.workers)
        yield started


def _first_worker(client: Any, whose: str) -> int:
    until = time.monotonic() + _PATIENCE
    while not (count := len(client.scheduler_info(n_workers=-1)["workers"])):
        if time.monotonic() > until:
            raise InputError(f"{whose} had no worker for {_PATIENCE:.0f} s.")
        time.sleep(0.2)
    return count


_log = logging.getLogger("ksdp.tasks")
_PATIENCE = 600.0
"""Seconds to wait for the first worker, and for a scheduler that is gone."""
_LOOK = 0.02
"""Seconds between two looks at what is done."""
_GONE = ("scheduler-connection-lost", "scheduler-restart")


def _connected(address: str) -> Any:
    """A client of the scheduler; one that registers while another cancels may meet a stray message: try again."""
    from distributed import Client

    for _ in range(4):
        try:
            return Client(address, security=credentials(address), set_as_default=False)
        except AssertionError:
            time.sleep(0.2)
    return Client(address, security=credentials(address), set_as_default=False)


def _connected_again(address: str) -> Any:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return _connected(address)
        except OSError as error:  # Dask's CommClosedError and TimeoutError are such
            if is_ours(address) or time.monotonic() > until:
                raise KsdpError(f"the Dask scheduler at {address} is gone; the same command resumes.") from error
            time.sleep(1.0)


def _submit(
    client: Any, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], attempt: str
) -> list[Any]:
    """Submit under names that say what is computed, so that work under way is joined, not done twice."""
    names = [
        f"{function.__name__}-{content_key({'arguments': repr(args), 'attempt': attempt})}" for args in arguments
    ]
    if published(arguments):
        wanted = computing_versions()
        arguments = [(wanted, function, *args) for args in arguments]
        function = at_worker
    return [client.submit(function, *args, key=name) for name, args in zip(names, arguments, strict=True)]


def spread(
    address: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[Any], None],
    attempt: int = 0,
    stopped: threading.Event | None = None,
) -> list[Any]:
    """Call `function` once for each tuple on the workers; results in order, `done` as each arrives."""
    results: dict[int, Any] = {}
    losses, name = 0, str(attempt)
    while len(results) < len(arguments):
        before = len(results)
        lost = _gathered(address, function, arguments, done, name, results, stopped or threading.Event())
        if lost is None:
            break
        losses = losses + 1 if len(results) == before else 1
        if losses > MOST_LOSSES:
            raise KsdpError(f"{lost} The same command resumes from what is stored.")
        _log.warning("%s What was not done is done again.", lost)
        name = f"{attempt}.{len(results)}.{losses}"
    return [results[at] for at in range(len(arguments))]


def _gathered(
    address: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[Any], None],
    name: str,
    results: dict[int, Any],
    stopped: threading.Event,
) -> str | None:
    """Submit what has no result yet and gather; what was lost, where workers or the scheduler went."""
    from concurrent.futures import CancelledError

    from distributed import as_completed
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    remaining = [at for at in range(len(arguments)) if at not in results]
    with _connected_again(address) as client:
        submitted = _submit(client, function, [arguments[at] for at in remaining], name)
        futures, places = {future.key: future for future in submitted}, defaultdict(list)
        for future, at in zip(submitted, remaining, strict=True):
            places[future.key].append(at)
        try:
            waiting = as_completed(list(futures.values()), loop=client.loop)
            while waiting.count():
                if stopped.wait(_LOOK):
                    raise KeyboardInterrupt
                for future in waiting.next_batch(block=False):
                    for at in places[future.key]:
                        results[at] = future.result()
                        done(results[at])
        except KilledWorker:
            return f"workers died of {function.__name__} again and again: out of memory, or somebody killed them."
        except (CancelledError, CommClosedError) as error:  # closed: while a result was on its way
            if isinstance(error, CancelledError) and getattr(error, "reason", None) not in _GONE:
                raise
            return f"the Dask scheduler at {address} went away."
        except BaseException:
            client.cancel(list(futures.values()), reason="the audit stops")
            raise
    return None


@contextmanager
def started_ahead(address: str, ref: AuditRef) -> Iterator[None]:
    """Let the workers begin on an audit's blocks while Prefect is still starting; the flow's tasks join them."""
    with _connected(address) as client:
        if not is_ours(address):
            check_shared(client, ref)
        first = parts_of(ref)[0]
        futures = _submit(client, compute_block, [(first, block) for block in open_plan(first).blocks], "0")
        try:
            yield
        except BaseException:
            client.cancel(futures, reason="the audit stops")
            raise
