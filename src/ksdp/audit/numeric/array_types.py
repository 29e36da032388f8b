"""Names of the arrays that annotations speak of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Elements of the ring of sums, or bits by 64."""
Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Matrix = Floats
"""An array of two dimensions."""
Vector = Floats
"""An array of one dimension."""
