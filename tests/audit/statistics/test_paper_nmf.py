from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.paper_nmf import PAPER_NMF, sigma


@pytest.fixture
def documents() -> Documents:
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, (20, 25)) * (rng.random((20, 25)) < 0.4)
    unit = rng.random((20, 25)) * (rng.random((20, 25)) < 0.3)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return Documents(sp.csr_array(np.vstack([ratings, unit, np.zeros((1, 25))]).astype(float)))


def topics(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).random((4, 25)) ** 4
    return drawn / drawn.sum(1, keepdims=True)


def test_sigma_is_the_weighted_sum_of_coefficients_in_the_unit_box(documents: Documents) -> None:
    basis, weights = topics(1), np.array([3.0, 0.5, 10.0, 0.0])
    found = sigma(Observables({"T": basis, "denominators": weights}), documents)
    expected = [
        lsq_linear(basis.T, x, (0, 1), method="bvls", tol=1e-14).x @ weights for x in documents.matrix.toarray()
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert found[-1] == 0


def test_a_denominator_an_entry_counts_by_its_mean_over_features(documents: Documents) -> None:
    entries = np.random.default_rng(2).random((4, 25))
    weighted = sigma(Observables({"T": topics(1), "denominators": entries}), documents)
    plain = sigma(Observables({"T": topics(1), "denominators": entries.sum(1) / 25}), documents)
    np.testing.assert_allclose(weighted, plain, rtol=1e-13)
    everywhere = np.repeat([[2.0], [1.0], [4.0], [3.0]], 25, axis=1)
    np.testing.assert_allclose(
        sigma(Observables({"T": topics(1), "denominators": everywhere}), documents),
        sigma(Observables({"T": topics(1), "denominators": everywhere[:, 0]}), documents),
    )


@pytest.mark.parametrize("basis", [np.zeros((4, 25)), np.repeat(topics(3)[:1], 4, axis=0)])
def test_degenerate_topics_are_finite(documents: Documents, basis: np.ndarray) -> None:
    found = sigma(Observables({"T": basis, "denominators": np.ones(4)}), documents)
    assert np.isfinite(found).all()


def test_wrong_number_of_denominators_is_refused(documents: Documents) -> None:
    with pytest.raises(InputError, match=r"`denominators` must have shape .* k = 4; got \(3,\)"):
        sigma(Observables({"T": topics(1), "denominators": np.ones(3)}), documents)


def test_every_instance_is_a_statistic_of_the_paper() -> None:
    assert [(s.name, s.version, s.family, s.needs) for s in PAPER_NMF] == [
        ("sigma", 1, "paper", ("T", "denominators"))
    ]
    assert all(isinstance(s, Statistic) for s in PAPER_NMF)
