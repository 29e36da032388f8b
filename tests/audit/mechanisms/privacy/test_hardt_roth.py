"""The noisy power method."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.audit.mechanisms.party_side import NoisySum
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth

from .neighbours import neighbours, of_any_neighbours


def database(rows: int = 3000, scale: float = 1.0) -> Database:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 6)) * [1.0, 0.8, 0.1, 0.1, 0.05, 0.05] * scale
    return Database((sp.csr_array(X[: rows // 3]), sp.csr_array(X[rows // 3 :])))


def test_with_a_large_budget_it_is_the_leading_subspace_of_the_clipped_rows() -> None:
    data = database(scale=0.1)  # no row is clipped
    V = HardtRoth(rank=2, iterations=8, epsilon=1e6).run(data, np.random.default_rng(1))["V"]
    X = np.vstack([part.toarray() for part in data.parties])
    true = np.linalg.svd(X, full_matrices=False)[2][:2]
    assert subspace_sine(V, true) < 2e-3


@of_any_neighbours
def test_no_record_changes_a_release_by_more_than_the_sensitivity(seed: int, adjacency: str) -> None:
    """Rows longer than the bound, too; Z arbitrary with orthonormal columns."""
    rng = np.random.default_rng(seed)
    mechanism = HardtRoth(rank=2, adjacency=adjacency, row_bound=1.3)
    X, Y = neighbours(rng, adjacency)
    Z = np.linalg.qr(rng.normal(size=(5, 2)))[0]

    def moments(rows: np.ndarray) -> np.ndarray:
        clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True) / 1.3, 1)
        return np.asarray(clipped.T @ clipped @ Z)

    assert np.linalg.norm(moments(X) - moments(Y)) <= mechanism.sensitivity(5)


def test_the_printed_noise_is_that_of_the_paper() -> None:
    printed = HardtRoth(rank=3, iterations=4, epsilon=0.5, delta=1e-6, unit="entry-printed")
    block = np.full((3, 9), 0.25)
    assert printed.deviation(block) == pytest.approx(0.25 / 0.5 * math.sqrt(4 * 3 * 4 * math.log(1e6)))
    assert not printed.guarantee.sound


def test_colluders_leave_enough_noise() -> None:
    """Noise made together: what is left to those who know most is what is promised, whoever is looked at."""
    mechanism, data = HardtRoth(rank=2, colluders=1), database()
    for asked in (data, replace(data, coalition=frozenset({1})), Database(data.parties[:1])):
        told = mechanism.transcript(asked, np.random.default_rng(0))[0]
        assert told.deviation == pytest.approx(
            HardtRoth(rank=2).transcript(data, np.random.default_rng(0))[0].deviation
        )
    request = next(mechanism.party(data.parties[0], 2))
    assert isinstance(request, NoisySum)
    assert request.part(5) * math.sqrt(4) == pytest.approx(request.deviation)
    with pytest.raises(CorpusError, match="colluders"):
        request.part(1)


def test_the_broken_control_has_a_tenth_of_the_noise() -> None:
    data = database()
    true, broken = (
        m.transcript(data, np.random.default_rng(0))[0].deviation for m in (HardtRoth(rank=2), BrokenPower(rank=2))
    )
    assert broken == pytest.approx(true / 10)


@pytest.mark.parametrize(
    "parameters",
    [
        {"rank": 0},
        {"iterations": 0},
        {"epsilon": -1.0},
        {"delta": 0.0},
        {"row_bound": 0.0},
        {"unit": "row"},
        {"adjacency": "swap"},
        {"colluders": -1},
        {"sampler": "numpy"},
    ],
)
def test_bad_parameters_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(SpecError):
        HardtRoth(**parameters)  # type: ignore[arg-type]
