"""What single precision and comparison do not see of numbers: last digits, and signs of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def minus_zeros(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Which numbers are -0.0, of the same shape.

    >>> minus_zeros(np.array([0.0, -0.0, -1.0])).tolist()
    [False, True, False]
    """
    return np.asarray((array == 0) & np.signbit(array))


def in_double(array: NDArray[Any]) -> bool:
    """Whether double precision holds every number of an array.

    >>> in_double(np.array([2**53, 5])), in_double(np.array([2**53 + 1])), in_double(np.array([0.1]))
    (True, False, True)
    """
    if array.dtype.kind in "iu":
        return not array.size or max(abs(int(array.min())), abs(int(array.max()))) <= 2**53
    return array.dtype.itemsize <= 8 or np.array_equal(array.astype(np.float64), array, equal_nan=True)


def lost_digits(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each number single precision rounds away; 0 of what it cannot hold, of the same shape.

    >>> lost_digits(np.array([0.5, 1.0 + 2.0**-40, 1e300])).tolist() == [0.0, 2.0**-40, 0.0]
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(numbers - numbers.astype(np.float32))
    return np.where(np.isfinite(lost), lost, 0.0)
