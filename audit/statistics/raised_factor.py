"""Cholesky's factor of a matrix that rounding may leave without one: its diagonal is raised until there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.linalg

from ksdp.audit.array_types import Floats

_TRIES = 8
_MORE = 64.0


def raised_factor(matrix: Floats, diagonal: Callable[[float], Floats], *, check_finite: bool = True) -> Any:
    """The factor, as `scipy.linalg.cho_solve` takes it; that of 1 where no raising helps: each by itself.

    Parameters
    ----------
    matrix : symmetric, shape (n, n)
        Its diagonal is overwritten.
    diagonal : the diagonal, shape (n,), given by how much its usual raise is multiplied: 1 first, then more
    """
    places, times = np.diag_indices_from(matrix), 1.0
    for _ in range(_TRIES):
        matrix[places] = diagonal(times)
        try:
            return cast(Any, scipy.linalg.cho_factor(matrix, check_finite=check_finite))
        except scipy.linalg.LinAlgError:
            times *= _MORE
    return cast(Any, scipy.linalg.cho_factor(np.eye(len(matrix)), check_finite=False))
