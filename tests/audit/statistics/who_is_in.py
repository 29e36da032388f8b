"""That a matched filter of noisy sums tells who is in a run, whoever else takes part."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.statistics.contract import Documents, Pool

__all__ = ["check_it_tells_who_is_in"]


def check_it_tells_who_is_in(mechanism: Any, matrix: sp.csr_array, fixed: sp.csr_array, others: str) -> None:
    """Of a run with little noise on half of `matrix`; each document has the same bits by itself.

    Parameters
    ----------
    others : "none", or `fixed` is there: "fixed", "drawn" (half of it) or "colluding"
    """
    n = matrix.shape[0]
    held = np.isin(np.arange(n), np.random.default_rng(2).choice(n, n // 2, replace=False))
    parties, pool = [sp.csr_array(matrix[held])], Pool(matrix, 0.5, mechanism=mechanism)
    if others != "none":
        parties.append(sp.csr_array(fixed[::2]) if others == "drawn" else fixed)
        share = 0.5 if others == "drawn" else 1.0
        pool = Pool(matrix, 0.5, fixed, mechanism, share, others == "colluding")
    coalition = frozenset({1}) if others == "colluding" else frozenset[int]()
    seen = mechanism.run(Database(tuple(parties), coalition), np.random.default_rng(0))
    (statistic,) = mechanism.statistics
    found = statistic.evaluate(Observables(seen), Documents(matrix, pool=pool))
    assert found[held].min() > found[~held].max()
    some = [3, 17, 4]
    alone = statistic.evaluate(Observables(seen), Documents(sp.csr_array(matrix[some]), pool=pool))
    np.testing.assert_array_equal(alone, found[some])
