"""Documents learnt from and documents held out, and parties of a size among those learnt from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError


@dataclass(frozen=True, eq=False)
class Parts:
    """One random split: row numbers."""

    learn: NDArray[np.intp]
    test: NDArray[np.intp]
    rng: np.random.Generator


def splits(rows: int, held_out: float, count: int, seed: int) -> Iterator[Parts]:
    """Random splits, each with a generator of its own."""
    for rng in np.random.default_rng(seed).spawn(count):
        order = rng.permutation(rows)
        test = round(held_out * rows)
        yield Parts(order[test:], order[:test], rng)


def parties_of_size(rows: sp.csr_array, learn: NDArray[np.intp], share: float, most: int) -> list[sp.csr_array]:
    """Disjoint parties of a share of all rows, as many as there are and at most `most`.

    Raises
    ------
    SpecError
        If not even one fits into what is learnt from.
    """
    size = round(share * rows.shape[0])
    count = min(most, len(learn) // size if size else 0)
    if count < 1:
        raise SpecError(f"`share` must leave rows to hold out, and have at least one; got {share:g}.")
    return [sp.csr_array(rows[np.sort(learn[i * size : (i + 1) * size])]) for i in range(count)]
