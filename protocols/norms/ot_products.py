"""The products of masks that a normed sum needs, between one receiver and one sender.

The receiver's choice bits are those of its own masks; the sender's values are its own masks and shares. Each
function returns the end's additive share of the product (module `ot_extension`), in the ring that it names.

- `inner`, `vector`: a vector against a vector, an integer against a vector. With bits b_j of weight 2^j modulo
  2^(16 L) only the lowest 16 L - j bits of the other factor matter, so bits are taken in groups of 16 and each
  group drops a limb.
- `scalars`: one integer a step against one integer, all bits in the full ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ksdp.protocols.norms.ot_extension import Bytes, ReceiverRows, SenderRows, correlate, expand, pads
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs, WideRing, carry


def _name(rows: ReceiverRows | SenderRows, first: int) -> int:
    """What the hash takes for a transfer: no two extensions of the same seeds share one."""
    return (rows.number << 32) + first


def bits_of_vector(values: Limbs) -> Bytes:
    """Bit j of entry i at j d + i."""
    shifts = np.arange(LIMB_BITS, dtype=np.uint16)
    bits = (values[:, None, :] >> shifts[None, :, None]) & 1
    return bits.astype(np.uint8).ravel()


def bits_of_int(value: int, n_bits: int) -> Bytes:
    """The lowest bits, lowest first."""
    data = (value & ((1 << n_bits) - 1)).to_bytes(-(-n_bits // 8), "little")
    return np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")[:n_bits]


def long_bytes(ring: WideRing, dimension: int, groups: int | None = None) -> int:
    """What the sender of one long product announces; of an integer of so many groups of 16 bits, or the ring's."""
    return sum(where.stop - where.start for _, _, where in _groups(ring, dimension, groups))


def _groups(ring: WideRing, dimension: int, groups: int | None = None) -> Iterator[tuple[int, int, slice]]:
    """Group, limbs that matter to it, and where its announcement is."""
    at = 0
    for group in range(ring.limbs if groups is None else groups):
        size = 2 * (ring.limbs - group) * LIMB_BITS * dimension
        yield group, ring.limbs - group, slice(at, at + size)
        at += size


def _weighted(group: int, sums: NDArray[np.int64]) -> int:
    """Sum over the 16 bits of a group, of limb sums of shape (limbs, 16), with all weights."""
    total = 0
    for limb, row in enumerate(sums.tolist()):
        for bit, value in enumerate(row):
            total += value << (LIMB_BITS * (group + limb) + bit)
    return total


def inner_send(ring: WideRing, rows: SenderRows, first: int, values: Limbs) -> tuple[int, bytes]:
    """The sender's share of the inner product of the receiver's vector and this one, and its announcement.

    Transfers `first` to `first` + 16 L d of the rows are used, as `bits_of_vector` orders them.
    """
    d = values.shape[1]
    share, announced = 0, []
    for group, limbs, _ in _groups(ring, d):
        begin = first + LIMB_BITS * d * group
        q = rows.rows[begin : begin + LIMB_BITS * d]
        name = _name(rows, begin)
        zero, one = pads(q, name, 0, limbs), pads(q ^ rows.delta, name, 0, limbs)
        announced.append(correlate(zero, one, np.tile(values[:limbs], LIMB_BITS)).tobytes())
        share -= _weighted(group, zero.reshape(limbs, LIMB_BITS, d).sum(axis=2, dtype=np.int64))
    return share % ring.modulus, b"".join(announced)


def inner_receive(ring: WideRing, rows: ReceiverRows, first: int, dimension: int, announced: bytes) -> int:
    """The receiver's share of the same."""
    d, share = dimension, 0
    for group, limbs, where in _groups(ring, d):
        begin = first + LIMB_BITS * d * group
        mine = slice(begin, begin + LIMB_BITS * d)
        sums = (
            pads(rows.rows[mine], _name(rows, begin), 0, limbs)
            .reshape(limbs, LIMB_BITS, d)
            .sum(axis=2, dtype=np.int64)
        )
        sent = np.frombuffer(announced[where], dtype="<u2").reshape(limbs, -1)
        sums += (sent * rows.bits[mine]).reshape(limbs, LIMB_BITS, d).sum(axis=2, dtype=np.int64)
        share += _weighted(group, sums)
    return share % ring.modulus


