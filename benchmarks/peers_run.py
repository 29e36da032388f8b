"""The peers as real processes over TLS on enron-mail6, five parties and a server where one is needed.

Seconds of the wall are too long on a busy machine; those of the processor hold the start of every process.
"""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data_folder
from benchmarks.protocol_run import played, write_parties, write_protocol
from ksdp.flows.runs.party import guarantee_words
from ksdp.storage.keys import make_identity

NAMES = ("ada", "bob", "cyd", "dan", "eve")
SERVER = "hub"
MOST_TERMS = 1000
"""For dpdispca: its matrix is dense, and each of its d (d + 1) / 2 entries takes noise."""
MECHANISMS = {
    "hardt-roth": "rank = 7\niterations = 5\nepsilon = 1.0",
    "dp-nmf": "rank = 7\nsweeps = 2",
    "fedpower-private": "rank = 7\niterations = 5",
    "fedpower": "rank = 7\niterations = 8\nperiod = 4",
    "fedpower-utility": "rank = 7\niterations = 2\nperiod = 1\nnoise = 0.1\nrow_bound = 1.0",
    "dpdispca": "rank = 7\nintermediate = 20",
}
WITH_SERVER = ("fedpower", "fedpower-utility", "dpdispca")
_ENDS = ("greeting", "statement", "hello", "paillier key", "public", "result")
"""Kinds of messages that belong to no announcement."""


def run(names: tuple[str, ...] = tuple(MECHANISMS)) -> None:
    """Print two lines a mechanism; some minutes."""
    data = data_folder() / "enron-mail6"
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            write_parties(data, Path(folder), NAMES, MOST_TERMS if name == "dpdispca" else None)
            make_identity(Path(folder), SERVER)
            _one(name, Path(folder))


def _one(name: str, folder: Path) -> None:
    server = SERVER if name in WITH_SERVER else ""
    protocol = write_protocol(folder, name, f'{MECHANISMS[name]}\nsampler = "discrete"', NAMES, server)
    before = _processor()
    ended = played(protocol, folder / f"{name}-out", (*NAMES, server) if server else NAMES)
    processor = _processor() - before
    abouts, seconds = ended.abouts, ended.seconds
    about = abouts["ada"]
    announced = sum(about["asked"].get(what, 0) for what in ("sum", "upload", "one-noise"))
    volume = {node: _bytes(lines) / announced for node, lines in ended.lines.items()}
    parties = f"{np.mean([volume[party] for party in NAMES]):,.0f} of a party"
    collected = f", {volume[SERVER]:,.0f} of the server" if server else ""
    print(
        f"{name}: {len(NAMES)} parties, documents {[abouts[party]['documents'] for party in NAMES]} x "
        f"{about['features']:,}, {announced} announcements in {seconds:.1f} s ({seconds / announced:.2f} s each; "
        f"{processor:.0f} s of the processor in all {len(abouts)} processes, from start to end), "
        f"results {ended.results}\n"
        f"  bytes an announcement, sent and received: {parties}{collected}; {guarantee_words(about)}",
        flush=True,
    )


def _processor() -> float:
    """Seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(used.ru_utime + used.ru_stime)


def _bytes(lines: list[dict[str, Any]]) -> int:
    return sum(
        line["bytes"] for line in lines if line["what"] in ("sent", "received") and line["kind"] not in _ENDS
    )


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    run()
