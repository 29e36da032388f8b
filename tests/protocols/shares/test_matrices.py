"""Arithmetic and functions of matrices on shares, three parties in one process, beside NumPy."""

from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest

from ksdp.protocols.shares.arithmetic import FRACTION, Local, SharedArithmetic, fixed, product, reals
from ksdp.protocols.shares.matrices import FACTOR_FRACTION, inverse_root, leading, reciprocal
from ksdp.protocols.shares.sizes import COEFFICIENT_BITS, SCALE_FRACTION, cubic_steps, quadratic_steps

from ..conftest import seeded
from .together import compute_together
from .together import shared as of_whole


def shared(array: np.ndarray, seed: int, fraction: int = FRACTION) -> list[np.ndarray]:
    return of_whole(fixed(array, fraction), seed)


def computed(work: Callable[[SharedArithmetic, int], Coroutine[Any, Any, Any]]) -> Any:
    works = [lambda runtime, place=place: work(SharedArithmetic(runtime), place) for place in range(3)]
    return compute_together(works, seeded("compute"))[0][0]


def test_public_numbers_are_coded_exactly_and_back() -> None:
    values = np.array([0.0, 1.0, -1.5, 2.0**-30, -(2.0**20), 0.1])
    assert (reals(fixed(values), FRACTION) == values).all()


def test_a_rounded_product_is_within_three_units() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((5, 4)), rng.standard_normal((4, 3))
    a, b = shared(left, 1, 30), shared(right, 2, 30)

    async def work(shares: SharedArithmetic, place: int) -> Any:
        (found,) = await shares.rounded(Local(product(a[place], b[place]), 66, 30))
        return await shares.opened(found)

    exact = reals(fixed(left, 30), 30) @ reals(fixed(right, 30), 30)
    off = (reals(computed(work), 30) - exact) * 2**30
    assert np.all((off > -1.01) & (off < 3.01))


@pytest.mark.parametrize("least", [2.0**-24, 2.0**-18, 2.0**-11])
def test_the_public_polynomials_stay_in_the_interval_and_end_at_one(least: float) -> None:
    unit = 2.0**COEFFICIENT_BITS
    x = np.concatenate([np.geomspace(least, 1.0, 2000), np.linspace(0.0, 1.0, 2001)])
    t = x.copy()
    for a, b in cubic_steps(least):
        x = x * (a - b * x * x) / unit
        assert x.min() >= -1e-12
        assert x.max() <= 1 + 1e-12
    for a, b in quadratic_steps(least):
        t = t * (a - b * t) / unit
        assert t.min() >= -1e-12
        assert t.max() <= 1 + 1e-12
    np.testing.assert_allclose(x[:2000], 1.0, atol=1e-13)
    np.testing.assert_allclose(t[:2000], 1.0, atol=1e-13)


@pytest.mark.parametrize("value", [1.0, 0.3, 2.0**-20])
def test_a_reciprocal(value: float) -> None:
    given = shared(np.array([value]), 5)

    async def work(shares: SharedArithmetic, place: int) -> Any:
        return await shares.opened(await reciprocal(shares, given[place]))

    np.testing.assert_allclose(reals(computed(work), SCALE_FRACTION), 1 / value, rtol=1e-8)


def test_an_inverse_root_orthonormalises() -> None:
    block = np.random.default_rng(1).standard_normal((9, 3)) @ np.diag([1.0, 0.1, 0.01])
    block /= np.linalg.norm(block, 2)
    gram = shared(block.T @ block, 6)

    async def work(shares: SharedArithmetic, place: int) -> Any:
        return await shares.opened(await inverse_root(shares, gram[place]))

    found = block @ reals(computed(work), FACTOR_FRACTION)
    np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-9)


def test_projectors_on_leading_eigenvectors_and_a_tie() -> None:
    values = [0.4, 0.25, 0.1, 0.1, 0.05]
    axes = np.linalg.qr(np.random.default_rng(4).standard_normal((5, 5)))[0]
    matrix = axes @ np.diag(values) @ axes.T
    given = shared(matrix, 7)

    async def work(shares: SharedArithmetic, place: int) -> Any:
        found = await leading(shares, given[place], (1, 2, 3))
        return await shares.opened(found.projectors), await shares.opened(found.separated)

    projectors, found = computed(work)
    turn = np.linalg.eigh(matrix)[1][:, ::-1]
    assert found.tolist() == [1, 1, 0]
    for rank in (1, 2):
        exact = turn[:, :rank] @ turn[:, :rank].T
        np.testing.assert_allclose(reals(projectors[rank - 1], FRACTION), exact, atol=1e-9)
