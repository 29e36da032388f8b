"""The examples of own PEM functions, against scikit-learn and NumPy."""

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.mixture import GaussianMixture

from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, run_ideal
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "pem-own"
RNG = np.random.default_rng(3)


def made(file: str, name: str, **parameters: Any) -> Any:
    return runpy.run_path(str(EXAMPLES / file))[name](**parameters)


def ended(algorithm: PemAlgorithm, rows: np.ndarray, epsilon: float, iterations: int) -> PemState:
    clients = [sp.csr_array(part) for part in np.array_split(rows, 7)]
    return run_ideal(algorithm, clients, Budget(epsilon, iterations), Simulated(np.random.default_rng(0))).final


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mixture_without_noise_is_that_of_scikit_learn() -> None:
    rows = np.clip(np.vstack([RNG.normal(at, 0.08, (150, 4)) for at in (0.25, 0.7)]), 0.0, 1.0)
    mixture = made("mixture.py", "Mixture", clusters=2, features=4, bound=4.0, seed=1)
    assert isinstance(mixture, PemAlgorithm)
    start = mixture.init().arrays
    known: Any = {
        "weights_init": start["parts"],
        "means_init": start["means"],
        "precisions_init": 1 / start["variances"],
    }
    again = GaussianMixture(2, covariance_type="spherical", tol=0.0, max_iter=60, reg_covar=0.0, **known).fit(rows)
    state = ended(mixture, rows, 1e12, 60)
    np.testing.assert_allclose(state.arrays["means"], again.means_, atol=1e-3)
    np.testing.assert_allclose(state.arrays["parts"], again.weights_, atol=1e-3)
    np.testing.assert_allclose(state.arrays["variances"], again.covariances_, atol=1e-3)
    noisy = ended(mixture, rows, 30.0, 5).arrays["means"]
    assert np.abs(np.sort(noisy, axis=0) - np.sort(again.means_, axis=0)).max() < 0.3


def test_power_iteration_without_noise_is_the_svd() -> None:
    rows = RNG.random((200, 6)) * [1.0, 0.8, 0.1, 0.1, 0.3, 0.05]
    algorithm = made("svd.py", "PowerIteration", rank=2, features=6, bound=12.0)
    assert isinstance(algorithm, PemAlgorithm)
    V, true = ended(algorithm, rows, 1e12, 40).arrays["V"], np.linalg.svd(rows)[2][:2]
    np.testing.assert_allclose(np.abs(V @ true.T), np.eye(2), atol=1e-4)
    first = ended(algorithm, rows, 100.0, 4).arrays["V"][0]
    assert abs(first @ true[0]) > 0.9
