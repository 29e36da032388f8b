"""Ratings as triplets (user, item, rating): one document a user, one feature an item."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.spec import CorpusSpec
from ksdp.storage.readers.columns import Columns
from ksdp.storage.readers.files import Refused
from ksdp.storage.readers.labels import Labels

__all__ = ["read_ratings"]

Codes = NDArray[np.intp]


def read_ratings(spec: CorpusSpec, columns: Columns, *, nonnegative: bool) -> tuple[sp.csr_array, Labels]:
    """Read triplets; users and items are sorted (by value where all are whole numbers), the id is the user.

    A stored entry means "observed", also where the rating is 0.

    Raises
    ------
    SpecError
        `corpus.id` names another column than `corpus.user`.
    CorpusError
        A column or an entry is missing, a rating is not finite or, if `nonnegative`, negative, a user rated an
        item twice, or one user's rows name more than one party or group.
    """
    if spec.id not in (None, spec.user):
        raise SpecError(f"`corpus.id` must be left out for ratings: the user ({spec.user!r}) is the document.")
    columns.require([spec.user, spec.item, spec.rating, *(name for name in (spec.party, spec.group) if name)])
    users, ids = columns.coded(spec.user)
    items, names = columns.coded(spec.item)
    ratings = columns.numbers(spec.rating, nonnegative=nonnegative)
    _refuse_repeated(columns, users, items, len(names))
    matrix = sp.csr_array((ratings, (users, items)), shape=(len(ids), len(names)))
    return matrix, Labels(ids, _of_user(columns, spec.party, users), _of_user(columns, spec.group, users))


def _refuse_repeated(columns: Columns, users: Codes, items: Codes, n_items: int) -> None:
    pairs = users.astype(np.int64) * n_items + items
    order = np.argsort(pairs, kind="stable")
    again = np.flatnonzero(pairs[order][1:] == pairs[order][:-1])
    if len(again):
        row = int(order[again + 1].min())
        first = int((pairs == pairs[row]).argmax())
        raise Refused(columns.path, f"repeats the user and the item of row {first + 1}.", row=row + 1)


def _of_user(columns: Columns, name: str | None, users: Codes) -> NDArray[np.str_] | None:
    """The label that all of a user's rows share."""
    if name is None:
        return None
    codes, labels = columns.coded(name)
    _, first = np.unique(users, return_index=True)
    other = codes != codes[first][users]
    if other.any():
        row = int(other.argmax())
        problem = f"differs from that of the same user in row {int(first[users[row]]) + 1}."
        raise Refused(columns.path, problem, row=row + 1, column=name)
    return labels[codes[first]]
