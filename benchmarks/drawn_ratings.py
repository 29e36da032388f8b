"""Ratings drawn after a real matrix of ratings: as many users as wanted, for Figure 3 of Liu, Pejo & Tang (2023).

A non-negative factorisation says how likely each user rates each movie, the profiles are drawn again and again,
and a rating, where there is one, follows the movie's own histogram of 1 to 5. Off the diagonal the second
moments are those of the factorisation, so that the spectrum stays near that of the real ratings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from papers.fedpower import DEVICES

from ksdp.audit.mechanisms.factorisation.nmf_starts import initial_topics
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.numeric.array_types import Matrix

NETFLIX_USERS = 3245
"""Of one of the paper's 100 devices."""
_TOPICS = 30


@dataclass(frozen=True, eq=False)
class Profiles:
    """What ratings are drawn from."""

    users: Matrix
    """Of users, shape (profiles, topics)."""
    movies: Matrix
    """Shape (topics, movies): `users @ movies` is how likely each rates each; above 1 is 1."""
    histogram: Matrix
    """For each movie, the share of ratings of at most 1, 2, 3 and 4, shape (4, movies)."""


def profiles(matrix: sp.csr_array) -> Profiles:
    """Of the users and movies of a real rating matrix."""
    start = initial_topics("random", (matrix,), _TOPICS, seed=0)
    found = pd_nmf_iter([matrix], start, sweeps=40)
    movies = matrix.shape[1]
    raters = np.bincount(matrix.indices, minlength=movies)
    counts = [np.bincount(matrix.indices[matrix.data <= stars], minlength=movies) for stars in range(1, 5)]
    mean = np.bincount(matrix.indices, matrix.data, movies) / raters
    return Profiles(found.W, found.T / mean, np.array(counts) / raters)


def thinned(model: Profiles, movies: int, each: float, rng: np.random.Generator) -> Profiles:
    """As many movies as wanted, each one of the model's with a part of its audience; `each` ratings a user.

    The parts are log-normal, at most 1, and leave 50 ratings among the users of all devices. The logarithm's
    deviation of 2 gives the numbers of ratings the Gini coefficient of Netflix's (0.79, as KONECT has it).
    """
    chosen = rng.integers(model.movies.shape[1], size=movies)
    parts = np.exp(2 * rng.standard_normal(movies))
    raters = np.clip(model.users @ model.movies, 0, 1).mean(axis=0)[chosen]
    least = 50 / (DEVICES * NETFLIX_USERS) / raters
    low, high = 1e-6, 1e3
    for _ in range(60):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if np.clip(middle * parts, least, 1) @ raters > each else (middle, high)
    kept = np.clip(low * parts, least, 1)
    return Profiles(model.users, model.movies[:, chosen] * kept, model.histogram[:, chosen])


def drawn(model: Profiles, users: int, rng: np.random.Generator) -> sp.csr_array:
    """The ratings of so many new users."""
    blocks = []
    for first in range(0, users, 500):
        likely = model.users[rng.integers(len(model.users), size=min(500, users - first))] @ model.movies
        rows, columns = np.nonzero(rng.random(likely.shape, dtype=np.float32) < likely)
        stars = 1.0 + (rng.random(len(columns)) > model.histogram[:, columns]).sum(axis=0)
        indptr = np.concatenate([[0], np.bincount(rows, minlength=len(likely)).cumsum()])
        short = columns.astype(np.int32), indptr.astype(np.int32)
        blocks.append(sp.csr_array((stars, *short), shape=likely.shape))
    return sp.csr_array(sp.vstack(blocks, format="csr"))


def parties(model: Profiles, n: int, users: int, seed: int) -> tuple[sp.csr_array, ...]:
    """Ratings of n parties, each of so many new users."""
    rngs = np.random.default_rng(seed).spawn(n)
    return tuple(drawn(model, users, rng) for rng in rngs)
