"""Runs and replays of mechanisms that release noisy sums."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.privacy.announcer import Replay
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.dpdispca import DPdisPCA
from ksdp.audit.mechanisms.privacy.fedpower import FedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.fedpower_utility import UtilityFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.privacy.released import GaussianReleases

ALL: list[GaussianReleases] = [
    HardtRoth(rank=2, iterations=2),
    HardtRoth(rank=2, iterations=2, unit="entry-printed"),
    BrokenPower(rank=2, iterations=2),
    DPNMF(rank=2, sweeps=2),
    DPdisPCA(rank=2, intermediate=3),
    Moments(rank=2),
    FedPower(rank=2, iterations=4, period=2),
    UtilityFedPower(rank=2, iterations=2, period=1, row_bound=1.0),
    PrivateFedPower(rank=2, iterations=2),
    PrivateFedPower(rank=2, iterations=2, unit="entry-printed", noise=0.1),
]
IDS = [f"{m.name}-{getattr(m, 'unit', '')}" for m in ALL]


def parties(seed: int = 0, n: int = 3) -> tuple[sp.csr_array, ...]:
    rng = np.random.default_rng(seed)
    return tuple(sp.csr_array(np.abs(rng.normal(size=(rows, 6)))) for rows in range(5, 5 + n))


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_announces_what_it_says_and_the_same_from_the_same_seed(mechanism: GaussianReleases) -> None:
    database = Database(parties(), frozenset({2}))
    seen = mechanism.run(database, np.random.default_rng(5))
    assert {a.name: a.shape for a in mechanism.observables(6)} == {name: seen[name].shape for name in seen}
    again = mechanism.run(database, np.random.default_rng(5))
    other = mechanism.run(database, np.random.default_rng(6))
    assert all(np.array_equal(seen[name], again[name]) for name in seen)
    assert any(not np.array_equal(seen[name], other[name]) for name in seen)


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_a_replay_on_the_true_database_gives_the_exact_sums_back(mechanism: GaussianReleases) -> None:
    database = Database(parties())
    transcript = mechanism.transcript(database, np.random.default_rng(1))
    replay = Replay(database.outside, transcript)
    mechanism.transcribe(database, replay)
    assert len(replay.transcript) == len(transcript) > 0
    for was, now in zip(transcript, replay.transcript, strict=True):
        assert np.array_equal(was.exact, now.exact)


@pytest.mark.parametrize("mechanism", ALL, ids=IDS)
def test_the_announced_noise_has_the_stated_deviation(mechanism: GaussianReleases) -> None:
    database = Database(parties())
    rng = np.random.default_rng(2)
    scores = [
        (a.seen - a.exact).ravel() / a.deviation
        for _ in range(40)
        for a in mechanism.transcript(database, rng)
        if a.deviation > 0
    ]
    values = np.concatenate(scores)
    assert abs(values.mean()) < 5 / np.sqrt(len(values))
    assert abs(values.std() - 1) < 5 / np.sqrt(2 * len(values))


def test_the_likelihood_ratio_is_that_of_the_densities() -> None:
    """One release, by the formula of the multivariate normal density."""
    mechanism = HardtRoth(rank=2, iterations=1, epsilon=2.0)
    pair = mechanism.neighbours()
    (announced,) = mechanism.transcript(pair[0], np.random.default_rng(3))
    densities = []
    for database in pair:
        replay = Replay(database.outside, [announced])
        mechanism.transcribe(database, replay)
        off = announced.seen - replay.transcript[0].exact
        densities.append(-np.sum(off**2) / (2 * announced.deviation**2))
    assert mechanism.log_likelihood_ratio([announced], pair) == pytest.approx(densities[0] - densities[1])


def test_the_vetted_sampler_runs_on_the_grid() -> None:
    mechanism = HardtRoth(rank=2, iterations=1, sampler="discrete", announce=("sums",))
    seen = mechanism.run(Database(parties()), np.random.default_rng(0))["sums"] * 2.0**31
    assert np.array_equal(seen, np.rint(seen))
    assert mechanism.guarantee.as_json()["protects"]
    assert not HardtRoth().guarantee.as_json()["protects"]
