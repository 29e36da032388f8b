"""Fields and arrays to bytes and back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.wire import (
    number_of,
    pack,
    pack_array,
    pack_arrays,
    pack_names,
    pack_number,
    unpack,
    unpack_array,
    unpack_arrays,
    unpack_names,
)

FIELDS = st.lists(st.binary(max_size=20), max_size=5)


@given(FIELDS, FIELDS)
def test_packing_is_injective_and_comes_back(a: list[bytes], b: list[bytes]) -> None:
    assert unpack("kind", pack("kind", *a)) == tuple(a)
    assert (pack("kind", *a) == pack("kind", *b)) == (a == b)


@given(FIELDS, st.data())
def test_only_what_pack_wrote_is_taken(fields: list[bytes], data: st.DataObject) -> None:
    """A changed message either is refused or is the packing of other fields."""
    packed = bytearray(pack("kind", *fields))
    at = data.draw(st.integers(0, len(packed) - 1))
    packed[at] ^= data.draw(st.integers(1, 255))
    try:
        got = unpack("kind", bytes(packed))
    except ProtocolError:
        return
    assert pack("kind", *got) == bytes(packed)
    assert list(got) != fields


@given(FIELDS, st.integers(1, 30))
def test_cut_or_longer_messages_are_refused(fields: list[bytes], by: int) -> None:
    packed = pack("kind", *fields)
    for bad in (packed[:-by], packed + bytes(by), b"", packed[1:]):
        with pytest.raises(ProtocolError):
            unpack("kind", bad)


def test_another_kind_count_or_claim_is_refused() -> None:
    packed = pack("kind", b"a", b"b")
    with pytest.raises(ProtocolError, match="another kind"):
        unpack("sort", packed)
    with pytest.raises(ProtocolError, match="must have 3 fields; got 2"):
        unpack("kind", packed, 3)
    with pytest.raises(ProtocolError, match="claims 4294967295 fields"):
        unpack("kind", packed[:5] + b"\xff\xff\xff\xff" + packed[9:])
    with pytest.raises(ProtocolError, match="65536 fields"):
        pack("kind", *[b""] * 65_537)


def test_names_and_numbers() -> None:
    assert unpack_names(pack_names(("ada", "bob"))) == ("ada", "bob")
    for bad in (("bob", "ada"), ("ada", "ada")):
        with pytest.raises(ProtocolError, match="not sorted"):
            unpack_names(pack_names(bad))
    with pytest.raises(ProtocolError, match="UTF-8"):
        unpack_names(pack("names", b"\xff"))
    assert number_of(pack_number(2**64 - 1)) == 2**64 - 1
    with pytest.raises(ProtocolError, match="8 bytes; got 3"):
        number_of(b"abc")


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(arrays(np.float64, array_shapes(min_dims=0, max_dims=3, min_side=0), elements=finite))
def test_an_array_comes_back(array: np.ndarray) -> None:
    found = unpack_array(pack_array(array))
    assert found.shape == array.shape
    assert found.tobytes() == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize(
    "data",
    [
        pack("array"),
        pack("array", bytes(8), pack_number(2)),
        pack("array", bytes(8), *[pack_number(1)] * 9),
        pack("array", b"", pack_number(1 << 63), pack_number(4)),
        pack("array", np.array([np.nan]).tobytes(), pack_number(1)),
        pack("array", np.array([np.inf]).tobytes(), pack_number(1)),
    ],
)
def test_a_damaged_array_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="damaged|not finite"):
        unpack_array(data)


def test_arrays_come_back_by_name_in_one_order_only() -> None:
    both = {"b": np.eye(2), "a": np.ones(3)}
    found = unpack_arrays(pack_arrays(both))
    assert all(np.array_equal(found[name], both[name]) for name in both)
    one, other = (field for name in ("a", "b") for field in [(name.encode(), pack_array(both[name]))])
    with pytest.raises(ProtocolError, match="not sorted"):
        unpack_arrays(pack("arrays", *other, *one))
    with pytest.raises(ProtocolError, match="not sorted"):
        unpack_arrays(pack("arrays", *one, *one))
    with pytest.raises(ProtocolError, match="damaged"):
        unpack_arrays(pack("arrays", *one, b"b"))
