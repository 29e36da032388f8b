"""Documents of the same content are one unknown: sums tell how many of them were in, and not which."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.sparse_rows import contents, contents_of
from ksdp.audit.statistics.term_numbers import TermNumbers


@dataclass(frozen=True, eq=False)
class Distinct:
    """What documents add, each content once."""

    made: TermNumbers
    """Of one document of each content."""
    shares: Floats
    """How many of its copies are expected to be in, shape (contents,)."""
    several: Floats
    """How many there are."""
    which: Ints
    """The content of every document, shape (n,)."""

    @property
    def bounds(self) -> Floats:
        """Between which parts lie: nobody is in, everybody; less what is expected, shape (2, contents)."""
        return np.stack([-self.shares, self.several - self.shares])

    def of_each(self, parts: Floats) -> Floats:
        """What its copies share of the parts of a content, shape (n,)."""
        return np.asarray((parts / self.several)[self.which])


def distinct(made: TermNumbers, shares: Floats, same: Ints | None = None) -> Distinct:
    """Documents that may be in, by their content.

    Parameters
    ----------
    shares : how likely each is in, shape (n,)
    same : a number that documents of the same content share, where somebody knows it, shape (n,)
    """
    places, which, several = contents(made.rows) if same is None else contents_of(same)
    return Distinct(
        made.of(places), np.bincount(which, shares).astype(np.float64), several.astype(np.float64), which
    )
