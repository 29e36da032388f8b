"""The real protocol against the ideal one: same result, and nothing else to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import ks_2samp, kstest

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.power_iteration import normed_sec_sum
from ksdp.protocols.channel.rounds import Round
from ksdp.protocols.channel.wire import unpack
from ksdp.protocols.norms.normed_material import NormedMaterial, deal
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_simulation import deliver, simulate_normed_sum
from ksdp.protocols.norms.normed_sum import encode, online_script
from ksdp.protocols.norms.wide_ring import WideRing

Vectors = NDArray[np.float64]


def on_grid(vectors: Vectors, fraction_bits: int) -> Vectors:
    """The direction of the sum on the grid: what the result is promised against."""
    total = np.rint(np.ldexp(vectors, fraction_bits)).sum(axis=0).astype(np.longdouble)
    return (total / np.sqrt((total**2).sum())).astype(np.float64)


class Sending(NamedTuple):
    """What one party told another in one round."""

    sender: int
    round: int
    payload: bytes


def payloads(sent: Sequence[tuple[str, Round]]) -> list[Sending]:
    """All that was sent, out of its wrappings."""
    return [
        Sending(
            int(name.removeprefix("party ")), each.number, unpack("scripts", unpack("round", message, 3)[2], 2)[1]
        )
        for name, each in sent
        for message in each.messages.values()
    ]


@pytest.mark.parametrize("fraction_bits", [10, 20, 31])
@given(
    parties=st.integers(2, 5),
    dimension=st.sampled_from([1, 2, 3, 17, 100]),
    exponent=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
    sparse=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_every_entry_is_within_the_bound_at_every_magnitude(
    fraction_bits: int, parties: int, dimension: int, exponent: float, seed: int, sparse: bool
) -> None:
    terms = NormedSumParameters(parties, dimension, fraction_bits)
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(parties, dimension)) * (rng.random(dimension) < 0.3 if sparse else 1.0)
    vectors[:, 0] += 1e-3
    # from just above the floor to the largest norm allowed
    low, high = -terms.floor + 1, terms.integer_bits - np.log2(parties) - 0.01
    vectors *= 2.0 ** (low + exponent * (high - low)) / np.linalg.norm(vectors, axis=1).max()
    total = np.rint(np.ldexp(vectors, fraction_bits)).sum(axis=0)
    if np.linalg.norm(total) < 2.0 ** (fraction_bits - terms.floor):
        return
    found = simulate_normed_sum(vectors, fraction_bits=fraction_bits, offline="dealer")
    assert found.error_bound == 2.0**-fraction_bits
    assert np.abs(found.values - on_grid(vectors, fraction_bits)).max() <= found.error_bound
    norm = float(np.linalg.norm(vectors.sum(axis=0)))
    assert np.abs(found.values - normed_sec_sum(list(vectors[:, None]))[0][0]).max() <= terms.error_bound_at(norm)
    assert (np.ldexp(found.values, fraction_bits) % 1 == 0).all()


@pytest.mark.parametrize(("parties", "fraction_bits"), [(2, 31), (5, 31), (3, 20), (4, 10)])
def test_ten_thousand_entries(parties: int, fraction_bits: int) -> None:
    vectors = np.random.default_rng(parties).normal(size=(parties, 10_000))
    terms = NormedSumParameters(parties, 10_000, fraction_bits)
    results, sent = deliver([online_script(m, v) for m, v in zip(deal(terms), vectors, strict=True)])
    found = results[0]
    assert len({each.values.tobytes() for each in results}) == 1
    assert np.abs(found.values - on_grid(vectors, fraction_bits)).max() <= found.error_bound
    assert found.offline == "dealer"
    assert len(sent) == parties * terms.rounds
    # the input; the result and its tags; the scalars and theirs, to every peer
    said = sum(len(message.payload) for message in payloads(sent) if message.sender == 0)
    vectors_said = (terms.ring.width + 2 * terms.checked_ring.width) * 10_000
    assert said <= (parties - 1) * (vectors_said + terms.rounds * 4 * terms.checked_scalar_ring.width)


@pytest.mark.parametrize("parties", [2, 3, 5])
def test_parties_that_cancel_to_zero_are_refused(parties: int) -> None:
    vectors = np.random.default_rng(0).integers(-9, 9, size=(parties, 6)).astype(float)
    vectors[-1] -= vectors.sum(axis=0)
    with pytest.raises(ProtocolError, match="zero, or shorter"):
        simulate_normed_sum(vectors, offline="dealer")
    with pytest.raises(ProtocolError, match="zero, or shorter"):
        simulate_normed_sum(np.zeros((parties, 6)), fraction_bits=10, offline="dealer")


def test_the_floor_is_where_it_is_said_to_be() -> None:
    accepted = simulate_normed_sum([[2.0**-12, 0.0], [0.0, 0.0]], floor_bits=12, offline="dealer")
    assert accepted.values.tolist() == [1.0, 0.0]
    with pytest.raises(ProtocolError, match="2\\^-12"):
        simulate_normed_sum([[2.0**-20, 0.0], [0.0, 0.0]], floor_bits=12, offline="dealer")


def test_with_the_lowest_floor_one_unit_of_the_grid_has_a_direction() -> None:
    found = simulate_normed_sum([[0.0, 2.0**-31], [0.0, -(2.0**-30)]], floor_bits=31, offline="dealer")
    assert found.values.tolist() == [0.0, -1.0]


def test_a_refused_sum_is_not_opened() -> None:
    terms = NormedSumParameters(2, 3, 20, 2)
    scripts = [online_script(material, np.zeros(3)) for material in deal(terms)]
    exchanges = [next(script) for script in scripts]
    for _ in range(terms.rounds - 2):  # the vectors of the result would be next
        exchanges = [s.send({1 - i: exchanges[1 - i].payloads[i]}) for i, s in enumerate(scripts)]
    for i, script in enumerate(scripts):
        with pytest.raises(ProtocolError, match="not opened"):
            script.send({1 - i: exchanges[1 - i].payloads[i]})


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([1.0, 2.0], "shape"),
        ([[1.0, 2.0, 3.0]], "shape"),
        ([1.0, np.nan, 0.0], "finite"),
        ([np.inf, 0.0, 0.0], "finite"),
        ([2.01, 0.0, 0.0], "norm of at most"),
        ([1.5, 1.5, 0.0], "norm of at most"),
        ([1e300, 0.0, 0.0], "norm of at most"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused_and_spends_nothing(vector: list[float], reason: str) -> None:
    material = deal(NormedSumParameters(2, 3, 20, 2))[0]
    with pytest.raises(InputError, match=reason):
        online_script(material, vector)
    online_script(material, [1.0, 1.0, 1.0])
    with pytest.raises(ProtocolError, match="used"):
        online_script(material, [1.0, 1.0, 1.0])


def test_the_longest_vector_that_fits_fits() -> None:
    terms = NormedSumParameters(4, 1, 20, 2)
    assert terms.ring.signed(encode(terms, [-1.0])) == [-(1 << 20)]
    assert simulate_normed_sum([[1.0]] * 4, fraction_bits=20, integer_bits=2, offline="dealer").values == [1.0]


def test_the_result_says_what_it_reveals() -> None:
    two = simulate_normed_sum([[1.0], [1.0]], offline="dealer")
    three = simulate_normed_sum([[1.0], [1.0], [1.0]], offline="dealer")
    assert "each of the two" in two.reveals
    assert "any 2 of the 3" in three.reveals


# --- what can be seen -------------------------------------------------------------------------------------------

RUNS = 120


def opened(
    terms: NormedSumParameters, materials: Sequence[NormedMaterial], sent: Sequence[Sending]
) -> list[float]:
    """What a coalition of all but party 0 sees beyond its own: opened scalars less its masks, over 2^mask."""
    by_round: dict[int, dict[int, bytes]] = {}
    for message in sent:
        by_round.setdefault(message.round, {})[message.sender] = message.payload
    corrupt = [material.own for material in materials[1:]]

    def total(number: int, ring: WideRing, wide: WideRing, at: int) -> int:
        parts = [data[at * wide.width : (at + 1) * wide.width] for data in by_round[number].values()]
        return sum(int.from_bytes(part, "little") for part in parts) % ring.modulus

    scalar, wide, steps = terms.scalar_ring, terms.checked_scalar_ring, len(terms.steps)
    squares = total(2, terms.ring, terms.checked_ring, 0) - sum(own.square for own in corrupt)
    seen = [squares / 2.0**terms.square_mask_bits]
    for k in range(steps):
        t = total(3 + k, scalar, wide, 0) - sum(own.t[k] for own in corrupt)
        y = total(3 + k, scalar, wide, 1) - sum(own.y[k] for own in corrupt)
        seen += [t / (1 << terms.t_mask_bits), y / (1 << terms.y_mask_bits)]
    tested = total(3 + steps, scalar, wide, 0) - sum(own.test for own in corrupt)
    return [*seen, tested / (1 << terms.check_mask_bits)]


def views(scale: float, parties: int = 2) -> tuple[Vectors, Vectors, Vectors]:
    """Opened scalars; messages of party 0 as fractions of the ring; low bits of the result before rounding."""
    terms = NormedSumParameters(parties, 2, 10, 2, 6)
    last, wide = terms.rounds - 1, terms.checked_ring
    vectors = np.full((parties, 2), [3 / 128, 4 / 128]) * scale
    scalars, messages, low = [], [], []
    random_bytes = np.random.default_rng(int(scale)).bytes
    for _ in range(RUNS):
        materials = deal(terms, random_bytes)
        sent = payloads(deliver([online_script(m, v) for m, v in zip(materials, vectors, strict=True)])[1])
        scalars.append(opened(terms, materials, sent))
        mine = {message.round: message.payload for message in sent if message.sender == 0}
        entries = []
        for number, payload in mine.items():  # shares and their tags alike
            if number == 1:
                continue  # the hash of the inputs
            ring = terms.ring if number == 0 else terms.checked_scalar_ring if 2 < number < last else wide
            size = terms.ring.width * 2 if number == 0 else wide.width * 2
            if number in (0, last):
                parts = [payload[at : at + size] for at in range(0, len(payload), size)]
                values = [value for part in parts for value in ring.ints(ring.from_bytes(part, 2))]
            else:
                values = [
                    int.from_bytes(payload[at : at + ring.width], "little")
                    for at in range(0, len(payload), ring.width)
                ]
            entries += [value / ring.modulus for value in values]
        messages.append(entries)
        result = {message.sender: message.payload for message in sent if message.round == last}
        shares = [wide.from_bytes(payload[: wide.width * 2], 2)[: terms.ring.limbs] for payload in result.values()]
        noise = [own.own.noise for own in materials[1:]]
        values = terms.ring.signed(terms.ring.combine(shares, noise))
        low.append([value / 2.0 ** (terms.y_bits + terms.integer_bits) for value in values])
    return np.array(scalars), np.array(messages), np.array(low)


@pytest.fixture(scope="module")
def short() -> tuple[Vectors, Vectors, Vectors]:
    return views(1.0)


@pytest.fixture(scope="module")
def long() -> tuple[Vectors, Vectors, Vectors]:
    """The same direction, sixteen times the norm."""
    return views(16.0)


def test_every_opened_value_is_uniform_for_a_fixed_input(short: tuple[Vectors, Vectors, Vectors]) -> None:
    smallest = min(kstest(column, "uniform").pvalue for column in short[0].T)
    assert smallest > 1e-3 / short[0].shape[1]


def test_every_message_is_uniform_for_a_fixed_input(short: tuple[Vectors, Vectors, Vectors]) -> None:
    """The last entries are the result's: uniform too, given nothing else; three parties below."""
    for column in short[1].T:
        assert kstest(column, "uniform").pvalue > 1e-3 / short[1].shape[1]


