"""What the filters of rounds say of everybody: D between the documents in and out of single runs.

::

    python -m benchmarks single-runs --corpora kos enron-mail6 movielens-1m --sizes 0.03 0.1 --runs 2
    python -m benchmarks single-runs --corpora mnist mnist-sizes mnist-sizes-4000 --sizes 0.1 0.2
    python -m benchmarks single-runs --corpora patients texts-500 normal-300 --ranks 2 3 --sizes 0.1 0.5 --runs 3

A line a corpus, party size and filter: who may have been in (the others are ruled out), and D of saying no more
than that; then D, and CPU milliseconds, of documents solved for all at once, as an audit does where few may be in
(here up to 6,000); of documents solved one by one, as it does where these are many and sums still more numbers,
and of filters by steps, as it does elsewhere. Means over runs. `mnist` is 2,000 of the pictures; in `mnist-sizes`
each is times e to a normal
number, and `-4000` says how many there are; `patients` are the 569 of scikit-learn's breast cancer table, whose 30
columns have deviation 1; `texts-500` and `normal-300` are drawn, that many rows of 40 Poisson or normal numbers.
An audit asks of one document over many runs; this asks of all documents in one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from benchmarks import ROOT, data_folder
from ksdp.audit.contract import Database, Mechanism, Observables
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.statistic import Documents, Pool, Statistic
from ksdp.audit.statistics.linear import operator, solve, system
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.verdicts.laws import ks_table
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

RATED = "movielens-1m"
_CHOSEN = solve.chosen_way


def _always(way: solve.Way) -> Callable[[solve.RunSystem], solve.Way]:
    """The same way for all sums that it can solve."""
    factored = operator.FactoredContributions
    few = way is not solve.least_squares
    return lambda run: way if isinstance(run.made, factored) and (few or len(run.shares) <= 6000) else _CHOSEN(run)


_WAYS = (_always(solve.least_squares), _always(solve.one_by_one), _always(solve.by_steps))


def run(corpora: Sequence[str], sizes: Sequence[float], runs: int, ranks: Sequence[int]) -> None:
    """Print some lines a corpus and party size."""
    heads = ("all at once: D, ms", "one by one: D, ms", "by steps: D, ms")
    print(f"{'':44}{'may be in':>12}{'that alone':>12}" + "".join(f"{head:>20}" for head in heads))
    for corpus in corpora:
        matrix = matrix_of(corpus)
        for size in sizes:
            for mechanism, statistic in (f for rank in ranks for f in _filters(corpus, matrix.min() >= 0.0, rank)):
                said = f"{corpus}, {mechanism.name}, {mechanism.rank}, {size:.0%}, {statistic.name}"
                print(f"{said:44}{_line(matrix, size, mechanism, statistic, runs)}", flush=True)


def matrix_of(corpus: str) -> sp.csr_array:
    """The documents of a corpus of this module's name for it."""
    name, _, number = corpus.partition("-")
    if name in _SMALL:
        return canonical(sp.csr_array(_SMALL[name](int(number or 0))))
    if name != "mnist":
        task = "recommend" if corpus == RATED else "svd"
        read, base = read_spec_file(ROOT / f"examples/specs/{corpus}-{task}.toml")
        return open_spec(read, base).corpus.matrix
    rng, count = np.random.default_rng(0), int(corpus.rpartition("-")[2]) if corpus[-1].isdigit() else 2000
    pictures = np.load(data_folder() / "mnist" / "mnist.npz")["train_images"].reshape(-1, 784) / 255.0
    some = pictures[rng.choice(len(pictures), count, replace=False)]
    return canonical(sp.csr_array(some * np.exp(rng.normal(size=(count, 1))) if "sizes" in corpus else some))


def _patients(_: int) -> NDArray[np.float64]:
    table = np.asarray(load_breast_cancer().data)
    return np.asarray((table - table.mean(axis=0)) / table.std(axis=0))


_SMALL: Mapping[str, Callable[[int], NDArray[np.float64]]] = {
    "patients": _patients,
    "texts": lambda count: np.random.default_rng(0).poisson(0.6, (count, 40)).astype(np.float64),
    "normal": lambda count: np.random.default_rng(0).normal(size=(count, 40)),
}
"""Tables of few columns, given how many rows."""


def _filters(corpus: str, nonnegative: bool, rank: int) -> Iterable[tuple[PDNMF | PDSVD, Statistic]]:
    if corpus == RATED:
        yield PDNMF(rank=rank, weighted=True, beta=1.0, delta=1.0), LinearSums()
        return
    if nonnegative:
        yield PDNMF(rank=rank), LinearSums()
    yield PDSVD(rank=rank), LinearBlocks()
    yield PDSVD(rank=rank, reveal_sigma=True), LinearBlocks()


def _line(matrix: sp.csr_array, size: float, mechanism: Mechanism, statistic: Statistic, runs: int) -> str:
    documents = Documents(matrix, pool=Pool(matrix, size, mechanism=mechanism))
    drawn = [_drawn(matrix, size, mechanism, number) for number in range(runs)]
    cells: list[str] = []
    for way in _WAYS:
        with mock.patch.object(solve, "chosen_way", way):
            statistic.evaluate(Observables(drawn[0][1]), documents)  # compiles
            looked = np.mean([_looked(held, seen, statistic, documents) for held, seen in drawn], axis=0)
        possible, alone, distance, seconds = looked
        cells.append(f"{distance:.3f} {1e3 * seconds:.0f}")
    return f"{possible:12,.0f}{alone:12.2f}" + "".join(f"{cell:>20}" for cell in cells)


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
    possible = values != system.RULED_OUT
    distance, alone = ks_table(np.stack([values, possible]).astype(np.float32), np.stack([held, held])).distance
    return float(possible.sum()), alone, distance, seconds
