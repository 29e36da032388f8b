"""Claims against runs; the proof over many seeds is in tests/validity."""

import json
from dataclasses import fields, replace

import numpy as np
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms import claims
from ksdp.audit.mechanisms.claims import ClaimFinding, audit_claim, claiming
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic, PemMechanism
from ksdp.audit.mechanisms.privacy.fedpower import UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth


def test_noise_ten_times_too_small_is_caught_by_name_and_by_number() -> None:
    found = audit_claim(BrokenPower(rank=2, iterations=2, epsilon=1.0), runs=150, rng=np.random.default_rng(0))
    assert found.refuted
    assert found.measured_low > 1.5
    assert "REFUTED" in found.sentence()
    assert "fast" in found.sentence()
    assert json.loads(json.dumps(found.as_json()))["refuted"] is True
    assert ClaimFinding.from_json(json.loads(json.dumps(found.as_json()))) == found
    assert replace(found, measured_low=0.0).refuted
    assert not replace(found, measured_low=0.0, gaussian_low=0.0).refuted


def test_the_same_with_all_its_noise_is_not() -> None:
    found = audit_claim(HardtRoth(rank=2, iterations=2, epsilon=1.0), runs=150, rng=np.random.default_rng(0))
    assert not found.refuted
    assert found.claimed_epsilon == 1.0
    assert found.measured_low <= 1.0
    assert {way.way: way.epsilon for way in found.counted}["exactly"] == pytest.approx(1.0, rel=1e-4)
    assert found.gaussian_low is not None
    assert "REFUTED" not in found.sentence()


def test_all_bounds_of_a_finding_share_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []

    def spied(name: str, place: int) -> None:
        real = getattr(claims, name)
        monkeypatch.setattr(claims, name, lambda *a, **k: asked.append(a[place]) or real(*a, **k))

    for name, place in (("epsilon_lower_bound", 2), ("gaussian_epsilon_low", 1)):
        spied(name, place)
    for mechanism in (HardtRoth(rank=2, iterations=1, epsilon=1.0), PEM[0]):
        audit_claim(mechanism, runs=20, rng=np.random.default_rng(0), confidence=0.94)
    assert asked == pytest.approx([0.97] * 4 + [0.94] * 2)


def test_a_printed_claim_about_entries_does_not_hold_for_records() -> None:
    printed = PrivateFedPower(rank=2, iterations=2, unit="entry-printed", noise=0.3, delta=1e-3)
    found = audit_claim(printed, runs=120, rng=np.random.default_rng(0))
    assert found.claimed_epsilon < 1
    assert found.refuted
    assert not found.guarantee.sound


PEM = [
    PEMKMeans(clusters=2, iterations=1, epsilon=0.5),
    PEMLogistic(iterations=1, epsilon=0.5),
    PEMApriori(epsilon=0.5),
    PEMLogistic(iterations=1, epsilon=0.5, sampling=0.6, servers=3, colluding=2),
]


@pytest.mark.parametrize("mechanism", PEM, ids=lambda m: f"{m.name} {m.sampling}")
def test_pem_keeps_its_claim_and_with_a_tenth_of_the_noise_it_does_not(mechanism: PemMechanism) -> None:
    found = audit_claim(mechanism, runs=20, rng=np.random.default_rng(1))
    assert not found.refuted
    assert (found.claimed_epsilon, found.claimed_delta, found.gaussian_low) == (0.5, 0.0, None)
    assert "normal" not in found.sentence()
    assert [(way.way, way.delta) for way in found.counted] == [("added up", 0.0), ("tightest", 1e-5)]
    assert all(way.epsilon <= 0.5 for way in found.counted)
    weak = type("Weak", (type(mechanism),), {"noise_factor": 0.1})
    asked = {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
    assert audit_claim(weak(**asked), runs=60, rng=np.random.default_rng(2)).refuted


def test_half_of_the_noise_is_refuted_and_the_finding_says_what_it_could_refute() -> None:
    mechanism = HardtRoth(rank=2, iterations=1, epsilon=1.0)
    found = audit_claim(mechanism, runs=400, rng=np.random.default_rng(0))
    assert not found.refuted
    assert found.half_refuted
    assert 0.5 < found.refutable_factor < 0.75
    assert "half of the noise was refuted" in found.sentence()
    few = audit_claim(mechanism, runs=20, rng=np.random.default_rng(0))
    assert few.has_power is False
    assert found.has_power is True
    assert "NO POWER" in few.sentence()


class DataSized(HardtRoth):
    """Its noise is a little wider for one of the two databases: a channel of its own."""

    def party(self, matrix, parties):
        asks, told = super().party(matrix, parties), None
        size = 1 + 0.001 * float(abs(matrix).sum())
        while True:
            try:
                ask = asks.send(told) if told is not None else next(asks)
            except StopIteration as stop:
                return stop.value
            told = yield replace(ask, deviation=size * ask.deviation) if hasattr(ask, "deviation") else ask


def test_noise_whose_size_depends_on_the_data_is_seen() -> None:
    mechanism = DataSized(rank=2, iterations=1, epsilon=1.0)
    pair = mechanism.neighbours()
    sums = [float(abs(database.parties[0]).sum()) for database in pair]
    assert sums[0] != sums[1]
    found = audit_claim(mechanism, runs=100, rng=np.random.default_rng(0))
    sound = audit_claim(HardtRoth(rank=2, iterations=1, epsilon=1.0), runs=100, rng=np.random.default_rng(0))
    assert found.data_dependent
    assert found.gaussian_low is None
    assert "DEPENDS ON THE DATA" in found.sentence()
    assert not sound.data_dependent


def test_what_claims_nothing_and_bad_numbers_are_refused() -> None:
    for mechanism in (PDSVD(), UtilityFedPower()):
        with pytest.raises(SpecError, match="claims no epsilon"):
            claiming(mechanism)

    class Told:
        name, version, guarantee = "told", 1, HardtRoth().guarantee

    with pytest.raises(SpecError, match="'told' has no worst case to run"):
        claiming(Told())
    with pytest.raises(SpecError, match="runs"):
        audit_claim(HardtRoth(rank=2), runs=5, rng=np.random.default_rng(0))
    with pytest.raises(SpecError, match="confidence"):
        audit_claim(HardtRoth(rank=2), runs=30, rng=np.random.default_rng(0), confidence=1.0)
    with pytest.raises(SpecError, match="worst case"):
        audit_claim(HardtRoth(rank=1), runs=30, rng=np.random.default_rng(0))
