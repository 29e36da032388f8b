"""Fields to bytes and back: an encoding with exactly one form for each message.

What is signed, hashed into a key or sent is written by `pack`: a label, then every field with its length. Two
different lists of fields never give the same bytes, and `unpack` accepts nothing but what `pack` wrote.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from ksdp.audit.errors import ProtocolError
from ksdp.audit.numeric.array_types import Floats

_MAGIC = b"ksdp1"
"""Names the protocol and the version of its bytes; anything else is refused."""
_COUNT, _LENGTH = 4, 8
MAX_FIELDS = 65_536


def pack(label: str, *fields: bytes | memoryview) -> bytes:
    """The label and the fields as bytes."""
    if len(fields) > MAX_FIELDS:
        raise ProtocolError(f"A message may have {MAX_FIELDS} fields; got {len(fields)}.")
    parts: list[bytes | memoryview] = [_MAGIC, len(fields).to_bytes(_COUNT, "big")]
    for field in (label.encode(), *fields):
        parts += [len(field).to_bytes(_LENGTH, "big"), field]
    return b"".join(parts)


def unpack(label: str, data: bytes | memoryview, count: int | None = None) -> tuple[bytes, ...]:
    """The fields of bytes that `pack` wrote under this label."""
    view = memoryview(data)
    at = len(_MAGIC) + _COUNT
    if bytes(view[: len(_MAGIC)]) != _MAGIC or len(view) < at:
        raise ProtocolError(f"A {label} message was expected; this is none, or of another version.")
    n_fields = int.from_bytes(view[len(_MAGIC) : at], "big")
    if n_fields > MAX_FIELDS:
        raise ProtocolError(f"A {label} message is damaged: it claims {n_fields} fields.")
    fields = []
    for _ in range(n_fields + 1):
        size = int.from_bytes(view[at : at + _LENGTH], "big")
        at += _LENGTH
        if at + size > len(view):
            raise ProtocolError(f"A {label} message is cut short.")
        fields.append(bytes(view[at : at + size]))
        at += size
    if at != len(view):
        raise ProtocolError(f"A {label} message has {len(view) - at} bytes too many.")
    if fields[0] != label.encode():
        raise ProtocolError(f"A {label} message was expected; this is one of another kind.")
    if count is not None and n_fields != count:
        raise ProtocolError(f"A {label} message must have {count} fields; got {n_fields}.")
    return tuple(fields[1:])


def pack_number(number: int) -> bytes:
    """A whole number from 0 to 2^64 - 1 as eight bytes."""
    return number.to_bytes(8, "big")


def number_of(field: bytes) -> int:
    """The number in an eight-byte field."""
    if len(field) != 8:
        raise ProtocolError(f"A number must have 8 bytes; got {len(field)}.")
    return int.from_bytes(field, "big")


def rows_of(field: bytes) -> int:
    """How many rows a party says that it has: it must have some."""
    if not (rows := number_of(field)):
        raise ProtocolError("no rows, where every party must have some.")
    return rows


def name_of(field: bytes) -> str:
    """The name in a field."""
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        raise ProtocolError("A name is not UTF-8.") from None


def pack_names(names: tuple[str, ...]) -> bytes:
    """A list of names as one field, in their order."""
    return pack("names", *(name.encode() for name in names))


def unpack_names(field: bytes) -> tuple[str, ...]:
    """The list of names in a field; refused unless sorted, each once."""
    names = tuple(name_of(part) for part in unpack("names", field))
    if names != tuple(sorted(set(names))):
        raise ProtocolError("A list of names is not sorted, or holds one twice.")
    return names


_MOST_AXES = 8


def pack_array(array: Floats) -> bytes:
    """Shape and entries, as float64."""
    reals = np.asarray(array, dtype="<f8", order="C")
    return pack("array", reals.tobytes(), *(pack_number(size) for size in reals.shape))


def unpack_array(data: bytes) -> Floats:
    """Read the bytes of `pack_array`."""
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
    """Read the bytes of `pack_arrays`."""
    fields = unpack("arrays", data)
    if len(fields) % 2:
        raise ProtocolError("A list of arrays is damaged.")
    names = [name_of(name) for name in fields[::2]]
    if names != sorted(set(names)):
        raise ProtocolError("A list of arrays is not sorted, or holds a name twice.")
    return {name: unpack_array(array) for name, array in zip(names, fields[1::2], strict=True)}
