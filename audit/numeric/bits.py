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


def lost_digits(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much of each number single precision rounds away; 0 of what it cannot hold, of the same shape.

    >>> lost_digits(np.array([0.5, 1.0 + 2.0**-40, 1e300])).tolist() == [0.0, 2.0**-40, 0.0]
    True
    """
    with np.errstate(over="ignore", invalid="ignore"):
        lost = np.abs(numbers - numbers.astype(np.float32))
    return np.where(np.isfinite(lost), lost, 0.0)
