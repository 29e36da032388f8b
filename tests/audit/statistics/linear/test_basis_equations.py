"""The equations that singular vectors solve: they hold, they tell who was in, and they rule out nobody who was."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Mechanism, Observables
from ksdp.audit.mechanisms.factorisation.pd_svd import numbers_of_basis
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear import releases as module
from ksdp.audit.statistics.linear.expected import FirstOrderBasis
from ksdp.audit.statistics.linear.releases import LinearBasis
from ksdp.audit.statistics.linear.system import RULED_OUT
from ksdp.audit.verdicts.laws import ks_table

FINAL = {"rank": 7, "opens": "final"}
KINDS = {
    "pd-svd": make_mechanism("pd-svd", FINAL),
    "pd-pca": make_mechanism("pd-pca", FINAL),
    "sigma-svd": make_mechanism("sigma-svd", FINAL),
    "pca-with-sigma": make_mechanism("pd-pca", FINAL | {"reveal_sigma": True}),
}


def texts(count: int = 400, columns: int = 40) -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(0).poisson(0.6, (count, columns)).astype(np.float64))


def run_of(
    mechanism: Mechanism, matrix: sp.csr_array, share: float, seed: int = 1
) -> tuple[np.ndarray, Observables]:
    """Who is in, and what is announced, as the store keeps it."""
    n = matrix.shape[0]
    held = np.isin(np.arange(n), np.random.default_rng(seed).choice(n, round(share * n), replace=False))
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(seed))
    return held, Observables({name: np.float32(array).astype(np.float64) for name, array in seen.items()})


def told(mechanism: Mechanism, matrix: sp.csr_array, share: float = 0.1, seed: int = 1) -> tuple[float, float]:
    """D of all in one run against all out: by these equations, and by `FirstOrderBasis`."""
    held, seen = run_of(mechanism, matrix, share, seed)
    documents = Documents(matrix, pool=Pool(matrix, share, mechanism=mechanism))
    values = np.stack([s.evaluate(seen, documents) for s in (LinearBasis(), FirstOrderBasis())]).astype(np.float32)
    one, other = ks_table(values, np.stack([held, held])).distance
    return float(one), float(other)


@pytest.mark.parametrize("kind", KINDS)
def test_the_equations_hold_of_the_documents_of_a_run(kind: str) -> None:
    """Term by term, from what each document is."""
    matrix, mechanism = texts(), KINDS[kind]
    held = np.arange(400) % 3 == 0
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(0))
    V, mean, sigma = seen["V"], seen.get("mean"), seen.get("sigma")
    made = module._terms(matrix, V, mean, sigma is not None)
    dense, terms = matrix.toarray() - (0.0 if mean is None else mean), []
    for x in dense:
        rows = [(x @ v) * (x - V.T @ (V @ x)) for v in V] + ([] if mean is None else [x])
        pairs = [(x @ V[t]) * (x @ V[u]) for t in range(7) for u in range(t, 7) if t != u or sigma is not None]
        terms.append(np.concatenate([*rows, pairs]))
    whole = module._sums(V, mean, sigma)
    scale = np.abs(terms).sum(axis=0).max()
    np.testing.assert_allclose(held @ np.array(terms), whole, atol=1e-11 * scale)
    np.testing.assert_allclose(made.rmatvec(held.astype(np.float64)), whole, atol=1e-11 * scale)
    assert (whole != 0.0).sum() == (0 if sigma is None else 7)
    assert made.shape[1] == len(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_final_vectors_tell_who_was_in(kind: str) -> None:
    """231 equations and more for 400 texts, 40 of them in; what is expected of V says a part of it."""
    now, before = told(KINDS[kind], texts())
    assert before < 0.6
    assert now > 0.95


def test_a_run_that_stops_before_it_has_converged_tells_about_as_much() -> None:
    power = {"solver": "power", "iterations": 150}
    assert told(make_mechanism("pd-svd", FINAL | power), texts())[0] > 0.9
    assert told(make_mechanism("pd-svd", FINAL | power | {"iterations": 1}), texts())[0] == 0.0


def test_noise_blurs_them_and_much_of_it_leaves_them_to_what_is_expected() -> None:
    def noisy(noise: float) -> Mechanism:
        inner = {"mechanism": "pd-svd", "parameters": FINAL}
        return make_mechanism("noisy", inner | {"noise": noise, "scale": 1.0})

    little, some, much = (told(noisy(noise), texts())[0] for noise in (1e-5, 1e-3, 1.0))
    assert little > 0.9
    assert 0.2 < some <= little
    assert much == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_each_document_has_its_number_whoever_is_beside_it(kind: str) -> None:
    matrix, mechanism = texts(), KINDS[kind]
    _, seen = run_of(mechanism, matrix, 0.1)
    documents = Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism))
    found = LinearBasis().evaluate(seen, documents)
    some = np.array([7, 300])
    np.testing.assert_array_equal(LinearBasis().evaluate(seen, documents.at(some)), found[some])


def blocks_apart() -> sp.csr_array:
    """Two kinds of documents that share no column, each of its own 30, one in ten filled."""
    rng = np.random.default_rng(3)
    halves = [rng.integers(1, 9, (150, 60)) * (rng.random((150, 60)) < 0.05) for _ in range(2)]
    return sp.csr_array(sp.block_diag(halves), dtype=np.float64)


@pytest.mark.parametrize("rank", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_nobody_who_was_in_is_ruled_out(rank: int, seed: int) -> None:
    """V of rank 1 has no entry in the columns of one half, whose documents may all have been in."""
    matrix, mechanism = blocks_apart(), make_mechanism("pd-svd", {"rank": rank, "opens": "final"})
    held, seen = run_of(mechanism, matrix, 0.1, seed)
    documents = Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism))
    found = LinearBasis().evaluate(seen, documents)
    assert (found[held] > RULED_OUT).all()
    assert (found == RULED_OUT).sum() > 20


def test_documents_of_either_sign_or_less_a_mean_are_not_ruled_out() -> None:
    """What one adds another may take away."""
    matrix = blocks_apart()
    signed = sp.csr_array(matrix * np.where(np.arange(matrix.shape[1]) % 2, 1.0, -1.0))
    for name, rows in (("pd-svd", signed), ("pd-pca", matrix)):
        mechanism = make_mechanism(name, {"rank": 2, "opens": "final"})
        _, seen = run_of(mechanism, rows, 0.1)
        documents = Documents(rows, pool=Pool(rows, 0.1, mechanism=mechanism))
        assert (LinearBasis().evaluate(seen, documents) > RULED_OUT).all()


def test_documents_that_others_hold_in_every_run_are_no_unknowns() -> None:
    """Of sums over everybody their part is taken away."""
    matrix, mechanism = texts(), KINDS["pd-pca"]
    drawn, fixed = sp.csr_array(matrix[:200]), sp.csr_array(matrix[200:])
    held = np.isin(np.arange(200), np.random.default_rng(5).choice(200, 40, replace=False))
    seen = mechanism.run(Database((sp.csr_array(drawn[held]), fixed)), np.random.default_rng(0))
    documents = Documents(drawn, pool=Pool(drawn, 0.2, fixed, mechanism))
    values = LinearBasis().evaluate(Observables(dict(seen)), documents)
    assert float(ks_table(values[None].astype(np.float32), held[None]).distance[0]) > 0.95


def test_nobody_can_run_what_was_recorded() -> None:
    matrix = texts()
    _, seen = run_of(KINDS["pd-svd"], matrix, 0.1)
    assert not LinearBasis().evaluate(seen, Documents(matrix, pool=Pool(matrix, 0.1))).any()


def test_it_asks_for_a_run_that_shows_its_vectors_alone_and_for_numbers_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = LinearBasis().asks_for
    assert asked({"V": (1, 40)}, 2048) == ""
    assert "sums of rounds" in asked({"V": (7, 40), "first_blocks": (4, 7, 40)}, 2048)
    assert numbers_of_basis(7, 40) == 7 * 33 + 7 * 6 // 2
    assert "2,048 documents or fewer, or to be named" in asked({"V": (7, 40)}, 2049)
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 10)
    monkeypatch.setattr(module, "FEWEST", 1.0)
    assert told(KINDS["pd-svd"], texts())[0] == 0.0


def test_few_documents_are_told_by_as_few_numbers_as_there_are() -> None:
    matrix, mechanism = texts(60, 3), make_mechanism("pd-svd", {"rank": 1, "opens": "final"})
    assert numbers_of_basis(1, 3) < module.FEWEST * 60
    _, seen = run_of(mechanism, matrix, 0.3)
    pool = Pool(matrix, 0.3, mechanism=mechanism)
    assert np.unique(LinearBasis().evaluate(seen, Documents(matrix, pool=pool))).size > 10
