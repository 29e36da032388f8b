"""Packing: one list of fields, one sequence of bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.wire import number_of, pack, pack_names, pack_number, unpack, unpack_names

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
