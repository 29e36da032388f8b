"""Ratings divided by time: what everybody learns from, and what came later and is to be predicted."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.learning.measures import kept
from ksdp.audit.levers import Levers
from ksdp.audit.randomness import Purpose, generator
from ksdp.storage.source_file import SourceFile, column_names

LATER = 0.2
"""Part of every user's ratings that is later."""


def later_places(file: SourceFile, time: str, ids: NDArray[np.str_], features: int, seed: int) -> sp.csr_array:
    """Where the later ratings of the corpus are, in its columns without levers: 1 there.

    Of each user's ratings with a time the latest fifth (of equal times those further down in the file), and a
    fifth of those without one, drawn from the seed: what is without a time need not be like the others.

    Parameters
    ----------
    file : SourceFile
        The corpus.
    time : str
        The column that holds the times.
    ids : array of str
        Users, in the order of the rows wanted.

    Raises
    ------
    SpecError
        If the corpus is not of ratings as they are.
    CorpusError
        If the column is missing or holds no numbers.
    """
    spec, levers = file.spec, file.spec.levers
    plain = spec.weighting in (None, "counts") and spec.rows in (None, "none")
    if file.kind != "ratings" or not plain or levers.basis or levers.hashed or levers.clip:
        raise SpecError("`gain.time` needs ratings as they are: no weights, hashing, basis or clipping.")
    columns = file.columns
    times = columns.numbers(time, missing=True)
    users, names = columns.coded(spec.user)
    items, titles = columns.coded(spec.item)
    agreed = column_names(spec) or tuple(map(str, titles))
    order = {name: column for column, name in enumerate(agreed)}
    of_item = np.array([order.get(str(title), -1) for title in titles])[items]
    row = {str(name): place for place, name in enumerate(ids)}
    of_user = np.array([row.get(str(name), -1) for name in names])[users]
    inside = np.flatnonzero((of_user >= 0) & (of_item >= 0))
    timed = np.isfinite(times[inside])
    keys = np.where(timed, times[inside], generator(seed, Purpose.LEARNING, 0, 3).random(len(inside)))
    late = _latest(of_user[inside] * 2 + timed, keys)
    entries = np.ones(int(late.sum())), (of_user[inside][late], of_item[inside][late])
    later = sp.csr_array(entries, shape=(len(ids), features))
    later.sort_indices()
    return later


def _latest(group: NDArray[np.int64], keys: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The part `LATER` of each group with the largest keys, of equal ones the last; rounded down."""
    order = np.lexsort((np.arange(len(keys)), keys, group))
    _, first, count = np.unique(group[order], return_index=True, return_counts=True)
    place = np.arange(len(keys)) - np.repeat(first, count)
    late = np.zeros(len(keys), dtype=bool)
    late[order] = place >= np.repeat(count - np.floor(LATER * count), count)
    return late


def earlier(ratings: sp.csr_array, places: sp.csr_array, levers: Levers) -> tuple[sp.csr_array, sp.csr_array]:
    """A corpus without its later ratings, and these alone; both in its own columns."""
    if levers.columns is not None:
        places = sp.csr_array(places[:, levers.columns])
    width = ratings.shape[1]

    def keys(matrix: sp.csr_array) -> NDArray[np.int64]:
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        return np.asarray(rows * width + matrix.indices)

    late = np.isin(keys(ratings), keys(places))
    return kept(ratings, ~late), kept(ratings, late)
