from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics import paper_blocks
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.paper_blocks import PAPER_BLOCKS, Blocks

from .paper_draws import draw


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


def brute(name: str, arrays: dict[str, np.ndarray], documents: Documents) -> list[float]:
    return [float(m.max() if "max" in name else m.sum()) for m in matrices(name, arrays, documents)]


@pytest.mark.parametrize("statistic", PAPER_BLOCKS, ids=lambda s: s.name)
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_blocks_give_the_printed_statistics(statistic: Blocks, mean: bool, k: int) -> None:
    for seed in range(4):
        arrays, documents = draw(seed, k=k, mean=mean)
        expected = brute(statistic.name, arrays, documents)
        np.testing.assert_allclose(
            statistic.evaluate(Observables(arrays), documents), expected, rtol=1e-11, atol=1e-12
        )


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    k=st.integers(1, 4),
    d=st.integers(4, 10),
    density=st.sampled_from([0.0, 0.15, 0.5, 1.0]),
    mean=st.booleans(),
    scale=st.sampled_from([1e-2, 0.3, 1.0, 30.0]),
)
def test_blocks_give_the_printed_statistics_for_any_data(
    seed: int, k: int, d: int, density: float, mean: bool, scale: float
) -> None:
    arrays, documents = draw(seed, k=k, d=d, density=density, mean=mean, scale=scale)
    observables = Observables(arrays)
    for statistic in PAPER_BLOCKS:
        expected = brute(statistic.name, arrays, documents)
        np.testing.assert_allclose(
            statistic.evaluate(observables, documents), expected, rtol=1e-10, atol=1e-11 * (1 + scale**2)
        )


def test_the_largest_entry_of_d_is_found_inside_outside_and_across_the_support() -> None:
    """The first document cancels the strongest entry of S, so that its row outside the support has the largest."""
    strong = np.array([[0.8, 0.6, 0.0, 0.0]])
    arrays = {"V": strong, "sigma": np.array([1.0])}
    dense = np.array([[0.64, 0, 0, 0], [0, 0, 1.0, 0], [5.0, 0, 5.0, 0], [0, 0, 0, 0]])
    documents = Documents(sp.csr_array(dense))
    where = []
    for x, full in zip(dense, matrices("d-max-revealed", arrays, documents), strict=True):
        place = np.unravel_index(full.argmax(), full.shape)
        where.append(int((x[list(place)] != 0).sum()))
    assert where == [1, 2, 2, 0]
    np.testing.assert_allclose(
        Blocks("d-max", True).evaluate(Observables(arrays), documents),
        brute("d-max-revealed", arrays, documents),
        rtol=1e-13,
    )


def test_all_three_kinds_of_pairs_are_met_by_random_documents() -> None:
    """Guards the tests above: the exact search across the support is needed, and found right where it is."""
    kinds = set()
    for seed in range(60):
        arrays, documents = draw(seed, n=40, d=8, k=1, density=0.35, scale=1.0)
        full = matrices("d-max-revealed", arrays, documents)
        for x, matrix in zip(documents.matrix.toarray(), full, strict=True):
            a, b = np.unravel_index(matrix.argmax(), matrix.shape)
            kinds.add(int(x[a] != 0) + int(x[b] != 0))
        np.testing.assert_allclose(
            Blocks("d-max", True).evaluate(Observables(arrays), documents), [m.max() for m in full], rtol=1e-12
        )
    assert kinds == {0, 1, 2}


def test_the_total_over_all_pairs_does_not_depend_on_the_row_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    features = np.random.default_rng(0).normal(size=(23, 3))
    expected = np.abs(features @ features.T).sum()
    for rows in (1, 5, 23, 256):
        monkeypatch.setattr(paper_blocks, "_ROWS", rows)
        assert paper_blocks._total(features) == pytest.approx(expected, rel=1e-13)


def test_centred_documents_are_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, documents = draw(3, mean=True)
    whole = [s.evaluate(Observables(arrays), documents) for s in PAPER_BLOCKS]
    monkeypatch.setattr(paper_blocks, "_ENTRIES", 2 * 13)
    parts = [s.evaluate(Observables(arrays), documents) for s in PAPER_BLOCKS]
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("statistic", PAPER_BLOCKS, ids=lambda s: s.name)
def test_a_document_has_the_same_value_wherever_it_stands(statistic: Blocks) -> None:
    arrays, documents = draw(5, n=30)
    order = np.random.default_rng(0).permutation(30)
    shuffled = Documents(documents.matrix[order], documents.background)
    values = statistic.evaluate(Observables(arrays), documents)
    np.testing.assert_array_equal(statistic.evaluate(Observables(arrays), shuffled), values[order])


def test_without_singular_values_only_the_outer_product_is_left() -> None:
    arrays, documents = draw(9)
    arrays["sigma"] = np.zeros(3)
    for statistic in (Blocks(form, True) for form in ("w-sum", "d-sum", "d-max")):  # type: ignore[arg-type]
        expected = brute(statistic.name, arrays, documents)
        np.testing.assert_allclose(statistic.evaluate(Observables(arrays), documents), expected, rtol=1e-12)


def test_names_and_needs() -> None:
    forms = ("w-sum", "d-sum", "d-max")
    revealed = [(f"{form}-revealed", ("V", "sigma")) for form in forms]
    assert [(s.name, s.needs) for s in PAPER_BLOCKS] == [*((form, ("V",)) for form in forms), *revealed]
    assert all(isinstance(s, Statistic) and s.family == "paper-blocks" for s in PAPER_BLOCKS)
