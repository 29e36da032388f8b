"""Rows that are taken, against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.csr_rows import take_rows


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_are_those_that_scipy_takes(index: Any) -> None:
    matrix = sp.csr_array(sp.random_array((30, 12), density=0.2, rng=np.random.default_rng(0)))
    matrix.indptr, matrix.indices = matrix.indptr.astype(index), matrix.indices.astype(index)
    for rows in ([], [3], [29, 0, 0, 7], list(range(30))):
        found = take_rows(matrix, np.array(rows, dtype=np.int64))
        wanted = matrix[np.array(rows, dtype=np.int64)]
        assert (found.toarray() == wanted.toarray()).all()
        assert found.shape == wanted.shape
        assert (found.indices.dtype, found.data.dtype) == (matrix.indices.dtype, matrix.data.dtype)
        assert found.has_canonical_format


@pytest.mark.parametrize("row", [-1, 30])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    matrix = sp.csr_array(np.eye(30))
    with pytest.raises(IndexError, match="rows must be from 0 to 29"):
        take_rows(matrix, np.array([0, row]))
