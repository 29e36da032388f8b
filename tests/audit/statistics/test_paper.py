"""The paper's statistics as printed: every d x d matrix in full, one document at a time."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from ksdp.audit.contract import Observables
from ksdp.audit.errors import InputError
from ksdp.audit.statistic import Documents, TableStatistic
from ksdp.audit.statistics.paper import PAPER, sigma

ROW = {row.name: row for row in PAPER}
OF_SVD = [row for row in PAPER if row.name != "sigma"]
OF_SQUARES = ("w-max", "w-square-sum", "w-max-revealed", "w-square-sum-revealed")


def draw(
    seed: int, *, n: int = 9, d: int = 13, k: int = 3, density: float = 0.4, mean: bool = False, scale: float = 1.0
) -> tuple[dict[str, np.ndarray], Documents]:
    """Signed documents, one of them empty and one full, and what a run and the adversary know."""
    rng = np.random.default_rng(seed)
    dense = scale * rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    dense[0] = 0.0
    dense[1] = scale * rng.normal(size=d)
    arrays = {"V": np.linalg.qr(rng.normal(size=(d, k)))[0].T, "sigma": np.sort(rng.exponential(5, k))[::-1]}
    if mean:
        arrays["mean"] = scale * rng.normal(size=d)
    background = {
        "adversary_sigma": np.sort(rng.exponential(5, k))[::-1],
        "adversary_rows": np.array(20),
        "victim_rows": np.array([5]),
    }
    return arrays, Documents(sp.csr_array(dense), background)


def matrices(name: str, arrays: dict[str, np.ndarray], documents: Documents) -> list[np.ndarray]:
    """W or D of every document in full."""
    eigenvalues = arrays["sigma"] ** 2
    if not name.endswith("-revealed"):
        eigenvalues = (5 + 20) / 20 * documents.background["adversary_sigma"] ** 2
    estimate = np.einsum("ta,t,tb->ab", arrays["V"], eigenvalues, arrays["V"])
    size = np.sqrt((estimate**2).sum()) or 1.0
    found = []
    for x in documents.matrix.toarray() - arrays.get("mean", 0.0):
        outer, norm = x[:, None] * x, np.sqrt((x**2).sum()) or 1.0
        found.append(np.abs(estimate * outer if name.startswith("w") else estimate / size - outer / norm))
    return found


def brute(name: str, arrays: dict[str, np.ndarray], documents: Documents) -> np.ndarray:
    reduce = name.removesuffix("-revealed").split("-", 1)[1]
    how: Any = {"max": np.max, "sum": np.sum, "square-sum": lambda m: (m**2).sum()}[reduce]
    return np.array([how(m) for m in matrices(name, arrays, documents)])


def near(statistic: TableStatistic, expected: np.ndarray, rtol: float, atol: float) -> dict[str, float]:
    """Tolerances: what reads squared entries is in single precision."""
    if statistic.name not in OF_SQUARES:
        return {"rtol": rtol, "atol": atol}
    return {"rtol": 2e-6, "atol": max(atol, 2e-6 * float(expected.max(initial=0.0)))}


def as_printed(
    statistic: TableStatistic,
    arrays: dict[str, np.ndarray],
    documents: Documents,
    rtol: float = 1e-10,
    atol: float = 1e-12,
) -> None:
    expected = brute(statistic.name, arrays, documents)
    found = statistic.evaluate(Observables(arrays), documents)
    np.testing.assert_allclose(found, expected, **near(statistic, expected, rtol, atol))  # type: ignore[arg-type]


WORDS = {"max": "the largest", "sum": "sum", "square-sum": "square"}
"""What a sentence says of how W or D becomes a number."""


@pytest.mark.parametrize("statistic", OF_SVD, ids=lambda s: s.name)
def test_a_sentence_says_what_is_computed(statistic: TableStatistic) -> None:
    for seed in range(3):
        arrays, documents = draw(seed, k=2)
        as_printed(statistic, arrays, documents)
    plain = statistic.name.removesuffix("-revealed")
    kind, reduce = plain.split("-", 1)
    assert statistic.sentence.startswith("The paper’s")
    assert WORDS[reduce] in statistic.sentence
    assert ("square" in statistic.sentence) == (reduce == "square-sum" or plain == "w-max")
    assert ("difference" in statistic.sentence) == (kind == "d")
    assert "product" in statistic.sentence
    assert "project" not in statistic.sentence
    assert ("announced strengths" in statistic.sentence) == statistic.name.endswith("-revealed")


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 5),
    d=st.integers(5, 12),
    density=st.sampled_from([0.0, 0.15, 0.5, 1.0]),
    mean=st.booleans(),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_statistics_are_the_printed_ones_for_any_data(
    seed: int, k: int, d: int, density: float, mean: bool, scale: float
) -> None:
    arrays, documents = draw(seed, k=k, d=d, density=density, mean=mean, scale=scale)
    for statistic in OF_SVD:
        as_printed(statistic, arrays, documents, rtol=1e-8, atol=1e-10 * (1 + scale**2))


@pytest.mark.parametrize("statistic", OF_SVD, ids=lambda s: s.name)
def test_exact_for_a_basis_that_is_not_orthonormal(statistic: TableStatistic) -> None:
    arrays, documents = draw(4)
    arrays["V"] = arrays["V"] * [[2.0], [0.5], [1.0]] + 0.1
    as_printed(statistic, arrays, documents)


def test_what_is_missing_is_named() -> None:
    arrays, documents = draw(11)
    hidden = ROW["w-max"]
    for known in hidden.needs_background:
        background = {name: value for name, value in documents.background.items() if name != known}
        with pytest.raises(InputError, match=f"`background` must hold `{known}`"):
            hidden.evaluate(Observables(arrays), Documents(documents.matrix, background))
    with pytest.raises(InputError, match="`adversary_sigma` must hold one value a row of V; got 2 for 3"):
        hidden.evaluate(
            Observables(arrays),
            Documents(documents.matrix, {**documents.background, "adversary_sigma": np.ones(2)}),
        )
    with pytest.raises(InputError, match="`adversary_rows` must be at least 1; got 0"):
        hidden.evaluate(
            Observables(arrays),
            Documents(documents.matrix, {**documents.background, "adversary_rows": np.array(0)}),
        )
    with pytest.raises(InputError, match="must announce `sigma`"):
        ROW["w-max-revealed"].evaluate(Observables({"V": arrays["V"]}), documents)
    # Either setting works without what only the other one needs.
    assert np.isfinite(hidden.evaluate(Observables({"V": arrays["V"]}), documents)).all()
    assert np.isfinite(ROW["w-max-revealed"].evaluate(Observables(arrays), Documents(documents.matrix))).all()


@pytest.fixture
def ratings() -> Documents:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 6, (20, 25)) * (rng.random((20, 25)) < 0.4)
    unit = rng.random((20, 25)) * (rng.random((20, 25)) < 0.3)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return Documents(sp.csr_array(np.vstack([counts, unit, np.zeros((1, 25))]).astype(float)))


def topics(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).random((4, 25)) ** 4
    return drawn / drawn.sum(1, keepdims=True)


def test_sigma_is_the_weighted_sum_of_coefficients_in_the_unit_box(ratings: Documents) -> None:
    basis, weights = topics(1), np.array([3.0, 0.5, 10.0, 0.0])
    found = sigma(Observables({"T": basis, "denominators": weights}), ratings)
    expected = [
        lsq_linear(basis.T, x, (0, 1), method="bvls", tol=1e-14).x @ weights for x in ratings.matrix.toarray()
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert found[-1] == 0


def test_a_denominator_an_entry_counts_by_its_mean_over_features(ratings: Documents) -> None:
    entries = np.random.default_rng(2).random((4, 25))
    weighted = sigma(Observables({"T": topics(1), "denominators": entries}), ratings)
    plain = sigma(Observables({"T": topics(1), "denominators": entries.sum(1) / 25}), ratings)
    np.testing.assert_allclose(weighted, plain, rtol=1e-13)
    everywhere = np.repeat([[2.0], [1.0], [4.0], [3.0]], 25, axis=1)
    np.testing.assert_allclose(
        sigma(Observables({"T": topics(1), "denominators": everywhere}), ratings),
        sigma(Observables({"T": topics(1), "denominators": everywhere[:, 0]}), ratings),
    )
