"""What every round of a run shows, in single columns: no statistic is paid for once a round.

`span` is an orthonormal basis of all that the power iteration announced (`factorisation.span`), `sums` are the raw
sums of early rounds, first axis rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.geometry import SIGMA_FLOOR
from ksdp.audit.statistics.products import announced, csr_arrays, has_mean, row_squares, rows_times

__all__ = ["ROUNDS", "LargestScale", "RoundCount", "SpanEnergy", "SpanLeverage", "wide_products"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_LANES = 16


@njit(cache=True, nogil=True)
def _times(indptr: Any, indices: Any, data: Any, blocks: Singles, out: Singles) -> None:
    """X B^T in single precision, 16 rows of B at a time, which stay in registers; `blocks` is n x features x 16.

    A block of 16 columns of B^T fits in the cache where all of them together do not.
    """
    for block in range(blocks.shape[0]):
        columns = blocks[block]
        first = 16 * block
        for i in range(out.shape[0]):
            a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = np.float32(0.0)
            a8 = a9 = aa = ab = ac = ad = ae = af = np.float32(0.0)
            for at in range(indptr[i], indptr[i + 1]):
                x = np.float32(data[at])
                b = columns[indices[at]]
                a0 += x * b[0]
                a1 += x * b[1]
                a2 += x * b[2]
                a3 += x * b[3]
                a4 += x * b[4]
                a5 += x * b[5]
                a6 += x * b[6]
                a7 += x * b[7]
                a8 += x * b[8]
                a9 += x * b[9]
                aa += x * b[10]
                ab += x * b[11]
                ac += x * b[12]
                ad += x * b[13]
                ae += x * b[14]
                af += x * b[15]
            sums = (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, aa, ab, ac, ad, ae, af)
            for lane in range(min(16, out.shape[1] - first)):
                out[i, first + lane] = sums[lane]


def wide_products(documents: Documents, rows: Floats) -> Singles:
    """X B^T for a B of many rows, shape (n_documents, len(rows)), in single precision: half the time of double.

    Rounding is some 1e-7 of |x| |b|, as that of stored observables.
    """
    count = -(-max(len(rows), 1) // _LANES)
    padded = np.zeros((count * _LANES, rows.shape[1]), dtype=np.float32)
    padded[: len(rows)] = rows
    blocks = np.ascontiguousarray(padded.reshape(count, _LANES, -1).transpose(0, 2, 1))
    out = np.empty((len(documents), len(rows)), dtype=np.float32)
    _times(*csr_arrays(documents), blocks, out)
    return out


def _span_products(observables: Observables, documents: Documents) -> Floats:
    """Products of the documents with `span`, centred where the run announces a mean, shape (n, rows)."""

    def compute() -> Floats:
        rows = announced(observables, "span")
        found = wide_products(documents, rows)
        if has_mean(observables):
            found -= (rows @ announced(observables, "mean").ravel()).astype(np.float32)
        return cast(Floats, found)

    return cast(Floats, observables.derive(("span products", documents), compute))


@dataclass(frozen=True)
class SpanEnergy:
    """Energy of the document in the space that the announced blocks of all iterations span."""

    name: str = "span-energy"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("span",)
    reads: tuple[str, ...] = ("mean",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), between 0 and |x|^2."""
        return row_squares(_span_products(observables, documents))


@dataclass(frozen=True)
class SpanLeverage:
    """sum_t <x, s_t>^2 / sigma_t^2 over the Ritz vectors s_t of X^T X: leverage on what all blocks span.

    Where singular values are hidden they are known up to one factor, which is part of what is announced. A value
    counts as at least `SIGMA_FLOOR` times the largest.
    """

    name: str = "span-leverage"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("span", "span_sigma")
    reads: tuple[str, ...] = ("mean",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), >= 0."""
        sigma = announced(observables, "span_sigma")
        largest = sigma.max(initial=0.0)
        if largest == 0.0:
            return np.zeros(len(documents))
        weights = np.where(sigma > 0, 1.0 / np.maximum(sigma, SIGMA_FLOOR * largest) ** 2, 0.0)
        squares = np.square(_span_products(observables, documents))
        return rows_times(squares, weights)


@dataclass(frozen=True)
class RoundCount:
    """How many rounds the run took, where that depends on data: everybody sees when a protocol ends.

    The same number for every document.
    """

    name: str = "round-count"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ()
    needs_any: tuple[str, ...] = ("sweeps", "iterations")

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        name = next(name for name in self.needs_any if name in observables)
        return np.full(len(documents), float(announced(observables, name).ravel()[0]))


@dataclass(frozen=True)
class LargestScale:
    """The largest of the numbers that a server gets without noise. The same for every document."""

    name: str = "largest-scale"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("scales",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return np.full(len(documents), float(announced(observables, "scales").max()))


ROUNDS: tuple[Statistic, ...] = (
    LargestScale(),
    RoundCount(),
    RoundCount("init-round-count", needs_any=("init_sweeps",)),
    SpanEnergy(),
    SpanLeverage(),
)
"""What the entry point gives."""
