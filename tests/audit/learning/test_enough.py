"""From how many documents on: the formulas against what runs really show."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.learning.enough import RATIO, documents_enough, documents_hiding, noise_norm, typical_distance
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.privacy.moments import Moments


@pytest.mark.parametrize(("features", "documents"), [(3, 30), (4, 30), (4, 120)])
def test_the_typical_distance_is_what_the_best_attack_measures(features: int, documents: int) -> None:
    """Normal documents; the attack is the likelihood ratio of two normal laws of the sum, with and without x."""
    rng = np.random.default_rng(features * documents)
    upper = np.triu_indices(features)
    numbers = len(upper[0])
    runs = 1000

    def sums(rows: np.ndarray) -> np.ndarray:
        return (rows.transpose(0, 2, 1) @ rows)[:, upper[0], upper[1]]

    others = sums(rng.standard_normal((runs, documents, features)))
    mean = np.where(upper[0] == upper[1], 1.0, 0.0)
    variance = np.where(upper[0] == upper[1], 2.0, 1.0)
    found = []
    for x in rng.standard_normal((30, features)):
        own = np.outer(x, x)[upper]
        scores = others @ ((own - mean) / variance)
        # With x it stands in the place of one other document.
        with_x = sums(rng.standard_normal((runs, documents - 1, features))) + own
        found.append(ks_2samp(with_x @ ((own - mean) / variance), scores).statistic)
    chance = 0.87 * np.sqrt(2 / runs)  # the mean of D where nothing leaks
    measured = np.mean(np.sqrt(np.maximum(np.square(found) - chance**2, 0)))
    assert measured == pytest.approx(typical_distance(numbers, documents), rel=0.25)


def test_documents_hiding_undo_the_distance() -> None:
    for numbers in (10, 465, 7000):
        needed = documents_hiding(numbers, 0.15)
        assert typical_distance(numbers, needed) <= 0.15 < typical_distance(numbers, needed - 1) + 1e-3


def test_the_norm_of_noise_is_that_of_symmetric_normal_matrices() -> None:
    rng = np.random.default_rng(0)
    noise = sum(np.triu(rng.normal(0, 0.7, (120, 120))) for _ in range(3))
    symmetric = noise + np.triu(noise, 1).T
    assert np.abs(np.linalg.eigvalsh(symmetric)).max() == pytest.approx(noise_norm(0.7, 120, 3), rel=0.1)


def corpus(count: int, features: int = 8) -> sp.csr_array:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((count, features)) * np.geomspace(0.5, 0.02, features)
    return sp.csr_array(rows)


def test_enough_documents_keep_the_energy_and_too_few_do_not() -> None:
    """At the forecast number noise costs little of the energy; at a tenth of it more."""
    mechanism = Moments(rank=2, advantage=0.2)
    found = documents_enough(mechanism, corpus(500), in_a_run=250, parties=1, margin=0.2, proved=0.2)
    assert found is not None
    assert found.safe == 0
    assert found.useful is not None
    assert "proved" in found.sentence

    def kept(count: int) -> float:
        rows = corpus(count)
        best = np.linalg.eigvalsh((rows.T @ rows).toarray())[-2:].sum()
        seen = [mechanism.run(Database((rows,)), np.random.default_rng(seed))["V"] for seed in range(20)]
        return float(np.mean([np.linalg.norm(rows @ V.T) ** 2 for V in seen]) / best)

    assert kept(found.useful) > 0.99
    assert kept(found.useful // 10) < kept(found.useful) - 0.01


def test_what_promises_nothing_is_safe_from_some_number_on() -> None:
    matrix = corpus(500)
    found = documents_enough(PDSVD(rank=2, opens="final"), matrix, in_a_run=200, parties=3, margin=0.2)
    assert found is not None
    assert found.ratio is None
    assert found.distance == pytest.approx(typical_distance(16, 200))
    assert found.safe == pytest.approx(documents_hiding(16, 0.15) * 2.5, abs=3)
    strong = documents_enough(Moments(rank=2, noise=1e-3), matrix, in_a_run=200, parties=3, margin=0.2)
    assert strong is not None
    assert strong.ratio is not None
    assert strong.ratio > RATIO
    assert strong.safe > 0


def test_nothing_is_said_of_what_is_not_known() -> None:
    assert documents_enough(PDNMF(rank=2), corpus(50), in_a_run=20, parties=3, margin=0.2) is None
    assert documents_enough(PDSVD(rank=2), corpus(50), in_a_run=20, parties=3, margin=0.0) is None
