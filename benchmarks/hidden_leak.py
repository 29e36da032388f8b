"""What a run gives away that opens every round, and one that opens its final output alone: PD-SVD of rank 7.

::

    python -m benchmarks hidden-leak --corpora 20newsgroups --features 500 1000 3000 --runs 400

A party of a third; 150 documents, each in half of the runs; D of its energy in what is opened (the blocks of the
first ten iterations together, as audits look at them, or V alone), and of noise.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from benchmarks import data_folder
from ksdp.audit.mechanisms.factorisation.power_iteration import start_block
from ksdp.audit.mechanisms.factorisation.power_limit import limit_of_power
from ksdp.audit.mechanisms.factorisation.span import ROUNDS, announced_span
from ksdp.audit.verdicts.ks import ks_table

__all__ = ["run"]

DOCUMENTS, PARTY, RANK = 150, 1 / 3, 7


def run(corpora: list[str], features: list[int], runs: int) -> None:
    """Print one line a corpus and vocabulary."""
    for corpus in corpora:
        counts = sp.csr_array(sp.load_npz(data_folder() / corpus / "counts.npz")).astype(np.float64)
        for most in features:
            print(f"{corpus}:")
            _one(counts, most, runs)


def _weighed(counts: sp.csr_array, most: int) -> sp.csr_array:
    columns = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[:most])
    part = sp.csr_array(counts[:, columns])
    weights = np.log((1 + part.shape[0]) / (1 + np.asarray((part > 0).sum(axis=0)))) + 1
    part = sp.csr_array(part @ sp.diags_array(weights))
    lengths = np.sqrt(np.asarray(part.multiply(part).sum(axis=1)))
    return sp.csr_array(sp.diags_array(1 / np.maximum(lengths, 1e-300)) @ part)


def _one(counts: sp.csr_array, most: int, runs: int) -> None:
    matrix, rng = _weighed(counts, most), np.random.default_rng(3)
    size = int(PARTY * matrix.shape[0])
    documents = np.sort(rng.choice(matrix.shape[0], DOCUMENTS, replace=False))
    others = np.setdiff1d(np.arange(matrix.shape[0]), documents)
    bits = rng.random((DOCUMENTS, runs)) < 0.5
    start, looked = start_block(0, most, RANK), sp.csr_array(matrix[documents])
    values = {"V alone": np.empty((DOCUMENTS, runs)), "every round": np.empty((DOCUMENTS, runs))}
    for number in range(runs):
        held = documents[bits[:, number]]
        rows = np.concatenate([held, rng.choice(others, size - len(held), replace=False)])
        part = sp.csr_array(matrix[np.sort(rows)])
        values["V alone"][:, number] = ((looked @ limit_of_power(part, start).block.T) ** 2).sum(axis=1)
        values["every round"][:, number] = ((looked @ announced_span(part, start, ROUNDS).rows.T) ** 2).sum(axis=1)
    values["noise"] = rng.normal(size=bits.shape)
    for name, column in values.items():
        distance = ks_table(np.ascontiguousarray(column), np.ascontiguousarray(bits)).distance
        print(
            f"{most:5} terms, {runs} runs, {name:12} D median {np.median(distance):.3f}, "
            f"95 % {np.quantile(distance, 0.95):.3f}",
            flush=True,
        )
