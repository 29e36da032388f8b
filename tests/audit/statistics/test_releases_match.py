"""The matched filter on noisy sums of second moments: what documents add, and who is in."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.releases_match import ReleasesMatch, moment_terms


def rows(n: int = 24, d: int = 16, seed: int = 1) -> sp.csr_array:
    """Some longer than 1, some shorter."""
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) * rng.uniform(0.05, 1.0, (n, 1)))


@pytest.mark.parametrize("kind", [HardtRoth, BrokenPower])
@pytest.mark.parametrize("unit", ["record", "entry-printed"])
def test_what_documents_add_makes_the_sums(kind: type[HardtRoth], unit: str) -> None:
    made, matrix = kind(rank=2, iterations=4, epsilon=1e9, unit=unit), rows()
    seen = made.run(Database((matrix,)), np.random.default_rng(0))
    blocks, deviations = made.asked(seen["sums"], None)
    terms = moment_terms(made.bounded(matrix), blocks)
    assert deviations.max() < 1e-3
    noise = 6 * np.repeat(deviations, seen["sums"][0].size)
    assert (np.abs(terms.summed(np.ones(24)) - seen["sums"].ravel()) < noise + 1e-9).all()
    told = made.transcript(Database((matrix,)), np.random.default_rng(0))
    np.testing.assert_allclose(deviations, [one.deviation for one in told])


@pytest.mark.parametrize("others", ["none", "fixed", "colluding"])
def test_without_much_noise_it_tells_who_is_in(others: str) -> None:
    matrix, fixed, rng = rows(), rows(8, seed=5), np.random.default_rng(2)
    held = np.isin(np.arange(24), rng.choice(24, 12, replace=False))
    mechanism = HardtRoth(rank=2, iterations=4, epsilon=1e9)
    parties, pool = [sp.csr_array(matrix[held])], Pool(matrix, 0.5, mechanism=mechanism)
    if others != "none":
        parties.append(fixed)
        pool = Pool(matrix, 0.5, fixed, mechanism, 1.0, others == "colluding")
    coalition = frozenset({1}) if others == "colluding" else frozenset[int]()
    seen = mechanism.run(Database(tuple(parties), coalition), np.random.default_rng(0))
    documents = Documents(matrix, pool=pool)
    found = ReleasesMatch().evaluate(Observables(seen), documents)
    assert found[held].min() > found[~held].max()
    some = [3, 17, 4]
    alone = ReleasesMatch().evaluate(Observables(seen), Documents(sp.csr_array(matrix[some]), pool=pool))
    np.testing.assert_array_equal(alone, found[some])


def test_the_size_of_the_noise_is_reckoned_with() -> None:
    """With much noise the filter is the likelihood ratio of noise alone: terms times sums, over its variance."""
    mechanism, matrix = HardtRoth(rank=2, iterations=3, epsilon=0.01), rows()
    seen = mechanism.run(Database((sp.csr_array(matrix[:12]),)), np.random.default_rng(0))
    found = ReleasesMatch().evaluate(
        Observables(seen), Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
    )
    blocks, _ = mechanism.asked(seen["sums"], None)
    terms = moment_terms(mechanism.bounded(matrix), blocks).written()
    plain = (terms - terms.mean(axis=0)) @ (seen["sums"].ravel() - 0.5 * terms.sum(axis=0))
    assert np.corrcoef(found, plain)[0, 1] > 0.9999


def test_it_is_tried_where_the_sums_are_shown() -> None:
    assert [s.name for s in HardtRoth().statistics] == ["releases-match"]
    assert HardtRoth(opens="final").statistics == ()
    assert HardtRoth(announce=("V",)).statistics == ()
