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
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from papers.data import ratings, split
from papers.fedpower import DEVICES, NAMES, RANK, SIGMA, error, errors, forms, top

from benchmarks import data_folder
from benchmarks.drawn_ratings import NETFLIX_USERS, parties, profiles, thinned
from ksdp.audit.contract import Mechanism
from ksdp.audit.mechanisms.privacy.fedpower import bounded_moments

NETFLIX_RATINGS = 297
"""Of one user."""
PAPER = "the paper: Algorithm 2 2.74 times smaller, Algorithm 3 24 %, with sigma / 10 1.66 times"


def table(title: str, parts: tuple[sp.csr_array, ...], compared: Mapping[str, Mechanism], seed: int) -> None:
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
