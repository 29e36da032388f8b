"""Symmetric matrices, and their upper triangles."""

from __future__ import annotations

import math

import numpy as np

from ksdp.audit.numeric.array_types import Floats

_ROOT = math.sqrt(2.0)


def symmetric(triangle: Floats) -> Floats:
    """The symmetric matrix of which this is the upper triangle, row by row."""
    size = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
    out, upper = np.zeros((size, size)), np.triu_indices(size)
    out[upper] = out.T[upper] = triangle
    return out


def isometric(matrix: Floats) -> Floats:
    """The upper triangle of a symmetric matrix, off the diagonal times sqrt(2): its length is the matrix's."""
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(np.where(rows == columns, 1.0, _ROOT) * matrix[rows, columns])


def of_isometric(triangle: Floats) -> Floats:
    """The symmetric matrix that `isometric` makes this of."""
    out = symmetric(triangle) / _ROOT
    out[np.diag_indices_from(out)] *= _ROOT
    return out