def vector_send(
    ring: WideRing, rows: SenderRows, first: int, values: Limbs, groups: int | None = None, slot: int = 0
) -> tuple[Limbs, bytes]:
    """The sender's share of the receiver's integer times this vector, and its announcement.

    16 transfers for each group of bits of the integer, which has L groups unless it is known to be smaller; slots
    give products of the same integer with other vectors.
    """
    share, announced = np.zeros(values.shape, dtype=np.int64), []
    for group, limbs, _ in _groups(ring, values.shape[1], groups):
        begin = first + LIMB_BITS * group
        q = rows.rows[begin : begin + LIMB_BITS]
        zero = expand(q, _name(rows, begin), limbs, values.shape[1], slot)
        one = expand(q ^ rows.delta, _name(rows, begin), limbs, values.shape[1], slot)
        announced.append(correlate(zero, one, values[:limbs, None, :]).tobytes())
        for bit in range(LIMB_BITS):
            share[group:] -= zero[:, bit].astype(np.int64) << bit
    return carry(share), b"".join(announced)


def vector_receive(
    ring: WideRing,
    rows: ReceiverRows,
    first: int,
    dimension: int,
    announced: bytes,
    groups: int | None = None,
    slot: int = 0,
) -> Limbs:
    """The receiver's share of the same."""
    share = np.zeros((ring.limbs, dimension), dtype=np.int64)
    for group, limbs, where in _groups(ring, dimension, groups):
        begin = first + LIMB_BITS * group
        own = expand(rows.rows[begin : begin + LIMB_BITS], _name(rows, begin), limbs, dimension, slot)
        sent = np.frombuffer(announced[where], dtype="<u2").reshape(limbs, LIMB_BITS, dimension)
        for bit in range(LIMB_BITS):
            share[group:] += own[:, bit].astype(np.int64) << bit
            if rows.bits[begin + bit]:
                share[group:] += sent[:, bit].astype(np.int64) << bit
    return carry(share)


def scalars_send(
    ring: WideRing, rows: SenderRows, n_bits: int, slot: int, values: Sequence[int]
) -> tuple[list[int], bytes]:
    """The sender's shares of one product a value, with `n_bits` transfers each, and its announcement.

    Slots give products of the same bits of the receiver with other values.
    """
    q = rows.rows[: n_bits * len(values)]
    zero, one = (pads(some, _name(rows, 0), slot, ring.limbs) for some in (q, q ^ rows.delta))
    announced = correlate(zero, one, np.repeat(ring.from_ints(values), n_bits, axis=1))
    return [
        -share % ring.modulus for share in _weighted_runs(ring, zero.astype(np.int64), n_bits)
    ], announced.tobytes()


def scalars_receive(
    ring: WideRing, rows: ReceiverRows, n_bits: int, slot: int, count: int, announced: bytes
) -> list[int]:
    """The receiver's shares of the same."""
    mine = slice(n_bits * count)
    total = pads(rows.rows[mine], _name(rows, 0), slot, ring.limbs).astype(np.int64)
    total += np.frombuffer(announced, dtype="<u2").reshape(ring.limbs, -1) * rows.bits[mine]
    return _weighted_runs(ring, total, n_bits)


def _weighted_runs(ring: WideRing, values: NDArray[np.int64], n_bits: int) -> list[int]:
    """Sum of 2^j times entry j, for every run of `n_bits` entries; limbs need not be carried."""
    runs = values.reshape(ring.limbs, -1, n_bits)
    total = np.zeros(runs.shape[:2], dtype=np.int64)
    for group in range(min(-(-n_bits // LIMB_BITS), ring.limbs)):
        part = runs[: ring.limbs - group, :, LIMB_BITS * group : LIMB_BITS * (group + 1)]
        total[group:] += part @ (1 << np.arange(part.shape[2]))
    return ring.ints(carry(total))
