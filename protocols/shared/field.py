"""Numbers modulo one prime of 224 bits: shares of large matrices, and their products by BLAS, exactly.

MPyC keeps a share as a Python integer, and a product of d x d with d x b takes d^2 b of its multiplications. Here
products are taken of `residues`, while d is at most 2^13 = `MOST_INNER`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.shared.residues import MOST_TERMS, of_residues, residues
from ksdp.protocols.shared.words import GAP

Integers = NDArray[Any]
"""Python integers in [0, PRIME)."""
Residues = NDArray[np.float32]
"""First axis: modulo each of the small primes."""
Words = NDArray[np.uint64]
"""Shape (7, n): words of 32 bits, the lowest first."""

BYTES = 28
PRIME = 2**224 - GAP
"""The largest prime below 2^224 that is 3 modulo 4."""
MOST_INNER = MOST_TERMS
_PART = 1 << 18
_WORDS = 7
_LOW = np.uint64(0xFFFFFFFF)
_WIDTH = np.uint64(32)


def of_integers(values: Integers) -> NDArray[np.uint8]:
    """Bytes, the lowest first; the last axis has `BYTES`."""
    data = b"".join([value.to_bytes(BYTES, "little") for value in values.ravel().tolist()])
    return np.frombuffer(data, dtype=np.uint8).reshape(*values.shape, BYTES)


def words_of(values: Integers) -> NDArray[np.uint32]:
    """Numbers below the prime as `words`, shape (n, 7)."""
    return of_integers(values.ravel()).view("<u4").astype(np.uint32, copy=False)


def integers_of(words: NDArray[np.uint32], shape: tuple[int, ...]) -> Integers:
    """From words of numbers below the prime."""
    data, out = words.astype("<u4", copy=False).tobytes(), np.empty(len(words), dtype=object)
    out[:] = [int.from_bytes(data[at : at + BYTES], "little") for at in range(0, len(data), BYTES)]
    return out.reshape(shape)


def integers(numbers: NDArray[np.uint8], shape: tuple[int, ...]) -> Integers:
    """From bytes of any length, the lowest first; reduced."""
    rows = np.ascontiguousarray(numbers).reshape(-1, numbers.shape[-1])
    data, size = rows.tobytes(), rows.shape[1]
    out = np.empty(len(rows), dtype=object)
    out[:] = [int.from_bytes(data[at : at + size], "little") % PRIME for at in range(0, len(data), size)]
    return out.reshape(shape)


def left_residues(values: Integers) -> Residues:
    """What a left factor of a product is needed as, shape (22, ...)."""
    out: Residues = residues(words_of(values)).reshape(-1, *values.shape)
    return out


def residues_of_bytes(values: NDArray[np.uint8]) -> Residues:
    """As `left_residues`, of numbers as bytes: the last axis has `BYTES`."""
    numbers = np.ascontiguousarray(values).reshape(-1, BYTES).view("<u4").astype(np.uint32, copy=False)
    out: Residues = residues(numbers).reshape(-1, *values.shape[:-1])
    return out


def modular_product(left: Residues, right: Integers) -> Integers:
    """The matrix product modulo the prime, of a left factor as residues; stacks of matrices, as `numpy.matmul`.

    Raises
    ------
    InputError
        If the inner axis is longer than `MOST_INNER`.

    Examples
    --------
    >>> one = np.array([[PRIME - 1, 2]], dtype=object)
    >>> modular_product(left_residues(one), np.array([[3], [4]], dtype=object))
    array([[5]], dtype=object)
    """
    inner, columns = right.shape[-2:]
    if inner > MOST_INNER:
        raise InputError(f"products on shares have at most {MOST_INNER} terms; got {inner}.")
    factors = left_residues(right).astype(np.float64)
    if right.ndim > 2:
        sums = np.matmul(left.astype(np.float64), factors)
    else:
        sums = np.zeros((len(left), left.shape[1], columns))
        for found, part, factor in zip(sums, left, factors, strict=True):
            _add_product(found, part, factor)
    return integers_of(of_residues(sums.reshape(len(sums), -1)), sums.shape[1:])


def _add_product(out: NDArray[np.float64], left: NDArray[np.float32], right: NDArray[np.float64]) -> None:
    """In parts that stay in the cache while they are float64; along the axis that is apart in memory."""
    rows, inner = left.shape
    if left.strides[0] >= left.strides[1]:
        step = max(1, _PART // inner)
        for first in range(0, rows, step):
            at = slice(first, first + step)
            out[at] = left[at].astype(np.float64) @ right
    else:
        step = max(1, _PART // rows)
        for first in range(0, inner, step):
            at = slice(first, first + step)
            out += left[:, at].astype(np.float64) @ right[at]


def _words(values: NDArray[np.int64]) -> Words:
    """Signed numbers below 2^62 in absolute value, modulo the prime."""
    negative = values < 0
    out = np.zeros((_WORDS, len(values)), dtype=np.uint64)
    out[0], out[1] = (values & 0xFFFFFFFF).astype(np.uint64), ((values >> 32) & 0xFFFFFFFF).astype(np.uint64)
    out[2:, negative] = _LOW  # two's complement: the number and 2^224, from which the gap is taken
    return _carried(out, np.where(negative, np.int64(-GAP), np.int64(0)))


def _carried(words: Words, add: NDArray[np.int64]) -> Words:
    """Carry, and fold what is above 2^224; `add` goes to the lowest word."""
    signed, carry = words.astype(np.int64), add
    for _ in range(3):
        for at in range(_WORDS):
            signed[at] += carry
            carry = signed[at] >> 32
            signed[at] &= 0xFFFFFFFF
        carry = carry * GAP
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
    """The sum of such messages, entry by entry; shape (entries, `BYTES`)."""
    if any(len(share) != BYTES * entries for share in shares):
        raise ProtocolError("Shares have another length than the protocol file says.")
    total = np.zeros((_WORDS, entries), dtype=np.uint64)
    for share in shares:
        total += np.frombuffer(share, dtype="<u4").reshape(entries, _WORDS).T
    total = _carried(total, np.zeros(entries, dtype=np.int64))
    return np.ascontiguousarray(total.T.astype("<u4")).view(np.uint8).reshape(entries, BYTES)


def symmetric_residues(upper: NDArray[np.uint8], size: int) -> Residues:
    """Of a symmetric matrix of which the upper triangle is given, row by row."""
    triangles = residues_of_bytes(upper)
    out = np.empty((len(triangles), size, size), dtype=np.float32)
    rows, columns = np.triu_indices(size)
    for whole, part in zip(out, triangles, strict=True):
        whole[rows, columns] = whole[columns, rows] = part
    return out