def test_messages_of_two_honest_parties_are_uniform_beside_a_third() -> None:
    _, messages, _ = views(1.0, parties=3)
    for column in messages.T:
        assert kstest(column, "uniform").pvalue > 1e-3 / messages.shape[1]


def test_two_norms_give_the_same_view(
    short: tuple[Vectors, Vectors, Vectors], long: tuple[Vectors, Vectors, Vectors]
) -> None:
    for one, other in zip(short, long, strict=True):
        smallest = min(ks_2samp(a, b).pvalue for a, b in zip(one.T, other.T, strict=True))
        assert smallest > 1e-3 / one.shape[1]


def test_the_comparison_would_see_a_narrow_mask() -> None:
    """The same comparison, with a mask of ||S||^2 as wide as what it hides, tells the two norms apart."""
    terms = NormedSumParameters(2, 2, 10, 2, 6)
    random_bytes = np.random.default_rng(5).bytes
    seen: dict[float, list[float]] = {1.0: [], 16.0: []}
    for scale, values in seen.items():
        for _ in range(60):
            first, second = deal(terms, random_bytes)
            narrow = first.own.square >> (terms.square_mask_bits - terms.square_bits + 6)
            first = replace(first, own=replace(first.own, square=narrow))
            scripts = [online_script(m, np.array([3, 4]) / 128 * scale) for m in (first, second)]
            said = [next(script).payloads[1 - i] for i, script in enumerate(scripts)]
            for _ in range(2):  # the inputs, then their hash
                said = [script.send({1 - i: said[1 - i]}).payloads[1 - i] for i, script in enumerate(scripts)]
            shares = [share[: terms.checked_ring.width] for share in said]
            total = sum(int.from_bytes(share, "little") for share in shares) % terms.ring.modulus
            values.append(float(total - second.own.square))
    assert ks_2samp(*seen.values()).pvalue < 1e-6


def test_the_noise_of_the_result_is_centred_and_as_wide_as_stated(short: tuple[Vectors, Vectors, Vectors]) -> None:
    """One honest party's noise around s / ||s||, uniform over 2^-(f + 1 + ceil(log2(M + 1)))."""
    width = 2.0 ** -(10 + 1 + 2)
    total = np.rint(np.ldexp(np.full((2, 2), [3 / 128, 4 / 128]), 10)).sum(axis=0)
    direction = total / np.linalg.norm(total)
    for entry, exact in zip(short[2].T * 2.0**-10, direction, strict=True):
        assert kstest((entry - exact) / width, "uniform").pvalue > 1e-4
