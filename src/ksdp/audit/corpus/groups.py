"""Units: what is in or out of a database as a whole. Documents, or groups of all documents of one person.

A design draws units; this module says which rows of the corpus they are, and what an adversary who suspects a
whole group knows of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import Corpus, canonical, restrict, unit_rows
from ksdp.audit.errors import SpecError

Rows = NDArray[np.int64]
Unit = Literal["document", "group"]

GROUPS_AUDITED = (
    "Groups were audited: all documents of one person, in or out together. Numbers here are of groups, and what "
    "is said of a document is said of its whole group; the list names the groups' documents, each of which may be "
    "used together with the rest of its group only."
)
"""A sentence that a clearance adds if groups were audited."""

_UNIT_LENGTH = 1e-6
"""Rows whose norms are all within this of 1 are taken for normalised ones."""


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a corpus, numbered from 0."""

    ids: NDArray[np.str_]
    """Document ids, or group names in sorted order, shape (n_units,)."""
    matrix: sp.csr_array
    """One row a unit: the document, or the sum of the group's documents, of length 1 where all of theirs are."""
    order: Rows | None = None
    """Rows of the corpus, unit after unit; None where every unit is the document of its own number."""
    starts: Rows | None = None
    """Where each unit begins in `order`, and its end, shape (n_units + 1,)."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def word(self) -> Unit:
        """Word for one unit."""
        return "document" if self.order is None else "group"

    @cached_property
    def sizes(self) -> Rows:
        """Documents in each unit, shape (n_units,)."""
        return np.ones(len(self), dtype=np.int64) if self.starts is None else np.diff(self.starts)

    def rows(self, units: Rows) -> Rows:
        """Rows of the corpus that make up some units, sorted."""
        return units if self.order is None else np.sort(self.members(units)[0])

    def members(self, units: Rows) -> tuple[Rows, Rows]:
        """Rows of the corpus, unit after unit, and where each unit begins, shapes (n_rows,) and (n + 1,)."""
        if self.order is None or self.starts is None:
            return units, np.arange(len(units) + 1)
        sizes = self.sizes[units]
        begins = np.concatenate(([0], np.cumsum(sizes)))
        places = np.repeat(self.starts[units] - begins[:-1], sizes) + np.arange(begins[-1])
        return self.order[places], begins


def unit_names(corpus: Corpus, unit: Unit) -> NDArray[np.str_]:
    """The name of the unit that each document belongs to, shape (n_documents,)."""
    if unit == "document":
        return corpus.ids
    if corpus.group is None:
        raise SpecError(
            "`design.unit` group needs groups: set `corpus.group` to the column that names the person."
        )
    return corpus.group


def documents_of(corpus: Corpus, unit: Unit, names: Iterable[str]) -> list[str]:
    """Ids of the documents of some units, in the corpus's order: the documents, or all that some groups hold."""
    return [str(name) for name in corpus.ids[np.isin(unit_names(corpus, unit), list(names))]]


def restrict_to(corpus: Corpus, unit: Unit, names: Iterable[str]) -> Corpus:
    """The documents of some units alone, in the corpus's order."""
    return restrict(corpus, np.flatnonzero(np.isin(unit_names(corpus, unit), list(names))))


def unit_count(corpus: Corpus, unit: Unit) -> int:
    """Units of a corpus: what sizes given as fractions refer to."""
    names = unit_names(corpus, unit)
    return len(names) if unit == "document" else len(np.unique(names))


def make_units(corpus: Corpus, unit: Unit) -> Units:
    """The units of a corpus."""
    if unit == "document":
        return Units(corpus.ids, corpus.matrix)
    names, member = np.unique(unit_names(corpus, unit), return_inverse=True)
    order = np.argsort(member, kind="stable").astype(np.int64)
    starts = np.concatenate(([0], np.cumsum(np.bincount(member, minlength=len(names))))).astype(np.int64)
    which = sp.csr_array((np.ones(len(corpus)), order, starts), shape=(len(names), len(corpus)))
    sums = canonical(sp.csr_array(which @ corpus.matrix), keep_zeros=True)
    squares = np.asarray(corpus.matrix.multiply(corpus.matrix).sum(axis=1)).ravel()
    normalised = bool((np.abs(np.sqrt(squares) - 1.0) <= _UNIT_LENGTH).all())
    return Units(names, unit_rows(sums) if normalised else sums, order, starts)
