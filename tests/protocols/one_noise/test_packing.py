"""Packed numbers come out as they went in, alone, added up, and multiplied by one bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.one_noise.packing import Slots


@given(st.integers(1, 2**30), st.integers(1, 200), st.integers(1, 60), st.integers(0, 10_000))
def test_sums_of_the_extremes_fit(bound: int, terms: int, entries: int, seed: int) -> None:
    slots = Slots(512, bound, terms)
    rng = np.random.default_rng(seed)
    values = rng.choice([-bound, bound, 0, 1], size=(terms, entries))
    packed = [slots.pack(row) for row in values]
    sums = [sum(column) for column in zip(*packed, strict=True)]
    assert all(2 * abs(s) < 2**510 for s in sums)
    assert np.array_equal(slots.unpack(sums, entries), values.sum(axis=0))


def test_refusals() -> None:
    slots = Slots(512, 10, 3)
    with pytest.raises(InputError, match="at most 10"):
        slots.pack(np.array([11]))
    with pytest.raises(ProtocolError, match="plaintexts were due"):
        slots.unpack([0, 0], 3)
    with pytest.raises(ProtocolError, match="larger than the bounds"):
        slots.unpack([31], 1)
    with pytest.raises(ProtocolError, match="larger than the bounds"):
        slots.unpack([1 << 511], 1)
    with pytest.raises(ProtocolError, match="larger than the bounds"):
        slots.unpack([1 << slots.width], 1)  # in a slot that is not used
    with pytest.raises(InputError, match="does not fit"):
        Slots(256, 1 << 250, 100)
    with pytest.raises(InputError, match="at least 1"):
        Slots(512, 0, 3)
