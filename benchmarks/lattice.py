"""Lattice reduction finds who was in, from few exact numbers of few documents.

Needs fpylll, which ksdp does not: `python -m pip install fpylll cysignals`. Half of the rows of a table are drawn;
what they announce makes equations, `sum of b_i a_i = 0`; and LLL, then BKZ with growing blocks, look for b.

    python benchmarks/lattice.py [--draws 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_wine

from ksdp.audit.bits import DIGITS, found_by_lattice

Matrix = NDArray[np.float64]
BLOCKS = (10, 15, 20, 25, 30)
KEPT = 40
"""Bits of an equation that the lattice holds."""


def of_means(rows: Matrix, held: NDArray[np.bool_]) -> Matrix:
    """Means of the columns: what members are above them adds up to 0."""
    return np.asarray(rows - rows[held].mean(axis=0)).T


def of_directions(rank: int) -> Callable[[Matrix, NDArray[np.bool_]], Matrix]:
    """V alone: the sum of <x, v_t> (x - (x V^T) V) is 0, and that of <x, v_1> <x, v_2>."""

    def equations(rows: Matrix, held: NDArray[np.bool_]) -> Matrix:
        vectors = np.linalg.eigh(rows[held].T @ rows[held])[1][:, ::-1]
        along, beside = rows @ vectors[:, :rank], rows @ vectors[:, rank:]
        one, other = np.triu_indices(rank, 1)
        parts = [along[:, t, None] * beside for t in range(rank)]
        return np.concatenate([*parts, along[:, one] * along[:, other]], axis=1).T

    return equations


def found(equations: Matrix) -> Iterator[NDArray[np.bool_] | None]:
    """Who was in, after each reduction; None until a vector of zeros and ones shows it."""
    from fpylll import BKZ, LLL, IntegerMatrix

    numbers, documents = equations.shape
    whole = np.rint(equations * (2.0**KEPT / np.abs(equations).max(axis=1))[:, None])
    basis = IntegerMatrix(documents, documents + numbers)
    for i in range(documents):
        basis[i, i] = 1
        for j in range(numbers):
            basis[i, documents + j] = int(whole[j, i])
    for block in (None, *BLOCKS):
        LLL.reduction(basis) if block is None else BKZ.reduction(basis, BKZ.Param(block, max_loops=4))
        short = np.array([[basis[i, j] for j in range(documents)] for i in range(documents)])
        members = [row for row in short if 0 < (row != 0).sum() == abs(row.sum()) and np.abs(row).max() == 1]
        yield members[0] != 0 if members else None


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    draws = parser.parse_args().draws
    wine, patients = load_wine().data, load_breast_cancer().data[:120]
    for name, table, equations in (
        ("means of 30 columns, 120 patients", patients, of_means),
        ("V of rank 2, 178 wines", wine, of_directions(2)),
    ):
        rows = (table - table.mean(axis=0)) / table.std(axis=0)
        right, seconds = [], []
        for draw in range(draws):
            held = np.zeros(len(rows), np.bool_)
            held[np.random.default_rng(draw).choice(len(rows), len(rows) // 2, replace=False)] = True
            began, made = time.monotonic(), equations(rows, held)
            guess = next((one for one in found(made) if one is not None), None)
            right.append(0.0 if guess is None else float((guess == held).mean()))
            seconds.append(time.monotonic() - began)
        expected = found_by_lattice(len(rows), 0.5, DIGITS * len(made))
        print(
            f"{name}: {len(made)} equations, expected {expected}; told right {np.round(right, 3).tolist()}, "
            f"in {np.round(seconds).astype(int).tolist()} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
