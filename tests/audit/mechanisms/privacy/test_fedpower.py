"""The three forms of FedPower: formulas, limits, schedules."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise, start_block, subspace_sine
from ksdp.audit.mechanisms.privacy.fedpower import (
    FedPower,
    UtilityFedPower,
    aligned,
    fedpower_deviations,
    theorem_1,
    theorem_2,
)
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.noise import account


def devices(n: int = 4, rows: int = 50, seed: int = 0) -> Database:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, rows, 7)) * [1.0, 0.9, 0.2, 0.1, 0.1, 0.1, 0.1]
    return Database(tuple(sp.csr_array(part) for part in X))


def leading(database: Database, rank: int) -> np.ndarray:
    X = np.vstack([part.toarray() for part in database.parties])
    return np.linalg.svd(X, full_matrices=False)[2][:rank]


@pytest.mark.parametrize(
    "mechanism",
    [
        FedPower(rank=2, iterations=40, period=1, noise=0.0, central_noise=0.0),
        FedPower(rank=2, iterations=40, period=1, noise=0.0, central_noise=0.0, reference="first"),
        UtilityFedPower(rank=2, iterations=40, period=1, noise=1e-13),
        PrivateFedPower(rank=2, iterations=40, noise=1e-13, row_bound=100.0),
        PrivateFedPower(rank=4, target=2, iterations=40, noise=1e-13, row_bound=100.0),
        UtilityFedPower(rank=3, target=2, iterations=30, period=1, noise=1e-13),
        PrivateFedPower(rank=2, iterations=40, noise=1e-13, unit="entry-printed", entry_bound=9.0, clip=9.0),
    ],
    ids=lambda m: f"{m.name}-{getattr(m, 'unit', getattr(m, 'reference', ''))}",
)
def test_without_noise_it_is_the_leading_subspace(mechanism: FedPower) -> None:
    data = devices()
    V = mechanism.run(data, np.random.default_rng(0))["V"]
    assert np.allclose(V @ V.T, np.eye(2))
    assert subspace_sine(V, leading(data, 2)) < 1e-9


def test_local_iterations_between_unlike_devices_cost_accuracy() -> None:
    """What FedPower's periods trade: fewer announcements, a biased limit."""
    data = devices(rows=8)
    uneven = FedPower(rank=3, target=2, iterations=10, period=4, noise=0.0, central_noise=0.0)
    seen = uneven.run(data, np.random.default_rng(0))
    assert (seen["means"].shape, seen["V"].shape) == ((3, 3, 7), (2, 7)), "after 4, 4 and 2 iterations"
    assert np.array_equal(seen["V"], orthonormalise(seen["means"][-1], start_block(0, 7, 3))[:2])
    exact = {"rank": 2, "iterations": 40, "noise": 0.0, "central_noise": 0.0}
    often, seldom = (FedPower(**exact, period=p).run(data, np.random.default_rng(0))["V"] for p in (1, 4))
    assert subspace_sine(often, leading(data, 2)) < 1e-6 < subspace_sine(seldom, leading(data, 2))


@given(st.integers(0, 10_000))
@settings(deadline=None, max_examples=30)
def test_procrustes_is_orthogonal_and_no_other_turn_is_closer(seed: int) -> None:
    rng = np.random.default_rng(seed)
    block, reference = rng.normal(size=(2, 3, 8))
    turn = aligned(block, reference)
    assert np.allclose(turn @ turn.T, np.eye(3))
    best = np.linalg.norm(turn @ block - reference)
    for _ in range(20):
        other = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        assert best <= np.linalg.norm(other @ block - reference) + 1e-9


def test_the_printed_deviations() -> None:
    local, central = fedpower_deviations(0.5, 1e-4, 23, [60, 40])
    assert local == pytest.approx(23 / (0.5 * 40) * math.sqrt(2 * math.log(1.25 * 23 / 1e-4)))
    assert central == pytest.approx(local * 0.6)
    printed = FedPower(rank=2, iterations=92, period=4, epsilon=0.5, delta=1e-4)
    assert printed.deviations([60, 40]) == (local, central)
    assert printed.claim([60, 40], 7) == (1.0, 2e-4)
    assert not printed.guarantee.sound
    given_noise = FedPower(rank=2, iterations=92, period=4, delta=1e-4, noise=local, central_noise=central)
    assert given_noise.claim([60, 40], 7)[0] == pytest.approx(1.0)


