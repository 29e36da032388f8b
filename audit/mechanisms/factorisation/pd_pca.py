"""PD-PCA: principal components of all parties' rows, and the global mean that they are centred with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Announced, Database, Observables
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import sec_sum
from ksdp.audit.mechanisms.guarantee import Guarantee, measured


@dataclass(frozen=True)
class PDPCA(PDSVD):
    """PD-PCA: PD-SVD (PD-ML-Lite, Algorithm 4) of X - 1 mean^T with the *global* mean.

    Not Algorithm 6 as printed. That has each party subtract its own mean, and its formula multiplies the
    *sum* of a party's rows by n_m / n where the mean is meant: with parties that differ it is not the PCA of
    their rows together. Here a SecSum of the column sums and one of the row counts give the global mean, all
    parties centre with it, and the result is the centralised PCA. The price is that the mean is announced.

    Announces ``mean``, shape (features,): the mean of the rows *outside* the coalition, because a coalition
    subtracts its own sums and counts from those announced (without a coalition, the global mean). ``V``,
    shape (rank, features): the principal axes, one a row, in the signs of the block power iteration. With
    `reveal_sigma` also ``sigma``, shape (rank,): singular values of the centred rows; the explained variances
    (n - 1 in the denominator) are sigma^2 / (n - 1). A run that opens every round shows ``span``,
    ``span_sigma``, ``first_blocks``, ``block_sums`` and ``iterations`` as `PDSVD`'s, of the centred rows.

    The centring is implicit: sparse rows stay sparse.

    Parameters
    ----------
    rank, reveal_sigma, solver, iterations, tolerance, start_seed, opens
        As in `PDSVD`.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rng = np.random.default_rng(0)
    >>> rows = sp.csr_array(rng.random((20, 5)))
    >>> seen = PDPCA(rank=2).run(Database((rows[:8], rows[8:]), coalition=frozenset({1})), rng)
    >>> bool(np.allclose(seen["mean"], rows[:8].mean(axis=0)))
    True
    """

    name: ClassVar[str] = "pd-pca"
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithm 6")

    @property
    def final(self) -> tuple[str, ...]:
        """The mean and the axes: what new rows are projected with."""
        return ("mean", *super().final)

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces.

        Raises
        ------
        SpecError
            If `rank` is not below `features`.
        """
        return (Announced("mean", (features,)), *super().observables(features))

    def _sums(self, database: Database) -> list[NDArray[np.float64]]:
        return [np.asarray(part.sum(axis=0), dtype=np.float64) for part in database.parties]

    def _centre(self, database: Database) -> NDArray[np.float64]:
        return sec_sum(self._sums(database)) / max(database.rows, 1)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Centre and decompose the rows of all parties; `rng` is not used, as the protocol draws nothing.

        Raises
        ------
        CorpusError
            If `rank` is not below the number of rows and of features of the database.
        """
        sums, mean = self._sums(database), self._centre(database)
        seen = mean
        if database.coalition:
            outside = database.outside
            count = sum(database.parties[i].shape[0] for i in outside)
            seen = sec_sum([sums[i] for i in outside]) / max(count, 1)
        return Observables({"mean": seen, **self._decompose(database, mean)})
