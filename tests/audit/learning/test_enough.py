"""From how many documents on noise hardly costs anything: the formulas against what runs really show."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.learning.enough import RATIO, documents_useful, noise_norm
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.numeric.triangles import of_isometric


@pytest.mark.parametrize("colluders", [None, 1])
def test_the_norm_of_noise_is_that_of_symmetric_normal_matrices(colluders: int | None) -> None:
    mechanism, nothing = Moments(rank=2, noise=0.7, colluders=colluders), sp.csr_array((1, 120))
    seen = mechanism.run(Database((nothing,) * 3), np.random.default_rng(0), made_by=3)
    norm = np.abs(np.linalg.eigvalsh(of_isometric(seen["moments"]))).max()
    assert norm == pytest.approx(noise_norm(mechanism, 120, 3), rel=0.1)


def corpus(count: int, features: int = 8) -> sp.csr_array:
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((count, features)) * np.geomspace(0.5, 0.02, features)
    return sp.csr_array(rows)


def test_enough_documents_keep_the_energy_and_too_few_do_not() -> None:
    """At the forecast number noise costs little of the energy; at a tenth of it more."""
    mechanism = Moments(rank=2, advantage=0.2)
    found = documents_useful(mechanism, corpus(500), parties=1)
    assert found is not None

    def kept(count: int) -> float:
        rows = corpus(count)
        best = np.linalg.eigvalsh((rows.T @ rows).toarray())[-2:].sum()
        seen = [mechanism.run(Database((rows,)), np.random.default_rng(seed))["V"] for seed in range(20)]
        return float(np.mean([np.linalg.norm(rows @ V.T) ** 2 for V in seen]) / best)

    assert kept(found.documents) > 0.99
    assert kept(found.documents // 10) < kept(found.documents) - 0.01


def test_nothing_is_said_of_what_adds_no_noise_to_moments() -> None:
    assert documents_useful(PDNMF(rank=2), corpus(50), 3) is None
    strong = documents_useful(Moments(rank=2, noise=1e-3), corpus(500), 3)
    assert strong.ratio > RATIO
