"""PEM's states travel as bytes, and nothing damaged passes for one."""

import numpy as np
import pytest

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState
from ksdp.audit.mechanisms.pem.noise import VectorBlock
from ksdp.extras.pem.states import pack_state, unpack_state

BLOCKS = (
    VectorBlock(3, 2.0, share=0.25, fraction_bits=8),
    VectorBlock(2, 1.5, share=0.75, cap=1.0, nonnegative=True, fraction_bits=3),
)


def test_a_state_travels() -> None:
    arrays = {
        "w": np.array([[1.5, -2.0]]),
        "items": np.arange(3, dtype=np.int16),
        "none": np.zeros((0, 4), dtype=np.int64),
    }
    state = PemState(3, arrays, BLOCKS)
    again = unpack_state(pack_state(state))
    assert (again.iteration, again.blocks) == (3, BLOCKS)
    assert pack_state(again) == pack_state(state)
    for name, array in arrays.items():
        np.testing.assert_array_equal(again.arrays[name], array)
        assert again.arrays[name].dtype == array.dtype


def test_a_damaged_state_is_refused() -> None:
    data = pack_state(PemState(3, {"w": np.zeros(2)}, BLOCKS))
    for cut in range(0, len(data), 7):
        with pytest.raises(ProtocolError):
            unpack_state(data[:cut])


def test_an_array_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match="float64"):
        pack_state(PemState(0, {"a": np.array(["x"])}, ()))