def test_one_noise_is_left_in_the_utility_enhanced_form() -> None:
    """Seen by a coalition that holds the device whose noise was kept, there is none."""
    mechanism = UtilityFedPower(rank=2, iterations=60, period=1, noise=0.5)
    data = devices()
    everybody = mechanism.transcript(data, np.random.default_rng(0))
    assert {a.deviation for a in everybody} == {0.5 / 4}
    against_three = Database(data.parties, frozenset({1, 2, 3}))
    bare = [a.deviation == 0 for a in mechanism.transcript(against_three, np.random.default_rng(0))]
    assert 0.5 < np.mean(bare) < 0.95  # three of four


def test_distributed_noise_adds_up_to_one_devices_noise() -> None:
    data = devices(n=4)
    one = PrivateFedPower(rank=2, iterations=1, noise=0.4, row_bound=9.0)
    full = PrivateFedPower(rank=2, iterations=1, noise=0.4, row_bound=9.0, distributed=False)
    deviations = [m.transcript(data, np.random.default_rng(0))[0].deviation for m in (one, full)]
    # Of the mean of four devices: one noise of 0.4 divided by 4, and the mean of four such noises.
    assert deviations == pytest.approx([0.4 / 4, 0.4 / 2])
    # Where one of them attacks, three others' noise is left, each of 0.4 / sqrt(3).
    against = PrivateFedPower(rank=2, iterations=1, noise=0.4, row_bound=9.0, colluders=1)
    assert against.transcript(data, np.random.default_rng(0))[0].deviation == pytest.approx(0.4 / 4)
    assert against.left(np.zeros((2, 3)), (20, 90, 50, 40), 4) == pytest.approx(
        0.4 / math.sqrt(3) * math.hypot(20, 50, 40) / 200
    )


@pytest.mark.parametrize("period", [1, 3])
@pytest.mark.parametrize("sizes", [(50, 50, 50), (20, 100, 400)])
def test_the_calibrated_noise_has_the_claimed_epsilon(period: int, sizes: tuple[int, ...]) -> None:
    mechanism = PrivateFedPower(rank=2, iterations=6, period=period, epsilon=0.8, colluders=1)
    assert mechanism.accounting(sizes, 30).exact == pytest.approx(0.8, rel=1e-4)
    assert mechanism.claim(sizes, 30) == (0.8, 1e-5)
    # By hand: what the server gets, and what local iterations hide behind one device's noise.
    each = mechanism.sigma(sizes, 30) / math.sqrt(2)
    rows, honest = sum(sizes), sorted(sizes)[:2]
    total = each * math.hypot(*honest) / rows / (math.sqrt(2) / rows)
    local = each * min(sizes) / math.sqrt(2)
    ledger = [total] * (6 // period) + [local] * (6 - 6 // period)
    assert account(ledger, 1e-5).exact == pytest.approx(0.8, rel=1e-3)
    longer = PrivateFedPower(rank=2, iterations=7, period=3, epsilon=0.8, colluders=1)
    assert len(longer.multipliers(sizes, 30)) == 7, "three announcements, and four local iterations"
    assert longer.accounting(sizes, 30).exact == pytest.approx(0.8, rel=1e-4)


def test_the_printed_theorems() -> None:
    assert theorem_1(10, 0.05, 0.2) == pytest.approx(2 * math.sqrt(10) * 0.01)
    # The paper says 30.6.
    assert theorem_2(10, 0.05, 0.2, 0.1, 1e-5) == pytest.approx(3.06, abs=0.01)
    printed = PrivateFedPower(rank=10, iterations=23, noise=0.1, unit="entry-printed")
    epsilon, delta = printed.claim([100], 50)
    assert epsilon == pytest.approx(23 * 3.064, rel=1e-3)
    assert delta == pytest.approx(23e-5)
    assert not printed.guarantee.sound


def test_more_colluders_than_devices_are_refused() -> None:
    with pytest.raises(CorpusError, match="colluders"):
        PrivateFedPower(rank=2, colluders=4).run(devices(), np.random.default_rng(0))


def test_nothing_is_claimed_where_nothing_bounds_a_record() -> None:
    assert UtilityFedPower().guarantee.kind == "none"
    assert UtilityFedPower(period=4, row_bound=1.0).guarantee.kind == "none"
    assert UtilityFedPower(period=1, row_bound=1.0).guarantee.kind == "(epsilon, delta)"
    with pytest.raises(SpecError, match="nothing is claimed"):
        UtilityFedPower().multipliers([3, 3], 9)
