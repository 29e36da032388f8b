from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import svds

from ksdp.audit.corpus import canonical
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD, SigmaSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import start_block

RNG = np.random.default_rng(0)


def random_rows(rows: int, columns: int, seed: int) -> sp.csr_array:
    return canonical(sp.random_array((rows, columns), density=0.1, rng=np.random.default_rng(seed)))


def separated(rows: int, columns: int, seed: int) -> sp.csr_array:
    """Singular values 2^-i: every vector is well determined."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, 6)))[0] for n in (rows, columns))
    return canonical(sp.csr_array((left * 2.0 ** -np.arange(6)) @ right.T))


def tf_idf(counts: sp.csr_array) -> sp.csr_array:
    matrix = canonical(counts)
    idf = np.log(matrix.shape[0] / np.maximum(np.bincount(matrix.indices, minlength=matrix.shape[1]), 1))
    matrix.data *= idf[matrix.indices]
    norms = np.sqrt(np.asarray((matrix**2).sum(axis=1)).ravel())
    return canonical(sp.diags_array(1 / np.where(norms > 0, norms, 1)) @ matrix)


@pytest.mark.parametrize("mechanism", [PDSVD(), SigmaSVD(), PDSVD(rank=3, reveal_sigma=True, solver="power")])
@pytest.mark.parametrize("shape", [(60, 200), (200, 60), (200, 300)])
def test_announces_what_it_says(mechanism: PDSVD, shape: tuple[int, int]) -> None:
    assert isinstance(mechanism, Mechanism)
    seen = mechanism.run(Database((random_rows(*shape, 0),)), RNG)
    schema = mechanism.observables(shape[1])
    assert {a.name: a.shape for a in schema} == {name: array.shape for name, array in seen.items()}
    assert all(array.dtype == np.float64 and np.isfinite(array).all() for array in seen.values())
    np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(mechanism.rank), atol=1e-12)


def test_sigma_is_hidden_unless_revealed() -> None:
    assert [a.name for a in PDSVD(opens="final").observables(50)] == ["V"]
    assert [a.name for a in SigmaSVD(opens="final").observables(50)] == ["V", "sigma"]
    assert [a.name for a in PDSVD().observables(90)] == [
        "V",
        "span",
        "span_sigma",
        "first_blocks",
        "block_sums",
    ]
    assert (PDSVD.name, SigmaSVD.name) == ("pd-svd", "sigma-svd")


def test_sigma_svd_cannot_hide_sigma() -> None:
    with pytest.raises(TypeError):
        SigmaSVD(reveal_sigma=False)  # type: ignore[call-arg]
    assert SigmaSVD(rank=3).reveal_sigma


@pytest.mark.parametrize("shape", [(150, 400), (400, 150), (90, 60)])
def test_spans_what_svds_spans(shape: tuple[int, int]) -> None:
    matrix = random_rows(*shape, 1)
    seen = SigmaSVD().run(Database((matrix,)), RNG)
    _, values, rows = svds(matrix, k=7, v0=np.ones(min(shape)))
    np.testing.assert_allclose(seen["V"].T @ seen["V"], rows.T @ rows, atol=1e-8)
    np.testing.assert_allclose(seen["sigma"], values[::-1], rtol=1e-10)


def test_both_solvers_agree() -> None:
    database = Database((separated(40, 30, 0), separated(30, 30, 1)))
    limit = PDSVD(rank=4, reveal_sigma=True).run(database, RNG)
    power = PDSVD(rank=4, reveal_sigma=True, solver="power", tolerance=0, iterations=300).run(database, RNG)
    np.testing.assert_allclose(power["V"], limit["V"], atol=1e-9)
    np.testing.assert_allclose(power["sigma"], limit["sigma"], rtol=1e-9)
    assert power["iterations"] == [300]


def test_power_stops_by_its_tolerance() -> None:
    database = Database((separated(40, 30, 0),))
    rough = PDSVD(rank=3, solver="power", tolerance=1e-2).run(database, RNG)["iterations"][0]
    fine = PDSVD(rank=3, solver="power", tolerance=1e-9).run(database, RNG)["iterations"][0]
    capped = PDSVD(rank=3, solver="power", tolerance=1e-9, iterations=4).run(database, RNG)["iterations"][0]
    assert 1 < rough < fine < 50
    assert capped == 4


@given(seed=st.integers(0, 10**6), tall=st.booleans(), cuts=st.sets(st.integers(0, 150), max_size=4))
@settings(max_examples=25, deadline=None)
def test_neither_the_order_nor_the_owner_of_rows_matters(seed: int, tall: bool, cuts: set[int]) -> None:
    matrix = separated(150, 140 if tall else 160, seed)
    shuffled = matrix[np.random.default_rng(seed).permutation(150)]
    bounds = [0, *sorted(cuts), 150]
    parties = tuple(shuffled[low:high] for low, high in pairwise(bounds))
    whole = Database((matrix,))
    for mechanism in (SigmaSVD(rank=4), SigmaSVD(rank=4, solver="power", iterations=40, tolerance=0)):
        one, two = mechanism.run(whole, RNG), mechanism.run(Database(parties), RNG)
        np.testing.assert_allclose(one["V"], two["V"], atol=1e-9)
        np.testing.assert_allclose(one["sigma"], two["sigma"], rtol=1e-10)


def test_a_coalition_sees_no_more_than_anybody() -> None:
    parties = (random_rows(60, 40, 0), random_rows(50, 40, 1))
    alone = SigmaSVD(rank=3).run(Database(parties), RNG)
    coalition = SigmaSVD(rank=3).run(Database(parties, frozenset({1})), RNG)
    assert set(alone) == set(coalition)
    assert all(np.array_equal(alone[name], coalition[name]) for name in alone)


def test_scaling_the_rows_scales_sigma_only() -> None:
    matrix = random_rows(150, 300, 2)
    one = SigmaSVD().run(Database((matrix,)), RNG)
    two = SigmaSVD().run(Database((canonical(1e-6 * matrix),)), RNG)
    np.testing.assert_allclose(one["V"], two["V"], atol=1e-8)
    np.testing.assert_allclose(1e-6 * one["sigma"], two["sigma"], rtol=1e-12)


def test_a_smaller_rank_is_the_first_rows_of_a_larger_one() -> None:
    database = Database((random_rows(150, 300, 2),))
    small, large = PDSVD(rank=3).run(database, RNG), PDSVD(rank=7).run(database, RNG)
    np.testing.assert_allclose(small["V"], large["V"][:3], atol=1e-8)


def test_the_start_decides_signs_only() -> None:
    database = Database((random_rows(150, 300, 3),))
    runs = [PDSVD(start_seed=seed).run(database, RNG)["V"] for seed in range(8)]
    for other in runs[1:]:
        np.testing.assert_allclose(np.abs(runs[0] @ other.T), np.eye(7), atol=1e-8)
    assert any(np.abs(runs[0] - other).max() > 0.1 for other in runs[1:])


def test_the_generator_is_not_touched() -> None:
    rng = np.random.default_rng(3)
    PDSVD(rank=2).run(Database((random_rows(30, 20, 0),)), rng)
    assert rng.bit_generator.state == np.random.default_rng(3).bit_generator.state


def test_the_rows_are_not_touched() -> None:
    matrix = random_rows(150, 300, 0)
    before = matrix.copy()
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    PDSVD(rank=2).run(Database((matrix,)), RNG)
    assert (matrix != before).nnz == 0


DIGEST = """
import hashlib, sys
import numpy as np, scipy.sparse as sp
from ksdp.audit.corpus import canonical
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_svd import SigmaSVD
digest = hashlib.sha256()
for shape in ((150, 400), (400, 150), (90, 60)):
    matrix = canonical(sp.random_array(shape, density=0.1, rng=np.random.default_rng(1)))
    seen = SigmaSVD().run(Database((matrix[:50], matrix[50:])), np.random.default_rng(0))
    digest.update(seen["V"].tobytes() + seen["sigma"].tobytes())
