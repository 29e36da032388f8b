"""What hiding norms costs: PD-SVD and the Sigma-revealing SVD of enron-mail6 in processes over TLS, an iteration.

::

    python -m benchmarks normed-sum [--cell PARTIES TERMS]

Rank 7, three iterations: 21 normed sums, of which three parties compute the lengths on shares.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks import data_folder
from benchmarks.protocol_run import played, write_parties, write_protocol

NAMES = ("ada", "bob", "cyd", "dan", "eve")
CELLS = ((3, 1_000), (5, 1_000), (3, 12_164), (5, 12_164))
ITERATIONS = 3
PARAMETERS = f'rank = 7\nsolver = "power"\niterations = {ITERATIONS}\ntolerance = 0.0'


def run(cells: tuple[tuple[int, int], ...] = CELLS) -> None:
    """Print a line a mechanism and cell."""
    print("parties  terms  mechanism   seconds an iteration  MB of a party, both ways  rounds an iteration")
    for parties, terms in cells:
        with tempfile.TemporaryDirectory() as folder:
            write_parties(data_folder() / "enron-mail6", Path(folder), NAMES[:parties], terms)
            for name in ("pd-svd", "sigma-svd"):
                _one(name, parties, terms, Path(folder))


def _one(name: str, parties: int, terms: int, folder: Path) -> None:
    names = NAMES[:parties]
    shares = '\n[shares]\ncomputing = ["ada", "bob", "cyd"]' if name == "pd-svd" else ""
    ended = played(write_protocol(folder, name, PARAMETERS + shares, names), folder / f"{name}-out", names)
    noted = [line for line in ended.lines["ada"] if line["what"] in ("sent", "received")]
    during = [line for line in noted if line["kind"] in ("sum", "shares", "computation", "opened")]
    rounds = len({(line["kind"], line.get("round")) for line in during if line["what"] == "sent"})
    print(
        f"{parties:7} {terms:6}  {name:10} {ended.seconds / ITERATIONS:21.2f} "
        f"{sum(line['bytes'] for line in during) / ITERATIONS / 1e6:25.2f} {rounds / ITERATIONS:20.0f}  "
        f"results {ended.results}",
        flush=True,
    )
