"""What documents add to the sums of one run: what filters and solutions ask of it."""

from __future__ import annotations

from typing import Protocol

import scipy.sparse as sp

from ksdp.audit.array_types import Floats


class Additive(Protocol):
    """What documents add to the sums of one run, each by its own."""

    @property
    def rows(self) -> sp.csr_array:
        """Documents, shape (n, d), canonical."""
        ...

    @property
    def entries(self) -> int:
        """Numbers in the sums."""
        ...

    @property
    def work(self) -> int:
        """Multiplications of a sum and of products with all terms, about."""
        ...

    @property
    def variances(self) -> Floats:
        """Second moments of all entries, summed over documents, about; shape (entries,)."""
        ...

    def along(self, direction: Floats) -> Floats:
        """<a_i, direction> of every document, shape (n,); each by itself, to the last bit."""
        ...

    def summed(self, shares: Floats) -> Floats:
        """sum_i shares_i a_i, shape (entries,)."""
        ...

    def written(self) -> Floats:
        """All terms, shape (n, entries)."""
        ...
