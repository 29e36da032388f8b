"""What hiding norms costs: PD-SVD and the Sigma-revealing SVD of enron-mail6 in processes over TLS, an iteration.

::

    python -m benchmarks normed-sum [--cell PARTIES TERMS]
    python -m benchmarks.normed_sum    # one call by parties and entries (PD-ML-Lite's Table 3), and its bits

Rank 7, three iterations: 21 normed sums, of which three parties compute the lengths on shares.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from papers.data import documents

from benchmarks import data_folder
from benchmarks.fastest import best
from benchmarks.protocol_run import played, write_parties, write_protocol
from benchmarks.share_costs import together
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    limit_of_power,
    normed_sec_sum,
    orthonormalise,
    share_of,
    start_block,
    subspace_sine,
)
from ksdp.audit.randomness import os_random
from ksdp.protocols.shares.arithmetic import SharedArithmetic
from ksdp.protocols.shares.engine import COMPUTING
from ksdp.protocols.shares.field import PRIME, split
from ksdp.protocols.shares.matrices import unit_rows

NAMES = ("ada", "bob", "cyd", "dan", "eve")
CELLS = ((3, 1_000), (5, 1_000), (3, 12_164), (5, 12_164))
ITERATIONS = 3
PARAMETERS = f'rank = 7\nsolver = "power"\niterations = {ITERATIONS}\ntolerance = 0.0'


PRINTED = {3: (2.1, 17.4, 168.1), 4: (3.5, 29.3, 293.0), 5: (4.6, 40.3, 403.9)}
"""Table 3 of PD-ML-Lite: seconds of one call by parties, for the sizes below; without the offline phase."""
SIZES = (100, 1000, 10_000)
BITS = (10, 20, 31)


async def _normed(row: NDArray[np.object_], shares: SharedArithmetic) -> object:
    return await unit_rows(shares, row)


def one_call() -> None:
    """CPU seconds of one normed sum at a party that computes, the parties' sharing of their vectors included."""
    rng = np.random.default_rng(0)
    print("Table 3 of PD-ML-Lite: CPU seconds of one call (in brackets the paper's, of SPDZ); what it sends")
    for at, size in enumerate(SIZES):
        words = rng.integers(-(2**55), 2**55, size)
        row = words.astype(object)[None] % PRIME
        seconds, rounds, sent = min(together(partial(_normed, row)) for _ in range(2))
        shared = best(partial(split, words, os_random))
        for parties, printed in PRINTED.items():
            took = seconds / COMPUTING + parties * shared
            print(
                f"  M = {parties}, d = {size:,}: {took:.3f} ({printed[at]}), {sent / 1e6:.2f} MB, {rounds} rounds"
            )


def by_bits(rank: int = 7, parties: int = 3, iterations: int = 300) -> None:
    """How far V is from the exact one, where every party's share of X^T X v / s is rounded to so many bits."""
    rows = data_matrix()
    parts = [rows[part] for part in np.array_split(np.arange(rows.shape[0]), parties)]
    start = start_block(0, rows.shape[1], rank)
    exact = limit_of_power(rows, start).block
    scale = sum(float(np.linalg.norm((part.T @ part).toarray())) for part in parts)
    for bits in (*BITS, 52):
        block = orthonormalise(start, start)
        for _ in range(iterations):
            shares = [np.rint(share_of(part, block, None) / scale * 2.0**bits) for part in parts]
            block = orthonormalise(normed_sec_sum(shares)[0], start)
        print(f"  {bits} bits, {iterations} iterations: sine to the exact V {subspace_sine(block, exact):.2g}")


def data_matrix() -> sp.csr_array:
    """6,000 mails, tf-idf by all of them, by their 1,000 most frequent terms."""
    return canonical(documents(data_folder(), "enron-mail6", 1000)[0][:6000])


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


if __name__ == "__main__":
    one_call()
    by_bits()
