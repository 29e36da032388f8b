"""Statistics of all rounds against dense arithmetic, written differently."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

from ksdp.audit.contract import Observables
from ksdp.audit.registry import statistics
from ksdp.audit.statistic import Documents
from ksdp.audit.statistics.products import wide_products

RNG = np.random.default_rng(3)
DENSE = RNG.random((12, 30)) * (RNG.random((12, 30)) < 0.3)
DOCUMENTS = Documents(sp.csr_array(DENSE))


def values(name: str, **arrays) -> np.ndarray:
    return statistics()[name].evaluate(Observables(arrays), DOCUMENTS)


@pytest.mark.parametrize("rows", [1, 15, 16, 17, 70])
def test_wide_products_are_products(rows: int) -> None:
    other = RNG.normal(size=(rows, 30))
    found = wide_products(Observables({}), DOCUMENTS, "other", other)
    np.testing.assert_allclose(found, DENSE @ other.T, rtol=1e-5, atol=1e-5)


def test_span_energy_and_leverage() -> None:
    rows = np.vstack([np.linalg.qr(RNG.normal(size=(30, 9)))[0].T, np.zeros((3, 30))])
    sigma = np.append(np.linspace(1, 0.1, 9), np.zeros(3))
    np.testing.assert_allclose(
        values("span-energy", V=rows[:2], span=rows), ((DENSE @ rows.T) ** 2).sum(axis=1), rtol=1e-5
    )
    mean = RNG.random(30)
    projected = (DENSE - mean) @ rows[:9].T
    found = values("span-energy", V=rows[:2], span=rows, mean=mean)
    np.testing.assert_allclose(found, (projected**2).sum(axis=1), rtol=1e-5)
    found = values("span-leverage", V=rows[:2], span=rows, span_sigma=sigma, mean=mean)
    np.testing.assert_allclose(found, ((projected / sigma[:9]) ** 2).sum(axis=1), rtol=1e-5)
    assert not values("span-leverage", V=rows[:2], span=rows * 0, span_sigma=sigma * 0).any()


def test_energy_in_the_sums_is_a_least_squares_fit() -> None:
    sums, total, numerators = RNG.random((3, 2, 30)), RNG.random((2, 30)), RNG.random((2, 30))
    sums[2, 1] = 2 * sums[0, 0]
    space = np.vstack([*sums, total, numerators])
    fitted = np.linalg.lstsq(space.T, DENSE.T, rcond=None)[0]
    expected = (DENSE**2).sum(axis=1) - ((DENSE.T - space.T @ fitted) ** 2).sum(axis=0)
    found = values("sums-energy", sums=sums, total=total, numerators=numerators)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_weights_are_summed() -> None:
    topics, weights, whole = RNG.random((3, 30)), RNG.random((2, 3)), RNG.random(3)
    expected = [nnls(topics.T, x)[0] @ (weights.sum(axis=0) + whole) for x in DENSE]
    np.testing.assert_allclose(
        values("weights-sum", T=topics, weights=weights, total_weights=whole), expected, rtol=1e-6, atol=1e-9
    )
    wide, each = RNG.random((2, 3, 30)), RNG.random((3, 30))
    expected = [nnls(topics.T, x)[0] @ (wide.mean(axis=2).sum(axis=0) + each.mean(axis=1)) for x in DENSE]
    found = values("weights-sum", T=topics, weights=wide, total_weights=each)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_numbers_of_rounds_are_the_same_for_all() -> None:
    assert values("round-count", sweeps=np.array([7.0])).tolist() == [7.0] * 12
    assert values("init-round-count", init_sweeps=np.array([3.0])).tolist() == [3.0] * 12
    assert values("largest-scale", scales=np.array([1.0, 5.0])).tolist() == [5.0] * 12
