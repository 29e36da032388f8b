"""What a function announces beside its numbers: which arrays, types, lengths and signs of zeros."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import ksdp
from ksdp.audit.errors import InputError, InvalidAudit

Matrix = NDArray[np.float64]
MARKED = 7
FEW = {"party_size": 0.5, "with_runs": 60, "without_runs": "all", "fresh_runs": 0, "margin": 0.4, "seed": 3}


@pytest.fixture(scope="module")
def data() -> Matrix:
    rows = np.random.default_rng(0).poisson(1.0, (24, 5)).astype(float) + 1.0
    rows[MARKED, 0] = 99.0
    return rows


def announcing(
    given: Callable[[float, bool, np.random.Generator], Any],
) -> Callable[[Matrix, np.random.Generator], Any]:
    """A mechanism that announces noise, and something else according to whether the marked document is in."""

    def mechanism(rows: Matrix, rng: np.random.Generator) -> Any:
        return given(float(rng.normal()), bool((rows[:, 0] == 99.0).any()), rng)

    return mechanism


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda noise, inside, rng: {"a": noise} | ({"b": 0.0} if inside else {}), "'b' is (declared|announced)"),
        (lambda noise, inside, rng: np.full(2, noise, np.float32 if inside else np.float64), "as float(32|64)"),
        (lambda noise, inside, rng: np.full(3 if inside else 2, noise), r"of shape \((2|3),\)"),
        (lambda noise, inside, rng: np.array([noise, np.nan if inside else 0.0]), "NaN or infinity in 'output'"),
        (lambda noise, inside, rng: int(inside) if inside else 0.0, "as (int|float)64"),
    ],
    ids=["array", "dtype", "length", "nan", "scalar dtype"],
)
def test_what_is_announced_in_some_runs_alone_voids_the_audit(data: Matrix, given: Any, message: str) -> None:
    with pytest.raises((InvalidAudit, InputError), match=message):
        ksdp.audit(data, announcing(given), **FEW)


def test_zeros_have_no_sign(data: Matrix) -> None:
    """Rounded, small negative numbers are -0.0 in some runs, which stops no audit."""
    centred = data - data.mean(axis=0)
    found = ksdp.audit(centred, lambda rows, rng: np.round(rows.mean(axis=0), 1), **FEW)
    assert found.summary.valid
