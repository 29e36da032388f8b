"""Noise on what parties ask for, and the transcript of it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import ProtocolError, SpecError
from ksdp.audit.mechanisms.party_side import (
    Array,
    Broadcast,
    LocalNoise,
    NoisySum,
    OneNoiseSum,
    PartyProgram,
    PartyResult,
    SecSum,
    Sizes,
    Upload,
)
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.mechanisms.privacy.moments import DPdisPCA, Moments, TermCounts
from ksdp.audit.mechanisms.privacy.transcript import Announcer, GaussianReleases, Replay, simulate
from ksdp.audit.mechanisms.schema import recorded


def nobody(uploads: object, beside: object, sizes: object) -> tuple[Array, float]:
    raise AssertionError("no upload was asked for")


def everything(number: int, told: list[object]) -> PartyProgram:
    """PartyProgram for one of each, and keeps what it is told."""
    one = np.full(2, float(number + 1))
    told.append((yield Sizes(10 * (number + 1))))
    told.append((yield Broadcast(one)))
    told.append((yield LocalNoise(one, 0.0)))
    told.append((yield NoisySum(one, 0.0, after=lambda total: total / 2)))
    told.append((yield Upload(one, 0.0, send=lambda noisy: -noisy, beside=one[:1], after=lambda mean: mean + 1)))
    return PartyResult({"end": np.zeros(1)})


def test_every_party_is_told_what_it_asked_for() -> None:
    told: list[list[object]] = [[], [], []]
    announcer = Announcer([0, 1, 2], "fast", np.random.default_rng(0))

    def server(uploads: object, beside: object, sizes: object) -> tuple[Array, float]:
        assert sizes == [10, 20, 30]
        return np.sum(np.array(uploads), axis=0) * np.sum(np.array(beside)), 0.0

    driven = simulate([everything(i, told[i]) for i in range(3)], server, announcer)
    for number, found in enumerate(told):
        sizes, shown, kept, total, published = found
        assert sizes == (10, 20, 30)
        assert np.array_equal(np.asarray(shown), np.full(2, 1.0))
        assert np.array_equal(np.asarray(kept), np.full(2, number + 1.0))
        assert np.array_equal(np.asarray(total), np.full(2, 3.0))
        assert np.array_equal(np.asarray(published), np.full(2, -35.0))
    assert len(announcer.transcript) == 4  # the sum and three uploads
    assert np.array_equal(driven.uploads[0][2], np.full(2, -3.0))
    assert list(driven.public) == ["end"]


def test_one_noise_is_left_of_all() -> None:
    def party(share: float) -> PartyProgram:
        total = yield OneNoiseSum(np.full(1000, share), 2.0)
        return PartyResult({"total": total})

    driven = simulate(
        [party(1.0), party(2.0), party(3.0)], nobody, Announcer([0, 1, 2], "fast", np.random.default_rng(1))
    )
    spread = float(np.std(driven.public["total"] - 6.0))
    assert 1.8 < spread < 2.2  # of one; of all three it would be 3.5


def test_parties_that_drift_apart_are_refused() -> None:
    def adds() -> PartyProgram:
        yield NoisySum(np.zeros(1), 1.0)
        return PartyResult({})

    def keeps() -> PartyProgram:
        yield LocalNoise(np.zeros(1), 1.0)
        return PartyResult({})

    def stops() -> PartyProgram:
        return PartyResult({})
        yield

    for other in (keeps, stops):
        with pytest.raises(ProtocolError, match="out of step"):
            simulate([adds(), other()], nobody, Announcer([0, 1], "fast", np.random.default_rng(0)))


def test_an_exact_sum_has_no_place_in_a_transcript_of_noise() -> None:
    def exact() -> PartyProgram:
        yield SecSum(np.zeros(1))
        return PartyResult({})

    with pytest.raises(SpecError, match="exact sum"):
        simulate([exact()], nobody, Announcer([0], "fast", np.random.default_rng(0)))


def test_the_coalition_takes_off_its_own_shares_and_its_own_noise() -> None:
    announcer = Announcer([0, 2], "fast", np.random.default_rng(0))
    shares = [np.full(2, 1.0), np.full(2, 10.0), np.full(2, 100.0)]
    public = announcer.total(shares, [0.0, 5.0, 0.0])
    (seen,) = announcer.transcript
    assert np.array_equal(seen.seen, np.full(2, 101.0))
    assert seen.deviation == 0.0
    assert not np.array_equal(public, np.full(2, 111.0))


def test_a_sum_of_nobody_outside_is_refused() -> None:
    with pytest.raises(SpecError, match="no announcement"):
        Announcer([], "fast", np.random.default_rng(0)).total([np.zeros(1)], [1.0])


ALL: list[GaussianReleases] = [
    HardtRoth(rank=2, iterations=2),
    HardtRoth(rank=2, iterations=2, unit="entry-printed"),
    BrokenPower(rank=2, iterations=2),
    DPNMF(rank=2, sweeps=2),
    DPdisPCA(rank=2, intermediate=3),
    Moments(rank=2),
    Moments(rank=2, colluders=1),
    TermCounts(),
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
    assert {a.name: a.shape for a in recorded(mechanism, 6)} == {name: seen[name].shape for name in seen}
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
    mechanism = HardtRoth(rank=2, iterations=1, sampler="discrete")
    seen = mechanism.run(Database(parties()), np.random.default_rng(0))["sums"] * 2.0**31
    assert np.array_equal(seen, np.rint(seen))
    assert mechanism.guarantee.as_json()["protects"]
    assert not HardtRoth().guarantee.as_json()["protects"]
