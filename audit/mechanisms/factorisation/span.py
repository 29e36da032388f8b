r"""The space that the blocks of all power iterations span, without iterating: what every round of PD-SVD shows.

Iteration t announces :math:`Y_t = S V_{t-1}`, each row divided by its norm, with :math:`V_t` its
orthonormalisation
and :math:`S = X^T X`. So :math:`Y_1, \dots, Y_t` span the Krylov space :math:`S V_0, \dots, S^t V_0`, of t times
the rank. Who sees all of them knows S on that space:

- :math:`V_{t-1}^T Y_t D_t = V_{t-1}^T S V_{t-1}` is symmetric, so that the hidden norms :math:`D_t` follow from
what
  is announced but for one factor (where no entry of the block vanishes), and successive blocks share directions;
- with plain sums in place of normed ones the factor is known as well.

All of that is the Ritz vectors of S on the space, and its Ritz values: up to one factor, or exactly.

On text the space of ten iterations shows what that of thirty does (`benchmarks/every_round.py`): later blocks have
converged, and turn no more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.mechanisms.factorisation.thin_products import times, transposed_times

ROUNDS = 10
"""Iterations whose blocks stand for those of all."""
DEPENDENT = 1e-10
"""A direction of a new block that is at most this part of the block's largest adds nothing; nor does a Ritz value
at most this part of the largest."""


@dataclass(frozen=True, eq=False)
class BlockSpan:
    """What the blocks of the first iterations span."""

    rows: Matrix
    """Ritz vectors, orthonormal, one a row, shape (rounds x rank, features); zeros where the space is smaller.
    Each has its largest entry positive."""
    values: Vector
    """Ritz values' square roots, descending: singular values, the leading ones converged; 0 for rows of zeros."""


def announced_span(matrix: sp.csr_array, start: Matrix, rounds: int, mean: Vector | None = None) -> BlockSpan:
    """The space spanned by the blocks of iterations 1 to `rounds`, in exact arithmetic.

    Parameters
    ----------
    matrix : CSR, shape (n, features)
        All parties' rows.
    start : shape (rank, features)
        V_0, which everybody knows; it is no part of the space.
    mean : shape (features,), optional
        Subtracted from every row, implicitly.

    Notes
    -----
    Block Lanczos with full orthogonalisation, on X X^T where X has fewer rows than columns: if U spans X V_0,
    ..., (X X^T)^(t-1) X V_0, then X^T U spans the blocks. Products with X cost 2 rank rounds + 2 rank rounds
    columns.

    Examples
    --------
    >>> X = sp.csr_array(np.diag([3.0, 2.0, 1.0, 0.0]))
    >>> span = announced_span(X, np.array([[1.0, 1.0, 0.0, 1.0]]), rounds=3)
    >>> np.abs(span.rows).round(6), span.values.round(6)
    (array([[1., 0., 0., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.]]), array([3., 2., 0.]))
    """
    wide = matrix.shape[0] < matrix.shape[1]
    shift = np.zeros(0) if mean is None else mean

    def forward(rows: Matrix) -> Matrix:
        image = times(matrix, rows)
        return image if mean is None else image - rows @ shift

    def backward(columns: Matrix) -> Matrix:
        rows = transposed_times(matrix, columns)
        return rows if mean is None else rows - np.outer(columns.sum(axis=0), shift)

    def step(block: Matrix) -> Matrix:
        return forward(backward(block)) if wide else backward(forward(block.T)).T

    basis, images = _krylov(forward(start) if wide else step(start.T), step, rounds)
    # The Gram matrix of the space's vectors (X^T U where U is on the side of the rows), and X^T X between them.
    form = basis.T @ images if wide else np.eye(basis.shape[1])
    image = images.T @ images if wide else basis.T @ images
    lengths, turn = np.linalg.eigh(form)
    kept = lengths > DEPENDENT * max(lengths[-1], 0.0) if len(lengths) else np.zeros(0, dtype=bool)
    root = turn[:, kept] / np.sqrt(lengths[kept])
    inside = root.T @ image @ root
    squares, axes = np.linalg.eigh((inside + inside.T) / 2)
    squares, axes = squares[::-1], axes[:, ::-1]
    turned = basis @ (root @ axes)
    found = backward(turned) if wide else np.ascontiguousarray(turned.T)
    found *= np.where(-found.min(axis=1) > found.max(axis=1), -1.0, 1.0)[:, None]
    missing = rounds * len(start) - len(found)
    values = np.pad(np.sqrt(np.maximum(squares, 0.0)), (0, missing))
    return BlockSpan(np.pad(found, ((0, missing), (0, 0))) if missing else found, values)


def _krylov(block: Matrix, step: Callable[[Matrix], Matrix], rounds: int) -> tuple[Matrix, Matrix]:
    """Orthonormal columns that span block, step(block), ..., `rounds` of them, and what `step` makes of each."""
    basis, images = np.zeros((len(block), 0)), np.zeros((len(block), 0))
    for _ in range(rounds):
        size = np.linalg.norm(block, axis=0).max(initial=0.0)
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        left, lengths, _ = np.linalg.svd(block, full_matrices=False)
        fresh = left[:, lengths > DEPENDENT * size]
        if not fresh.shape[1]:
            break
        block = step(fresh)
        basis, images = np.hstack((basis, fresh)), np.hstack((images, block))
    return basis, images
