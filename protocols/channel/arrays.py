"""Arrays of reals as bytes, for messages."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_number, unpack

_MOST_AXES = 8


def pack_array(array: Floats) -> bytes:
    """Shape and entries, as float64.

    Examples
    --------
    >>> unpack_array(pack_array(np.eye(2)))
    array([[1., 0.],
           [0., 1.]])
    """
    reals = np.asarray(array, dtype="<f8", order="C")
    return pack("array", reals.tobytes(), *(pack_number(size) for size in reals.shape))


def unpack_array(data: bytes) -> Floats:
    """What `pack_array` wrote.

    Raises
    ------
    ProtocolError
        If it is something else, or an entry is not finite.
    """
    fields = unpack("array", data)
    shape = tuple(number_of(field) for field in fields[1:])
    if not fields or len(shape) > _MOST_AXES or 8 * math.prod(shape) != len(fields[0]):
        raise ProtocolError("An array is damaged.")
    array = np.frombuffer(fields[0], dtype="<f8").astype(np.float64).reshape(shape)
    if not np.all(np.isfinite(array)):
        raise ProtocolError("An array has an entry that is not finite.")
    return array


def pack_arrays(arrays: Mapping[str, Floats]) -> bytes:
    """Arrays by name."""
    fields = (field for name, array in sorted(arrays.items()) for field in (name.encode(), pack_array(array)))
    return pack("arrays", *fields)


def unpack_arrays(data: bytes) -> dict[str, Floats]:
    """What `pack_arrays` wrote."""
    fields = unpack("arrays", data)
    if len(fields) % 2:
        raise ProtocolError("A list of arrays is damaged.")
    names = [name_of(name) for name in fields[::2]]
    if names != sorted(set(names)):
        raise ProtocolError("A list of arrays is not sorted, or holds a name twice.")
    return {name: unpack_array(array) for name, array in zip(names, fields[1::2], strict=True)}
