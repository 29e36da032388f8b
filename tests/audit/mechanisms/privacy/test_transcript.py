"""Noise on what parties ask for, and the transcript of it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import SpecError
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


BOUNDED: list[GaussianReleases] = [
    HardtRoth(rank=2, iterations=2, row_bound=1.3),
    *(
        DPNMF(rank=3, sweeps=2, contribution=most, row_bound=2.0, weighted=weighted)
        for most, weighted in ((0.01, False), (0.3, True), (3.0, False), (3.0, True))
    ),
    DPdisPCA(rank=1, intermediate=2, row_bound=0.7),
    Moments(rank=2, row_bound=0.7),
    TermCounts(),
    UtilityFedPower(rank=2, iterations=2, period=1, row_bound=1.0),
    PrivateFedPower(rank=2, iterations=2, noise=1.0, row_bound=0.8),
]


@pytest.mark.parametrize("mechanism", BOUNDED, ids=lambda m: m.name)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_no_record_changes_a_release_by_more_than_its_noise_is_counted_for(mechanism: Any, adjacency: str) -> None:
    """Rows are shorter and longer than the bounds; the first of them is another, or gone."""
    if hasattr(mechanism, "adjacency"):
        mechanism = replace(mechanism, adjacency=adjacency)
    largest = 0.0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        drawn = rng.exponential(size=(7, 5)) * (rng.random((7, 5)) < 0.7) * rng.choice([0.1, 1.0, 20.0], (7, 1))
        if not mechanism.traits.nonnegative:
            drawn *= rng.choice([-1.0, 1.0], drawn.shape)
        rows, other = drawn[:6], drawn[:6].copy()
        other[0] = 0.0 if adjacency == "add-remove" else drawn[6]
        announced = mechanism.transcript(Database((sp.csr_array(rows),)), rng)
        replay = Replay((0,), announced)
        mechanism.transcribe(Database((sp.csr_array(other),)), replay)
        multipliers = mechanism.multipliers((6,), 5)
        for was, now, multiplier in zip(announced, replay.transcript, multipliers, strict=True):
            moved = np.linalg.norm(was.exact - now.exact) / (was.deviation / multiplier)
            largest = max(largest, float(moved))
    assert 0.5 < largest <= 1 + 1e-9


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
