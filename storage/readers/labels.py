"""Who the documents are: ids, parties and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.spec import CorpusSpec
from ksdp.storage.readers.columns import Columns
from ksdp.storage.readers.files import Refused


@dataclass(frozen=True, eq=False)
class Labels:
    """One entry a row of the file, in its order."""

    ids: NDArray[np.str_]
    """Unique, shape (n_rows,)."""
    party: NDArray[np.str_] | None = None
    group: NDArray[np.str_] | None = None

    def take(self, rows: NDArray[np.intp]) -> Labels:
        """Return the labels of some rows."""
        party = None if self.party is None else self.party[rows]
        group = None if self.group is None else self.group[rows]
        return Labels(self.ids[rows], party, group)


def named_columns(spec: CorpusSpec) -> Sequence[str]:
    """Return the id, party and group columns that the spec names."""
    return [name for name in (spec.id, spec.party, spec.group) if name is not None]


def read_labels(spec: CorpusSpec, columns: Columns | None, rows: int) -> Labels:
    """Read ids, parties and groups; where the spec names no id column the id is the row number, from `1` on.

    Raises
    ------
    CorpusError
        The labels do not have one row a row; a column is missing; an entry is missing; an id occurs twice.
    """
    if columns is None:
        return Labels(_row_numbers(rows))
    check_rows(columns, rows)
    columns.require(named_columns(spec))
    return Labels(
        _row_numbers(rows) if spec.id is None else columns.labels(spec.id, unique=True),
        None if spec.party is None else columns.labels(spec.party),
        None if spec.group is None else columns.labels(spec.group),
    )


def check_rows(columns: Columns, rows: int) -> None:
    """Refuse labels that do not have one row a row of the count matrix."""
    if len(columns) != rows:
        raise Refused(columns.path, f"has {len(columns)} rows; the count matrix has {rows}.")


def _row_numbers(rows: int) -> NDArray[np.str_]:
    return np.arange(1, rows + 1).astype(np.str_)
