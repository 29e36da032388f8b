"""The few group operations of edwards25519 that base oblivious transfer needs and no library in use exposes.

Addition, decoding, and multiples of a fixed point through a table, on Python integers: correct (tested against
Ed25519 and X25519 keys), **not constant time**. Multiples of received points go through X25519, which is.

Formulas: RFC 8032, section 5.1.4 (extended coordinates, complete for this curve); the map to Montgomery's u of
RFC 7748: u = (1 + y) / (1 - y).
"""

from __future__ import annotations

from functools import cache

from ksdp.audit.errors import ProtocolError

__all__ = ["BASE", "ORDER", "Point", "Table", "add", "base_table", "decode", "encode", "montgomery_u", "negate"]

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
ORDER = 2**252 + 27742317777372353535851937790883648493
"""Of the subgroup that is used."""

Point = tuple[int, int, int, int]
"""X, Y, Z, T with x = X / Z, y = Y / Z, x y = T / Z."""
_NEUTRAL: Point = (0, 1, 1, 0)
_WINDOW = 5


def add(p: Point, q: Point) -> Point:
    """Sum of two points, equal or not."""
    x1, y1, z1, t1 = p
    x2, y2, z2, t2 = q
    a = (y1 - x1) * (y2 - x2) % _P
    b = (y1 + x1) * (y2 + x2) % _P
    c = 2 * _D * t1 * t2 % _P
    d = 2 * z1 * z2 % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def negate(p: Point) -> Point:
    """The inverse."""
    x, y, z, t = p
    return -x % _P, y, z, -t % _P


def encode(p: Point) -> bytes:
    """32 bytes as RFC 8032 says."""
    x, y, z, _ = p
    inverse = pow(z, -1, _P)
    return (y * inverse % _P | (x * inverse % _P & 1) << 255).to_bytes(32, "little")


def montgomery_u(p: Point) -> bytes:
    """The u coordinate as X25519 takes it; the neutral point gives 0."""
    _, y, z, _ = p
    return ((z + y) * pow(z - y, -1, _P) % _P).to_bytes(32, "little") if (z - y) % _P else bytes(32)


def decode(data: bytes, *, prime_order: bool = True) -> Point:
    """A point from its 32 bytes, never the neutral one.

    Parameters
    ----------
    data : bytes
        As RFC 8032 says.
    prime_order : bool
        Check that it is in the prime-order subgroup, too; not needed where it is multiplied by the cofactor, as
        X25519 does.

    Raises
    ------
    ProtocolError
        If the bytes are of no such point.
    """
    number = int.from_bytes(data, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    if len(data) != 32 or y >= _P:
        raise ProtocolError("A point of the curve was expected; this is none.")
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P or x == 0:  # x = 0: the neutral point or one of order 2
        raise ProtocolError("A point of the curve was expected; this is none.")
    if x & 1 != sign:
        x = _P - x
    point = (x, y, 1, x * y % _P)
    if prime_order:
        zero_x, zero_y, zero_z, _ = _times(ORDER, point)
        if zero_x % _P or (zero_y - zero_z) % _P:
            raise ProtocolError("A point is outside the subgroup of prime order.")
    return point


def _times(factor: int, point: Point) -> Point:
    result = _NEUTRAL
    for bit in bin(factor)[2:]:
        result = add(result, result)
        if bit == "1":
            result = add(result, point)
    return result


class Table:
    """Multiples of one point: some hundreds of additions once, then about 50 a multiple.

    Parameters
    ----------
    point : Point
        Of the prime-order subgroup.
    """

    def __init__(self, point: Point) -> None:
        self._rows = []
        for _ in range(-(-ORDER.bit_length() // _WINDOW)):
            row = [_NEUTRAL, point]
            for _ in range((1 << _WINDOW) - 2):
                row.append(add(row[-1], point))
            self._rows.append(row)
            point = add(row[-1], point)

    def times(self, factor: int) -> Point:
        """The multiple by a factor from 0 to ORDER - 1."""
        result = _NEUTRAL
        for row in self._rows:
            digit = factor & ((1 << _WINDOW) - 1)
            if digit:
                result = add(result, row[digit])
            factor >>= _WINDOW
        return result


def _base() -> Point:
    return decode((4 * pow(5, -1, _P) % _P).to_bytes(32, "little"))


BASE = _base()
"""The generator of RFC 8032."""


@cache
def base_table() -> Table:
    """Multiples of the generator."""
    return Table(BASE)
