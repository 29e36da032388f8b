"""What single documents add to a sum that a run's announcement was solved from, and the filter for one of them.

Where an announced basis B is a stationary point, every document of the run had its part in a sum of terms
w^T e, w its k coefficients and e what B leaves of it. Over databases the sum varies by who is in: its covariance
is that of a single document's term over all documents, times a number. To tell whether x is in is to look for a
known term in noise of known covariance C, which <C^-1 (w_x^T e_x), sum> does best among linear tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import ssymv
from scipy.linalg.lapack import dpotri

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import one_thread

MOST_ENTRIES = 4096
"""Entries of a sum whose whole covariance is looked at; of larger sums, the variance of each."""
SHRINK = 0.01
"""Part of the mean variance that is added to every one."""
ROWS_PER_ENTRY = 6
"""Documents looked at for a covariance, at most, by its size."""
_PART = 1024


def at_even_steps(rows: sp.csr_array, most: int) -> sp.csr_array:
    """Every so many of the rows, `most` at most."""
    step = even_step(rows.shape[0], most)
    return rows if step <= 1 else sp.csr_array(rows[::step])


def even_step(rows: int, most: int) -> int:
    """Of how many rows one is looked at, so that these are `most` at most."""
    return max(-(-rows // most), 1)


@dataclass(frozen=True, eq=False)
class Additions:
    """The terms of many documents, by their coefficients."""

    rows: sp.csr_array
    """Documents, shape (n, d)."""
    weights: Floats
    """Their coefficients, shape (n, k)."""
    basis: Floats
    """What is left of a document is x - mean - w B, shape (k, d)."""
    mean: Floats
    """Zeros where nothing is subtracted, shape (d,)."""

    def filtered(self, total: Floats) -> Floats:
        """A sum by the inverse of its covariance, up to one factor; shape (k, d)."""
        if total.size > MOST_ENTRIES:
            return total / self._variances
        scale = float(np.abs(total).max()) or 1.0
        terms = (total / scale).astype(np.float32).ravel()
        solved = ssymv(1.0, self._inverse, terms)
        return np.asarray(solved.reshape(total.shape).astype(np.float64) * scale)

    def _terms(self, step: int) -> Any:
        """Coefficients and what is left, of some documents after others, written out."""
        for start in range(0, len(self.weights), step * _PART):
            part = slice(start, start + step * _PART, step)
            weights = self.weights[part]
            yield weights, self.rows[part].toarray() - self.mean - weights @ self.basis

    @cached_property
    def _inverse(self) -> NDArray[np.float32]:
        """Of the covariance of w^T e, a coefficient after the other: its upper triangle.

        A product with it reads half of what two triangular solutions would, and no number waits for another.
        """
        with one_thread():
            return self._inverted()

    def _inverted(self) -> NDArray[np.float32]:
        entries = self.basis.size
        step = max(1, len(self.weights) // (ROWS_PER_ENTRY * entries))
        covariance, total, count = np.zeros((entries, entries)), np.zeros(entries), 0
        for weights, left in self._terms(step):
            terms = (weights[:, :, None] * left[:, None, :]).reshape(-1, entries)
            covariance += terms.T @ terms
            total += terms.sum(axis=0)
            count += len(terms)
        rounding = _ROUNDING * covariance.trace()
        covariance -= np.outer(total, total) / max(count, 1)
        # Where all documents are the same, rounding is all that is left.
        covariance[np.diag_indices_from(covariance)] += max(_shrunk(covariance.trace() / entries), rounding)
        covariance /= float(covariance.diagonal().max())
        factor, _ = cast(Any, scipy.linalg.cho_factor(covariance, overwrite_a=True, check_finite=False))
        inverse, _ = dpotri(factor, lower=0, overwrite_c=True)
        return np.asfortranarray(inverse, dtype=np.float32)  # read once a run, and half as long

    @cached_property
    def _variances(self) -> Floats:
        """Second moments of the entries of w^T e, which are little more than variances; shape (k, d).

        Sums over the documents of w_r^2 (x - a^T A)^2, A the mean above the basis and a = (1, w), are multiplied
        out: x is read where it has entries, and what does not depend on x is a quadratic form in A.
        """
        with one_thread():
            known = np.vstack([self.mean, self.basis])
            parts = np.column_stack([np.ones(len(self.weights)), self.weights])
            squares = np.square(self.weights)
            plain = sp.csr_array((np.square(self.rows.data), self.rows.indices, self.rows.indptr), self.rows.shape)
            whole = np.ascontiguousarray((plain.T @ squares).T)
            found = np.empty(self.basis.shape)
            for r in range(len(found)):
                weighed = squares[:, r, None] * parts
                less = (parts.T @ weighed) @ known - 2.0 * (self.rows.T @ weighed).T
                found[r] = whole[r] + (known * less).sum(axis=0)
            # Where the basis explains documents wholly, rounding is all that is left.
            rounding = _ROUNDING * whole.mean(axis=1, keepdims=True)
            found = np.maximum(found, 0.0)
            return np.asarray(found + np.maximum(_shrunk(found.mean(axis=1, keepdims=True)), rounding))


_ROUNDING = 2.0**-44
"""Of sums of squares, times what is added: below, a covariance is not positive definite."""


def _shrunk(mean: Any) -> Any:
    return np.maximum(SHRINK * mean, np.finfo(np.float64).tiny)
