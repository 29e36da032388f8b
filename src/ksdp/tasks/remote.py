"""Calls on machines that share no folder with the client: they read and write at the URL of the store's blocks.

A worker keeps the corpus and the spec of an audit in a folder of its own: that of its Dask worker, which goes with
it, or the one that `KSDP_CACHE` names, for all workers of a machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from ksdp.audit.errors import InputError, Unreachable
from ksdp.storage.remote_audits import fetch_audit, publish_audit
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef
from ksdp.tasks.provenance import versions

_NO_MATTER = ("python", "dask", "prefect")
_WAITS = (0.5, 2.0, 8.0, 30.0)
"""Seconds between tries to reach the URL."""

Result = TypeVar("Result")


@lru_cache(maxsize=1)
def computing_versions() -> dict[str, str]:
    """Versions of what decides a number: client and workers must have the same. Looked up once a process."""
    return {name: version for name, version in versions().items() if name not in _NO_MATTER}


def published(arguments: Sequence[tuple[Any, ...]]) -> bool:
    """Whether some calls are of an audit whose blocks are at a URL; what workers need of it is there then."""
    refs = dict.fromkeys(part for some in arguments for part in some if isinstance(part, AuditRef))
    away = [ref for ref in refs if ref.blocks is not None]
    for ref in away:
        _publish(ref)
    return bool(away)


@lru_cache(maxsize=64)
def _publish(ref: AuditRef) -> None:
    publish_audit(Store(Path(ref.store)), ref.audit, ref.corpus, ref.stage)


def check_shared(client: Any, ref: AuditRef) -> None:
    """Check that all workers of an external cluster can read the audit, in a shared folder or at its URL."""
    if ref.blocks is not None:
        return
    spec = str(Store(Path(ref.store)).audit(ref.audit) / "spec.json")
    blind = sorted(name for name, there in client.run(os.path.isfile, spec).items() if not there)
    if blind:
        raise InputError(
            f"{len(blind)} Dask workers do not see the store's folder {ref.store} (the first: {blind[0]}); name "
            "a URL that all of them reach, by `cluster.blocks` in the spec."
        )


def at_worker(wanted: Mapping[str, str], function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function on a worker, with what it needs of the store in a folder of this machine."""
    mine = computing_versions()
    if different := sorted(name for name in wanted if wanted[name] != mine.get(name)):
        differences = ", ".join(f"{name} {mine.get(name)} (here {wanted[name]})" for name in different)
        raise InputError(
            f"a worker and this machine have different versions: {differences}. Install the same on all of them."
        )
    with threadpool_limits(1):  # a product's last bits depend on how many threads share it
        for wait in (*_WAITS, None):
            try:
                return function(*[_here(part) if isinstance(part, AuditRef) else part for part in arguments])
            except Unreachable:
                if wait is None:
                    raise
                time.sleep(wait)
    raise AssertionError("the last try raises or returns")


def _here(ref: AuditRef) -> AuditRef:
    return _fetched(ref, _folder()) if ref.blocks is not None else ref


@lru_cache(maxsize=64)
def _fetched(ref: AuditRef, folder: Path) -> AuditRef:
    assert ref.blocks is not None
    cache = folder / sha256(ref.blocks.encode()).hexdigest()[:16]
    store = fetch_audit(ref.blocks, cache, ref.audit, ref.corpus, ref.stage)
    return replace(ref, store=str(store.root))


def _folder() -> Path:
    if named := os.environ.get("KSDP_CACHE"):
        return Path(named)
    from distributed import get_worker

    return Path(get_worker().local_directory) / "ksdp"
