"""Fixed point against exact fractions; nothing wraps."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.sums.fixed_point import FixedPoint


@given(st.integers(0, 40), st.floats(1e-3, 1e3), st.integers(1, 6), st.data())
def test_a_decoded_sum_keeps_the_promised_error(
    bits: int, bound: float, parties: int, data: st.DataObject
) -> None:
    coding = FixedPoint(bits, bound, parties)
    values = data.draw(st.lists(st.floats(-bound, bound), min_size=parties, max_size=parties))
    total = np.zeros(1, dtype=np.uint64)
    for value in values:
        total += coding.encode([value])
    exact = sum(map(Fraction, values), Fraction(0))
    error = abs(Fraction(float(coding.decode(total)[0])) - exact)
    rounding = Fraction(parties, 2 ** (bits + 1))
    assert Fraction(coding.error) == rounding
    assert error <= rounding + (abs(exact) + rounding) / 2**53


@given(st.integers(0, 62), st.floats(1e-300, 1e300), st.integers(1, 1000))
def test_a_coding_exists_exactly_where_no_sum_can_wrap(bits: int, bound: float, parties: int) -> None:
    largest = -(-Fraction(bound) * 2**bits // 1)  # ceiling
    if parties * largest < 2**63:
        coding = FixedPoint(bits, bound, parties)
        assume(bound * 2.0**bits >= 1)
        worst = np.zeros(1, dtype=np.uint64)
        worst += np.uint64(int(coding.encode([bound])[0]) * parties)
        assert coding.decode(worst)[0] > 0  # the largest sum has not turned negative
        assert coding.decode(-worst)[0] < 0
    else:
        with pytest.raises(InputError, match=r"A sum of .* bits; there are 64"):
            FixedPoint(bits, bound, parties)


@pytest.mark.parametrize("bad", [1.0000001, -1.0000001, np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [0, 40_000, 69_999])
def test_values_outside_are_refused_wherever_they_stand(bad: float, at: int) -> None:
    values = np.zeros(70_000)
    values[at] = bad
    with pytest.raises(InputError, match="`bound`"):
        FixedPoint(31, 1.0, 2).encode(values)


def test_a_sum_out_of_range_is_refused() -> None:
    coding = FixedPoint(31, 1.0, 3)
    three = coding.encode([1.0]) * np.uint64(3)
    assert coding.decode(three)[0] == 3.0
    for bad, parties in ((three + np.uint64(1), 3), (-three - np.uint64(1), 3), (three, 2)):
        with pytest.raises(ProtocolError, match="the run is void"):
            coding.decode(bad, parties)
    with pytest.raises(InputError, match="`parties` must be 0 to 3; got 4"):
        coding.decode(three, 4)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4), (40_000, 2)])
def test_shapes_are_kept_and_long_arrays_coded_as_entry_by_entry(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).uniform(-5, 5, size=shape)
    coding = FixedPoint(20, 5.0, 1)
    codes = coding.encode(np.array(values, order="F"))
    assert codes.shape == shape
    assert coding.decode(codes).shape == shape
    plain = [round(v * 2**20) % 2**64 for v in values.reshape(-1).tolist()]
    assert codes.reshape(-1).tolist() == plain


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((-1, 1.0, 2), "fraction_bits"),
        ((63, 1.0, 1), "fraction_bits"),
        ((3, 0.0, 2), "bound"),
        ((3, np.nan, 2), "bound"),
        ((3, np.inf, 2), "bound"),
        ((3, 1.0, 0), "parties"),
    ],
)
def test_senseless_codings_are_refused(arguments: tuple[int, float, int], word: str) -> None:
    with pytest.raises(InputError, match=f"`{word}` must"):
        FixedPoint(*arguments)
