"""Worker processes of this machine without a scheduler: forked from a server that has imported everything once."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import Pipe, forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from ksdp.audit.errors import InputError, KsdpError

_log = logging.getLogger("ksdp.tasks")
MOST_LOSSES = 3
"""Times that calls may take their workers with them, or a scheduler go, without any call being done in between."""
WORKER_ENVIRONMENT = {
    # Below, glibc hands every large array back: up to ten times slower.
    "MALLOC_TRIM_THRESHOLD_": str(512 * 2**20),
    "MALLOC_MMAP_THRESHOLD_": str(32 * 2**20),
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}
"""Environment of worker processes."""

Result = TypeVar("Result")


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C in this thread and in all that it starts, as a terminal sends it to every process."""
    resource_tracker.ensure_running()  # when it starts, it lets Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class LocalWorkers:
    """Worker processes of one thread each, which end with the process that started them."""

    count: int
    _alive: tuple[Connection, Connection] = field(default_factory=lambda: Pipe(duplex=False))
    _pool: ProcessPoolExecutor | None = None

    def each(
        self, function: Callable[..., Result], arguments: Sequence[tuple[Any, ...]], done: Callable[[Any], None]
    ) -> list[Result]:
        """Call `function` once for each tuple; results in order, `done` as each arrives."""
        results: dict[int, Result] = {}
        losses = 0
        while remaining := [at for at in range(len(arguments)) if at not in results]:
            before, processes = len(results), list[BaseProcess]()
            try:
                with interrupts_blocked():
                    pool = self._pool = self._pool or self._started()
                    futures = {pool.submit(function, *arguments[at]): at for at in remaining}
                    processes = list(vars(pool)["_processes"].values())
                for future in as_completed(futures):
                    results[futures[future]] = future.result()
                    done(results[futures[future]])
            except BrokenProcessPool as error:
                if self._pool is not None:
                    self._pool.shutdown()  # it ends the others, and waits for how each has ended
                # The first one's end: the pool itself has ended the others by SIGTERM.
                others = -signal.SIGTERM
                codes = (process.exitcode for process in processes)
                self._pool, why = None, ended_by(next((code for code in codes if code != others), others))
                losses = losses + 1 if len(results) == before else 1
                if losses > MOST_LOSSES:
                    raise KsdpError(
                        f"workers died of {function.__name__} again and again, the last {why}. "
                        "The same command resumes from what is stored."
                    ) from error
                _log.warning(
                    "a worker was %s, during %s. What was not done is done again.", why, function.__name__
                )
        return [results[at] for at in range(len(arguments))]

    def _started(self) -> ProcessPoolExecutor:
        require_main_guard()
        context = forked_from("ksdp.tasks.slices", "ksdp.tasks.blocks")
        return ProcessPoolExecutor(self.count, context, initializer=_begin, initargs=(self._alive[0],))

    def close(self) -> None:
        """End the workers at once, whatever they do."""
        self._alive[1].close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._alive[0].close()


def forked_from(*modules: str) -> ForkServerContext:
    """Start the server that processes are forked from, where there is none yet; it imports these modules once."""
    forkserver.set_forkserver_preload([*modules])
    with environment(WORKER_ENVIRONMENT), interrupts_blocked():
        forkserver.ensure_running()
    return get_context("forkserver")


def require_main_guard() -> None:
    """Refuse a script that its own workers, which import it, would run once more each."""
    script = getattr(sys.modules["__main__"], "__file__", None)
    try:
        guarded = script is None or b"__main__" in Path(script).read_bytes()
    except OSError:
        return
    if not guarded:
        raise InputError(
            f'{script} must start under `if __name__ == "__main__":`, as every worker imports it, and would '
            "start the same."
        )


@contextmanager
def environment(ours: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and put back what was there."""
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def local_workers(count: int) -> Iterator[LocalWorkers]:
    """Worker processes for as long as the context lasts; they start with the first calls."""
    workers = LocalWorkers(count)
    try:
        yield workers
    finally:
        workers.close()


def ended_by(code: int | None) -> str:
    """Say how a process ended, from its exit code."""
    if code is None or code >= 0:
        return "ended for a reason that nobody saw" if code in (None, 0, 255) else f"ended with status {code}"
    why = signal.strsignal(-code) or "an unknown signal"
    return f"killed by signal {-code}: " + ("out of memory, or somebody killed it" if code == -9 else why.lower())


def _begin(alive: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all
    threadpool_limits(1)  # a product's last bits depend on how many threads share it
    threading.Thread(target=_end_with_parent, args=(alive,), name="ksdp-parent", daemon=True).start()


def _end_with_parent(alive: Connection) -> None:
    alive.poll(None)  # nothing is ever sent: the other end closes with its process, or when the audit is over
    os._exit(1)
