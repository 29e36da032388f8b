"""Counts and V in one run: rows are weighed by what the run itself counts, so that nothing need be public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import EXACT, Database, Guarantee, Observables, Release, Terms, Traits, measured
from ksdp.audit.corpus.matrix import weighed
from ksdp.audit.mechanisms.factorisation.pd_svd import early_rounds
from ksdp.audit.mechanisms.factorisation.power_iteration import normalised, orthonormalise, share_of, start_block
from ksdp.audit.mechanisms.parameters import check_least, check_positive, check_rank
from ksdp.audit.mechanisms.party_side import PartyProgram, PartyResult, SecSum, drive
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.releases import Added, Adds, LinearReleases, moment_numbers
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.statistics.products import announced


@dataclass(frozen=True)
class CountedSVD:
    r"""Directions of texts weighed by tf-idf, for which the run itself counts how many documents have each term.

    One secure sum opens ``counts``, shape (features + 1,): how many rows have each column, and how many rows there
    are. Every party weighs its rows by them: tf-idf, length 1, columns times sqrt(w) for w = df / (df + `shrink`).
    `iterations` secure sums, of which the first ones are recorded as ``sums``, then give ``V``, shape (rank,
    features): the leading directions of these rows times sqrt(w). All this says who is in, so that it is for a
    secret draw (`corpus.levers.drawn`), whose share bounds what it tells together of who is held. No statistic
    follows V on rows that the run weighs, and nobody is clear without such a draw.

    Parameters
    ----------
    rank : k
    shrink : documents; a column that as many have counts for half
    iterations, start_seed : secure sums of the power iteration, all of them, and the agreed seed of its start
    """

    name: ClassVar[str] = "counted-svd"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithms 3 and 4, of rows that the run weighs")
    rank: int = 7
    shrink: float = 2.0
    iterations: int = 20
    start_seed: int = 0

    def __post_init__(self) -> None:
        check_least(self, rank=1, iterations=1, start_seed=0)
        check_positive(self, "shrink")

    @property
    def traits(self) -> Traits:
        """Nothing but the database is random."""
        return Traits(
            noise_free=True, order_free=True, nonnegative=True, rank=self.rank, counts=True, tells_rows=True
        )

    @property
    def statistics(self) -> tuple[LinearReleases, ...]:
        """The first rounds, of rows that are weighed by the counts, are equations in who is in."""
        return (LinearReleases(("counts", "sums")),)

    def releases(self, features: int) -> tuple[Release, ...]:
        """Return the counts, the directions, the sums of early rounds, and those of all, which hold them."""
        check_rank(self.rank, features)
        wide, early = (self.rank, features), early_rounds(self.rank, features, self.iterations)
        terms = Terms("sums", equations=self._equations, depends_on=("counts",))
        return (
            Release("counts", (features + 1,), noise=EXACT, final=True),
            Release("V", wide, Terms("steps"), EXACT, final=True, alignment="signs"),
            Release("sums", (early, *wide), terms, EXACT, derived_from=("blocks",), early=True),
            Release("blocks", (self.iterations, *wide), noise=EXACT, recorded=False, early=True),
        )

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Count, weigh, iterate; see the class."""
        features, early = matrix.shape[1], self.releases(matrix.shape[1])[2].shape[0]
        own_counts = np.append((matrix != 0).sum(axis=0), matrix.shape[0]).astype(np.float64)
        counts, sums = np.rint((yield SecSum(own_counts))), []
        rows, root = self._weighed(matrix, counts)
        start = start_block(self.start_seed, features, self.rank)
        block = orthonormalise(start, start)
        for _ in range(self.iterations):
            sums.append((yield SecSum(share_of(rows, block, None))))
            block = orthonormalise(normalised(sums[-1])[0], start)
        V = orthonormalise(block * root, start)
        return PartyResult({"counts": counts, "V": V, "sums": np.stack(sums[:early])})

    def _weighed(self, matrix: sp.csr_array, counts: Floats) -> tuple[sp.csr_array, Floats]:
        support, documents = counts[:-1], counts[-1]
        idf = np.array([math.log(documents / count) if count else 0.0 for count in support])
        root = np.sqrt(np.divide(support, support + self.shrink, out=np.zeros_like(support), where=support > 0))
        rows = weighed(matrix, None, "tf-idf", "public", "l2", idf)
        return sp.csr_array(rows.multiply(root[None, :])), root

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run all parties; `rng` is not used."""
        return Observables(drive([self.party(rows, len(database.parties)) for rows in database.parties])[0].public)

    def _equations(self, seen: Observables, pool: Pool, added: Added) -> tuple[Adds, LinearSystem]:
        """x <x, v> for the rows v of each early block and x as the run weighs it, and the sums of these."""
        counts, sums = announced(seen, "counts"), announced(seen, "sums")
        start = start_block(self.start_seed, sums.shape[-1], self.rank)
        first = [start, *(normalised(total)[0] for total in sums[:-1])]
        blocks = np.stack([orthonormalise(block, start) for block in first])
        system = LinearSystem(sums.ravel(), np.full(sums.size, added("sums", sums)))
        return lambda rows: moment_numbers(self._weighed(rows, counts)[0], blocks), system
