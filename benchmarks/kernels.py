"""Each hand-written product beside SciPy's or a loop of Numba's, on the documents of enron-mail6, in one process.

::

    python -m benchmarks kernels                # seconds once compiled

CPU milliseconds of a call, the median of many. A kernel that gains less than 1.3 times has no place in
`ksdp.audit.numeric.kernels`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from operator import matmul
from statistics import median
from typing import Any

import numpy as np
from numba import njit

from benchmarks import ROOT
from ksdp.audit.numeric.kernels import (
    LINE,
    add_rows_to_panel,
    csr_times_panel,
    eight_products,
    panel_of,
    squared_csr_times_panel,
)
from ksdp.audit.numeric.sparse_rows import arrays_of
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

_SECONDS, _CALLS = 0.3, 9
HEAD = ("kernel", "columns", "CPU ms", "instead", "CPU ms", "times")


def milliseconds(call: Callable[..., Any], *given: Any) -> float:
    """CPU milliseconds of a call: the median of many."""
    call(*given)
    spent: list[float] = []
    while len(spent) < _CALLS or sum(spent) < _SECONDS:
        began = time.process_time()
        call(*given)
        spent.append(time.process_time() - began)
    return 1e3 * median(spent)


def row(name: str, columns: str, ours: float, instead: str, theirs: float) -> str:
    """A row of the table."""
    return f"| `{name}` | {columns} | {ours:.2f} | {instead} | {theirs:.2f} | {theirs / ours:.1f} |"


@njit(nogil=True)
def _mixed(indptr: Any, indices: Any, weights: Any, panel: Any, out: Any) -> None:
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            out[at] = eight_products(weights[i], panel, indices[at], 0)


@njit(nogil=True)
def _mixed_in_a_loop(indptr: Any, indices: Any, weights: Any, panel: Any, out: Any) -> None:
    for i in range(len(indptr) - 1):
        for at in range(indptr[i], indptr[i + 1]):
            total = 0.0
            for t in range(8):
                total += weights[i, t] * panel[indices[at], t]
            out[at] = total


def _rows() -> Iterator[str]:
    spec, base = read_spec_file(ROOT / "examples/specs/enron-mail6-svd.toml")
    matrix = open_spec(spec, base).corpus.matrix
    csr, (documents, features) = arrays_of(matrix), matrix.shape
    rng = np.random.default_rng(0)
    precisions: tuple[type[np.floating[Any]], ...] = np.float64, np.float32
    for columns, precision in product((7, 28, 64), precisions):
        rows = rng.normal(size=(columns, features))
        panel, typed, dense = panel_of(rows, precision), matrix.astype(precision), rows.T.astype(precision, "C")
        values = rng.normal(size=(documents, panel.shape[1])).astype(precision)
        out, some = np.empty((documents, columns), precision), values[:, :columns].copy()
        kind = f"{columns}, {np.dtype(precision).name}"
        ours = milliseconds(csr_times_panel, *csr, panel, out)
        yield row("csr_times_panel", kind, ours, "`csr @ dense`", milliseconds(matmul, typed, dense))
        ours = milliseconds(add_rows_to_panel, *csr, values, panel)
        yield row("add_rows_to_panel", kind, ours, "`csr.T @ dense`", milliseconds(matmul, typed.T, some))
        if precision is np.float32:
            both = np.empty((documents, panel.shape[1] + LINE // 4), precision)
            ours = milliseconds(squared_csr_times_panel, *csr, panel, both)
            squares = milliseconds(lambda rows, dense: rows.multiply(rows) @ dense, typed, dense)
            yield row("squared_csr_times_panel", kind, ours, "squares `@ dense`, no maxima", squares)
    given = *csr[:2], rng.random((documents, 8)), panel_of(rng.random((8, features))), np.empty(matrix.nnz)
    ours, loop = milliseconds(_mixed, *given), milliseconds(_mixed_in_a_loop, *given)
    yield row("eight_products", "8, float64", ours, "a loop", loop)


def run() -> None:
    """Print the table."""
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|")
    for line in _rows():
        print(line, flush=True)
