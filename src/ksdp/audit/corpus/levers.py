"""Levers of a corpus as numbers: which columns stay, what becomes of them, and the way back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import canonical, clip_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.numeric.array_types import Floats

_ORTHONORMAL = 1e-6


@dataclass(frozen=True, eq=False)
class Levers:
    """The levers of a spec for a corpus of known columns; None: unchanged."""

    columns: NDArray[np.int64] | None = None
    """Columns that stay, in their new order."""
    idf: Floats | None = None
    """Public weights of the columns that stay."""
    centre: Floats | None = None
    scale: Floats | None = None
    """Public units of the columns that stay: they become (x - centre) / scale."""
    basis: Floats | None = None
    """Shape (n_columns, r), columns orthonormal."""
    clip: float | None = None

    def __post_init__(self) -> None:
        if self.basis is not None:
            gram = self.basis.T @ self.basis
            if not np.allclose(gram, np.eye(len(gram)), atol=_ORTHONORMAL):
                raise SpecError(
                    "`corpus.levers.basis` must have orthonormal columns, one row a column that is left."
                )


NONE = Levers()


def most_frequent(frequency: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Columns that most documents hold, in their order; of equally frequent ones the first."""
    return np.sort(np.argsort(-frequency, kind="stable")[:count]).astype(np.int64)


def narrowed(matrix: sp.csr_array, levers: Levers) -> sp.csr_array:
    """The rows before weighting: columns are chosen and put into public units."""
    if levers.columns is not None:
        matrix = canonical(sp.csr_array(matrix[:, levers.columns]), keep_zeros=True)
    if levers.centre is not None and levers.scale is not None:
        matrix = canonical(sp.csr_array((matrix.toarray() - levers.centre) / levers.scale))
    return matrix


def finished(matrix: sp.csr_array, levers: Levers) -> sp.csr_array:
    """The rows after weighting: multiplied by the public basis, and clipped."""
    if levers.basis is not None:
        if matrix.shape[1] != len(levers.basis):
            raise SpecError(
                f"`corpus.levers.basis` must have {matrix.shape[1]} rows, one a column that is left; it has "
                f"{len(levers.basis)}."
            )
        matrix = canonical(sp.csr_array(np.asarray(matrix @ levers.basis)))
    return matrix if levers.clip is None else clip_rows(matrix, levers.clip)


def lift(levers: Levers, features: int) -> sp.csr_array:
    """From columns of the corpus without levers to columns with them: X_levered is about X lift."""
    columns = np.arange(features) if levers.columns is None else levers.columns
    shape = (features, len(columns))
    matrix = sp.csr_array((np.ones(len(columns)), (columns, np.arange(len(columns)))), shape=shape)
    return matrix if levers.basis is None else sp.csr_array(matrix @ sp.csr_array(levers.basis))
