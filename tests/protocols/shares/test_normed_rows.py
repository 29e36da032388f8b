"""Rows of a sum divided by their lengths, on shares, beside the ideal functionality."""

from typing import Any

import numpy as np
import pytest

from ksdp.protocols.shares import matrices
from ksdp.protocols.shares.field import added, integers_of, split
from ksdp.protocols.shares.matrices import NORM_BITS, SHORTEST, normed_rows

from ..conftest import seeded
from .test_bounds import check, watched
from .together import compute_together


def works(rows: np.ndarray) -> list[Any]:
    """Rows relative to the longest that is allowed."""
    entered = np.rint(rows.ravel() * 2.0**NORM_BITS).astype(np.int64)
    shares = [integers_of(added([s]), (entered.size,)) for s in split(entered, seeded("rows"))]
    return [lambda runtime, s=s: normed_rows(runtime, s.reshape(rows.shape)) for s in shares]


def lengths(values: list[float], features: int = 7) -> np.ndarray:
    rows = np.random.default_rng(3).standard_normal((len(values), features))
    return rows * (np.array(values) / np.linalg.norm(rows, axis=1))[:, None]


def test_directions_are_those_of_the_ideal_functionality_for_every_length() -> None:
    values = [1.0, 0.5, *np.geomspace(1.3 * SHORTEST, 0.999, 40), *(2.0**-k for k in range(2, 27))]
    rows = lengths(values)
    results, _, _ = compute_together(works(rows), seeded("norms"))
    found = results[0]["rows"]
    exact = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    allowed = 2.0**-34 + np.sqrt(rows.shape[1]) * 2.0**-NORM_BITS / np.array(values)
    assert (np.abs(found - exact).max(axis=1) <= allowed).all()
    assert all((other["rows"] == found).all() for other in results)


def test_of_what_is_too_short_nothing_is_opened() -> None:
    results, _, _ = compute_together(works(lengths([0.0, SHORTEST / 2, 0.3])), seeded("short"))
    found = results[0]["rows"]
    assert np.abs(found[:2]).max() <= 2.0**-34
    assert abs(np.linalg.norm(found[2]) - 1.0) < 1e-9


@pytest.mark.parametrize("length", [0.0, SHORTEST / 4, SHORTEST, 0.7 * SHORTEST, 1.0])
def test_no_product_is_larger_than_was_said(length: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.zeros((2, 5))
    rows[0, 2], rows[1] = length, length / np.sqrt(5.0)
    check(watched(monkeypatch, matrices, works(rows)))
