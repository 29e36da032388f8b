"""Numeric tables and triplets of ratings, and who their rows are: ids, parties and groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import LARGEST, TOO_LARGE
from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.files import Refused
from ksdp.storage.readers.columns import Columns


@dataclass(frozen=True, eq=False)
class Labels:
    """One entry a row of the file, in its order."""

    ids: NDArray[np.str_]
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
    """Read ids, parties and groups; where the spec names no id column the id is the row number, from `1` on."""
    if columns is None:
        return Labels(row_numbers(rows))
    check_rows(columns, rows)
    columns.require(named_columns(spec))
    return Labels(
        row_numbers(rows) if spec.id is None else columns.labels(spec.id, unique=True),
        None if spec.party is None else columns.labels(spec.party),
        None if spec.group is None else columns.labels(spec.group),
    )


def check_rows(columns: Columns, rows: int) -> None:
    """Refuse labels that do not have one row a row of the count matrix."""
    if len(columns) != rows:
        raise Refused(columns.path, f"has {len(columns)} rows; the count matrix has {rows}.")


def row_numbers(rows: int) -> NDArray[np.str_]:
    """Ids of documents that have no other: their rows, from 1."""
    return np.arange(1, rows + 1).astype(np.str_)


def read_table(
    spec: CorpusSpec, columns: Columns, chosen: Sequence[str], *, nonnegative: bool
) -> tuple[sp.csr_array, NDArray[np.bool_]]:
    """Read these columns in that order, then the categories; and which rows are kept, as no number is missing."""
    values = columns.table(chosen, nonnegative=nonnegative, missing=spec.missing != "refuse")
    absent: NDArray[np.bool_] = np.isnan(values)
    kept: NDArray[np.bool_] = np.ones(len(columns), dtype=np.bool_)
    if spec.missing == "drop":
        kept &= ~absent.any(axis=1)
    elif absent.any():
        if (empty := absent.all(axis=0)).any():
            name = chosen[int(empty.argmax())]
            raise Refused(columns.path, "holds no number, so that it has no median.", column=name)
        values = np.where(absent, np.nanmedian(values, axis=0), values)
    if (beyond := np.abs(values) > LARGEST).any():
        at, row = np.argwhere(beyond.T)[0].tolist()
        raise Refused(columns.path, f"is {values[row, at]:.3g}; {TOO_LARGE}", row=row + 1, column=chosen[at])
    coded = [columns.indicators(name, of) for name, of in spec.categories.items()]
    return sp.csr_array(np.hstack([values, *coded])[kept]), kept


_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
"""A column of a Parquet file that holds a frame's index."""


def chosen_columns(spec: CorpusSpec, columns: Columns) -> tuple[str, ...]:
    """The columns of a table: `spec.columns`, or every numeric column except id, party and group."""
    if spec.columns is not None and (not spec.columns or len(set(spec.columns)) != len(spec.columns)):
        raise SpecError("`corpus.columns` must name at least one column, and each one once.")
    chosen = spec.columns
    if chosen is None:
        taken = (*named_columns(spec), *spec.categories, *filter(_PANDAS_INDEX.fullmatch, columns.names))
        columns.require(name for name in columns.names if name not in taken)
        chosen = tuple(name for name in columns.names if name not in taken and columns.numeric(name))
        others = set(columns.names) - set(taken) - set(chosen)
        if spec.format == "auto" and len(chosen) == 1 and others:
            raise Refused(
                columns.path,
                f"only `{chosen[0]}` holds numbers among {columns.listed()}; name the column that holds the text "
                "(`corpus.text`), or the numeric ones (`corpus.columns`).",
            )
    if not chosen and not spec.categories:
        raise Refused(
            columns.path,
            f"there is no numeric column among {columns.listed()}; name the column that holds the text "
            "(`corpus.text`), or the categories with their values (`corpus.categories`).",
        )
    return chosen


Codes = NDArray[np.intp]


def read_ratings(
    spec: CorpusSpec, columns: Columns, agreed: Sequence[str] | None = None, *, nonnegative: bool
) -> tuple[sp.csr_array, Labels]:
    """Read triplets; users and items are sorted (by value where all are whole numbers), the id is the user."""
    user, item, rating = spec.triplet
    if spec.id not in (None, user):
        raise SpecError(f"`corpus.id` must be left out for ratings: the user ({user!r}) is the document.")
    columns.require([user, item, rating, *(name for name in (spec.party, spec.group) if name)])
    users, ids = columns.coded(user)
    items, names = columns.coded(item)
    ratings = columns.numbers(rating, nonnegative=nonnegative)
    parties, groups = (None if name is None else columns.coded(name) for name in (spec.party, spec.group))
    path = columns.path
    _refuse_repeated(path, users, items, len(names))
    if agreed is not None:
        place = {name: column for column, name in enumerate(agreed)}
        of_item = np.array([place.get(str(name), -1) for name in names], dtype=np.int64)
        rated = of_item[items] >= 0
        entries = ratings[rated], (users[rated], of_item[items[rated]])
        matrix = sp.csr_array(entries, shape=(len(ids), len(agreed)))
    else:
        matrix = sp.csr_array((ratings, (users, items)), shape=(len(ids), len(names)))
    party, group = _of_user(path, spec.party, parties, users), _of_user(path, spec.group, groups, users)
    return matrix, Labels(ids, party, group)


def _refuse_repeated(path: Path, users: Codes, items: Codes, n_items: int) -> None:
    pairs = users.astype(np.int64) * n_items + items
    order = np.argsort(pairs, kind="stable")
    again = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if len(again):
        row = int(order[again + 1].min())
        first = int((pairs == pairs[row]).argmax())
        raise Refused(path, f"repeats the user and the item of row {first + 1}.", row=row + 1)


def _of_user(
    path: Path, name: str | None, coded: tuple[Codes, NDArray[np.str_]] | None, users: Codes
) -> NDArray[np.str_] | None:
    """The label of a column that all of a user's rows share; `coded` is what `Columns.coded` gave."""
    if coded is None:
        return None
    codes, labels = coded
    _, first = np.unique(users, return_index=True)
    other = codes != codes[first][users]
    if other.any():
        row = int(other.argmax())
        problem = f"differs from that of the same user in row {int(first[users[row]]) + 1}."
        raise Refused(path, problem, row=row + 1, column=name)
    return labels[codes[first]]
