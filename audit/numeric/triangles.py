"""Symmetric matrices, from their upper triangles."""

from __future__ import annotations

import math

import numpy as np

from ksdp.audit.numeric.array_types import Floats


def symmetric(triangle: Floats) -> Floats:
    """The symmetric matrix of which this is the upper triangle, row by row."""
    size = (math.isqrt(8 * len(triangle) + 1) - 1) // 2
    out, upper = np.zeros((size, size)), np.triu_indices(size)
    out[upper] = out.T[upper] = triangle
    return out
