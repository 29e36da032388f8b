"""Products of a sparse matrix, and of its transpose, with a few vectors: what power iterations are made of.

Every entry is summed in the order of the matrix's entries, as SciPy does, in a third of its time (`kernels`).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix
from ksdp.audit.csr_rows import arrays_of
from ksdp.audit.kernels import add_rows_to_panel, csr_times_panel, lined, panel_of


def times(matrix: sp.csr_array, rows: Matrix) -> Matrix:
    """X B^T, shape (n, k), of a canonical CSR `matrix` X and `rows` B of shape (k, features).

    Examples
    --------
    >>> times(sp.csr_array(np.array([[2.0, 0.0], [0.0, 3.0]])), np.array([[1.0, 1.0]]))
    array([[2.],
           [3.]])
    """
    found = np.empty((matrix.shape[0], len(rows)))
    csr_times_panel(*arrays_of(matrix), panel_of(rows), found)
    return found


def transposed_times(matrix: sp.csr_array, columns: Matrix) -> Matrix:
    """(X^T C)^T, shape (k, features), of a canonical CSR `matrix` X and `columns` C of shape (n, k).

    Examples
    --------
    >>> transposed_times(sp.csr_array(np.array([[2.0, 0.0], [0.0, 3.0]])), np.array([[1.0], [1.0]]))
    array([[2., 3.]])
    """
    weights = panel_of(columns.T)
    sums = lined((matrix.shape[1], weights.shape[1]))
    add_rows_to_panel(*arrays_of(matrix), weights, sums)
    return np.ascontiguousarray(sums[:, : columns.shape[1]].T)
