"""One party's program of PD-NMF on ratings, against the mechanism that is audited."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.mechanisms.factorisation.nmf_starts import ITERATIONS
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.party_side import drive, trusted_party
from ksdp.protocols.programs.programs import nmf_program

SIZES = (7, 5, 9)
FEATURES = 11
RATED = PDNMF(rank=3, sweeps=8, weighted=True, beta=0.1, delta=0.1)


def ratings(seed: int = 3) -> list[sp.csr_array]:
    """Stars 0 to 5, a 0 being a rating; nobody has rated columns 4 and 10, and one user has rated nothing."""
    rng = np.random.default_rng(seed)
    seen = rng.random((sum(SIZES), FEATURES)) < 0.5
    seen[:, [4, 10]] = False
    seen[8] = False
    users, items = np.nonzero(seen)
    stars = rng.integers(0, 6, len(users)).astype(float)
    matrix = sp.csr_array((stars, (users, items)), shape=seen.shape)
    assert (stars == 0).any()
    edges = np.cumsum((0, *SIZES))
    return [sp.csr_array(matrix[a:b]) for a, b in pairwise(edges)]


def announced_by(mechanism: PDNMF, parties: Sequence[sp.csr_array]) -> tuple[Any, list[np.ndarray]]:
    """The results of all parties, and every sum that they were told."""
    told: list[np.ndarray] = []

    def answers(requests: Any) -> Any:
        found = trusted_party(requests)
        told.append(found[0])
        return found

    return drive([nmf_program(mechanism, rows) for rows in parties], answers), told


@pytest.mark.parametrize("tolerance", [0.0, 0.3])
def test_every_sum_of_a_run_is_one_that_the_audit_looks_at(tolerance: float) -> None:
    mechanism = PDNMF(rank=3, sweeps=8, weighted=True, beta=0.1, delta=0.1, tolerance=tolerance)
    results, told = announced_by(mechanism, ratings())
    released = mechanism.release(Database(tuple(ratings())), np.random.default_rng(0))
    rounds = np.array(told).reshape(-1, 3, 2, FEATURES)
    sweeps = len(rounds)
    assert sweeps == 8 if tolerance == 0 else 1 < sweeps < 8
    np.testing.assert_allclose(rounds[:, :, 0], released["round_sums"][:sweeps], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rounds[:, :, 1], released["round_weights"][:sweeps], rtol=1e-9, atol=1e-12)
    public = results[0].public
    assert int(public["sweeps"][0]) == sweeps
    np.testing.assert_allclose(public["T"], released["T"], rtol=1e-9, atol=1e-12)
    for result in results[1:]:
        assert all(np.array_equal(result.public[name], public[name]) for name in public)
    whole = mechanism.factorise(Database(tuple(ratings())))[1]
    np.testing.assert_allclose(np.vstack([r.own["W"] for r in results]), whole.W, rtol=1e-9, atol=1e-12)


def test_what_nobody_rated_is_zero_and_nobody_is_told_so() -> None:
    (first, *_), told = announced_by(RATED, ratings())
    np.testing.assert_array_equal(first.public["T"][:, [4, 10]], 0.0)
    assert first.public["T"][:, 0].any()
    assert {each.shape for each in told} == {(2, FEATURES)}, "there is no sum besides those of topics"


@pytest.mark.parametrize("weighted", [False, True])
def test_every_sum_of_a_start_by_svd_is_one_that_the_audit_looks_at(weighted: bool) -> None:
    mechanism = PDNMF(rank=3, sweeps=4, start="nnsvd", weighted=weighted, beta=0.1, delta=0.1)
    results, told = announced_by(mechanism, ratings())
    released = mechanism.release(Database(tuple(ratings())), np.random.default_rng(0))
    np.testing.assert_allclose(told[:ITERATIONS], released["blocks"], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(told[ITERATIONS], released["part_squares"], rtol=1e-8, atol=1e-10)
    sums = released["round_sums"].shape[0] * 3
    assert len(told) == ITERATIONS + 1 + int(results[0].public["sweeps"][0]) * 3 <= ITERATIONS + 1 + sums
    np.testing.assert_allclose(results[0].public["T"], released["T"], rtol=1e-8, atol=1e-10)
    assert all(np.array_equal(result.public["T"], results[0].public["T"]) for result in results)
