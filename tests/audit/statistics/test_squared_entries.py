"""One pass over squared entries for all who ask, against plain loops, and whoever else asks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.squared_entries import EntryColumns, ask, over_entries

FEATURES = 20


def documents() -> Documents:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(15, FEATURES)) * (rng.random((15, FEATURES)) < 0.4)
    dense[4] = 0.0
    return Documents(sp.csr_array(dense))


def columns(count: int, *, largest: bool = False) -> EntryColumns:
    """Some columns, the same for the same count."""
    values = np.random.default_rng(count).random((FEATURES, count)).astype(np.float32)

    def fill(lanes: np.ndarray) -> None:
        lanes[:] = values

    return EntryColumns(count, fill, largest)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("count", [1, 2, 15])
def test_columns_are_summed_or_searched(count: int, largest: bool) -> None:
    held, some = documents(), columns(count, largest=largest)
    values = np.zeros((FEATURES, count), dtype=np.float32)
    some.fill(values)
    found = over_entries(Observables({}), held, "c", some)
    products = held.matrix.toarray()[:, :, None] ** 2 * values
    wanted = products.max(axis=1) if largest else products.sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_nobody_changes_what_another_gets() -> None:
    held, seen = documents(), Observables({})
    asked = {"a": columns(28), "b": columns(2, largest=True), "c": columns(3), "d": columns(1, largest=True)}
    for name, some in asked.items():
        ask(seen, held, name, some)
    late = over_entries(seen, held, "late", columns(5))
    for name, some in (*asked.items(), ("late", columns(5))):
        alone = over_entries(Observables({}), held, name, some)
        assert (over_entries(seen, held, name, some) == alone).all()
    assert (late == over_entries(seen, held, "late", columns(5))).all()
    again = columns(4)
    assert (over_entries(seen, held, "again", again) == over_entries(Observables({}), held, "again", again)).all()
