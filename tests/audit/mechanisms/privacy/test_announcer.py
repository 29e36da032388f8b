"""Noise on what parties ask for, and the transcript of it."""

from __future__ import annotations

import numpy as np
import pytest

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
from ksdp.audit.mechanisms.privacy.announcer import Announcer, simulate


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
