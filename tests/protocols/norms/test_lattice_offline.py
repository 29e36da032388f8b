"""Material made by homomorphic encryption: the same correlations, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.power_iteration import normed_sec_sum
from ksdp.protocols.channel.rounds import RoundEngine
from ksdp.protocols.norms import lattice_terms
from ksdp.protocols.norms.lattice_cipher import ProductTerms
from ksdp.protocols.norms.lattice_offline import LatticeSetup, largest_lattice, lattice_batch, lattice_script
from ksdp.protocols.norms.lattice_ring import DEGREE
from ksdp.protocols.norms.lattice_terms import LatticeTerms
from ksdp.protocols.norms.normed_material import NormedMaterial
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_simulation import (
    deliver,
    simulate_material,
    simulate_normed_sum,
    simulate_setup,
)
from ksdp.protocols.norms.normed_sum import online_script
from ksdp.protocols.norms.offline_scalars import ScalarTransfers
from ksdp.protocols.norms.offline_ways import OFFLINE_WAYS
from ksdp.protocols.norms.ot_extension import announced_bytes

from .correlations import check_correlations
from .test_changed_messages import changed, one_bit

SMALL = NormedSumParameters(2, 6, 20, 4)


def made(parameters: NormedSumParameters) -> tuple[NormedMaterial, ...]:
    setups = simulate_setup(parameters, offline="lattice")
    return simulate_material(parameters, setups, offline="lattice")


@pytest.fixture(scope="module")
def two() -> tuple[LatticeSetup, ...]:
    return simulate_setup(SMALL, offline="lattice", random_bytes=np.random.default_rng(6).bytes)


@pytest.mark.parametrize(
    "terms",
    [
        NormedSumParameters(3, 1, 10, 0),
        NormedSumParameters(3, 30, 31, 16),
        NormedSumParameters(2, 20, 31, 26),  # a ring of 176 bits
        NormedSumParameters(2, DEGREE + 3, 31, 16),  # two pieces of u, three with MACs
    ],
    ids=["one", "default", "wide", "long"],
)
def test_parties_make_what_a_dealer_would(terms: NormedSumParameters) -> None:
    materials = made(terms)
    check_correlations(materials)
    assert {material.offline for material in materials} == {"lattice"}
    vectors = np.random.default_rng(1).uniform(-1, 1, size=(terms.parties, terms.dimension))
    vectors /= 4 * terms.parties * terms.dimension
    results, _ = deliver([online_script(m, v) for m, v in zip(materials, vectors, strict=True)])
    bound = terms.error_bound_at(float(np.linalg.norm(vectors.sum(axis=0))))
    for result in results:
        assert result.offline == "lattice"
        assert "prepared by lattices" in result.reveals
        assert np.abs(result.values - normed_sec_sum(list(vectors[:, None]))[0][0]).max() <= bound


@pytest.mark.parametrize("parts", [1, 3])
def test_factors_may_be_cut_into_parts(monkeypatch: pytest.MonkeyPatch, parts: int) -> None:
    def cut(*kinds: ProductTerms) -> list[ProductTerms]:
        return [replace(kind, parts=parts + (kind.limbs > 10)) for kind in kinds]

    monkeypatch.setattr(lattice_terms, "_fitted", cut)
    check_correlations(made(NormedSumParameters(2, 9, 31, 16)))


def test_the_whole_protocol_by_lattices_and_by_transfers_announce_the_same() -> None:
    vectors = [[3.0, 0.0, 1.0], [0.0, 4.0, -1.0]]
    one, other = (simulate_normed_sum(vectors, offline=way) for way in ("lattice", "transfers"))
    assert np.abs(one.values - other.values).max() <= one.error_bound + other.error_bound
    assert np.abs(one.values - [0.6, 0.8, 0.0]).max() <= one.error_bound


def test_one_setup_serves_many_sums_each_number_once(two: Sequence[LatticeSetup]) -> None:
    first, second = (simulate_material(SMALL, two, number, offline="lattice") for number in (1, 2))
    check_correlations(first)
    check_correlations(second)
    assert first[0].batch != second[0].batch
    assert (first[0].product != second[0].product).any()
    assert first[0].own.key == second[0].own.key, "a key is encrypted once"
    with pytest.raises(ProtocolError, match="made before"):
        lattice_script(two[0], 1)
    assert lattice_batch(two[1], SMALL, 1) == first[0].batch


def test_shares_look_uniform(two: Sequence[LatticeSetup]) -> None:
    """Of a product, of a tag of a vector, and of a chunked number."""
    materials = [simulate_material(SMALL, two, 50 + i, offline="lattice")[0] for i in range(6)]
    ring, wide = SMALL.ring, SMALL.checked_ring
    shares = [
        [value / ring.modulus for m in materials for value in ring.ints(m.product)],
        [value / wide.modulus for m in materials for value in wide.ints(m.macs.tags[1].vectors)],
        [value / wide.modulus for m in materials for value in wide.ints(m.macs.betas[1].vectors)],
        [value / SMALL.checked_scalar_ring.modulus for m in materials for value in m.macs.tags[1].scalars],
    ]
    for each in shares:
        assert stats.kstest(each, "uniform").pvalue > 1e-6  # secrets have no seed


def outcome(setups: Sequence[LatticeSetup], number: int, sender: int, at: int, bit: int) -> str:
    """What comes of one bit that was changed on its way in the offline phase."""
    vectors = np.array([[0.3, 0.1, 0.0, -0.2, 0.5, 0.4], [0.2, -0.4, 0.1, 0.3, 0.0, 0.1]])
    scripts: list[Any] = [
        OFFLINE_WAYS["lattice"].material(s, SMALL, number, np.random.default_rng(i).bytes)
        for i, s in enumerate(setups)
    ]
    scripts[sender] = changed(scripts[sender], at, {1 - sender}, one_bit(bit))
    try:
        materials, _ = deliver(scripts)
        found, _ = deliver([online_script(m, v) for m, v in zip(materials, vectors, strict=True)])
    except ProtocolError:
        return "refused"
    total = vectors.sum(axis=0)
    off = np.abs(found[0].values - total / np.linalg.norm(total)).max()
    assert off <= 2 * np.sqrt(SMALL.dimension) * SMALL.error_bound_at(float(np.linalg.norm(total)))
    return "harmless"


@pytest.mark.parametrize("at", range(4))
def test_a_bit_changed_on_its_way_is_refused_or_harmless(two: Sequence[LatticeSetup], at: int) -> None:
    """Most are of coefficients that nobody looks at, or below what noise covers; `outcome` looks at the result."""
    rng = np.random.default_rng(at)
    for i in range(3):
        outcome(two, 1000 + 10 * at + i, i % 2, at, int(rng.integers(1 << 40)))


def test_what_a_changed_bit_does_depends_on_where_it_is(two: Sequence[LatticeSetup]) -> None:
    scalars, terms, d = ScalarTransfers(SMALL), LatticeTerms(SMALL), SMALL.dimension
    cipher = announced_bytes(-(-scalars.transfers // 8) * 8)
    answer, limb = scalars.first_bytes, 2 * d
    masks = answer + limb * (terms.vector.limbs + 1)
    macs = 2 * terms.entries
    places = {
        "a choice of a transfer": (0, 100, "refused"),
        "u, highest limb": (0, cipher + 25 * 2 * DEGREE + 2 * 2 + 1, "refused"),
        "u, a coefficient that is not there": (0, cipher + 25 * 2 * DEGREE + 2 * 100 + 1, "harmless"),
        "mu u, highest limb": (1, answer + limb * terms.vector.limbs + 2 + 1, "refused"),
        "mu u, lowest bit of what noise covers": (1, answer + 2, "harmless"),
        "mu u, a' of the answer": (1, masks + 2 * DEGREE * terms.vector.limbs + 11, "refused"),
        "MACs, highest limb": (3, macs * SMALL.checked_ring.limbs + 3, "refused"),
        "MACs, lowest bit of what noise covers": (3, 2, "harmless"),
    }
    found = {
        name: outcome(two, 1100 + i, 1, at, 8 * byte) for i, (name, (at, byte, _)) in enumerate(places.items())
    }
    assert found == {name: expected for name, (_, _, expected) in places.items()}


def test_a_message_of_another_length_is_refused_before_anything_is_computed(two: Sequence[LatticeSetup]) -> None:
    scripts = [lattice_script(setup, 2000) for setup in two]
    engine = RoundEngine("a", ["b"])
    rounds = engine.play("offline", b"s", ["a", "b"], [scripts[0]])
    sent = next(rounds)
    scripts[1] = changed(scripts[1], 0, {0}, lambda payload: payload[:-2])
    theirs = next(RoundEngine("b", ["a"]).play("offline", b"s", ["a", "b"], [scripts[1]]))
    assert len(sent.messages["b"]) == len(theirs.messages["a"]) + 2
    with pytest.raises(ProtocolError, match="bytes; .* are due"):
        rounds.send({"b": theirs.messages["a"]})


def test_no_message_is_longer_than_stated() -> None:
    for terms in (SMALL, NormedSumParameters(2, 5000)):
        setups = simulate_setup(terms, offline="lattice")
        scripts = [lattice_script(setup, 0) for setup in setups]
        _, sent = deliver(scripts)
        longest = max(len(message) for _, said in sent for message in said.messages.values())
        assert longest <= largest_lattice(terms) + 200


def test_arguments_are_refused_before_anything_is_used(two: Sequence[LatticeSetup]) -> None:
    with pytest.raises(InputError, match="other parameters"):
        OFFLINE_WAYS["lattice"].material(
            two[0], NormedSumParameters(2, 7, 20, 4), 3000, np.random.default_rng(0).bytes
        )
    with pytest.raises(InputError, match="`number`"):
        lattice_script(two[0], -1)
    with pytest.raises(InputError, match="cannot be prepared by lattices"):
        lattice_terms._fitted(ProductTerms(26, 26, 1, 1))


@pytest.mark.parametrize(
    ("parties", "dimension"), [(2, 1), (3, 12_164), (10, 12_164), (64, 12_164), (64, 1 << 20)]
)
@pytest.mark.parametrize(("fraction_bits", "integer_bits"), [(8, -4), (31, 16), (31, 26), (40, 20)])
def test_the_noise_has_room_for_all_terms(
    parties: int, dimension: int, fraction_bits: int, integer_bits: int
) -> None:
    terms = LatticeTerms(NormedSumParameters(parties, dimension, fraction_bits, integer_bits))
    for kind in (terms.vector, terms.inner, terms.macs):
        assert kind.fits
        assert kind.parts <= 3
        assert kind.told * kind.noise <= 1 << kind.flood_bits - 44
    # a chunk of 96 bits times a key, and a mask of one bit less than the ring: no wrap, and hidden
    assert terms.chunks * terms.numbers * (parties**2 // 4) << 144 <= 1 << 16 * terms.macs.limbs - 1 - 42
