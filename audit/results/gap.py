"""Where two arms' distribution functions are farthest apart: what D measures, and its place in a picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Gap:
    """The widest gap between the two curves."""

    place: float
    """The value at which they are farthest apart; the first of equals."""
    share_with: float
    """Share of the runs with the document at or below it."""
    share_without: float

    @property
    def distance(self) -> float:
        """D."""
        return abs(self.share_with - self.share_without)


def widest_gap(with_values: NDArray[np.floating], without_values: NDArray[np.floating]) -> Gap | None:
    """The widest gap between the distribution functions of two arms; None where one is empty.

    Parameters
    ----------
    with_values, without_values : shape (runs,)
        In any order.

    Examples
    --------
    >>> widest_gap(np.array([2.0, 3.0]), np.array([1.0, 2.0]))
    Gap(place=1.0, share_with=0.0, share_without=0.5)
    """
    if not len(with_values) or not len(without_values):
        return None
    places = np.unique(np.concatenate([with_values, without_values]))
    one = np.searchsorted(np.sort(with_values), places, side="right") / len(with_values)
    other = np.searchsorted(np.sort(without_values), places, side="right") / len(without_values)
    best = int(np.argmax(np.abs(one - other)))
    return Gap(float(places[best]), float(one[best]), float(other[best]))
