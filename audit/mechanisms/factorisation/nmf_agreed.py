"""Starts that parties agree on before they know which of the candidate columns are left."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Matrix
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.nmf_starts import LocalFit, initial_topics, random_topics


def agreed_topics(features: int, rank: int, seed: int, chosen: tuple[NDArray[np.int64], int] | None) -> Matrix:
    """`random_topics`; where columns were `chosen` (`Database.chosen`), those of all candidates, in these columns.

    So a topic starts near to the same one, whichever columns are left.

    Examples
    --------
    >>> agreed_topics(2, 1, 0, (np.array([0, 2]), 3)).round(2)
    array([[0.94, 0.06]])
    """
    if chosen is None:
        return random_topics(features, rank, seed)
    columns, of = chosen
    topics = random_topics(of, rank, seed)[:, columns]
    return np.asarray(topics / topics.sum(axis=1, keepdims=True))


def start_of(name: str, database: Database, rank: int, how: LocalFit, *, seed: int) -> Matrix:
    """`initial_topics` of a database, shape (rank, d)."""
    if database.chosen is not None and name in ("random", "random-2x"):
        return agreed_topics(database.parties[0].shape[1], rank, seed, database.chosen)
    return initial_topics(name, database.parties, rank, how, seed=seed)
