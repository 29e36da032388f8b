from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.features import feature_columns, feature_names
from ksdp.audit.statistics.geometry_nonnegative import FLOOR
from ksdp.audit.statistics.support import NEAR_ZERO

Run = Callable[[np.random.Generator, int, int], dict[str, np.ndarray]]


def documents_of(rng: np.random.Generator, n: int, d: int) -> Documents:
    dense = rng.poisson(0.5, (n, d)) * rng.random((n, d))
    dense[0] = 0.0
    return Documents(sp.csr_array(dense))


def topics_run(rng: np.random.Generator, k: int, d: int) -> dict[str, np.ndarray]:
    """Topics on the simplex as the projection leaves them: lifted by a constant, the last 5 features empty."""
    topics = rng.random((k, d)) * (rng.random((k, d)) < 0.5)
    topics[:, -5:] = 0.0
    topics += 0.01 * rng.random((k, 1))
    return {"T": topics / topics.sum(axis=1, keepdims=True), "denominators": rng.random(k) + 0.1}


def vectors_run(rng: np.random.Generator, k: int, d: int) -> dict[str, np.ndarray]:
    matrix = rng.normal(size=(30, d))
    matrix[:, -5:] = 0.0
    mean = rng.random(d) * (np.arange(d) % 3 > 0)
    return {"V": np.linalg.svd(matrix)[2][:k], "sigma": np.sort(rng.random(k))[::-1] + 1, "mean": mean}


def slow(run: dict[str, np.ndarray], x: np.ndarray) -> list[float]:
    """The columns of one document, one at a time."""
    basis = run["T"] if "T" in run else run["V"]
    centred = x - run["mean"] if "mean" in run else x
    out = [float(centred @ row / np.linalg.norm(row)) for row in basis]
    projected = np.linalg.lstsq(basis.T, centred, rcond=None)[0] @ basis
    out.append(float(projected @ projected))
    cosines = [abs(centred @ row) / np.linalg.norm(row) for row in basis]
    out.append(max(cosines) / float(np.linalg.norm(centred)) if centred.any() else 0.0)
    missing, weight, support = 0, 0.0, 0.0
    sizes = [
        max(v - min(row) if "T" in run else abs(v) for v, row in zip(column, basis, strict=True))
        for column in basis.T
    ]
    for value, size in zip(x, sizes, strict=True):
        if value == 0:
            continue
        if size <= NEAR_ZERO * max(sizes):
            missing, weight = missing + 1, weight + value**2
        support += (value if "T" in run else value**2) * math.log(max(size, NEAR_ZERO * max(sizes)))
    out += [missing, weight / float(x @ x) if x.any() else 0.0, support]
    if "T" in run:
        a, residual = nnls(basis.T, x)
        mixture = a @ basis
        total = float(mixture.sum()) or 1.0
        out.append(residual**2)
        out.append(sum(v * math.log(max(m / total, FLOOR)) for v, m in zip(x, mixture, strict=True) if v))
        out.append(float(a @ run["denominators"]))
    else:
        out.append(float((((basis @ centred) / run["sigma"]) ** 2).sum()))
        out.append(float(x @ run["mean"]))
        absent = float((x[run["mean"] == 0] ** 2).sum())
        out.append(absent / float(x @ x) if x.any() else 0.0)
    return out


@pytest.mark.parametrize("make", [topics_run, vectors_run], ids=["T", "V"])
@pytest.mark.parametrize("k", [1, 3, 9])
def test_columns_are_those_computed_one_at_a_time(make: Run, k: int) -> None:
    rng = np.random.default_rng(k)
    documents, run = documents_of(rng, 15, 40), make(rng, k, 40)
    found = feature_columns(Observables(run), documents)
    names = feature_names(k, run)
    assert found.shape == (15, len(names)) == (15, k + 8)
    expected = np.array([slow(run, x) for x in documents.matrix.toarray()])
    for name, column, wanted in zip(names, found.T, expected.T, strict=True):
        np.testing.assert_allclose(column, wanted, rtol=1e-7, atol=1e-9, err_msg=name)
    assert expected[:, list(names).index("missing-terms")].max() > 1


def test_signs_of_coefficients_are_kept() -> None:
    rng = np.random.default_rng(0)
    documents, run = documents_of(rng, 10, 40), vectors_run(rng, 3, 40)
    del run["mean"]
    flipped = {**run, "V": run["V"] * [[1], [-1], [1]]}
    a, b = (feature_columns(Observables(r), documents) for r in (run, flipped))
    np.testing.assert_allclose(b[:, 1], -a[:, 1])
    np.testing.assert_allclose(np.delete(b, 1, axis=1), np.delete(a, 1, axis=1), atol=1e-12)


@pytest.mark.parametrize("make", [topics_run, vectors_run], ids=["T", "V"])
def test_what_is_left_out_is_seen_after_storage_in_float32(make: Run) -> None:
    rng = np.random.default_rng(4)
    documents, run = documents_of(rng, 30, 40), make(rng, 4, 40)
    stored = {name: array.astype(np.float32).astype(np.float64) for name, array in run.items()}
    at = feature_names(4, run).index("missing-terms")
    basis = run.get("V", run.get("T"))
    low = basis.min(axis=1, keepdims=True) if "T" in run else 0.0
    left_out = (np.abs(basis - low) < 1e-13).all(axis=0)
    assert left_out[-5:].all()
    expected = (documents.matrix.toarray()[:, left_out] > 0).sum(axis=1)
    np.testing.assert_array_equal(feature_columns(Observables(stored), documents)[:, at], expected)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 9), topics=st.booleans())
def test_columns_are_finite_and_go_with_their_document(seed: int, k: int, topics: bool) -> None:
    rng = np.random.default_rng(seed)
    documents = documents_of(rng, 12, 30)
    run = (topics_run if topics else vectors_run)(rng, k, 30)
    run["T" if topics else "V"][rng.integers(k)] = 0.0
    order = rng.permutation(12)
    found = feature_columns(Observables(run), documents)
    assert np.isfinite(found).all()
    moved = feature_columns(Observables(run), Documents(documents.matrix[order]))
    np.testing.assert_allclose(moved, found[order], rtol=1e-12, atol=1e-12)


def test_degenerate_runs_are_finite() -> None:
    documents = documents_of(np.random.default_rng(1), 5, 6)
    for run in ({"T": np.zeros((2, 6))}, {"T": np.full((2, 6), 1 / 6)}, {"V": np.zeros((2, 6))}):
        assert np.isfinite(feature_columns(Observables(run), documents)).all()


def test_a_run_without_a_basis_is_refused() -> None:
    documents = documents_of(np.random.default_rng(1), 5, 6)
    with pytest.raises(InputError, match="`T` or `V`"):
        feature_columns(Observables({"sigma": np.ones(3)}), documents)
    with pytest.raises(InputError, match="one of T, V"):
        feature_names(3, ["sigma"])


def test_cost_on_the_e_mails(data_folder: Path) -> None:
    counts = sp.csr_array(sp.load_npz(data_folder / "enron-mail6" / "counts.npz")).astype(np.float64)
    documents = Documents(counts)
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(counts.shape[1], 7)))[0].T
    fastest = math.inf
    for _ in range(4):
        start = time.perf_counter()
        columns = feature_columns(Observables({"V": basis}), documents)
        fastest = min(fastest, time.perf_counter() - start)
    print(f"{1000 * fastest:.1f} ms for {columns.shape}")
    assert fastest < 0.05  # 7 ms on a quiet core
