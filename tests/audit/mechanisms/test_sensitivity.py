"""A wrong sensitivity is found by one run and its replay; a right one is not accused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.pem import mechanisms as pem
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic
from ksdp.audit.mechanisms.privacy import fedpower, fedpower_private, hardt_roth, moments
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA, Moments, TermCounts
from ksdp.audit.mechanisms.sensitivity import LONGER, MovedValue, Replayed, replayed

UTILITY = UtilityFedPower(rank=2, iterations=3, period=1, row_bound=1.0, noise=0.1)
SOUND = [
    HardtRoth(rank=2, iterations=3, epsilon=1.0),
    HardtRoth(rank=2, iterations=3, epsilon=1.0, adjacency="add-remove"),
    HardtRoth(rank=2, iterations=2, epsilon=1.0, sampler="discrete"),
    DPNMF(rank=2, sweeps=2, epsilon=1.0),
    DPNMF(rank=2, sweeps=2, epsilon=1.0, adjacency="replace-one"),
    Moments(rank=2),
    TermCounts(),
    TermCounts(adjacency="add-remove"),
    DPdisPCA(rank=2, intermediate=3, epsilon=1.0),
    UTILITY,
    PrivateFedPower(rank=2, iterations=3, epsilon=1.0),
    PrivateFedPower(rank=2, iterations=4, period=2, epsilon=1.0),
    PEMKMeans(clusters=2, iterations=2),
    PEMLogistic(iterations=2),
    PEMApriori(sampling=0.5),
]
UNCLIPPED = [
    (hardt_roth, HardtRoth(rank=2, iterations=2)),
    (moments, Moments(rank=2)),
    (moments, DPdisPCA(rank=2, intermediate=3)),
    (fedpower, UTILITY),
    (fedpower_private, PrivateFedPower(rank=2, iterations=2)),
]
"""With the module in which rows are clipped."""


def found(mechanism: Any, seed: int = 0) -> Replayed:
    return replayed(mechanism, mechanism.neighbours(), np.random.default_rng(seed))


@pytest.mark.parametrize("mechanism", SOUND, ids=lambda m: m.name)
def test_a_right_sensitivity_is_reached_and_not_passed(mechanism: Any) -> None:
    for seed in range(3):
        one = found(mechanism, seed)
        assert not one.refuted
        assert not one.not_checked
        assert one.values >= 2
        half = 0.5 if (mechanism.name, getattr(mechanism, "adjacency", "")) == ("dp-nmf", "replace-one") else 1
        assert one.farthest.distance == pytest.approx(half * one.farthest.sensitivity, rel=1e-6)
        assert "none moves farther" in one.sentence()


def test_distances_are_those_of_the_moments_times_the_blocks_that_were_announced() -> None:
    mechanism = HardtRoth(rank=2, iterations=3, epsilon=1.0)
    pair = mechanism.neighbours()
    first, second = (database.parties[0].toarray() for database in pair)
    features = first.shape[1]
    told = mechanism.transcript(pair[0], np.random.default_rng(5))
    start = start_block(0, features, 2)
    blocks = [first_basis(0, features, 2), *(orthonormalise(one.public, start) for one in told[:-1])]
    expected = [np.linalg.norm((first.T @ first - second.T @ second) @ block.T) for block in blocks]
    moved = mechanism.moved(pair, np.random.default_rng(5))
    assert [one.distance for one in moved] == pytest.approx(expected)
    assert expected[0] != pytest.approx(expected[2], rel=1e-6)
    assert [one.sensitivity for one in moved] == pytest.approx([mechanism.sensitivity(features)] * 3)
    assert [one.release for one in moved] == [f"release {i} of 3" for i in (1, 2, 3)]


@pytest.mark.parametrize("by", [2.0, 1e9], ids=["doubled", "forgotten"])
@pytest.mark.parametrize(("module", "mechanism"), UNCLIPPED, ids=lambda m: getattr(m, "name", ""))
def test_clipping_that_is_too_wide_or_forgotten_is_found(
    module: Any, mechanism: Any, by: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "clip_rows", lambda rows, bound: clip_rows(rows, by * bound))
    one = found(mechanism)
    assert one.refuted
    assert f"(records {LONGER} times as long)" in one.farthest.release
    assert one.farthest.distance == pytest.approx(min(by, LONGER) ** 2 * one.farthest.sensitivity, rel=1e-4)
    for part in ("REFUTES", one.farthest.release, f"{one.farthest.sensitivity:.6g}", "Bound what a record adds"):
        assert part in one.sentence()


def test_half_of_the_sensitivity_is_found_on_the_worst_pair_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    right = HardtRoth.sensitivity
    monkeypatch.setattr(HardtRoth, "sensitivity", lambda self, features: right(self, features) / 2)
    assert not found(DPNMF(rank=2, sweeps=2)).refuted
    one = found(HardtRoth(rank=2, iterations=3))
    # The ledger has multipliers alone: noise of half the size was made for half of the sensitivity.
    assert one.refuted
    assert one.farthest.release == "release 1 of 3"
    assert one.farthest.distance == pytest.approx(2 * one.farthest.sensitivity)
    monkeypatch.setattr(DPNMF, "_bound", 1.001)
    assert found(DPNMF(rank=2, sweeps=2)).refuted


def test_a_sum_of_pem_that_keeps_no_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: Callable[..., np.ndarray] = pem.contribution
    monkeypatch.setattr(pem, "contribution", lambda *given: 2 * kept(*given))
    for mechanism in (PEMKMeans(clusters=2, iterations=2), PEMLogistic(iterations=2), PEMApriori()):
        one = found(mechanism)
        assert one.refuted
        assert one.farthest.norm == "L1, in steps"
        assert one.farthest.distance == 2 * one.farthest.sensitivity
        assert one.farthest.release == "block 1 of iteration 1"


def test_printed_claims_about_entries_are_found_and_too_little_noise_is_not() -> None:
    for printed in (
        HardtRoth(rank=2, iterations=3, unit="entry-printed"),
        FedPower(rank=2, iterations=2, period=1, epsilon=0.5),
        PrivateFedPower(rank=2, iterations=2, unit="entry-printed", noise=0.3),
    ):
        assert found(printed).refuted
    assert not found(BrokenPower(rank=2, iterations=3)).refuted


def answered(program: Any, change: Callable[[int, Any], Any]) -> Any:
    """A party's program, its requests changed."""
    told, number = None, 0
    while True:
        try:
            ask = program.send(told)
        except StopIteration as stop:
            return stop.value
        told = yield change(number, ask)
        number += 1


