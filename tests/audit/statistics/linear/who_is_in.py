"""That a matched filter of noisy sums tells who is in a run, whoever else takes part."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear.contributions import block_numbers, sweep_numbers
from ksdp.audit.statistics.linear.operator import FactoredContributions

KINDS = ("pd-nmf", "pd-svd", "pd-pca")
"""Of mechanisms whose numbers `numbers_of` gives."""


def some_rows(n: int = 30, d: int = 40, seed: int = 1, share: float = 0.15) -> sp.csr_array:
    """Documents without entries in the last columns; the fourth has none at all."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, 5, (n, d)) * (rng.random((n, d)) < share)
    matrix[:, -5:] = matrix[3] = 0
    return sp.csr_array(matrix, dtype=np.float64)


def ratings(n: int = 24, d: int = 14, seed: int = 1) -> sp.csr_array:
    """0 to 4, where a 0 is a rating; all users have three or more."""
    rng = np.random.default_rng(seed)
    seen = rng.random((n, d)) < 0.5
    seen[:, :3] = True
    i, j = np.nonzero(seen)
    return sp.csr_array((rng.integers(0, 5, len(i)).astype(float), (i, j)), shape=(n, d))


def numbers_of(kind: str, matrix: sp.csr_array, rank: int = 3) -> FactoredContributions:
    """What documents add to the sums of a run: of PD-NMF of this rank, of the others of rank 3."""
    coins = np.random.default_rng(0)
    if kind == "pd-nmf":
        return sweep_numbers(matrix, PDNMF(rank=rank, sweeps=3).run(Database((matrix,)), coins)["topics"])
    mechanism = PDPCA(rank=3) if kind == "pd-pca" else PDSVD(rank=3)
    seen = mechanism.run(Database((matrix[::2],)), coins)
    return block_numbers(matrix, seen["first_blocks"], seen.get("mean"))


def run_among(
    mechanism: Any, matrix: sp.csr_array, held: np.ndarray, fixed: sp.csr_array, others: str
) -> tuple[Observables, Documents]:
    """A run on the rows of `matrix` that are `held`, and all rows as documents of who knows what it was made of.

    Parameters
    ----------
    others : "none", or `fixed` is there: "fixed", "drawn" (half of it) or "colluding"
    """
    parties, pool = [sp.csr_array(matrix[held])], Pool(matrix, 0.5, mechanism=mechanism)
    if others != "none":
        parties.append(sp.csr_array(fixed[::2]) if others == "drawn" else fixed)
        share = 0.5 if others == "drawn" else 1.0
        pool = Pool(matrix, 0.5, fixed, mechanism, share, others == "colluding")
    coalition = frozenset({1}) if others == "colluding" else frozenset[int]()
    seen = mechanism.run(Database(tuple(parties), coalition), np.random.default_rng(0))
    return Observables(seen), Documents(matrix, pool=pool)


def check_it_tells_who_is_in(mechanism: Any, matrix: sp.csr_array, fixed: sp.csr_array, others: str) -> None:
    """Of a run with little noise on half of `matrix`; each document has the same bits by itself."""
    n = matrix.shape[0]
    held = np.isin(np.arange(n), np.random.default_rng(2).choice(n, n // 2, replace=False))
    seen, documents = run_among(mechanism, matrix, held, fixed, others)
    (statistic,) = mechanism.statistics
    found = statistic.evaluate(seen, documents)
    assert found[held].min() > found[~held].max()
    some = [3, 17, 4]
    alone = statistic.evaluate(seen, Documents(sp.csr_array(matrix[some]), pool=documents.pool))
    np.testing.assert_array_equal(alone, found[some])


def obvious(terms: FactoredContributions) -> np.ndarray:
    """Every document's terms, one number at a time."""
    found = []
    for i, x in enumerate(terms.rows.toarray()):
        mine = []
        for r, w in enumerate(terms.weights[i]):
            pairs = zip(terms.numbers[i], terms.basis, terms.taken[:, r], strict=True)
            left = x - sum((q * b for q, b, counts in pairs if counts), np.zeros(len(x)))
            mine += [w * entry for entry in left]
        found.append([*mine, *terms.scalars[i]])
    return np.array(found)
