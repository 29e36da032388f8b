"""Arrays come back as they were, and nothing else passes for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.arrays import pack_array, pack_arrays, unpack_array, unpack_arrays
from ksdp.protocols.channel.wire import pack, pack_number

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@given(arrays(np.float64, array_shapes(min_dims=0, max_dims=3, min_side=0), elements=finite))
def test_an_array_comes_back(array: np.ndarray) -> None:
    found = unpack_array(pack_array(array))
    assert found.shape == array.shape
    assert found.tobytes() == np.ascontiguousarray(array).tobytes()


@given(st.binary(max_size=200))
def test_bytes_that_are_none_are_refused(data: bytes) -> None:
    for read in (unpack_array, unpack_arrays):
        with pytest.raises(ProtocolError):
            read(data)


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