class LaterWrong(HardtRoth):
    """Its third share alone is twice as large as it says."""

    def party(self, matrix, parties):
        return answered(
            super().party(matrix, parties), lambda n, ask: replace(ask, share=2 * ask.share) if n == 2 else ask
        )


class DataSized(HardtRoth):
    def party(self, matrix, parties):
        size = 1 + 0.001 * float(abs(matrix).sum())
        return answered(
            super().party(matrix, parties), lambda n, ask: replace(ask, deviation=size * ask.deviation)
        )


class DataShaped(HardtRoth):
    def party(self, matrix, parties):
        last = matrix.shape[1] - (matrix[[0]].sum() > 0)
        return answered(
            super().party(matrix, parties),
            lambda n, ask: replace(ask, share=ask.share[:, :last], after=lambda total: first_basis(0, 4, 2)),
        )


class Undercounted(HardtRoth):
    def multipliers(self, sizes, features):
        return super().multipliers(sizes, features)[1:]


class PublishesData(DPdisPCA):
    """Its server's noisy mean is made from what it got without noise."""

    def party(self, matrix, parties):
        beside = np.array([matrix[[0]].sum()])
        return answered(
            super().party(matrix, parties), lambda n, ask: replace(ask, beside=beside) if n == 1 else ask
        )

    def collected(self, uploads, beside, sizes):
        total, _ = super().collected(uploads, beside, sizes)
        return total + beside[0], 1.0


class Refuses(HardtRoth):
    def party(self, matrix, parties):
        if abs(matrix).max() > 2:
            raise SpecError("`rows` must be at most 1 in size.")
        return super().party(matrix, parties)


def test_the_round_that_is_wrong_is_named() -> None:
    one = found(LaterWrong(rank=2, iterations=4))
    assert one.refuted
    assert one.farthest.release == "release 3 of 4"


def test_what_only_follows_may_not_move_at_all() -> None:
    one = found(PublishesData(rank=2, intermediate=3, adjacency="add-remove"))
    assert one.refuted
    assert one.farthest.release == "release 2 of 2"
    assert one.farthest.sensitivity == 0


@pytest.mark.parametrize(
    ("mechanism", "why"),
    [
        (DataSized(rank=2, iterations=2), "release 1 of 2: the size of its noise depends on the data"),
        (DataShaped(rank=2, iterations=2, adjacency="add-remove"), "what is released depends on the data"),
        (Undercounted(rank=2, iterations=3), "the run has 3 releases, and the ledger counts 2"),
        (FedPower(rank=2, iterations=4, period=2), "release 1 of 4: the size of its noise depends on the data"),
        (FedPower(rank=2, iterations=1, period=1, noise=0.0, central_noise=0.0), "it has no noise"),
    ],
    ids=lambda m: getattr(m, "name", "")[:30],
)
def test_what_cannot_be_checked_is_no_pass(mechanism: Any, why: str) -> None:
    one = found(mechanism)
    assert (one.farthest, one.values, one.refuted) == (None, 0, False)
    assert why in one.not_checked
    assert one.sentence() == f"Replay: NOT CHECKED: {one.not_checked}."


def test_longer_records_that_are_refused_and_mechanisms_that_record_nothing_are_said() -> None:
    one = found(Refuses(rank=2, iterations=2))
    assert one.values == 2
    assert not one.refuted
    assert one.not_checked == f"records {LONGER} times as long: refused, `rows` must be at most 1 in size"
    pair = (Database((sp.csr_array(np.eye(2)),)),) * 2
    assert "no `moved`" in replayed(object(), pair, np.random.default_rng(0)).not_checked

    class Silent:
        def moved(self, pair, rng):
            return []

    assert replayed(Silent(), pair, np.random.default_rng(0)).not_checked == "the run has no noisy value"


def test_rounding_refutes_nothing_and_a_finding_survives_json() -> None:
    assert not MovedValue("one", "L2", 1 + 1e-13, 1.0, rounding=1e-12).too_far
    assert MovedValue("one", "L2", 1 + 1e-11, 1.0, rounding=1e-12).too_far
    assert not MovedValue("one", "L2", 2.0, 1.0, unknown="why").too_far
    for one in (found(FedPower(rank=2, iterations=1, period=1)), Replayed(0, None, "nothing")):
        assert Replayed.from_json(json.loads(json.dumps(asdict(one)))) == one
