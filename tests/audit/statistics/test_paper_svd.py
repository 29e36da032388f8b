from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.paper_svd import PAPER_SVD, ClosedForm
from ksdp.audit.statistics.scatter_estimate import scatter_norm, spectrum

from .paper_draws import draw


def brute(name: str, arrays: dict[str, np.ndarray], documents: Documents) -> np.ndarray:
    """The statistic as printed: every d x d matrix in full, one document at a time."""
    eigenvalues = arrays["sigma"] ** 2
    if not name.endswith("-revealed"):
        eigenvalues = (5 + 20) / 20 * documents.background["adversary_sigma"] ** 2
    estimate = arrays["V"].T @ np.diag(eigenvalues) @ arrays["V"]
    values = []
    for x in documents.matrix.toarray() - arrays.get("mean", 0.0):
        outer, norm = np.outer(x, x), np.linalg.norm(x)
        if name.startswith("w"):
            matrix = np.abs(estimate * outer)
        else:
            size = np.linalg.norm(estimate)
            matrix = np.abs((estimate / size if size else estimate) - (outer / norm if norm else outer))
        reduce = name.removesuffix("-revealed").split("-", 1)[1]
        values.append({"max": matrix.max(), "sum": matrix.sum(), "square-sum": (matrix**2).sum()}[reduce])
    return np.array(values)


def near(
    statistic: ClosedForm, expected: np.ndarray, rtol: float = 1e-10, atol: float = 1e-12
) -> dict[str, float]:
    """Tolerances: what reads squared entries is in single precision."""
    if statistic.form == "d-square-sum":
        return {"rtol": rtol, "atol": atol}
    return {"rtol": 2e-6, "atol": max(atol, 2e-6 * float(expected.max(initial=0.0)))}


@pytest.mark.parametrize("statistic", PAPER_SVD, ids=lambda s: s.name)
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("k", [1, 3, 8, 12])
def test_closed_forms_are_the_printed_ones(statistic: ClosedForm, mean: bool, k: int) -> None:
    for seed in range(3):
        arrays, documents = draw(seed, k=k, mean=mean)
        expected = brute(statistic.name, arrays, documents)
        np.testing.assert_allclose(
            statistic.evaluate(Observables(arrays), documents), expected, **near(statistic, expected)
        )


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 5),
    d=st.integers(5, 12),
    density=st.sampled_from([0.0, 0.2, 1.0]),
    mean=st.booleans(),
    scale=st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_closed_forms_are_the_printed_ones_for_any_data(
    seed: int, k: int, d: int, density: float, mean: bool, scale: float
) -> None:
    arrays, documents = draw(seed, k=k, d=d, density=density, mean=mean, scale=scale)
    observables = Observables(arrays)
    for statistic in PAPER_SVD:
        expected = brute(statistic.name, arrays, documents)
        np.testing.assert_allclose(
            statistic.evaluate(observables, documents),
            expected,
            **near(statistic, expected, rtol=1e-8, atol=1e-10 * (1 + scale**2)),
        )


@pytest.mark.parametrize("statistic", PAPER_SVD, ids=lambda s: s.name)
def test_exact_for_a_basis_that_is_not_orthonormal(statistic: ClosedForm) -> None:
    arrays, documents = draw(4)
    arrays["V"] = arrays["V"] * [[2.0], [0.5], [1.0]] + 0.1
    expected = brute(statistic.name, arrays, documents)
    found = statistic.evaluate(Observables(arrays), documents)
    np.testing.assert_allclose(found, expected, **near(statistic, expected))


@pytest.mark.parametrize("statistic", PAPER_SVD, ids=lambda s: s.name)
@pytest.mark.parametrize("mean", [False, True])
def test_a_document_has_the_same_value_wherever_it_stands(statistic: ClosedForm, mean: bool) -> None:
    arrays, documents = draw(5, n=30, mean=mean)
    order = np.random.default_rng(0).permutation(30)
    shuffled = Documents(documents.matrix[order], documents.background)
    values = statistic.evaluate(Observables(arrays), documents)
    np.testing.assert_array_equal(statistic.evaluate(Observables(arrays), shuffled), values[order])


@pytest.mark.parametrize("statistic", PAPER_SVD, ids=lambda s: s.name)
def test_sharing_a_run_with_other_statistics_and_documents_changes_nothing(statistic: ClosedForm) -> None:
    arrays, documents = draw(6)
    _, others = draw(7)
    shared = Observables(arrays)
    for earlier in PAPER_SVD:
        earlier.evaluate(shared, others)
        earlier.evaluate(shared, documents)[:] = -1.0  # what is returned is the caller's
    np.testing.assert_allclose(
        statistic.evaluate(shared, documents), statistic.evaluate(Observables(arrays), documents), rtol=1e-13
    )


@pytest.mark.parametrize("revealed", [False, True])
def test_directions_of_equal_weight_may_be_rotated(revealed: bool) -> None:
    arrays, documents = draw(8)
    arrays["sigma"] = np.full(3, 2.0)
    documents = Documents(documents.matrix, {**documents.background, "adversary_sigma": np.full(3, 1.5)})
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    for form in ("w-max", "w-square-sum", "d-square-sum"):
        statistic = ClosedForm(form, revealed)  # type: ignore[arg-type]
        np.testing.assert_allclose(
            statistic.evaluate(Observables({**arrays, "V": rotation @ arrays["V"]}), documents),
            statistic.evaluate(Observables(arrays), documents),
            rtol=2e-6 if "square-sum" in statistic.name else 1e-11,
        )


def test_without_singular_values_only_the_outer_product_is_left() -> None:
    arrays, documents = draw(9)
    arrays["sigma"] = np.zeros(3)
    observables = Observables(arrays)
    assert not ClosedForm("w-max", True).evaluate(observables, documents).any()
    assert not ClosedForm("w-square-sum", True).evaluate(observables, documents).any()
    np.testing.assert_allclose(
        ClosedForm("d-square-sum", True).evaluate(observables, documents), documents.squared_norms
    )


def test_hidden_sigma_is_scaled_to_all_rows_and_revealed_sigma_is_not() -> None:
    arrays, documents = draw(10)
    observables = Observables(arrays)
    np.testing.assert_allclose(
        spectrum(observables, documents, revealed=False), 1.25 * documents.background["adversary_sigma"] ** 2
    )
    np.testing.assert_allclose(spectrum(observables, documents, revealed=True), arrays["sigma"] ** 2)
    size = np.linalg.norm(arrays["sigma"] ** 2)
    assert scatter_norm(observables, documents, revealed=True) == pytest.approx(size)


def test_what_is_missing_is_named() -> None:
    arrays, documents = draw(11)
    hidden = ClosedForm("w-max")
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
        ClosedForm("w-max", True).evaluate(Observables({"V": arrays["V"]}), documents)
    # Either setting works without what only the other one needs.
    assert np.isfinite(hidden.evaluate(Observables({"V": arrays["V"]}), documents)).all()
    assert np.isfinite(ClosedForm("w-max", True).evaluate(Observables(arrays), Documents(documents.matrix))).all()


def test_names_and_needs() -> None:
    forms = ("w-max", "w-square-sum", "d-square-sum")
    revealed = [(f"{form}-revealed", ("V", "sigma")) for form in forms]
    assert [(s.name, s.needs) for s in PAPER_SVD] == [*((form, ("V",)) for form in forms), *revealed]
    assert all(isinstance(s, Statistic) and s.family == "paper" for s in PAPER_SVD)
