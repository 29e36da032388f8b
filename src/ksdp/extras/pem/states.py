"""PEM's states as bytes: what is public between two iterations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState
from ksdp.audit.mechanisms.pem.noise import VectorBlock
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_number, unpack

_DTYPES = {"<f8", "<i8", "<i2", "|b1"}


def pack_state(state: PemState) -> bytes:
    """The state as it travels."""
    fields: list[bytes] = []
    for name in sorted(state.arrays):
        array = np.ascontiguousarray(state.arrays[name])
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in _DTYPES:
            raise InputError(f"`{name}` must be float64, int64, int16 or bool; got {array.dtype}.")
        shape = pack("shape", *map(pack_number, array.shape))
        fields += [name.encode(), dtype.encode(), shape, array.astype(dtype).tobytes()]
    blocks = pack("blocks", *map(_pack_block, state.blocks))
    return pack("pem-state", pack_number(state.iteration), blocks, *fields)


def unpack_state(data: bytes) -> PemState:
    """The state that `pack_state` wrote."""
    fields = unpack("pem-state", data)
    if len(fields) < 2 or len(fields) % 4 != 2:
        raise ProtocolError("A state has the wrong number of fields.")
    blocks = tuple(_unpack_block(field) for field in unpack("blocks", fields[1]))
    arrays: dict[str, NDArray[Any]] = {}
    for at in range(2, len(fields), 4):
        dtype = name_of(fields[at + 1])
        shape = tuple(number_of(field) for field in unpack("shape", fields[at + 2]))
        if dtype not in _DTYPES or math.prod(shape) * np.dtype(dtype).itemsize != len(fields[at + 3]):
            raise ProtocolError("An array of a state is damaged.")
        arrays[name_of(fields[at])] = np.frombuffer(fields[at + 3], dtype=dtype).reshape(shape)
    try:
        return PemState(number_of(fields[0]), arrays, blocks)
    except InputError as error:
        raise ProtocolError(f"A state is refused: {error}") from error


def _pack_block(block: VectorBlock) -> bytes:
    cap = b"" if block.cap is None else float(block.cap).hex().encode()
    reals = (float(x).hex().encode() for x in (block.bound, block.share))
    bits = pack_number(block.fraction_bits)
    return pack("block", pack_number(block.size), *reals, cap, bytes([block.nonnegative]), bits)


def _unpack_block(data: bytes) -> VectorBlock:
    size, bound, share, cap, nonnegative, bits = unpack("block", data, 6)
    try:
        reals = [float.fromhex(name_of(field)) for field in (bound, share)]
        cut = float.fromhex(name_of(cap)) if cap else None
        return VectorBlock(number_of(size), reals[0], reals[1], cut, nonnegative == b"\1", number_of(bits))
    except ValueError as error:
        raise ProtocolError(f"A block is damaged: {error}") from error
