"""What a researcher would write with NumPy, SciPy and joblib; `benchmarks.plain` times it. Nothing is ksdp's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from joblib.externals.loky import get_reusable_executor
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from scipy.stats import ks_2samp

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Work:
    """The corpus, the documents that are looked at, and what the adversary knows."""

    corpus: sp.csr_matrix
    documents: sp.csr_matrix
    """None of them empty."""
    rank: int
    spectrum: Floats
    """Squared singular values as the adversary guesses them."""


def released(work: Work, rows: NDArray[np.int64]) -> Floats:
    """Directions, the strongest first."""
    directions: Floats = svds(work.corpus[rows], k=work.rank, tol=1e-10)[2]
    return directions[::-1]


def columns(work: Work, directions: Floats) -> Floats:
    """Of each document the numbers that `benchmarks.plain.COLUMNS` names, shape (n_columns, n_documents)."""
    squares = work.documents.multiply(work.documents).tocsr()
    lengths = np.asarray(squares.sum(axis=1)).ravel()
    energies = (work.documents @ directions.T) ** 2
    sizes = np.abs(directions).max(axis=0)
    missing = squares @ (sizes <= 1e-7 * sizes.max()).astype(float) / lengths
    entries = squares.data * (work.spectrum @ directions**2)[squares.indices]
    first, second = np.tril_indices(work.rank)
    moments = squares @ (directions[first] * directions[second]).T
    pairs = work.spectrum[first] * work.spectrum[second] * np.where(first == second, 1.0, 2.0)
    norm = np.sqrt(work.spectrum @ (directions @ directions.T) ** 2 @ work.spectrum)
    cross = energies @ work.spectrum / norm / np.sqrt(lengths)
    largest = np.maximum.reduceat(entries, squares.indptr[:-1])
    return np.array([energies.sum(axis=1), missing, largest, moments**2 @ pairs, 1 - 2 * cross + lengths])


def runs(work: Work, drawn: Sequence[NDArray[np.int64]]) -> NDArray[np.float32]:
    """Columns of all runs, shape (n_columns, n_documents, n_runs)."""
    return np.stack([columns(work, released(work, rows)) for rows in drawn], axis=2, dtype=np.float32)


def tests(values: NDArray[np.float32], inclusion: NDArray[np.bool_]) -> Floats:
    """D and exact p of every column and document, shape (2, n_columns, n_documents)."""
    found = [
        [ks_2samp(v[b], v[~b], method="exact") for v, b in zip(one, inclusion, strict=True)] for one in values
    ]
    return np.array([[[test[part] for test in column] for column in found] for part in range(2)])


def vectorised(values: NDArray[np.float32], inclusion: NDArray[np.bool_], method: str) -> Floats:
    """D and p by SciPy, all documents with as many runs at once."""
    found, held = np.empty((2, *values.shape[:2])), inclusion.sum(axis=1)
    for m in np.unique(held):
        rows = np.flatnonzero(held == m)
        bits = np.broadcast_to(inclusion[rows], (len(values), len(rows), inclusion.shape[1]))
        with_, without = (values[:, rows][arm].reshape(len(values), len(rows), -1) for arm in (bits, ~bits))
        found[:, :, rows] = ks_2samp(with_, without, axis=2, method=method)
    return found


def with_looks(
    work: Work,
    drawn: Sequence[NDArray[np.int64]],
    inclusion: NDArray[np.bool_],
    looks: Sequence[tuple[int, float]],
) -> int:
    """The same at looks, of runs so far and a D from which none is measured further; the documents left."""
    seen: list[Floats] = []
    left, values = np.arange(work.documents.shape[0]), np.empty((5, work.documents.shape[0], 0), np.float32)
    for end, bar in looks:
        some = replace(work, documents=work.documents[left])
        seen += [released(work, rows) for rows in drawn[len(seen) : end]]
        new = [columns(some, one) for one in seen[values.shape[2] :]]
        values = np.concatenate([values, np.stack(new, axis=2, dtype=np.float32)], axis=2)
        below = vectorised(values, inclusion[left, :end], "exact")[0].max(axis=0) < bar
        left, values = left[below], values[:, below]
    return len(left)


def start(path: str) -> sp.csr_matrix:
    """Read counts, and weigh them."""
    counts = sp.csr_matrix(sp.load_npz(path), dtype=np.float64)
    held = np.bincount(counts.indices, minlength=counts.shape[1])
    return sp.csr_matrix(counts.multiply(np.log(counts.shape[0] / np.maximum(held, 1))))


def store(folder: Path, seen: Sequence[Floats], values: NDArray[np.float32]) -> None:
    """Keep all releases and columns."""
    np.save(folder / "releases.npy", np.array(seen, dtype=np.float32))
    np.save(folder / "columns.npy", values)


def on_processes(work: Work, drawn: Sequence[Any], inclusion: NDArray[np.bool_], processes: int) -> Floats:
    """All runs and tests by joblib; its processes start and end here."""
    parts = [drawn[at :: processes * 8] for at in range(processes * 8)]
    bits = np.concatenate([inclusion[:, at :: processes * 8] for at in range(processes * 8)], axis=1)
    with Parallel(n_jobs=processes) as pool:
        values = np.concatenate(pool(delayed(runs)(work, part) for part in parts), axis=2)
        some = np.array_split(np.arange(values.shape[1]), processes * 8)
        found = pool(delayed(tests)(values[:, rows], bits[rows]) for rows in some)
    get_reusable_executor().shutdown(wait=True)
    return np.concatenate(found, axis=2)
