"""NormedSecSum among processes on this machine, beside the paper's Table 3.

Every party is a process of its own, connected with every other by a local socket. Times are wall times of the
slowest party. What is set up (base transfers; keys, for lattices) is made once a session, the offline phase once a
sum, without inputs, in both ways that parties can choose; the paper's figures leave its offline phase out, so the
online column is the one to set beside them, and the last one says what is left of the ratio if everything is
counted. CPU seconds are those of all parties together, sockets included: what a busy machine does not distort.
Machines and networks differ: a real network adds its round-trip time per round.
"""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import threading
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

import numpy as np

from ksdp.audit.randomness import os_random
from ksdp.protocols.channel.rounds import RoundEngine, Script
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_sum import online_script
from ksdp.protocols.norms.offline_ways import OFFLINE_WAYS

Result = TypeVar("Result")

_PAPER_ENTRIES = (100, 1000, 10_000)
_PAPER_ROWS = {2: (1.4, 11.5, 113.9), 3: (2.1, 17.4, 168.1), 4: (3.5, 29.3, 293.0), 5: (4.6, 40.3, 403.9)}
PAPER_SECONDS = {
    (parties, entries): seconds
    for parties, row in _PAPER_ROWS.items()
    for entries, seconds in zip(_PAPER_ENTRIES, row, strict=True)
}
"""Table 3 of https://arxiv.org/abs/1901.07986, by (M, d)."""


def run(cell: tuple[int, int] | None = None, fraction_bits: int = 31, repeats: int = 5) -> None:
    """Print the table, a row a way for each cell of the paper's; or for one of (parties, entries)."""
    cells = PAPER_SECONDS if cell is None else {cell: PAPER_SECONDS.get(cell, float("nan"))}
    print(f"NormedSecSum, {fraction_bits} fraction bits; seconds, slowest party; MB and kB that one party sends:")
    print(
        "  M      d offline     setup  (CPU)     MB offline  (CPU)      MB    online   (CPU) rounds        kB "
        "err/bound  paper paper/online paper/all"
    )
    for ((parties, dimension), paper), way in itertools.product(cells.items(), OFFLINE_WAYS):
        rows = _measure(parties, dimension, fraction_bits, repeats, way)
        base, offline, online = (
            (
                float(np.median([max(row[phase][i][0] for row in rows) for i in range(len(rows[0][phase]))])),
                float(np.median([sum(row[phase][i][1] for row in rows) for i in range(len(rows[0][phase]))])),
            )
            for phase in ("base", "offline", "online")
        )
        most = {phase: max(row[f"{phase}_bytes"] for row in rows) / 1e6 for phase in ("setup", "offline")}
        print(
            f"  {parties} {dimension:6} {way:9} {base[0]:7.2f} {base[1]:6.2f} {most['setup']:6.2f} "
            f"{offline[0]:7.2f} {offline[1]:6.2f} {most['offline']:7.2f} {online[0]:9.4f} {online[1]:7.4f} "
            f"{rows[0]['rounds']:6} {rows[0]['online_bytes'] / 1e3:9.1f} {max(row['error'] for row in rows):9.2f} "
            f"{paper:6.1f} {paper / online[0]:12.0f} {paper / (base[0] + offline[0] + online[0]):9.0f}"
        )


def _measure(parties: int, dimension: int, fraction_bits: int, repeats: int, way: str) -> list[dict[str, Any]]:
    context = multiprocessing.get_context("spawn")
    ends: list[dict[int, Connection]] = [{} for _ in range(parties)]
    for one in range(parties):
        for other in range(one + 1, parties):
            ends[one][other], ends[other][one] = context.Pipe()
    barrier, results = context.Barrier(parties), context.Queue()
    processes = [
        context.Process(
            target=_party,
            args=(
                me,
                NormedSumParameters(parties, dimension, fraction_bits),
                repeats,
                way,
                ends[me],
                barrier,
                results,
            ),
        )
        for me in range(parties)
    ]
    for process in processes:
        process.start()
    rows = [results.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    return sorted(rows, key=lambda row: row["party"])


def _party(
    me: int,
    terms: NormedSumParameters,
    repeats: int,
    way: str,
    peers: dict[int, Connection],
    barrier: Barrier,
    results: Any,
) -> None:
    lines = {peer: _Line(connection) for peer, connection in peers.items()}
    vectors = np.random.default_rng(0).normal(size=(terms.parties, terms.dimension))
    total = np.rint(np.ldexp(vectors, terms.fraction_bits)).sum(axis=0)
    prepared = OFFLINE_WAYS[way]

    def timed(make: Callable[[], Script[Result]]) -> tuple[Result, int, tuple[float, float]]:
        barrier.wait()
        begin, cpu = time.perf_counter(), time.process_time()
        result, sent = _drive(make(), me, lines)  # drawing masks and encoding the input are part of it
        return result, sent, (time.perf_counter() - begin, time.process_time() - cpu)

    row: dict[str, Any] = {"party": me, "offline": [], "online": [], "error": 0.0}
    setup, setup_bytes, spent = timed(partial(prepared.setup, b"benchmark".ljust(32), me, terms, os_random))
    row["base"] = [spent]
    for number in range(repeats):
        material, offline_bytes, spent = timed(partial(prepared.material, setup, terms, number, os_random))
        row["offline"].append(spent)
        found, online_bytes, spent = timed(partial(online_script, material, vectors[me]))
        row["online"].append(spent)
        error = np.abs(found.values - total / np.linalg.norm(total)).max() / found.error_bound
        row["error"] = max(row["error"], float(error))
    row |= {"rounds": terms.rounds, "online_bytes": online_bytes, "offline_bytes": offline_bytes}
    row["setup_bytes"] = setup_bytes
    results.put(row)
    barrier.wait()


class _Line:
    """A connection with a thread that sends: two parties that both send much must not wait for each other."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._lock, self._queued = threading.Lock(), 0
        threading.Thread(target=self._send, daemon=True).start()

    def put(self, data: bytes) -> None:
        with self._lock:
            if not self._queued and len(data) < 1 << 14:  # fits a socket's buffer: no thread needs to wake
                self.connection.send_bytes(data)
                return
            self._queued += 1
        self._waiting.put(data)

    def _send(self) -> None:
        while True:
            self.connection.send_bytes(self._waiting.get())
            with self._lock:
                self._queued -= 1


def _drive(script: Script[Result], me: int, lines: dict[int, _Line]) -> tuple[Result, int]:
    """Run a script over the lines; its result, and the bytes that were sent."""
    names = {peer: str(peer) for peer in sorted((me, *lines))}
    rounds = RoundEngine(names[me], [names[peer] for peer in lines]).play(
        "script", b"", list(names.values()), [script]
    )
    arrived: dict[str, bytes] | None = None
    sent = 0
    while True:
        try:
            each = next(rounds) if arrived is None else rounds.send(arrived)
        except StopIteration as stop:
            return stop.value[0], sent
        for peer, line in lines.items():
            line.put(each.messages[names[peer]])
            sent += len(each.messages[names[peer]])
        arrived = {names[peer]: line.connection.recv_bytes() for peer, line in lines.items()}
