"""Counts that chose the columns, and the sums of rounds in these: one set of equations."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool, Statistic
from ksdp.audit.mechanisms.counted import Counted
from ksdp.audit.statistics.linear import releases
from ksdp.audit.statistics.linear.counts import evaluated
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums, with_count_equations
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.verdicts.laws import ks_table

ROWS = sp.csr_array(np.random.default_rng(0).poisson(np.geomspace(1.5, 0.02, 40), (300, 40)).astype(np.float64))


@pytest.mark.parametrize(
    ("name", "statistic"), [("pd-nmf", LinearSums()), ("pd-svd", LinearBlocks()), ("sigma-svd", LinearBlocks())]
)
def test_both_together_tell_more_than_the_sums(
    name: str, statistic: Statistic, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(name, at_least=20, parameters={"rank": 1})
    documents = Documents(ROWS, pool=Pool(ROWS, 0.5, mechanism=counted))
    held = np.isin(np.arange(300), np.random.default_rng(1).choice(300, 150, replace=False))
    seen = counted.run(Database((sp.csr_array(ROWS[held]),)), np.random.default_rng(0))
    stored = {name: np.float32(array).astype(np.float64) for name, array in seen.items()}

    def told() -> float:
        values = evaluated(statistic, Observables(dict(stored)), documents)
        return float(ks_table(values[None].astype(np.float32), held[None]).distance[0])

    joined = told()
    monkeypatch.setattr(releases, "with_count_equations", lambda _, terms, known: (terms, known))
    assert joined > told() + 0.03


def test_the_counts_of_kept_columns_are_numbers_of_their_own() -> None:
    counts = np.array([3.0, 0.0, 2.0])
    rows = sp.csr_array(np.array([[2.0, 0.0, 0.0], [1.0, 0.0, 5.0], [1.0, 0.0, 1.0]]))

    def terms(some: sp.csr_array, _turned: object = None) -> FactoredContributions:
        return FactoredContributions.plain(some, np.ones((some.shape[0], 1)))

    known = LinearSystem(np.arange(3.0), exact=True)
    made, joined = with_count_equations(Pool(rows, counts=counts), terms, known)
    assert joined.sums.tolist() == [0.0, 1.0, 2.0, 3.0, 2.0]  # type: ignore[union-attr]
    np.testing.assert_array_equal(made(rows).written()[:, 3:], [[1, 0], [1, 1], [1, 1]])
    for pool, of in (
        (Pool(rows), known),
        (Pool(rows, counts=counts, fixed=rows), known),
        (Pool(rows, counts=counts), LinearSystem(np.arange(3.0))),
    ):
        assert with_count_equations(pool, terms, of) == (terms, of)
