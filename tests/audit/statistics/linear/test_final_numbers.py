"""Numbers of a final output that say who was in to whoever follows the run, which no column does, are counted."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import lsq_linear

from ksdp.audit.contract import Database, Mechanism, Release
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.pilot import final_numbers

COUNT, WIDE = 30, 20
FINAL = {"rank": 3, "opens": "final"}
POWER = FINAL | {"solver": "power"}


@pytest.fixture
def rows() -> np.ndarray:
    """Four sources and noise, of one size."""
    rng = np.random.default_rng(0)
    made = rng.dirichlet(np.full(4, 0.3), COUNT) @ rng.random((4, WIDE)) + 0.3 * rng.random((COUNT, WIDE))
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def told(rows: np.ndarray, name: str, parameters: dict[str, Any], **more: tuple[int, ...]) -> dict[str, int]:
    """As an audit of half of the rows asks, of a mechanism's own arrays or those named."""
    mechanism = make_mechanism(name, parameters)
    pool = Pool(canonical(sp.csr_array(rows)), mechanism=mechanism)
    announced = [Release(array, shape) for array, shape in more.items()]
    return final_numbers(mechanism, announced or recorded(mechanism, WIDE), pool)


def seen(mechanism: Mechanism, rows: np.ndarray, weights: np.ndarray, name: str) -> np.ndarray:
    weighted = canonical(sp.csr_array(rows * np.sqrt(weights)[:, None]))
    return np.asarray(mechanism.run(Database((weighted,)), np.random.default_rng(0))[name], np.float64).ravel()


def by_following(mechanism: Mechanism, rows: np.ndarray, target: np.ndarray, name: str) -> np.ndarray:
    """Weights of the candidates by Gauss and Newton's steps, each between 0 and 1."""
    weights, ridge = np.full(COUNT, 0.5), 1e-3
    for _ in range(12):
        now = seen(mechanism, rows, weights, name)
        steps = np.where(weights < 0.5, 1e-4, -1e-4)
        moved = [seen(mechanism, rows, weights + step, name) for step in np.diag(steps)]
        slopes = (np.array(moved) - now).T / steps
        damped = np.vstack([slopes, ridge * np.linalg.norm(slopes) * np.eye(COUNT)])
        left = np.concatenate([target - now, np.zeros(COUNT)])
        found = lsq_linear(damped, left, (-weights - 1e-12, 1.0 - weights + 1e-12))
        weights, ridge = np.clip(weights + found.x, 0.0, 1.0), ridge / 3.0
    return weights


@pytest.mark.parametrize(
    ("name", "parameters", "array"),
    [("pd-nmf", FINAL, "T"), ("pd-nmf", FINAL | {"sweeps": 3}, "T"), ("pd-svd", POWER | {"iterations": 1}, "V")],
)
def test_whoever_follows_the_run_tells_everybody_apart(
    rows: np.ndarray, name: str, parameters: dict[str, Any], array: str
) -> None:
    mechanism = make_mechanism(name, parameters)
    inside = np.zeros(COUNT)
    inside[np.random.default_rng(1).choice(COUNT, COUNT // 2, replace=False)] = 1.0
    announced = seen(mechanism, rows, inside, array).astype(np.float32).astype(np.float64)
    weights = by_following(mechanism, rows, announced, array)
    assert weights[inside == 1.0].min() > weights[inside == 0.0].max()
    assert array in told(rows, name, parameters), "no column follows it, so nobody is clear"


@pytest.mark.parametrize("sweeps", [1, 20, 40, 100])
def test_topics_without_their_sums_count_after_any_number_of_sweeps(rows: np.ndarray, sweeps: int) -> None:
    assert told(rows, "pd-nmf", FINAL | {"sweeps": sweeps}) == {"T": 3 * WIDE}
    assert told(rows, "pd-nmf", {"rank": 3, "sweeps": sweeps}) == {}, "the sums are solved for"
    assert told(rows, "pd-svd", FINAL) == {}, "V that has converged solves equations"


def test_noise_far_below_what_documents_change_hides_nobody(rows: np.ndarray) -> None:
    def noisy(noise: float) -> dict[str, int]:
        parameters = {"mechanism": "pd-nmf", "parameters": FINAL, "noise": noise, "scale": 1.0}
        return told(rows, "noisy", parameters, T=(3, WIDE))

    assert noisy(1e-6)["T"] > 0.9 * 3 * WIDE
    assert noisy(0.1) == {}
    assert told(rows, "dp-nmf", FINAL) == {}


def test_a_basis_counts_where_its_iteration_stops_before_its_equations_hold(rows: np.ndarray) -> None:
    assert set(told(rows, "pd-svd", POWER | {"iterations": 2})) == {"V"}
    assert told(rows, "pd-svd", POWER | {"iterations": 500}) == {}
    shapes = {"V": (3, WIDE), "first_blocks": (3, 3, WIDE)}
    assert told(rows, "pd-svd", {"rank": 3, "solver": "power", "iterations": 2}, **shapes) == {}
