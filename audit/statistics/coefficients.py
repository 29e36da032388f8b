"""What a learner looks at beside the other statistics: where the document lies in the announced space.

``coefficient-t`` is <x, B_t> / |B_t| for row t of the announced basis B (T or V), signed, with x - mu in place of
x where the run announces a mean. V comes with a fixed convention of signs. Alone a coefficient says little and is
not tested; together they are what a likelihood ratio is made of.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.products import BASES, basis_name, basis_products, gram

COEFFICIENTS = "coefficients"
"""The family; its columns are measured for learners and never tested on their own."""


@dataclass(frozen=True)
class Coefficient:
    """Signed length of the document's shadow on one row of the basis; exact up to rounding, O(nnz k) for all."""

    index: int
    """Row of the basis, from 0."""
    needs: tuple[str, ...]
    """The basis."""
    version: int = 1
    family: str = COEFFICIENTS

    @property
    def name(self) -> str:
        """`coefficient-1` for the first row."""
        return f"coefficient-{self.index + 1}"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """Shape (n_documents,)."""
        basis = basis_name(observables)
        shadows = basis_products(observables, documents)[:, self.index]
        length = float(np.sqrt(gram(observables, basis)[self.index, self.index]))
        return shadows / length if length > 0 else np.zeros_like(shadows)


def coefficients(rank: int, announced: Iterable[str]) -> tuple[Coefficient, ...]:
    """One statistic a row of the announced basis; none where there is no basis.

    Examples
    --------
    >>> [c.name for c in coefficients(2, ["V", "sigma"])]
    ['coefficient-1', 'coefficient-2']
    """
    seen = set(announced)
    basis = next((name for name in BASES if name in seen), None)
    return () if basis is None else tuple(Coefficient(t, (basis,)) for t in range(rank))
