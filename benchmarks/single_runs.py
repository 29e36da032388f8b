"""What the filters of rounds say of everybody: D between the documents in and out of single runs.

::

    python -m benchmarks single-runs --corpora kos enron-mail6 movielens-1m mnist --sizes 0.03 0.1 --runs 2

A line a corpus, party size and filter: who may have been in (the others are ruled out), and D of saying no more
than that; then D, and CPU milliseconds, of documents fitted one by one, as an audit does where sums are more
numbers than documents may be in, and of filters approached by steps, as it does elsewhere. Means over
runs. An audit asks of one document over many runs; this asks of all documents in one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import ROOT
from ksdp.audit.mechanisms.contract import Database, Mechanism, Observables
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.statistics import equations
from ksdp.audit.statistics.contract import Documents, Pool, Statistic
from ksdp.audit.statistics.rounds_match import BlocksMatch, BlockSumsMatch, SumsMatch
from ksdp.audit.verdicts.ks import ks_table
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["run"]

RANK = 7
PICTURES = 1500


def run(corpora: Sequence[str], sizes: Sequence[float], runs: int = 2) -> None:
    """Print some lines a corpus and party size."""
    print(f"{'':40}{'may be in':>12}{'that alone':>12}{'one by one: D, ms':>20}{'by steps: D, ms':>20}")
    for corpus in corpora:
        rated = corpus == "movielens-1m"
        if corpus == "mnist":
            matrix = _pictures()
        else:
            read, base = read_spec_file(ROOT / f"examples/specs/{corpus}-{'recommend' if rated else 'svd'}.toml")
            matrix = spec_corpus(read, base).matrix
        for size in sizes:
            for mechanism, statistic in _filters(rated):
                said = f"{corpus}, {mechanism.name}, {size:.0%}, {statistic.name}"
                print(f"{said:40}{_line(matrix, size, mechanism, statistic, runs)}", flush=True)


def _pictures() -> sp.csr_array:
    """The first of MNIST, rows of unit length: they share most of their columns, and are told apart the slower."""
    with np.load(Path(os.environ["KSDP_DATA"]) / "mnist/mnist.npz") as stored:
        some = next(stored[name] for name in stored.files if stored[name].ndim > 1)[:PICTURES]
    flat = some.reshape(len(some), -1).astype(np.float64)
    return sp.csr_array(flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-9))


def _filters(rated: bool) -> Iterable[tuple[Mechanism, Statistic]]:
    if rated:
        return [(PDNMF(rank=RANK, weighted=True, beta=1.0, delta=1.0), SumsMatch())]
    revealed = PDSVD(rank=RANK, reveal_sigma=True)
    return [(PDNMF(rank=RANK), SumsMatch()), (PDSVD(rank=RANK), BlocksMatch()), (revealed, BlockSumsMatch())]


def _line(matrix: sp.csr_array, size: float, mechanism: Mechanism, statistic: Statistic, runs: int) -> str:
    documents = Documents(matrix, pool=Pool(matrix, size, mechanism=mechanism))
    drawn = [_drawn(matrix, size, mechanism, number) for number in range(runs)]
    cells: list[str] = []
    for more in (equations.MORE, np.inf):
        with mock.patch.object(equations, "MORE", more):
            statistic.evaluate(Observables(drawn[0][1]), documents)  # compiles
            looked = np.mean([_looked(held, seen, statistic, documents) for held, seen in drawn], axis=0)
        possible, alone, distance, seconds = looked
        cells.append(f"{distance:.3f} {1e3 * seconds:.0f}")
    return f"{possible:12,.0f}{alone:12.2f}{cells[0]:>20}{cells[1]:>20}"


def _drawn(
    matrix: sp.csr_array, size: float, mechanism: Mechanism, number: int
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """Who is in a run, and what it announces, as the store keeps it."""
    n, rng = matrix.shape[0], np.random.default_rng(number)
    held = np.isin(np.arange(n), rng.choice(n, round(size * n), replace=False))
    ran = mechanism.run(Database((sp.csr_array(matrix[held]),)), rng)
    return held, {name: np.asarray(array, np.float32).astype(np.float64) for name, array in ran.items()}


def _looked(
    held: NDArray[np.bool_], seen: dict[str, NDArray[np.float64]], statistic: Statistic, documents: Documents
) -> tuple[float, float, float, float]:
    """How many may have been in, D of that alone, D, and CPU seconds."""
    start = time.process_time()
    values = statistic.evaluate(Observables(seen), documents)
    seconds = time.process_time() - start
    possible = values != equations.RULED_OUT
    distance, alone = ks_table(np.stack([values, possible]).astype(np.float32), np.stack([held, held])).distance
    return float(possible.sum()), alone, distance, seconds
