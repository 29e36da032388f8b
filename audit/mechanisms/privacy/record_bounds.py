"""What one record can change at most: bounds on rows, kept and not assumed, and the pairs that reach them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database


def check_adjacency(adjacency: str) -> None:
    """Refuse anything but the two relations of neighbours."""
    if adjacency not in ("replace-one", "add-remove"):
        raise SpecError(f"`adjacency` must be 'replace-one' or 'add-remove'; got {adjacency!r}.")


def adjacency_words(adjacency: str) -> str:
    """For a report."""
    return "one record replaced by any other" if adjacency == "replace-one" else "one record added or removed"


def second_moment_change(bound: float, adjacency: str) -> float:
    """Largest Frobenius norm of the change of X^T X by one row of norm at most `bound`.

    ||x x^T||_F = bound^2 for a row that comes or goes; ||x x^T - y y^T||_F <= sqrt(2) bound^2 for one that is
    replaced (reached where x and y are orthogonal), because <x x^T, y y^T> = <x, y>^2 is never negative. For Z
    with orthonormal columns, or of spectral norm at most 1, ||D Z||_F <= ||D||_F.

    Examples
    --------
    >>> second_moment_change(2.0, "add-remove")
    4.0
    """
    return bound**2 * (math.sqrt(2) if adjacency == "replace-one" else 1.0)


def clip_rows(matrix: sp.csr_array, bound: float) -> sp.csr_array:
    """Scale the rows that are longer than `bound` down to it; the others stay as they are, to the last bit.

    Examples
    --------
    >>> clip_rows(sp.csr_array(np.array([[3.0, 4.0], [0.3, 0.0]])), 1.0).toarray()
    array([[0.6, 0.8],
           [0.3, 0. ]])
    """
    lengths = np.diff(matrix.indptr)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    norms = np.sqrt(np.bincount(owners, matrix.data**2, len(lengths)))
    if norms.size == 0 or norms.max() <= bound:
        return matrix
    # A little below the bound: rounding must not lift a row above it.
    scales = np.where(norms > bound, bound * (1 - 4e-16) / np.where(norms > 0, norms, 1.0), 1.0)
    return sp.csr_array((matrix.data * scales[owners], matrix.indices, matrix.indptr), shape=matrix.shape)


def worst_pair(
    features: int, rows: int, bound: float, adjacency: str, *, directions: Sequence[NDArray[np.float64]] = ()
) -> tuple[Database, Database]:
    """Two databases of one party, of the same size, that differ in their first row as much as they may.

    All rows have norm `bound` and lie along the first two unit vectors in turns, so that the leading subspace
    holds both and everything that the first row changes is announced. With `add-remove` the second database has
    zeros in the place of the row: sizes are public, and a row of zeros adds nothing to any sum.

    Parameters
    ----------
    features : int
        At least 2.
    rows : int
        At least 3: the first, and others.
    bound : float
        Norm of every row.
    adjacency : {"replace-one", "add-remove"}
    directions : two vectors, shape (features,), orthonormal
        In the place of the first two unit vectors.
    """
    first, second = directions if len(directions) else np.eye(features)[:2]
    base = bound * np.array([first, *(second if i % 2 else first for i in range(rows - 1))])
    other = base.copy()
    other[0] = bound * second if adjacency == "replace-one" else 0.0
    return Database((sp.csr_array(base),)), Database((sp.csr_array(other),))
