"""Ratings as triplets (user, item, rating): one document a user, one feature an item.

With an agreed list of items the features are these, in this order, whoever has rated them; ratings of others are
left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.spec import CorpusSpec
from ksdp.storage.readers.columns import Columns
from ksdp.storage.readers.files import Refused
from ksdp.storage.readers.labels import Labels

Codes = NDArray[np.intp]


def read_ratings(
    spec: CorpusSpec, columns: Columns, agreed: Sequence[str] | None = None, *, nonnegative: bool
) -> tuple[sp.csr_array, Labels]:
    """Read triplets; users and items are sorted (by value where all are whole numbers), the id is the user.

    With `agreed` items there is one feature for each, in their order, and ratings of others are left out. A stored
    entry means "observed", also where the rating is 0.

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
