"""Figure 3 of Liu, Pejo & Tang (2023): how far the three forms of FedPower end from the true basis.

The paper has Netflix: 96.3 million ratings of 17,711 movies by 324,468 users, 100 devices, r = k = 10, T = 92
iterations, an announcement every p = 4, sigma = sigma' = 0.1. We have MovieLens-1M, with a user for every 75. So
beside MovieLens itself there is a matrix drawn after it: a non-negative factorisation says how likely each of its
users rates each movie, the profiles are drawn again and again, and a rating, where there is one, follows the
movie's own histogram of 1 to 5. Off the diagonal its second moments are those of the factorisation, so the
spectrum stays near that of the real ratings; their number is free. Needs the data sets.

::

    python -m benchmarks figure-3
    python -m benchmarks.figure_3 --movies 17711     # Netflix's own shape; ten minutes
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
import scipy.sparse.linalg
from numpy.typing import NDArray

from benchmarks import data_folder
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.nmf_starts import initial_topics
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.fedpower_steps import aligned, bounded_moments, moments_times

__all__ = [
    "DEVICES",
    "NETFLIX_USERS",
    "Profiles",
    "error",
    "errors",
    "forms",
    "parties",
    "profiles",
    "ratings",
    "run",
    "split",
    "top",
]

Form = FedPower | UtilityFedPower | PrivateFedPower
Matrix = NDArray[np.float64]

RANK, SIGMA, DEVICES = 10, 0.1, 100
_BEYOND = 1e4
"""A bound that no row reaches."""
NETFLIX_USERS, NETFLIX_RATINGS = 3245, 297  # a device; a user
NAMES = ("1", "2", "3", "3, sigma / 10")
PAPER = "the paper: Algorithm 2 2.74 times smaller, Algorithm 3 24 %, with sigma / 10 1.66 times"


def ratings(folder: Path) -> sp.csr_array:
    """MovieLens-1M without users and movies of fewer than 50 ratings, as the paper treats Netflix; shuffled."""
    table = pd.read_parquet(folder / "movielens-1m" / "ratings.parquet", columns=["user_id", "item_id", "rating"])
    while True:
        often = [table.groupby(key)["rating"].transform("size") >= 50 for key in ("user_id", "item_id")]
        if (often[0] & often[1]).all():
            break
        table = table[often[0] & often[1]]
    users, rows = np.unique(table["user_id"], return_inverse=True)
    movies, columns = np.unique(table["item_id"], return_inverse=True)
    values = table["rating"].to_numpy(float)
    matrix = sp.csr_array((values, (rows, columns)), shape=(len(users), len(movies)))
    return sp.csr_array(matrix[np.random.default_rng(0).permutation(len(users))])


def split(matrix: sp.csr_array, n: int) -> tuple[sp.csr_array, ...]:
    return tuple(sp.csr_array(matrix[rows]) for rows in np.array_split(np.arange(matrix.shape[0]), n))


@dataclass(frozen=True, eq=False)
class Profiles:
    """What ratings are drawn from."""

    users: Matrix
    """Of users, shape (profiles, topics)."""
    movies: Matrix
    """Shape (topics, movies): `users @ movies` is how likely each rates each; above 1 is 1."""
    histogram: Matrix
    """For each movie, the share of ratings of at most 1, 2, 3 and 4, shape (4, movies)."""


def profiles(matrix: sp.csr_array, topics: int = 30) -> Profiles:
    """Of the users and movies of a real rating matrix."""
    start = initial_topics("random", (matrix,), topics, seed=0)
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
    rngs = np.random.default_rng(seed).spawn(n)
    return tuple(drawn(model, users, rng) for rng in rngs)


def top(parts: tuple[sp.csr_array, ...], rank: int = RANK) -> tuple[Matrix, Matrix]:
    """The largest eigenvalues of M, one more than `rank`, and the true basis, by a method without noise."""
    rows, d = sum(p.shape[0] for p in parts), parts[0].shape[1]

    def times(vector: Matrix) -> Matrix:
        whole: Matrix = sum(moments_times(p, vector.reshape(1, d))[0] * (p.shape[0] / rows) for p in parts)
        return whole

    operator = scipy.sparse.linalg.LinearOperator((d, d), matvec=times, dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(operator, k=rank + 1, v0=np.ones(d), ncv=4 * rank)
    order = np.argsort(values)[::-1]
    return values[order], np.ascontiguousarray(vectors.T[order[:rank]])


def error(V: Matrix, true: Matrix) -> float:
    """Distance over rotations: its Frobenius norm after Procrustes."""
    return float(np.linalg.norm(aligned(V, true) @ V - true))


def forms(period: int, iterations: int, names: Sequence[str] = NAMES, sigma: float = SIGMA) -> dict[str, Form]:
    """The algorithms as the paper compares them; rows are not clipped: the bound is beyond their length."""
    given: dict[str, Any] = {"rank": RANK, "iterations": iterations, "period": period, "noise": sigma}
    known: dict[str, Form] = {
        "1": FedPower(**given, central_noise=sigma),
        "2": UtilityFedPower(**given),
        "3": PrivateFedPower(**given, row_bound=_BEYOND, distributed=False),
        "3, sigma / 10": PrivateFedPower(**given, row_bound=_BEYOND),
        "3, as printed": PrivateFedPower(**given, distributed=False, unit="entry-printed"),
        "2, no noise": UtilityFedPower(**given | {"noise": 1e-12}),
    }
    return {name: known[name] for name in names}


def errors(
    parts: tuple[sp.csr_array, ...], true: Matrix, compared: Mapping[str, Form], seed: int
) -> Iterator[tuple[str, float]]:
    data = Database(parts)
    for name, form in compared.items():
        yield name, error(form.run(data, np.random.default_rng(seed))["V"], true)


def table(title: str, parts: tuple[sp.csr_array, ...], compared: Mapping[str, Form], seed: int) -> None:
    """Print the errors, each as it comes, against that of Algorithm 1, which is the first."""
    users = sum(p.shape[0] for p in parts)
    raters = np.sort(sum(np.bincount(p.indices, minlength=p.shape[1]) for p in parts))
    d, stars = len(raters), raters.sum()
    gini = (2 * np.arange(1, d + 1) - d - 1) @ raters / (d * stars)
    values, true = top(parts)
    print(
        f"{title}: {users:,} users, {d:,} movies (Gini {gini:.2f}), {stars / users:.0f} ratings a user; "
        f"eigenvalues {values[0]:.0f}, {values[1]:.0f} ... {values[-2]:.1f}, {values[-1]:.1f}"
    )
    base = None
    for name, found in errors(parts, true, compared, seed):
        base = found if base is None else base
        print(
            f"  Algorithm {name:20} {found:.4f}  {base / found:5.2f} times smaller, {found / base - 1:+.0%}",
            flush=True,
        )


def clipped(part: sp.csr_array, bound: float = 0.05) -> None:
    """What clipping the entries of M, as printed, does to the basis; no noise, no iterations."""
    moments = bounded_moments(part, math.inf)
    above = (moments.data > bound).sum() / part.shape[1] ** 2
    moved = []
    for matrix in (moments, bounded_moments(part, bound)):
        _, vectors = scipy.sparse.linalg.eigsh(matrix, k=RANK, v0=np.ones(part.shape[1]))
        moved.append(np.ascontiguousarray(vectors.T))
    print(
        f"Entries clipped to {bound}, as printed: {above:.0%} of a device's M_i are larger; clipped, its basis is "
        f"{error(moved[1], moved[0]):.2f} from its own",
        flush=True,
    )


def run(seed: int = 1) -> None:
    """Print the tables; ten minutes on one core."""
    print(f"Distance to the true basis; {DEVICES} devices, r = {RANK}, seed {seed}; {PAPER}.")
    real = ratings(data_folder())
    model = profiles(real)
    parts = parties(model, DEVICES, NETFLIX_USERS, seed)
    title = f"Drawn after MovieLens-1M, {NETFLIX_USERS:,} users a device, period 4"
    table(f"{title}, T = 92", parts, forms(4, 92), seed)
    table(f"{title}, T = 32", parts, forms(4, 32, "12"), seed)
    clipped(parts[0])
    more = (*NAMES, "3, as printed", "2, no noise")
    table("MovieLens-1M, period 1, T = 40", split(real, DEVICES), forms(1, 40, more), seed)
    table("MovieLens-1M, period 4, T = 92", split(real, DEVICES), forms(4, 92, "123"), seed)
    for users, sigma in ((2300, SIGMA), (400, SIGMA), (400, 5 * SIGMA)):
        parts = parties(model, DEVICES, users, seed)
        title = f"Drawn after it, {users:,} users a device, period 4, T = 92, sigma = {sigma}"
        table(title, parts, forms(4, 92, ("1", "2", "3", "2, no noise"), sigma), seed)


def run_thin(movies: int, seed: int = 1) -> None:
    """As many movies as Netflix has, if wanted, with its number of ratings a user; ten minutes."""
    model = profiles(ratings(data_folder()))
    model = thinned(model, movies, NETFLIX_RATINGS, np.random.default_rng(seed))
    parts = parties(model, DEVICES, NETFLIX_USERS, seed)
    table(f"Drawn thinner, {NETFLIX_USERS:,} users a device, period 4, T = 92", parts, forms(4, 92), seed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--movies", type=int)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    if chosen.movies is not None and chosen.movies <= 4 * RANK:
        parser.error(f"--movies must be above {4 * RANK}; got {chosen.movies}.")
    if chosen.movies is None:
        run(chosen.seed)
    else:
        run_thin(chosen.movies, chosen.seed)
