"""Material that the parties make themselves: right, uniform, and labelled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.power_iteration import normed_sec_sum
from ksdp.protocols.norms.normed_offline import batch_of, offline_script
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_simulation import (
    deliver,
    simulate_material,
    simulate_normed_sum,
    simulate_setup,
)
from ksdp.protocols.norms.normed_sum import online_script
from ksdp.protocols.norms.ot_setup import OtSetup, setup_script

from .correlations import check_correlations


@pytest.fixture(scope="module")
def three() -> tuple[OtSetup, ...]:
    return simulate_setup(NormedSumParameters(3, 1))


@pytest.fixture(scope="module")
def two() -> tuple[OtSetup, ...]:
    return simulate_setup(NormedSumParameters(2, 1), random_bytes=np.random.default_rng(6).bytes)


@pytest.mark.parametrize(("dimension", "fraction_bits", "integer_bits"), [(1, 10, 0), (7, 20, 4), (30, 31, 16)])
def test_three_parties_make_what_a_dealer_would(
    three: Sequence[OtSetup], dimension: int, fraction_bits: int, integer_bits: int
) -> None:
    terms = NormedSumParameters(3, dimension, fraction_bits, integer_bits)
    materials = simulate_material(terms, three, dimension)
    check_correlations(materials)
    assert {material.offline for material in materials} == {"transfers"}
    vectors = np.random.default_rng(dimension).uniform(-1, 1, size=(3, dimension)) / (4 * dimension)
    results, _ = deliver([online_script(m, v) for m, v in zip(materials, vectors, strict=True)])
    bound = terms.error_bound_at(float(np.linalg.norm(vectors.sum(axis=0))))
    for result in results:
        assert result.offline == "transfers"
        assert np.abs(result.values - normed_sec_sum(list(vectors[:, None]))[0][0]).max() <= bound


def test_the_whole_protocol_needs_no_third_party_by_default() -> None:
    found = simulate_normed_sum([[3.0, 0.0], [0.0, 4.0]])
    assert found.offline == "transfers"
    assert np.abs(found.values - [0.6, 0.8]).max() <= found.error_bound


def test_one_setup_serves_many_sums_each_number_once(two: Sequence[OtSetup]) -> None:
    terms = NormedSumParameters(2, 2, 10, 0)
    first, second = (simulate_material(terms, two, number) for number in (100, 101))
    check_correlations(first)
    check_correlations(second)
    assert first[0].batch != second[0].batch
    assert first[0].crosses[0] != second[0].crosses[0]
    with pytest.raises(ProtocolError, match="made before"):
        offline_script(two[0], terms, 100)


def test_shares_of_nothing_look_like_any_other(two: Sequence[OtSetup]) -> None:
    """y begins as the public 1, so the first cross is zero: its shares must still be uniform."""
    terms = NormedSumParameters(2, 1, 10, 0, 1)
    shares = np.array(
        [simulate_material(terms, two, 200 + i)[0].crosses[0] / terms.scalar_ring.modulus for i in range(24)]
    )
    # The randomness is the system's, so no seed: a sound protocol fails this once in a million runs.
    assert stats.kstest(shares, "uniform").pvalue > 1e-6
    assert len(set(shares)) == 24


def test_terms_that_differ_name_another_session(two: Sequence[OtSetup]) -> None:
    terms = NormedSumParameters(2, 2, 10, 0)
    (made, _) = simulate_material(terms, two, 300)
    assert batch_of(two[1], terms, 300) == made.batch
    others = batch_of(two[1], NormedSumParameters(2, 3, 10, 0), 300), batch_of(two[1], terms, 301)
    assert made.batch not in others


def test_a_changed_announcement_gives_material_that_does_not_add_up(two: Sequence[OtSetup]) -> None:
    """Nobody checks this in a run (parties are trusted to follow it); `check_correlations` sees it."""
    terms = NormedSumParameters(2, 2, 10, 0)
    scripts = [offline_script(setup, terms, 500) for setup in two]
    exchanges, made = [next(script) for script in scripts], []
    for number in range(4):
        following = []
        for me, script in enumerate(scripts):
            payload, due = exchanges[1 - me].payloads[me], exchanges[me].expected[1 - me]
            assert len(payload) == due
            if number == 2 and me == 1:
                payload = bytes(due)
            try:
                following.append(script.send({1 - me: payload}))
            except StopIteration as stop:
                made.append(stop.value)
        exchanges = following
    with pytest.raises(ProtocolError, match="cubes"):
        check_correlations(made)


def test_arguments_are_refused_before_anything_is_used(two: Sequence[OtSetup]) -> None:
    with pytest.raises(InputError, match="2 parties"):
        offline_script(two[0], NormedSumParameters(3, 2), 600)
    with pytest.raises(InputError, match="`number`"):
        offline_script(two[0], NormedSumParameters(2, 2), -1)
    with pytest.raises(InputError, match="32 bytes"):
        setup_script(b"short", 0, 2)
    with pytest.raises(InputError, match="`party`"):
        setup_script(b"s" * 32, 2, 2)
