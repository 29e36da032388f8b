"""What the filters of rounds say of everybody: D between the documents in and out of single runs.

::

    python -m benchmarks in-and-out --corpora kos enron-mail6 movielens-1m --sizes 0.03 0.1

A line a run: how many documents are ruled out, D between those in and those out, D of ruling out alone, CPU
seconds of the filter. An audit asks of one document over many runs; this asks of all documents in one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse as sp

from benchmarks import ROOT
from ksdp.audit.mechanisms.contract import Database, Mechanism, Observables
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.statistics.contract import Documents, Pool, Statistic
from ksdp.audit.statistics.equations import RULED_OUT
from ksdp.audit.statistics.rounds_match import BlocksMatch, BlockSumsMatch, SumsMatch
from ksdp.audit.verdicts.ks import ks_table
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["run"]

RANK, RUNS = 7, 2


def run(corpora: Sequence[str], sizes: Sequence[float]) -> None:
    """Print some lines a corpus and party size."""
    for corpus in corpora:
        rated = corpus == "movielens-1m"
        read, base = read_spec_file(ROOT / f"examples/specs/{corpus}-{'recommend' if rated else 'svd'}.toml")
        matrix = spec_corpus(read, base).matrix
        for size in sizes:
            for mechanism, statistic in _filters(rated):
                for number in range(RUNS):
                    line = _line(matrix, size, mechanism, statistic, number)
                    print(f"{corpus}, {size:.0%}, {statistic.name}: {line}", flush=True)


def _filters(rated: bool) -> Iterable[tuple[Mechanism, Statistic]]:
    if rated:
        return [(PDNMF(rank=RANK, weighted=True, beta=1.0, delta=1.0), SumsMatch())]
    revealed = PDSVD(rank=RANK, reveal_sigma=True)
    return [(PDNMF(rank=RANK), SumsMatch()), (PDSVD(rank=RANK), BlocksMatch()), (revealed, BlockSumsMatch())]


def _line(matrix: sp.csr_array, size: float, mechanism: Mechanism, statistic: Statistic, number: int) -> str:
    n, rng = matrix.shape[0], np.random.default_rng(number)
    held = np.isin(np.arange(n), rng.choice(n, round(size * n), replace=False))
    ran = mechanism.run(Database((sp.csr_array(matrix[held]),)), rng)
    # As the store keeps them.
    seen = Observables({name: np.asarray(array, np.float32).astype(np.float64) for name, array in ran.items()})
    documents = Documents(matrix, pool=Pool(matrix, size, mechanism=mechanism))
    start = time.process_time()
    found = statistic.evaluate(seen, documents)
    seconds, out = time.process_time() - start, found == RULED_OUT
    told, alone = ks_table(np.stack([found, -1.0 * out]).astype(np.float32), np.stack([held, held])).distance
    ruled = f"{out.sum():,} of {n:,} ruled out, {(out & held).sum()} of them in"
    return f"{ruled}; D {told:.2f}, of ruling out {alone:.2f}; {seconds:.2f} CPU s"
