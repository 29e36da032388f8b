"""Matched filters of large corpora by conjugate gradients: one pass over the documents a step.

A step multiplies a direction by the covariance of all terms: each document's product with the direction, less the
mean of these, times the document's term. Both halves are done while its entries are at hand. A few steps are taken
in single precision, whose rounding shows in later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import add_row_to_panel, lined, panel_of, row_times_panel
from ksdp.audit.statistics.term_numbers import TermNumbers

SINGLE = 24
"""Steps, at most, in single precision: D of 20 is the same to 0.005, of 40 smaller by 0.01 to 0.02."""


def by_steps(times: Callable[[Any], Any], apart: Any, steps: int) -> Any:
    """Conjugate gradients for `times`(x) = apart from zero, this many steps, in the precision of `apart`."""
    solution, left, direction = np.zeros_like(apart), apart.copy(), apart.copy()
    size = float(left @ left)
    for _ in range(steps):
        if not size > 0.0:
            break
        image = times(direction)
        bent = float(direction @ image)
        if bent == 0.0:  # there already: what is left is too small to be squared
            break
        length = apart.dtype.type(size / bent)
        _moved(solution, left, direction, image, length)
        before, size = size, float(left @ left)
        _turned(direction, left, apart.dtype.type(size / before))
    return solution


@njit(cache=True, nogil=True)
def _moved(solution: Any, left: Any, direction: Any, image: Any, length: Any) -> None:
    """One way along a direction, in one pass: solution += length direction, left -= length image."""
    for i in range(len(left)):
        solution[i] += length * direction[i]
        left[i] -= length * image[i]


@njit(cache=True, nogil=True)
def _turned(direction: Any, left: Any, part: Any) -> None:
    """direction = left + part direction."""
    for i in range(len(left)):
        direction[i] = part * direction[i] + left[i]


def approached(made: TermNumbers, apart: Floats, ridge: Floats, steps: int) -> Floats:
    """About C^-1 apart, C the sum of (a - mean) (a - mean)^T over the documents, and `ridge`; shape (entries,).

    Every entry is measured in its own deviation, which preconditions, and keeps numbers near 1.

    Parameters
    ----------
    ridge : shape (entries,)
        Added to the variances, positive.
    """
    scale = 1.0 / np.sqrt(made.variances + ridge)
    right = apart * scale
    length = float(np.linalg.norm(right))
    if not length > 0.0:
        return np.zeros_like(apart)
    covariance = _Covariance(made, scale, ridge, np.float32 if steps <= SINGLE else np.float64)
    found = by_steps(covariance.times, covariance.laid(right / length), steps)
    return covariance.written(found) * (length * scale)


class _Covariance:
    """C, as it acts on vectors of entries in units of their deviations, feature after feature."""

    def __init__(self, made: TermNumbers, scale: Floats, ridge: Floats, precision: Any) -> None:
        self._made, self._precision = made, precision
        self._csr = made.rows.indptr, made.rows.indices, np.asarray(made.rows.data, precision)
        self._numbers, self._scalars = made.numbers.astype(precision), made.scalars.astype(precision)
        self._basis, self._weights = made.basis.astype(precision), panel_of(made.weights.T, precision)
        self._taken = np.zeros((len(made.taken), self._weights.shape[1]), precision)
        self._taken[:, : made.taken.shape[1]] = made.taken
        self._scale, self._ridge = self.laid(scale), self.laid(ridge * np.square(scale))
        self._mean = self.laid(made.mean * scale)
        self._scaled, self._image = (lined(self._mean.shape, precision) for _ in range(2))
        self._less = np.empty((made.rows.shape[1], self._weights.shape[1]), precision)

    def laid(self, entries: Floats) -> Any:
        """Entries as a panel, a feature's rows side by side, then the single numbers."""
        rows, single = self._made.apart(entries)
        panel = panel_of(rows, self._precision).ravel()
        laid = lined((len(panel) + len(single),), self._precision)
        laid[: len(panel)], laid[len(panel) :] = panel, single
        return laid

    def written(self, laid: Any) -> Floats:
        """One row of the sums after the other."""
        panel, single = self._parts(laid.astype(np.float64))
        return np.concatenate([panel[:, : self._made.weights.shape[1]].T.ravel(), single])

    def _parts(self, laid: Any) -> tuple[Any, Any]:
        wide = self._made.rows.shape[1] * self._weights.shape[1]
        return laid[:wide].reshape(-1, self._weights.shape[1]), laid[wide:]

    def times(self, direction: Any) -> Any:
        """C direction."""
        np.multiply(direction, self._scale, out=self._scaled)
        panel, single = self._parts(self._scaled)
        form = self._taken * (self._basis @ panel)
        image = self._image  # read before the next one is asked for
        image.fill(0)
        across, alone = self._parts(image)
        apart = np.empty(len(self._numbers), self._precision)
        arrays = (self._numbers, self._weights, self._scalars)
        _pass(self._csr, arrays, (panel, form, single), self._mean @ direction, apart, across)
        form = self._taken * (self._numbers.T @ (self._weights * apart[:, None]))
        np.matmul(self._basis.T, form, out=self._less)
        alone += apart @ self._scalars
        _scaled_back(image, self._less.ravel(), self._scale, self._ridge, direction)
        return image


@njit(cache=True, nogil=True)
def _scaled_back(image: Any, less: Any, scale: Any, ridge: Any, direction: Any) -> None:
    """image = (image - less) scale + ridge direction; nothing is subtracted from what is beyond `less`."""
    for i in range(len(less)):
        image[i] = (image[i] - less[i]) * scale[i] + ridge[i] * direction[i]
    for i in range(len(less), len(image)):
        image[i] = image[i] * scale[i] + ridge[i] * direction[i]


@njit(cache=True, nogil=True)
def _pass(csr: Any, arrays: Any, direction: Any, mean: Any, apart: Any, across: Any) -> None:
    """Every document's product with a direction less `mean` into `apart`; its entries times that into `across`."""
    (indptr, indices, data), (numbers, weights, scalars), (panel, form, single) = csr, arrays, direction
    every = np.arange(numbers.shape[1])
    sums, less = np.empty(panel.shape[1], panel.dtype), np.empty(panel.shape[1], panel.dtype)
    for i in range(len(apart)):
        row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], sums)
        row_times_panel(every, numbers[i], form, 0, numbers.shape[1], less)
        total = -mean
        for r in range(len(sums)):
            total += weights[i, r] * (sums[r] - less[r])
        for s in range(len(single)):
            total += scalars[i, s] * single[s]
        apart[i] = total
        for r in range(len(sums)):
            sums[r] = total * weights[i, r]
        add_row_to_panel(indices, data, indptr[i], indptr[i + 1], sums, across)
