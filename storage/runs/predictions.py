"""Predicted ratings of a party's own users: `predictions.parquet` in the folder of a run's result.

One row a user and item: `user`, `item`, `rating` (predicted, clipped), the best of every user first. It never
leaves the party.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ksdp.audit.learning.learners import Suggested
from ksdp.storage.store import write_whole


def predictions_path(folder: Path) -> Path:
    """Where they stand in the folder of a result."""
    return folder / "predictions.parquet"


def write_predictions(
    folder: Path, users: NDArray[np.str_], items: Sequence[str], suggested: Iterable[Suggested]
) -> int:
    """Write what is suggested to every user; how many rows there are.

    Parameters
    ----------
    users, items : names of the rows and of the columns
    """
    suggestions = list(suggested)
    counts = [len(each.items) for each in suggestions]
    rows = np.repeat(np.array([each.user for each in suggestions], dtype=np.int32), counts)
    columns = np.concatenate([np.zeros(0, dtype=np.intp), *(each.items for each in suggestions)]).astype(np.int32)
    ratings = np.concatenate([np.zeros(0), *(each.ratings for each in suggestions)])
    names = pa.array([str(user) for user in users]), pa.array([str(item) for item in items])
    table = pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(pa.array(rows), names[0]),
            "item": pa.DictionaryArray.from_arrays(pa.array(columns), names[1]),
            "rating": pa.array(ratings, pa.float32()),
        }
    )
    write_whole(predictions_path(folder), lambda path: pq.write_table(table, path, compression="zstd"))
    return len(table)
