"""The leak of runs that open every round, beside runs that open the final output only: PD-SVD, PD-NMF, rank 7.

::

    python -m benchmarks hidden-leak --corpora 20newsgroups --features 500 1000 3000 --runs 400
    python -m benchmarks hidden-leak --topics --corpora enron-mail6 --features 1000 --runs 200

A party of a third; 150 documents, each in half of the runs; D of its energy in what is opened (the blocks of the
first ten iterations together, as audits look at them, or V alone; of PD-NMF the sums of the first three sweeps and
of all, or T alone), and of noise.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import data_folder
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.power_iteration import start_block
from ksdp.audit.mechanisms.factorisation.power_limit import limit_of_power
from ksdp.audit.mechanisms.factorisation.span import ROUNDS, announced_span
from ksdp.audit.verdicts.ks import ks_table

__all__ = ["run"]

DOCUMENTS, PARTY, RANK = 150, 1 / 3, 7


Opened = Callable[[sp.csr_array], dict[str, NDArray[np.float64]]]
"""Of a party's rows: orthonormal rows that span what is opened, by kind of run."""


def run(corpora: list[str], features: list[int], runs: int, topics: bool) -> None:
    """Print one line a corpus and vocabulary."""
    for corpus in corpora:
        counts = sp.csr_array(sp.load_npz(data_folder() / corpus / "counts.npz")).astype(np.float64)
        for most in features:
            print(f"{corpus}:")
            _one(counts, most, runs, _of_topics(most) if topics else _of_vectors(most))


def _weighed(counts: sp.csr_array, most: int) -> sp.csr_array:
    columns = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[:most])
    part = sp.csr_array(counts[:, columns])
    weights = np.log((1 + part.shape[0]) / (1 + np.asarray((part > 0).sum(axis=0)))) + 1
    part = sp.csr_array(part @ sp.diags_array(weights))
    lengths = np.sqrt(np.asarray(part.multiply(part).sum(axis=1)))
    return sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1e-300)) @ part)


def _of_vectors(features: int) -> Opened:
    start = start_block(0, features, RANK)
    return lambda part: {
        "V alone": limit_of_power(part, start).block,
        "every round": announced_span(part, start, ROUNDS).rows,
    }


def _of_topics(features: int) -> Opened:
    """With regularisers, as a run on shares needs them: both kinds of run end with the same T."""
    every = PDNMF(rank=RANK, sweeps=20, tolerance=0.0, beta=0.1, delta=0.1)

    def opened(part: sp.csr_array) -> dict[str, NDArray[np.float64]]:
        found = every.run(Database((part,)), np.random.default_rng(0))
        rows = np.concatenate([*found["sums"], found["total"], found["T"]])
        return {"T alone": _spanned(found["T"]), "every round": _spanned(rows)}

    return opened


def _spanned(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
    _, values, right = np.linalg.svd(rows / np.maximum(lengths, 1e-300), full_matrices=False)
    return np.asarray(right[values > 1e-8 * values[0]])


def _one(counts: sp.csr_array, most: int, runs: int, opened: Opened) -> None:
    matrix, rng = _weighed(counts, most), np.random.default_rng(3)
    size = int(PARTY * matrix.shape[0])
    documents = np.sort(rng.choice(matrix.shape[0], DOCUMENTS, replace=False))
    others = np.setdiff1d(np.arange(matrix.shape[0]), documents)
    bits = rng.random((DOCUMENTS, runs)) < 0.5
    looked = sp.csr_array(matrix[documents])
    values: dict[str, NDArray[np.float64]] = {}
    for number in range(runs):
        held = documents[bits[:, number]]
        rows = np.concatenate([held, rng.choice(others, size - len(held), replace=False)])
        for name, found in opened(sp.csr_array(matrix[np.sort(rows)])).items():
            column = values.setdefault(name, np.empty((DOCUMENTS, runs)))
            column[:, number] = ((looked @ found.T) ** 2).sum(axis=1)
    values["noise"] = rng.normal(size=bits.shape)
    for name, column in values.items():
        distance = ks_table(np.ascontiguousarray(column), np.ascontiguousarray(bits)).distance
        print(
            f"{most:5} terms, {runs} runs, {name:12} D median {np.median(distance):.3f}, "
            f"95 % {np.quantile(distance, 0.95):.3f}",
            flush=True,
        )
