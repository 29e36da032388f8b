"""Exact numbers are equations, whatever the function: who was in, from those of few documents and of many.

Half of the rows of a table are drawn. Of few rows lattice reduction (LLL, then BKZ with growing blocks) looks for
the b of `sum of b_i a_i = 0`; it needs fpylll, which ksdp does not (`python -m pip install fpylll cysignals`). Of
many, least squares solve the equations of each centre of k-means: it is the mean of the rows nearest to it.

    python benchmarks/equations.py [--draws 3] [--runs 400]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import ks_2samp
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from ksdp.audit.bits import DIGITS, found_by_lattice

Matrix = NDArray[np.float64]
BLOCKS = (10, 15, 20, 25, 30)
MARGIN = 0.2
WHOLE = 1e-6
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


def a_half(rows: int, seed: int) -> NDArray[np.bool_]:
    """Who is in."""
    held = np.zeros(rows, np.bool_)
    held[np.random.default_rng(seed).choice(rows, rows // 2, replace=False)] = True
    return held


def near_centres(rows: Matrix, held: NDArray[np.bool_]) -> Matrix:
    """How far each row is told to be in by the five centres that are announced of those held, shape (n_rows,)."""
    centres = KMeans(5, n_init=1, random_state=0).fit(rows[held]).cluster_centers_
    nearest, told = cdist(rows, centres).argmin(axis=1), np.empty(len(rows))
    for place, centre in enumerate(centres):
        (near,) = np.nonzero(nearest == place)
        # Pictures are whole numbers: the size of a cluster is the least that makes whole numbers of its centre.
        sizes = np.arange(1, len(near) + 1)[:, None] * centre
        size = 1 + int((np.abs(sizes - np.rint(sizes)).max(axis=1) < WHOLE).argmax())
        terms, sums = np.column_stack([rows[near], np.ones(len(near))]).T, size * np.append(centre, 1.0)
        told[near] = np.linalg.lstsq(terms, sums - terms.sum(axis=1) / 2.0, rcond=None)[0]
    return told


def of_many(runs: int) -> None:
    """Print what the centres of half of all pictures tell of each."""
    rows = np.asarray(load_digits().data)
    held = np.stack([a_half(len(rows), run) for run in range(runs)])
    told = np.stack([near_centres(rows, one) for one in held])
    found = [ks_2samp(t[h], t[~h]).statistic for t, h in zip(told.T, held.T, strict=True)]
    chance = [ks_2samp(t[h], t[~h]).statistic for t, h in zip(told.T, np.roll(held, 1, axis=0).T, strict=True)]
    print(
        f"5 centres of 64 pixels, {len(rows)} pictures: D {np.median(found):.2f} in the median, "
        f"{np.mean(np.array(found) > MARGIN):.0%} above {MARGIN} (chance {np.median(chance):.2f})",
        flush=True,
    )


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--runs", type=int, default=400)
    asked = parser.parse_args()
    of_many(asked.runs)
    wine, patients = load_wine().data, load_breast_cancer().data[:120]
    for name, table, equations in (
        ("means of 30 columns, 120 patients", patients, of_means),
        ("V of rank 2, 178 wines", wine, of_directions(2)),
    ):
        rows = (table - table.mean(axis=0)) / table.std(axis=0)
        right, seconds = [], []
        for draw in range(asked.draws):
            held = a_half(len(rows), draw)
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
