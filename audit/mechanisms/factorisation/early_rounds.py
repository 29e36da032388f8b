"""How many of the first rounds are looked at one by one: enough to say who was in, where all would."""

from __future__ import annotations

import math

EARLY = 3
"""Rounds that are looked at one by one in any case."""
NUMBERS = 4096
"""Exact numbers from which on further rounds are not needed: two for each document, of as many as are solved for
(`statistics.solved_parts.MOST_SOLVED`). Of more documents nobody is clear where all rounds together are numbers
enough (`audit.coverage.unsolved`)."""


def early_rounds(rank: int, features: int, most: int) -> int:
    """Three rounds; where these are few numbers, as many as have `NUMBERS` together, `most` at most.

    Each round is so many more equations in who is in, which a party of the run has as well: of 500 texts of 40
    terms, half of them, rank 2, the sums of three sweeps of PD-NMF tell a document with D 0.82 and those of six
    everybody (decision 31).

    Parameters
    ----------
    rank, features : of what a round announces
    most : rounds that there are, or that are looked at

    Examples
    --------
    >>> early_rounds(7, 12_164, 20), early_rounds(7, 40, 20), early_rounds(2, 40, 20)
    (3, 15, 20)
    """
    return min(most, max(EARLY, math.ceil(NUMBERS / (rank * features))))


def different_numbers(rank: int, features: int, rounds: int) -> int:
    """How many numbers so many power iterations announce that do not follow from one another, at most.

    They are products of one symmetric matrix, which has no more.

    Examples
    --------
    >>> different_numbers(2, 40, 10), different_numbers(7, 40, 10)
    (800, 820)
    """
    return min(rounds * rank * features, features * (features + 1) // 2)


def numbers_of_basis(rank: int, features: int, values: bool = False) -> int:
    """Equations that singular vectors solve: k (d - k), k (k - 1) / 2, and k more where singular values are known.

    Examples
    --------
    >>> numbers_of_basis(2, 40), numbers_of_basis(2, 40, values=True)
    (77, 79)
    """
    return rank * features - rank * (rank + 1) // 2 + (rank if values else 0)
