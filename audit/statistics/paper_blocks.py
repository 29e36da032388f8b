"""The paper's statistics for PD-SVD (PD-ML-Lite, section 5.2) without a closed form: by blocks, exact, expensive.

W and D are those of `paper_svd`. Outside the document's support x x^T is zero, so W lives on the m x m block of
the support, and D differs from the document-independent S_hat / |S_hat|_F on that block only:

- sum of W: sum over the block of |S_ab x_a x_b|;
- sum of D: the sum of |S_ab| / |S|_F over all of d x d, once a run (row blocks, O(d^2 k)), plus, over the block,
  |S_ab / |S|_F - x_a x_b / |x|| - |S_ab| / |S|_F;
- maximum of D, over three kinds of pairs. Both in the support: the block. Both outside: S_hat restricted there is
  positive semi-definite, so its largest entry is on its diagonal, max_b S_bb. One in (a), one out (b): |S_ab| <=
  sqrt(S_aa S_bb), so that a row a is looked at only while this bound, with b taken by falling S_bb, exceeds
  the maximum so far; the rest cannot change it.

The time is that of sum m^2 k over the documents, plus d^2 k: on mail some ten times that of all closed forms
together. With a mean (PCA), where x - mu has no zeros, it is n d^2 k: for tables of some hundred columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import announced, centred_squared_norms, csr_arrays, has_mean
from ksdp.audit.statistics.scatter_estimate import feature_diagonal, scatter_norm, spectrum
from ksdp.audit.statistics.svd_form import SvdForm

Ints = NDArray[Any]

_ROWS = 256
"""Rows of S_hat held at a time for its total."""
_ENTRIES = 2_000_000
"""Entries of centred documents held at a time."""


@njit(cache=True, nogil=True)
def _within(
    data: Floats, own: Floats, block: Floats, inverse: float, scale: float, scratch: Floats
) -> tuple[float, float, float]:
    """Sum of W, sum of D less its part of the total, and maximum of D, over the features of one document.

    `own` is the diagonal of S_hat and `block` the rows of `features` there, turned. Per-column partial sums
    instead of one running sum let the compiler vectorise without reordering.
    """
    m, rank = len(data), block.shape[0]
    entries, sizes, w_part, d_part, d_most = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    for b in range(m):
        sizes[b] = abs(data[b])
        w_part[b] = d_part[b] = d_most[b] = 0.0
    w_sum = d_sum = largest = 0.0
    for a in range(m):
        x = data[a]
        size = sizes[a]
        outer = x * inverse
        for b in range(a):
            entries[b] = block[0, a] * block[0, b]
        for t in range(1, rank):
            v = block[t, a]
            for b in range(a):
                entries[b] += v * block[t, b]
        for b in range(a):
            s = abs(entries[b])
            e = abs(entries[b] * scale - outer * data[b])
            w_part[b] += size * s
            d_part[b] += e - s * scale
            d_most[b] = e if e > d_most[b] else d_most[b]
        s = own[a]
        e = abs(s * scale - outer * x)
        w_sum += size * size * s
        d_sum += e - s * scale
        largest = max(largest, e)
    for b in range(m):
        w_sum += 2.0 * sizes[b] * w_part[b]
        d_sum += 2.0 * d_part[b]
        largest = max(largest, d_most[b])
    return w_sum, d_sum, largest


@njit(cache=True, nogil=True)
def _beyond(
    largest: float,
    indices: Ints,
    seen: Ints,
    row: int,
    features: Floats,
    diagonal: Floats,
    order: Ints,
    scale: float,
) -> float:
    """The maximum of D over entries with a feature outside of document `row`, or `largest` where that is larger.

    An entry of S_hat is at most the geometric mean of its two diagonal ones, which fall in `order`; `seen` says
    which features are the document's.
    """
    for f in order:
        if seen[f] != row:
            largest = max(largest, diagonal[f] * scale)
            break
    for f in indices:
        for g in order:
            if np.sqrt(diagonal[f] * diagonal[g]) * scale <= largest:
                break
            if seen[g] != row:
                s = 0.0
                for t in range(features.shape[1]):
                    s += features[f, t] * features[g, t]
                largest = max(largest, abs(s) * scale)
    return largest


@njit(cache=True, nogil=True)
def _passes(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    lengths: Floats,
    features: Floats,
    diagonal: Floats,
    order: Ints,
    norm: float,
) -> Floats:
    """Sum of W, sum of D less the total, and maximum of D, shape (n, 3).

    `features` is sqrt(lambda) V transposed (d x k), `diagonal` that of S_hat, `order` its features by falling
    diagonal.
    """
    rows, rank = indptr.shape[0] - 1, features.shape[1]
    scale = 1.0 / norm if norm > 0.0 else 0.0
    longest = 0
    for i in range(rows):
        longest = max(longest, indptr[i + 1] - indptr[i])
    block, own, scratch = np.empty((rank, longest)), np.empty(longest), np.empty((5, longest))
    seen = np.full(diagonal.shape[0], -1)
    out = np.empty((rows, 3))
    for i in range(rows):
        inside = indices[indptr[i] : indptr[i + 1]]
        for b, f in enumerate(inside):
            seen[f] = i
            own[b] = diagonal[f]
            for t in range(rank):
                block[t, b] = features[f, t]
        inverse = 1.0 / lengths[i] if lengths[i] > 0.0 else 0.0
        w_sum, d_sum, largest = _within(data[indptr[i] : indptr[i + 1]], own, block, inverse, scale, scratch)
        out[i, 0], out[i, 1] = w_sum, d_sum
        out[i, 2] = _beyond(largest, inside, seen, i, features, diagonal, order, scale)
    return out


def _total(features: Floats) -> float:
    """Sum over a, b of |S_ab| for S = F F^T, F (d x k), by row blocks of the upper triangle."""
    total = 0.0
    for at in range(0, len(features), _ROWS):
        rows = features[at : at + _ROWS]
        entries = rows @ features[at:].T
        np.abs(entries, out=entries)
        total += 2.0 * float(entries.sum()) - float(entries[:, : len(rows)].sum())
    return total


def _supports(observables: Observables, documents: Documents) -> Iterator[tuple[slice, Ints, Ints, Floats]]:
    """Documents as CSR arrays, whole, or in dense parts where they are centred."""
    matrix = documents.matrix
    if not has_mean(observables):
        yield slice(0, matrix.shape[0]), *csr_arrays(documents)
        return
    mean = announced(observables, "mean").ravel()
    n, d = matrix.shape
    step = max(1, _ENTRIES // d)
    for at in range(0, n, step):
        part = matrix[at : at + step].toarray() - mean
        indptr = np.arange(0, part.size + 1, d, dtype=matrix.indptr.dtype)
        indices = np.tile(np.arange(d, dtype=matrix.indices.dtype), len(part))
        yield slice(at, at + len(part)), indptr, indices, part.ravel()


def _all_forms(observables: Observables, documents: Documents, revealed: bool) -> Floats:
    """Sum of W, sum of D and maximum of D, shape (n, 3); one pass over the documents serves all three."""

    def compute() -> Floats:
        roots = np.sqrt(spectrum(observables, documents, revealed=revealed))
        features = np.ascontiguousarray((roots[:, None] * announced(observables, "V")).T)
        diagonal = feature_diagonal(observables, documents, revealed=revealed)
        order = np.argsort(-diagonal, kind="stable")
        norm = scatter_norm(observables, documents, revealed=revealed)
        lengths = np.sqrt(centred_squared_norms(observables, documents))
        out = np.empty((len(documents), 3))
        for part, indptr, indices, data in _supports(observables, documents):
            out[part] = _passes(indptr, indices, data, lengths[part], features, diagonal, order, norm)
        if norm > 0.0:
            out[:, 1] += _total(features) / norm
        return out

    return cast(Floats, observables.derive(("paper blocks", documents, revealed), compute))


_COLUMNS = {"w-sum": 0, "d-sum": 1, "d-max": 2}


@dataclass(frozen=True)
class Blocks(SvdForm):
    """Sum of W, or sum or maximum of D, with sigma hidden or revealed; exact, see the module for the cost."""

    form: Literal["w-sum", "d-sum", "d-max"]
    family: str = "paper-blocks"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,), >= 0."""
        return np.ascontiguousarray(_all_forms(observables, documents, self.revealed)[:, _COLUMNS[self.form]])


PAPER_BLOCKS: tuple[Statistic, ...] = tuple(
    Blocks(form, revealed) for revealed in (False, True) for form in ("w-sum", "d-sum", "d-max")
)
