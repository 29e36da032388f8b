"""PEM on one machine: real processes and connections; what comes out, and what ends a run."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.functions import PemKMeans
from ksdp.audit.mechanisms.pem.noise import Budget, Vetted
from ksdp.extras.pem.processes import run_pem
from ksdp.extras.pem.spec import PemRunSpec

ALGORITHM = PemKMeans(2, 6, bound=6.0, fraction_bits=0)
RECORDS = sp.csr_array((np.random.default_rng(0).random((60, 6)) < 0.5).astype(float))
CLIENTS = {f"ward {i}": RECORDS[10 * i : 10 * i + 10] for i in range(6)}


@pytest.mark.e2e
def test_processes_come_to_the_ideal_result_and_say_what_drew_the_noise() -> None:
    """Epsilon so large that noise is 0 but with probability 1e-20: the processes must find the exact centres."""
    budget = Budget(1e4, 4)
    result = run_pem(ALGORITHM, CLIENTS, budget)
    ideal = run_ideal(ALGORITHM, [RECORDS], budget, Vetted(), noises=2)
    np.testing.assert_array_equal(result.state.arrays["centres"], ideal.final.arrays["centres"])
    assert result.rows == (60,) * 4
    assert result.epsilon == 1e4
    assert "OpenDP" in result.sampler
    assert result.refused == 0
    assert result.present == tuple(sorted(CLIENTS))
    # Six clients, two servers, four iterations, 14 entries of 8 bytes each; the rest is frames and seals.
    assert 6 * 2 * 4 * 14 * 8 < result.sent["clients"] < 6 * 2 * 4 * 14 * 8 * 5


@pytest.mark.e2e
def test_simulated_noise_is_that_of_its_seed() -> None:
    run = PemRunSpec(servers=3, processes=1, sampler="fast", seed=1, field_bits=32)
    first, again = (run_pem(ALGORITHM, CLIENTS, Budget(5.0, 2), run) for _ in range(2))
    assert "simulation" in first.sampler
    np.testing.assert_array_equal(first.state.arrays["centres"], again.state.arrays["centres"])


def test_refused_before_any_process_starts() -> None:
    with pytest.raises(InputError, match="at least one client"):
        run_pem(ALGORITHM, {}, Budget(1.0, 1))
    with pytest.raises(InputError, match="6 clients are there; `least_clients` asks for 7"):
        run_pem(ALGORITHM, CLIENTS, Budget(1.0, 1), PemRunSpec(least_clients=7))
