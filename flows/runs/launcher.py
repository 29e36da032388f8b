"""Start parties as processes of this machine and hear from them; none outlives the run, however it ends."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any

from ksdp.audit.errors import ProtocolError
from ksdp.flows.interruption import advance, interrupts_wait
from ksdp.tasks.interrupts import interrupts_blocked


class Launcher:
    """Processes with a pipe each; all are ended where the block ends.

    Every process runs a function whose first argument is its end of the pipe
    (`ksdp.protocols.network.party_process.run_in_process`). Whoever listens (`ksdp.flows.interruption`) hears of
    processes that are ready and of steps that are done.

    Parameters
    ----------
    timeout : float, optional
        Seconds without a message after which the run is given up; None waits for ever.
    """

    def __init__(self, timeout: float | None) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._timeout = timeout
        self._processes: list[Any] = []
        self._unread: dict[Connection, list[tuple[str, Any]]] = {}
        self._open: set[Connection] = set()

    def __enter__(self) -> Launcher:
        return self

    def start(self, target: Callable[..., None], *arguments: Any) -> Connection:
        """Start a party; its pipe."""
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=target, args=(theirs, *arguments), daemon=True)
        with interrupts_wait(), interrupts_blocked():
            process.start()
            self._processes.append(process)
        theirs.close()
        self._unread[ours] = []
        self._open.add(ours)
        return ours

    def hear(self, pipe: Connection, kind: str = "ready") -> Any:
        """The next message of a party.

        Raises
        ------
        ProtocolError
            If any party fails, this one sends another kind of message or is gone, or nobody sends any in time.
        """
        while not self._unread[pipe]:
            readable = [p for p in wait(list(self._open), self._timeout) if isinstance(p, Connection)]
            if not readable:
                raise ProtocolError(f"No party sent anything for {self._timeout:g} seconds: the run is given up.")
            for other in readable:
                message = _received(other)
                if message[0] == "step":
                    advance(1)
                    continue
                if message[0] == "gone":
                    self._open.discard(other)  # it would be readable for ever
                self._unread[other].append(message)
        sent, content = self._unread[pipe].pop(0)
        if sent != kind:
            raise ProtocolError("A party ended before its time.")
        if sent == "ready":
            advance(1)
        return content

    def end(self, pipe: Connection) -> dict[str, Any]:
        """What a party sends at its end."""
        done: dict[str, Any] = self.hear(pipe, "done")
        return done

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        for process in self._processes:
            if failed is None:
                process.join(5.0)
            process.terminate()
            process.join()


def _received(pipe: Connection) -> tuple[str, Any]:
    try:
        kind, content = pipe.recv()
    except EOFError:
        return "gone", None
    if kind == "failed":
        raise ProtocolError(f"A party ended with an error: {content}")
    return kind, content
