"""Statistics of any announced array, for mechanisms that say nothing of what their arrays mean.

An array with an axis as long as the corpus has features is read as vectors: components, centres, coefficients. Of
any other array nothing is known but its numbers: their sum and their length, which do not depend on the document,
but whose law does, where it leaks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from ksdp.audit.contract import Observables, Release
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Documents, TableStatistic
from ksdp.audit.statistics.products import row_squares

SENTENCES = {
    "projection": "How far the announced array {} reaches in the document’s direction, all vectors together.",
    "match": "How well the best-matching vector of the announced array {} fits the document.",
    "distance": "How near the announced array {} comes to the document.",
    "sum": "The sum of the announced array {}, the same for every document.",
    "size": "How large the numbers of the announced array {} are, the same for every document.",
}


@dataclass(frozen=True)
class _OfVectors:
    """A number of the document's inner products with all vectors of an array."""

    kind: Literal["projection", "match", "distance"]
    array: str
    features: int
    """Length of the axis that is the corpus's features; a label after them is not read."""

    def __call__(self, observables: Observables, documents: Documents) -> Floats:
        rows = self._rows(observables, documents.matrix.shape[1])
        key = ("vector products", self.array, documents)
        inner = cast(Floats, observables.derive(key, lambda: np.asarray(documents.matrix @ rows.T)))
        if self.kind == "projection":
            return row_squares(inner)
        if self.kind == "match":
            return cast(Floats, inner.max(axis=1))
        # Squared distance to the nearest, less the document's own squared length, which no run changes.
        return cast(Floats, (np.einsum("ij,ij->i", rows, rows) - 2 * inner).min(axis=1))

    def _rows(self, observables: Observables, width: int) -> Floats:
        """The array as vectors, shape (n_vectors, width); columns that are no features are 0."""

        def oriented() -> Floats:
            array = np.asarray(observables[self.array], dtype=np.float64)
            axis = max(at for at, length in enumerate(array.shape) if length == self.features)
            rows = np.moveaxis(array, axis, -1).reshape(-1, self.features)
            return np.pad(rows, ((0, 0), (0, width - self.features)))

        return observables.derive(("vectors", self.array, width), oriented)


@dataclass(frozen=True)
class _OfNumbers:
    """A number of the array itself, the same for every document of a run."""

    kind: Literal["sum", "size"]
    array: str

    def __call__(self, observables: Observables, documents: Documents) -> Floats:
        numbers = np.asarray(observables[self.array], np.float64)
        return np.full(len(documents), float(np.linalg.norm(numbers) if self.kind == "size" else np.sum(numbers)))


def statistics_of_arrays(shapes: Iterable[Release], features: int) -> tuple[TableStatistic, ...]:
    """The statistics that look at these arrays; every array is read by one at least."""
    rows: list[TableStatistic] = []
    for array in shapes:
        scores: list[_OfVectors | _OfNumbers] = []
        if features in array.shape:
            scores += [
                _OfVectors("projection", array.name, features),
                _OfVectors("match", array.name, features),
                _OfVectors("distance", array.name, features),
            ]
        else:
            scores.append(_OfNumbers("sum", array.name))
            if int(np.prod(array.shape)) > 1:
                scores.append(_OfNumbers("size", array.name))
        for score in scores:
            sentence = SENTENCES[score.kind].format(array.name)
            rows.append(TableStatistic(f"{score.kind}:{array.name}", "arrays", score, sentence, (array.name,)))
    return tuple(rows)
