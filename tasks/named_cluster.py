"""Clusters of any class of Dask's, by name: of `distributed`, `dask_jobqueue`, `dask_kubernetes` and others.

A class is taken from an installed package alone. What lies beside a spec, or in the folder that a command was
started in, is never imported for its name; the arguments are the spec's, and a spec is its reader's own file.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from ksdp.audit.cluster_spec import ClusterSpec
from ksdp.audit.errors import InputError

_SECURE = ("tls://", "wss://", "gateway://", "inproc://")


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
        found = getattr(importlib.import_module(module), attribute, None)
    except ImportError as error:
        raise InputError(f"`cluster.class` {name!r} cannot be imported: {error}.") from error
    # Dask's are all called so, and nothing else is called.
    if not callable(found) or not attribute.endswith("Cluster"):
        raise InputError(f"`cluster.class` {name!r}: the module {module!r} has no such class of clusters.")
    return cast(Callable[..., Any], found)


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
def named_cluster(asked: ClusterSpec) -> Iterator[Any]:
    """Start a cluster, ask it for its workers, and wait for the first of them.

    Raises
    ------
    InputError
        If there is no such class, it refuses its arguments, is no cluster, speaks without TLS though `insecure` is
        not set, or has no worker in time.
    """
    name = str(asked.cluster_class)
    made = cluster_class(name)
    try:
        started = made(**_with_security(made, dict(asked.arguments), asked.insecure))
    except Exception as error:  # whatever somebody's class raises: it was given the spec's arguments
        raise InputError(f"`cluster.class` {name!r} does not start ({type(error).__name__}: {error}).") from error
    if not all(hasattr(started, part) for part in ("scheduler_address", "scale", "adapt", "__exit__")):
        raise InputError(f"`cluster.class` {name!r} is no Dask cluster; it made {type(started).__name__!r}.")
    with started:
        if not asked.insecure and not started.scheduler_address.startswith(_SECURE):
            raise InputError(
                f"`cluster.class` {name!r} started a scheduler without TLS; whoever reaches it runs code as you. "
                "Give it `security` and `protocol` in `cluster.arguments`, name its certificates in Dask's "
                "settings (`distributed.comm.tls`), or say `insecure = true` where nobody else can reach it."
            )
        if isinstance(asked.workers, tuple):
            started.adapt(minimum=asked.workers[0], maximum=asked.workers[1])
        elif asked.workers is not None:
            started.scale(asked.workers)
        yield started


def first_worker(client: Any, patience: float, whose: str) -> int:
    """Wait for a worker; how many there are.

    Raises
    ------
    InputError
        If there is none in time.
    """
    until = time.monotonic() + patience
    while not (count := len(client.scheduler_info(n_workers=-1)["workers"])):
        if time.monotonic() > until:
            raise InputError(
                f"{whose} had no worker for {patience:.0f} s; `cluster.patience` is how long to wait."
            )
        time.sleep(0.2)
    return count