print(digest.hexdigest())
"""


@pytest.mark.e2e
def test_the_same_bits_in_every_process_with_any_number_of_threads() -> None:
    digests = set()
    for threads in ("1", "2", "4"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout.strip())
    for _ in range(2):
        here = hashlib.sha256()
        for shape in ((150, 400), (400, 150), (90, 60)):
            matrix = random_rows(*shape, 1)
            seen = SigmaSVD().run(Database((matrix[:50], matrix[50:])), RNG)
            here.update(seen["V"].tobytes() + seen["sigma"].tobytes())
        digests.add(here.hexdigest())
    assert len(digests) == 1


def test_is_a_value() -> None:
    mechanism = PDSVD(rank=3, start_seed=4)
    assert pickle.loads(pickle.dumps(mechanism)) == mechanism
    assert hash(mechanism) == hash(PDSVD(rank=3, start_seed=4))
    with pytest.raises(FrozenInstanceError):
        mechanism.rank = 5  # type: ignore[misc]


class TestDegenerate:
    @pytest.mark.parametrize("solver", ["limit", "power"])
    @pytest.mark.parametrize("rows", [3, 150])
    def test_rows_that_repeat(self, solver: str, rows: int) -> None:
        # Rank 2: rows 3 and 4 of V hold nothing but the start.
        base = random_rows(2, 200, 5)
        matrix = canonical(sp.vstack([base] * rows))
        mechanism = PDSVD(rank=4, reveal_sigma=True, solver=solver)  # type: ignore[arg-type]
        seen = mechanism.run(Database((matrix,)), RNG)
        np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(4), atol=1e-12)
        np.testing.assert_array_equal(seen["sigma"] > 0, [True, True, False, False])
        kept = base.toarray()
        np.testing.assert_allclose(kept @ seen["V"][:2].T @ seen["V"][:2], kept, atol=1e-12)
        start = start_block(0, 200, 4)[2:3]
        outside = start - (start @ seen["V"][:2].T) @ seen["V"][:2]
        np.testing.assert_allclose(seen["V"][2:3], outside / np.linalg.norm(outside), atol=1e-9)

    @pytest.mark.parametrize("solver", ["limit", "power"])
    def test_nothing_at_all(self, solver: str) -> None:
        database = Database((canonical(sp.csr_array((20, 30))),))
        seen = PDSVD(rank=4, reveal_sigma=True, solver=solver).run(database, RNG)  # type: ignore[arg-type]
        np.testing.assert_allclose(seen["V"] @ seen["V"].T, np.eye(4), atol=1e-12)
        assert not seen["sigma"].any()

    def test_rank_one_below_full(self) -> None:
        for shape in ((8, 5), (5, 8), (140, 150)):
            rank = min(shape) - 1
            matrix = canonical(sp.csr_array(np.random.default_rng(0).standard_normal(shape)))
            seen = SigmaSVD(rank=rank).run(Database((matrix,)), RNG)
            np.testing.assert_allclose(seen["sigma"], np.linalg.svd(matrix.toarray())[1][:rank], rtol=1e-10)

    def test_too_few_rows_or_features(self) -> None:
        with pytest.raises(CorpusError, match=r"`rank` must be below the rows and the features .*\(5\); got 7"):
            PDSVD().run(Database((random_rows(3, 40, 0), random_rows(2, 40, 1))), RNG)
        with pytest.raises(CorpusError, match=r"\(7\); got 7"):
            PDSVD().run(Database((random_rows(30, 7, 0),)), RNG)
        with pytest.raises(SpecError, match=r"number of features \(7\); got 7"):
            PDSVD().observables(7)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"rank": 0}, "`rank` must be a whole number of at least 1; got 0."),
            ({"solver": "qr"}, "`solver` must be 'limit' or 'power'; got 'qr'."),
            ({"iterations": 0}, "`iterations` must be a whole number of at least 1; got 0."),
            ({"tolerance": -1e-9}, r"`tolerance` must be in \[0, 1\); got -1e-09."),
            ({"tolerance": float("nan")}, r"`tolerance` must be in \[0, 1\); got nan."),
            ({"start_seed": -1}, "`start_seed` must be a whole number of at least 0; got -1."),
        ],
    )
    def test_parameters(self, parameters: dict[str, object], message: str) -> None:
        with pytest.raises(SpecError, match=message):
            PDSVD(**parameters)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["enron-mail6", "kos"])
def test_real_text(data_folder: Path, name: str) -> None:
    corpus = tf_idf(sp.csr_array(sp.load_npz(data_folder / name / "counts.npz")))
    rng = np.random.default_rng(11)
    rows = np.sort(rng.choice(corpus.shape[0], int(0.03 * corpus.shape[0]), replace=False))
    matrix = canonical(corpus[rows])
    mechanism = SigmaSVD()
    seen = mechanism.run(Database((matrix,)), rng)
    _, values, basis = svds(matrix, k=7, v0=np.ones(len(rows)))
    assert np.linalg.norm(basis - (basis @ seen["V"].T) @ seen["V"], 2) < 1e-8
    np.testing.assert_allclose(seen["sigma"], values[::-1], rtol=1e-10)
    # What three parties compute by the protocol, their blocks converged, is the same subspace.
    third = len(rows) // 3
    parties = (matrix[:third], matrix[third : 2 * third], matrix[2 * third :])
    power = PDSVD(solver="power", tolerance=1e-8, iterations=4000).run(Database(parties), rng)
    assert power["iterations"][0] < 4000
    assert np.linalg.norm(power["V"] - (power["V"] @ seen["V"].T) @ seen["V"], 2) < 1e-5
