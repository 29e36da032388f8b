"""The noisy power method."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.audit.mechanisms.party_side import NoisySum
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases


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


@pytest.mark.parametrize("mechanism", [HardtRoth(rank=2), DPNMF(rank=2, sweeps=1)])
@pytest.mark.parametrize("parties", [2, 3])
def test_a_coalition_of_more_than_colluders_knows_its_own_noise(mechanism: GaussianReleases, parties: int) -> None:
    rows = sp.csr_array(np.abs(database().parties[0].toarray()))
    data = Database((rows,) * parties, frozenset({parties - 1}))
    request = next(mechanism.party(rows, parties))
    assert isinstance(request, NoisySum)
    others = math.sqrt(parties - 1) * request.part(parties)
    assert mechanism.transcript(data, np.random.default_rng(0))[0].deviation == pytest.approx(others)


def test_the_broken_control_has_a_tenth_of_the_noise() -> None:
    data = database()
    true, broken = (
        m.transcript(data, np.random.default_rng(0))[0].deviation for m in (HardtRoth(rank=2), BrokenPower(rank=2))
    )
    assert broken == pytest.approx(true / 10)
