"""What a function announces beside its numbers: which arrays, types, lengths, signs of zeros and last digits."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    "given",
    [
        lambda noise, inside, rng: np.array([noise, -0.0 if inside else 0.0]),
        lambda noise, inside, rng: np.array([noise, 0.0 if inside else -0.0]),
        lambda noise, inside, rng: np.array([noise, *((-0.0, 0.0) if inside else (0.0, -0.0))]),
    ],
    ids=["in", "out", "place"],
)
def test_the_sign_of_a_zero_is_looked_at_or_refused(data: Matrix, given: Any) -> None:
    try:
        row = ksdp.audit(data, announcing(given), **FEW).verdicts.iloc[MARKED]
        answer = f"{row['verdict']} by {row['statistic']}"
    except InvalidAudit as error:
        answer = str(error)
    assert (
        answer.startswith(("sensitive by zeros:output", "sensitive by simulated"))
        or "announced -0.0 in 'output'" in answer
    )


@pytest.mark.parametrize("shape", [(), (3,)])
def test_digits_that_single_precision_rounds_away_are_looked_at(data: Matrix, shape: tuple[int, ...]) -> None:
    def given(noise: float, inside: bool, rng: np.random.Generator) -> Matrix:
        return np.full(shape, np.float64(np.float32(noise)) + 1e-12 * inside)

    found = ksdp.audit(data, announcing(given), **FEW)
    assert found.summary.spec.store.precision == "float64"
    assert found.verdicts["verdict"].iloc[MARKED] == "sensitive"
    others = found.verdicts["verdict"].drop(found.verdicts.index[MARKED])
    assert not (others == "sensitive").any()


def test_zeros_without_a_sign_and_whole_numbers_are_audited_as_they_are(data: Matrix) -> None:
    found = ksdp.audit(data, announcing(lambda noise, inside, rng: np.array([noise, -0.0]) + 0.0), **FEW)
    assert found.summary.valid
    assert not any("zeros" in name for name in found.summary.statistics)
    counts = ksdp.audit(data, announcing(lambda noise, inside, rng: np.array([int(10 * noise)])), **FEW)
    assert not any("digits" in name or "zeros" in name for name in counts.summary.statistics)
