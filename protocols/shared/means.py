"""The mean of all parties' rows, on shares of their column sums and numbers of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.protocols.shared.arithmetic import FRACTION, Local, SharedArithmetic, reals
from ksdp.protocols.shared.field import PRIME, Integers
from ksdp.protocols.shared.matrices import reciprocal
from ksdp.protocols.shared.steps import SCALE_FRACTION, SCALE_GROWTH

SUM_BITS = 32
"""Fraction bits of what is entered."""
MOST_ROWS = 1 << 17
"""Of one party; 64 parties have at most 2^23, and `reciprocal` reaches to 2^-24."""
_OUT = 40


async def mean_of(runtime: Any, entered: Integers, parties: int, largest: float) -> dict[str, NDArray[np.float64]]:
    """One computing party's side.

    Parameters
    ----------
    entered : shares, shape (features + 1,)
        Column sums, then rows, at `SUM_BITS`.
    largest : float
        No column sum of all parties is larger.
    """
    shares = SharedArithmetic(runtime)
    most = (parties * MOST_ROWS - 1).bit_length()
    inverse = await reciprocal(shares, entered[-1:] * (1 << (FRACTION - SUM_BITS - most)) % PRIME)
    bits = SUM_BITS + math.ceil(math.log2(largest)) + SCALE_FRACTION + SCALE_GROWTH + 1
    (mean,) = await shares.rounded(Local(entered[:-1] * inverse, bits, SUM_BITS + SCALE_FRACTION + most - _OUT))
    return {"mean": reals(await shares.opened(mean), _OUT)}
