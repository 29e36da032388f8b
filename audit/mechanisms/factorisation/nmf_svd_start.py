"""The start ``nnsvd`` as parties make it, by secure sums: topics from the SVD of everybody's rows.

A block power iteration by plain sums, of so many rounds whatever the data say, gives V and sigma (`SigmaSVD`). One
more sum tells, for each direction v, how long the positive and the negative part of X v are: every party holds its
rows of it. What follows is public: |v_1|, then of each v the part whose side is longer (`nmf_starts.nnsvd`).

Everything that this announces is looked at: V, sigma, the space of all blocks, the sums of the first three rounds,
and the lengths of the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.errors import CorpusError
from ksdp.audit.mechanisms.contract import Announced, Database, Observables
from ksdp.audit.mechanisms.factorisation.krylov import dot
from ksdp.audit.mechanisms.factorisation.pd_svd import SigmaSVD

Array = NDArray[np.float64]

ITERATIONS = 10
"""Rounds of the power iteration. A start need not be exact, and every round is opened."""
NOTHING = 1e-3
"""A direction whose singular value is at most this part of the largest has no topic: sums have rounding errors."""
_COUNT = "iterations"


def part_squares(matrix: sp.csr_array, V: Matrix) -> Matrix:
    """One party's share: squared lengths of the positive and of the negative part of each X v, shape (2, k)."""
    image = np.asarray(matrix @ np.ascontiguousarray(V.T))
    return np.stack([np.square(np.maximum(sign * image, 0.0)).sum(axis=0) for sign in (1.0, -1.0)])


def topics_from_parts(V: Matrix, sigma: Vector, squares: Matrix) -> Matrix:
    """The start, rows of sum 1; the same bits at every party.

    Parameters
    ----------
    V : shape (k, d)
    sigma : shape (k,)
    squares : shape (2, k)
        Of everybody's rows (`part_squares`).

    Raises
    ------
    CorpusError
        Where everybody's rows are zero.
    """
    if not sigma[0] > 0.0:
        raise CorpusError("the start nnsvd needs at least one entry that is not 0.")
    topics = np.ones_like(V)
    for t, v in enumerate(V):
        if sigma[t] <= NOTHING * sigma[0]:
            continue  # uniform
        if t == 0:
            topics[t] = np.abs(v)  # by Perron and Frobenius all of one sign, or so it can be chosen
            continue
        positive, negative = np.maximum(v, 0.0), np.maximum(-v, 0.0)
        sides = float(squares[0, t]) * dot(positive, positive), float(squares[1, t]) * dot(negative, negative)
        topics[t] = positive if sides[0] >= sides[1] else negative
    sums = np.array([dot(row, np.ones_like(row)) for row in topics])
    return np.asarray(topics / sums[:, None])


class SvdStart:
    """The start of so many topics from the agreed seed.

    Parameters
    ----------
    rank : int
        k, below the features and the rows of all parties.
    seed : int
        Of the block that iterations begin with.
    """

    def __init__(self, rank: int, seed: int) -> None:
        self.svd = SigmaSVD(rank=rank, solver="power", iterations=ITERATIONS, tolerance=0.0, start_seed=seed)

    def observables(self, features: int) -> tuple[Announced, ...]:
        """What statistics see: as `SigmaSVD`, and ``part_squares``."""
        return self._with_parts(self.svd.observables(features))

    def released(self, features: int) -> tuple[Announced, ...]:
        """With ``blocks`` in place of what is worked out from them."""
        return self._with_parts(self.svd.released(features))

    def _with_parts(self, announced: Iterable[Announced]) -> tuple[Announced, ...]:
        kept = (array for array in announced if array.name != _COUNT)
        return (*kept, Announced("part_squares", (2, self.svd.rank)))

    def with_released(self, announced: Iterable[Announced], features: int) -> tuple[Announced, ...]:
        """Other arrays and these, where `announced` are the others and what follows from these."""
        mine = {array.name for array in self.observables(features)}
        return (*(array for array in announced if array.name not in mine), *self.released(features))

    def run(self, database: Database, *, release: bool = False) -> tuple[Matrix, dict[str, Array]]:
        """The start, and what parties announce on the way to it; what they `release`, where that is asked for."""
        rng = np.random.default_rng(0)  # draws nothing
        seen = dict(self.svd.release(database, rng) if release else self.svd.run(database, rng))
        seen.pop(_COUNT)
        squares = np.zeros((2, self.svd.rank))
        for party in database.parties:
            squares += part_squares(party, seen["V"])
        return topics_from_parts(seen["V"], seen["sigma"], squares), seen | {"part_squares": squares}

    def worked_out(self, released: Mapping[str, Array]) -> dict[str, Array]:
        """What statistics see, from what was released."""
        names = {array.name for array in self.released(self.svd.rank + 1)}
        mine = {name: array for name, array in released.items() if name in names}
        return dict(self.svd.worked_out(Observables(mine)))
