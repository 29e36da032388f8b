"""Every differentially private mechanism against its own claim, in many runs. Each test prints its line."""

from dataclasses import fields, replace

import numpy as np
import pytest

from ksdp.audit.mechanisms.claims import audit_claim
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic, PemMechanism
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA, Moments, TermCounts
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases

pytestmark = pytest.mark.validity

SOUND: list[GaussianReleases] = [
    HardtRoth(rank=2, iterations=3, epsilon=4.0),
    HardtRoth(rank=2, iterations=3, epsilon=4.0, adjacency="add-remove"),
    DPNMF(rank=2, sweeps=2, epsilon=4.0),
    DPNMF(rank=2, sweeps=2, epsilon=4.0, adjacency="replace-one"),
    DPdisPCA(rank=2, intermediate=3, epsilon=4.0),
    Moments(rank=2, advantage=0.8, colluders=1),
    TermCounts(advantage=0.8),
    DPdisPCA(rank=2, intermediate=3, epsilon=0.9, adjacency="add-remove", calibration="printed"),
    UtilityFedPower(rank=2, iterations=3, period=1, row_bound=1.0, noise=0.03),
    PrivateFedPower(rank=2, iterations=3, epsilon=4.0),
    PrivateFedPower(rank=2, iterations=4, period=2, epsilon=4.0),
]
PEM: list[PemMechanism] = [
    PEMKMeans(clusters=2, iterations=2, epsilon=4.0),
    PEMLogistic(iterations=1, epsilon=1.0),
    PEMLogistic(iterations=5, epsilon=4.0),
    PEMApriori(epsilon=4.0),
    PEMApriori(epsilon=4.0, sampling=0.5),
    PEMLogistic(iterations=2, epsilon=2.0, sampling=0.5, servers=3, colluding=2),
]
"""Their L changes on the way where it does: Apriori's, from items to pairs."""
UNSOUND: list[GaussianReleases] = [
    FedPower(rank=2, iterations=1, period=1, epsilon=0.5),
    PrivateFedPower(rank=2, iterations=2, unit="entry-printed", noise=0.3),
]


def name(mechanism: GaussianReleases | PemMechanism) -> str:
    told = ("unit", "adjacency", "calibration", "period", "epsilon", "sampling")
    parts = (getattr(mechanism, key, "") for key in told)
    return " ".join(str(part) for part in (mechanism.name, *parts) if part)


@pytest.mark.parametrize("mechanism", SOUND, ids=name)
def test_no_sound_claim_is_refuted_and_the_bound_comes_near(mechanism: GaussianReleases) -> None:
    found = audit_claim(mechanism, runs=2000, rng=np.random.default_rng(1), confidence=0.999)
    print(found.sentence())
    assert not found.refuted
    assert found.gaussian_low <= found.claimed_epsilon
    # An epsilon below 1 is more than so few runs can tell from 0.
    assert found.gaussian_low > 0.2 * found.claimed_epsilon or found.claimed_epsilon < 1


@pytest.mark.parametrize("mechanism", PEM, ids=name)
def test_pems_claims_hold_and_the_bound_comes_near(mechanism: PemMechanism) -> None:
    found = audit_claim(mechanism, runs=2000, rng=np.random.default_rng(1), confidence=0.999)
    print(found.sentence())
    assert not found.refuted
    assert found.measured_low > 0.25 * found.claimed_epsilon


@pytest.mark.parametrize("mechanism", [*SOUND, *PEM], ids=name)
def test_with_a_tenth_of_the_noise_every_one_is_caught(mechanism: GaussianReleases | PemMechanism) -> None:
    # Claims that are small enough for so few runs to exceed them.
    own = {"fedpower-utility": {"noise": 0.1}, "moments": {"advantage": 0.3}, "term-counts": {"advantage": 0.3}}
    small = own.get(mechanism.name, {"epsilon": 0.9})
    asked = replace(mechanism, **small)
    broken = type("Broken", (type(mechanism),), {"noise_factor": 0.1})
    weak = broken(**{f.name: getattr(asked, f.name) for f in fields(asked)})
    found = audit_claim(weak, runs=500, rng=np.random.default_rng(2), confidence=0.999)
    print("a tenth of the noise:", found.sentence())
    assert found.refuted


@pytest.mark.parametrize("runs", [500, 2000])
def test_half_of_the_noise_is_refuted_every_time(runs: int) -> None:
    """Events alone refuted 0 of 20 at 2,000 runs."""
    asked = HardtRoth(rank=2, iterations=1, epsilon=1.0)
    broken = type("Half", (HardtRoth,), {"noise_factor": 0.5})
    weak = broken(**{f.name: getattr(asked, f.name) for f in fields(asked)})
    found = [audit_claim(weak, runs=runs, rng=np.random.default_rng(seed)) for seed in range(20)]
    events = sum(f.measured_low > f.claimed_epsilon for f in found)
    print(
        f"half of the noise, {runs} runs: refuted {sum(f.refuted for f in found)} of 20 (by events alone {events})"
    )
    assert all(f.refuted for f in found)
    sound = [audit_claim(asked, runs=runs, rng=np.random.default_rng(seed)) for seed in range(20)]
    assert sum(f.refuted for f in sound) <= 4  # 5 % each
    assert all(f.half_refuted for f in sound)


@pytest.mark.parametrize("mechanism", UNSOUND, ids=name)
def test_claims_that_are_printed_and_do_not_hold_are_refuted(mechanism: GaussianReleases) -> None:
    found = audit_claim(mechanism, runs=2000, rng=np.random.default_rng(3), confidence=0.999)
    print("as printed:", found.sentence())
    assert not found.guarantee.sound
    assert found.refuted


def test_the_sampler_that_protects_gives_the_same_law() -> None:
    vetted = replace(HardtRoth(rank=2, iterations=2, epsilon=4.0), sampler="discrete")
    found = audit_claim(vetted, runs=1000, rng=np.random.default_rng(4), confidence=0.999)
    print("vetted:", found.sentence())
    assert not found.refuted
    assert 1.0 < found.gaussian_low <= 4.0


def test_what_pem_draws_among_real_parties_gives_the_same_law() -> None:
    vetted = PEMLogistic(iterations=2, epsilon=2.0, sampler="discrete")
    found = audit_claim(vetted, runs=1000, rng=np.random.default_rng(4), confidence=0.999)
    print("vetted:", found.sentence())
    assert not found.refuted
    assert found.measured_low > 0.5


def test_a_bound_above_the_claim_comes_as_seldom_as_it_says() -> None:
    """Bounds of 80 % exceed the claim in at most a fifth of the audits; in fact they are far below it."""
    mechanism = HardtRoth(rank=2, iterations=1, epsilon=1.0)
    findings = [audit_claim(mechanism, runs=100, rng=np.random.default_rng(s), confidence=0.8) for s in range(60)]
    beyond = float(np.mean([f.measured_low > 1.0 for f in findings]))
    normal = float(np.mean([f.gaussian_low > 1.0 for f in findings]))
    print(f"bounds of 80 % beyond the claim: {beyond} (distribution-free), {normal} (normal)")
    assert beyond <= 0.2 + 3 * np.sqrt(0.16 / 60)
    assert normal <= 0.2 + 3 * np.sqrt(0.16 / 60)
