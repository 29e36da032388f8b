"""Numbers modulo one prime of 224 bits: shares of large matrices as limbs, and their products by BLAS, exactly.

MPyC keeps a share as a Python integer, and a product of d x d with d x b takes d^2 b of its multiplications. Here
the left factor has limbs of 24 bits (which a float32 holds), the right one of 16: a sum of d products of limbs is
below 2^53, exact in float64, while d is at most 2^13 = `MOST_INNER`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes

__all__ = [
    "BYTES",
    "MOST_INNER",
    "PRIME",
    "Integers",
    "added",
    "integers",
    "left_limbs",
    "limbs_of_bytes",
    "modular_product",
    "of_integers",
    "split",
    "symmetric_limbs",
]

Integers = NDArray[Any]
"""Python integers in [0, PRIME)."""
Words = NDArray[np.uint64]
"""Shape (7, n): words of 32 bits, the lowest first."""

BYTES = 28
_GAP = 0x23D
PRIME = 2**224 - _GAP
"""The largest prime below 2^224 that is 3 modulo 4."""
MOST_INNER = 1 << 13
_LEFT, _RIGHT = 3, 2
"""Bytes of a limb."""
_LEFT_LIMBS, _RIGHT_LIMBS = 10, 14
_WORDS = 7
_LOW = np.uint64(0xFFFFFFFF)
_WIDTH = np.uint64(32)


def of_integers(values: Integers) -> NDArray[np.uint8]:
    """Bytes, the lowest first; the last axis has `BYTES`."""
    data = b"".join([value.to_bytes(BYTES, "little") for value in values.ravel().tolist()])
    return np.frombuffer(data, dtype=np.uint8).reshape(*values.shape, BYTES)


def integers(found: NDArray[np.uint8], shape: tuple[int, ...]) -> Integers:
    """From bytes of any length, the lowest first; reduced."""
    rows = np.ascontiguousarray(found).reshape(-1, found.shape[-1])
    data, size = rows.tobytes(), rows.shape[1]
    out = np.empty(len(rows), dtype=object)
    out[:] = [int.from_bytes(data[at : at + size], "little") % PRIME for at in range(0, len(data), size)]
    return out.reshape(shape)


def left_limbs(values: Integers) -> NDArray[np.float32]:
    """Limbs of 24 bits of the left factor of a product, shape (10, ...)."""
    return limbs_of_bytes(of_integers(values))


def limbs_of_bytes(found: NDArray[np.uint8]) -> NDArray[np.float32]:
    """As `left_limbs`, of numbers as bytes: the last axis has `BYTES`."""
    out = np.zeros((_LEFT_LIMBS, *found.shape[:-1]), dtype=np.float32)
    for limb in range(_LEFT_LIMBS):
        for place in range(_LEFT):
            if limb * _LEFT + place < BYTES:
                out[limb] += found[..., limb * _LEFT + place] * np.float32(1 << 8 * place)
    return out


def modular_product(left: NDArray[np.float32], right: Integers) -> Integers:
    """The matrix product modulo the prime, of a left factor as limbs; stacks of matrices, as `numpy.matmul`.

    Raises
    ------
    InputError
        If the inner axis is longer than `MOST_INNER`.

    Examples
    --------
    >>> one = np.array([[PRIME - 1, 2]], dtype=object)
    >>> modular_product(left_limbs(one), np.array([[3], [4]], dtype=object))
    array([[5]], dtype=object)
    """
    *stack, inner, columns = right.shape
    if inner > MOST_INNER:
        raise InputError(f"products on shares have at most {MOST_INNER} terms; got {inner}.")
    parts = of_integers(right).reshape(*right.shape, _RIGHT_LIMBS, _RIGHT)
    halves = parts[..., 0].astype(np.float64) + 256.0 * parts[..., 1]
    wide = np.ascontiguousarray(halves).reshape(*stack, inner, columns * _RIGHT_LIMBS)
    shape = (*stack, left.shape[-2], columns)
    found = np.zeros((_LEFT * _LEFT_LIMBS + _RIGHT * _RIGHT_LIMBS + 8, *shape), dtype=np.int64)
    for limb in range(_LEFT_LIMBS):
        products = np.matmul(left[limb].astype(np.float64), wide).astype(np.int64)
        products = products.reshape(*shape, _RIGHT_LIMBS)
        for place in range(_RIGHT_LIMBS):
            found[_LEFT * limb + _RIGHT * place] += products[..., place]
    data = np.empty((*shape, len(found)), dtype=np.uint8)
    carry = np.zeros(shape, dtype=np.int64)
    for place in range(len(found)):
        carry += found[place]
        data[..., place] = carry & 0xFF
        carry >>= 8
    return integers(data, shape)


def _words(values: NDArray[np.int64]) -> Words:
    """Signed numbers below 2^62 in absolute value, modulo the prime."""
    negative = values < 0
    out = np.zeros((_WORDS, len(values)), dtype=np.uint64)
    out[0], out[1] = (values & 0xFFFFFFFF).astype(np.uint64), ((values >> 32) & 0xFFFFFFFF).astype(np.uint64)
    out[2:, negative] = _LOW  # two's complement: the number and 2^224, from which the gap is taken
    return _carried(out, np.where(negative, np.int64(-_GAP), np.int64(0)))


def _carried(words: Words, add: NDArray[np.int64]) -> Words:
    """Carry, and fold what is above 2^224; `add` goes to the lowest word."""
    signed, carry = words.astype(np.int64), add
    for _ in range(3):
        for at in range(_WORDS):
            signed[at] += carry
            carry = signed[at] >> 32
            signed[at] &= 0xFFFFFFFF
        carry = carry * _GAP
    return signed.astype(np.uint64)


def split(values: NDArray[np.int64], random_bytes: RandomBytes) -> list[bytes]:
    """Shamir shares of degree 1 at places 1, 2 and 3: any two say all, one alone nothing.

    Parameters
    ----------
    values : shape (n,)
        Below 2^62 in absolute value.
    """
    words = _words(values)
    slope = np.frombuffer(random_bytes(BYTES * len(values)), dtype="<u4").reshape(-1, _WORDS).T.astype(np.uint64)
    shares = []
    for _ in range(3):
        words = _carried(words + slope, np.zeros(len(values), dtype=np.int64))
        shares.append(np.ascontiguousarray(words.T.astype("<u4")).tobytes())
    return shares


def added(shares: list[bytes], entries: int) -> NDArray[np.uint8]:
    """The sum of such messages, entry by entry; shape (entries, `BYTES`).

    Raises
    ------
    ProtocolError
        If one has another length.
    """
    if any(len(share) != BYTES * entries for share in shares):
        raise ProtocolError("Shares have another length than the protocol file says.")
    total = np.zeros((_WORDS, entries), dtype=np.uint64)
    for share in shares:
        total += np.frombuffer(share, dtype="<u4").reshape(entries, _WORDS).T
    total = _carried(total, np.zeros(entries, dtype=np.int64))
    return np.ascontiguousarray(total.T.astype("<u4")).view(np.uint8).reshape(entries, BYTES)


def symmetric_limbs(upper: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """Limbs of a symmetric matrix of which the upper triangle is given, row by row."""
    limbs = limbs_of_bytes(upper)
    out = np.empty((_LEFT_LIMBS, size, size), dtype=np.float32)
    rows, columns = np.triu_indices(size)
    for limb in range(_LEFT_LIMBS):
        out[limb, rows, columns] = limbs[limb]
        out[limb, columns, rows] = limbs[limb]
    return out
