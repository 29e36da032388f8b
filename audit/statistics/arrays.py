"""Statistics of any announced array: for mechanisms that say nothing of what their arrays mean.

An array with an axis as long as the corpus has features is read as vectors among the documents: components,
centres, coefficients. Of any other array nothing is known but its numbers: their sum and their length, which do
not depend on the document, but whose law does, where it leaks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Announced, Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import row_squares

FAMILY = "arrays"


def statistics_of_arrays(shapes: Iterable[Announced], features: int) -> tuple[Statistic, ...]:
    """The statistics that look at these arrays; every array is read by one at least.

    Examples
    --------
    >>> made = statistics_of_arrays([Announced("centres", (3, 5)), Announced("offset", (3,))], 5)
    >>> [statistic.name for statistic in made]
    ['projection:centres', 'match:centres', 'distance:centres', 'sum:offset', 'size:offset']
    """
    made: list[Statistic] = []
    for array in shapes:
        needs = (array.name,)
        if features in array.shape:
            for kind in (ArrayProjection, ArrayMatch, ArrayDistance):
                made.append(kind(f"{kind.word}:{array.name}", needs, features))
        else:
            made.append(ArraySum(f"sum:{array.name}", needs))
            if int(np.prod(array.shape)) > 1:
                made.append(ArraySize(f"size:{array.name}", needs))
    return tuple(made)


@dataclass(frozen=True)
class _Vectors:
    """What the statistics of vectors share."""

    name: str
    needs: tuple[str, ...]
    features: int
    """Length of the axis that is the corpus's features; a label after them is not read."""
    version: int = 1
    family: str = FAMILY

    def _rows(self, observables: Observables, width: int) -> Floats:
        """The array as vectors, shape (n_vectors, n_columns); columns that are no features are 0."""

        def oriented() -> Floats:
            array = np.asarray(observables[self.needs[0]], dtype=np.float64)
            axis = max(at for at, length in enumerate(array.shape) if length == self.features)
            rows = np.moveaxis(array, axis, -1).reshape(-1, self.features)
            return np.pad(rows, ((0, 0), (0, width - self.features)))

        return cast(Floats, observables.derive(("vectors", self.needs[0], width), oriented))

    def _products(self, observables: Observables, documents: Documents) -> Floats:
        """Inner products, shape (n_documents, n_vectors)."""
        rows = self._rows(observables, documents.matrix.shape[1])
        key = ("vector products", self.needs[0], documents)
        return cast(Floats, observables.derive(key, lambda: np.asarray(documents.matrix @ rows.T)))


@dataclass(frozen=True)
class ArrayProjection(_Vectors):
    """Sum of the squared inner products with all vectors."""

    word = "projection"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return row_squares(self._products(observables, documents))


@dataclass(frozen=True)
class ArrayMatch(_Vectors):
    """The largest inner product with a vector: a score, where vectors are coefficients."""

    word = "match"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return cast(Floats, self._products(observables, documents).max(axis=1))


@dataclass(frozen=True)
class ArrayDistance(_Vectors):
    """Squared distance to the nearest vector, less the document's own squared length, which no run changes."""

    word = "distance"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        rows = self._rows(observables, documents.matrix.shape[1])
        own = np.einsum("ij,ij->i", rows, rows)
        return cast(Floats, (own - 2 * self._products(observables, documents)).min(axis=1))


@dataclass(frozen=True)
class _OneNumber(ABC):
    """A number of the array: the same for every document of a run."""

    name: str
    needs: tuple[str, ...]
    version: int = 1
    family: str = FAMILY

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return np.full(len(documents), self._number(np.asarray(observables[self.needs[0]])))

    @abstractmethod
    def _number(self, array: NDArray[Any]) -> float: ...


@dataclass(frozen=True)
class ArraySum(_OneNumber):
    """Sum of the array's numbers."""

    def _number(self, array: NDArray[Any]) -> float:
        return float(np.sum(array, dtype=np.float64))


@dataclass(frozen=True)
class ArraySize(_OneNumber):
    """Euclidean length of the array's numbers."""

    def _number(self, array: NDArray[Any]) -> float:
        return float(np.linalg.norm(np.asarray(array, np.float64)))
