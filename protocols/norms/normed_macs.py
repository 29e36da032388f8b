"""Which values of a normed sum carry MACs, in what order, and how the parties compute them.

After its products are made, every party m holds shares z_m of numbers (the masks, the products of masks) and of
two vectors (U, and mu U less the noise). Of alpha_j z_m, alpha_j the key of j, the two get shares by one oblivious
transfer a bit of alpha_j, in which m sends all it holds at once (`vector_send`): m's is the tag, j's is
-beta (`authenticated`). 48 transfers serve all values, so that j has one key for all; an m that tells different
values for different bits has tags that are refused, but for the bits of the key that it guesses, and those it had
to guess anyway.

A mask is cut by shifting, t = high 2^shift + low: both parts carry MACs, and the mask's is their sum. The parts
that are used in one opening only also carry the 48 bits that hide what its share has above the ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.norms.authenticated import Share, VectorShare
from ksdp.protocols.norms.normed_parameters import MAC_BITS, NormedSumParameters
from ksdp.protocols.norms.ot_extension import ReceiverRows, SenderRows
from ksdp.protocols.norms.ot_products import long_bytes, vector_receive, vector_send
from ksdp.protocols.norms.own_masks import OwnMasks, random_below, random_vector
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs

_GROUPS = MAC_BITS // LIMB_BITS
_SCALARS, _VECTORS = range(2)
"""Slots of the transfers of a key."""
_BEFORE, _PER_STEP = 5, 7


@dataclass(frozen=True, eq=False, repr=False)
class PairMacs:
    """Tags or betas between one party and one peer."""

    scalars: Sequence[int]
    """In the order of `scalars_of`; `checked_scalar_ring`."""
    vectors: Limbs
    """In the order of `vectors_of`; `checked_ring`."""


@dataclass(frozen=True, eq=False, repr=False)
class Macs:
    """One party's, by peer."""

    tags: dict[int, PairMacs]
    """Of its own shares."""
    betas: dict[int, PairMacs]
    """Of the peers' shares."""


@dataclass(frozen=True)
class StepShares:
    """Shares of one step of the iteration, with MACs."""

    squares: Share
    cubes: Share
    crosses: Share
    t_high: Share
    """lambda of the next step."""
    t_low: Share
    y_high: Share
    """mu of the next step; after the last step, that of the result."""
    y_low: Share


@dataclass(frozen=True)
class Shares:
    """All that a party's shares of opened values are made of, with MACs."""

    square_mask: Share
    square: Share
    factor: Share
    test: Share
    test_mask: Share
    steps: tuple[StepShares, ...]
    vector: VectorShare
    """U."""
    tail: VectorShare
    """mu U less the noise."""


def cut_of_y(p: NormedSumParameters, step: int) -> int:
    """Bits of a mask of y g that are cut off after a step; the last leaves what multiplies the vector."""
    return p.y_shift + (p.scalar_bits - p.y_bits if step == len(p.steps) - 1 else 0)


def scalars_of(
    own: OwnMasks, square: int, squares: Sequence[int], cubes: Sequence[int], crosses: Sequence[int], test: int
) -> list[int]:
    """The numbers that carry MACs, below 2^bits of `checked_scalar_ring`."""
    p = own.parameters
    above, high = p.scalar_ring.bits, iter(own.high)
    scalars = [
        own.square,
        (square % p.ring.modulus) + (next(high) << p.ring.bits),
        own.factor,
        test % p.scalar_ring.modulus,
        own.test + (next(high) << above),
    ]
    for k in range(len(p.steps)):
        t_high, y_high = own.t[k] >> p.t_shift, own.y[k] >> cut_of_y(p, k)
        scalars += [
            squares[k] % p.scalar_ring.modulus,
            cubes[k] % p.scalar_ring.modulus,
            crosses[k] % p.scalar_ring.modulus,
            t_high,
            own.t[k] - (t_high << p.t_shift) + (next(high) << above),
            y_high,
            own.y[k] - (y_high << cut_of_y(p, k)) + (next(high) << above),
        ]
    return scalars


def masked_product(own: OwnMasks, product: Limbs) -> Limbs:
    """mu U less the noise, with random bits above the ring; `checked_ring`, shape (L, d)."""
    low = own.parameters.ring.subtract(product, own.noise)
    return np.concatenate([low, own.high_result])


def vectors_of(own: OwnMasks, product: Limbs) -> Limbs:
    """The entries that carry MACs, one vector after the other; `checked_ring`, shape (L, 2 d)."""
    wide = own.parameters.checked_ring
    return np.concatenate([wide.widened(own.vector), masked_product(own, product)], axis=1)


def shares_of(own: OwnMasks, scalars: Sequence[int], vectors: Limbs, macs: Macs) -> Shares:
    """Values and MACs together, by name."""
    p = own.parameters

    def scalar(at: int) -> Share:
        tags = {peer: pair.scalars[at] for peer, pair in macs.tags.items()}
        return Share(scalars[at], tags, {peer: pair.scalars[at] for peer, pair in macs.betas.items()})

    def vector(part: slice) -> VectorShare:
        tags = {peer: pair.vectors[:, part] for peer, pair in macs.tags.items()}
        betas = {peer: pair.vectors[:, part] for peer, pair in macs.betas.items()}
        return VectorShare(p.checked_ring, vectors[:, part], tags, betas)

    both = [scalar(at) for at in range(len(scalars))]
    steps = (both[at : at + _PER_STEP] for at in range(_BEFORE, len(both), _PER_STEP))
    first, second = slice(p.dimension), slice(p.dimension, None)
    square_mask, square, factor, test, test_mask = both[:_BEFORE]
    return Shares(
        square_mask,
        square,
        factor,
        test,
        test_mask,
        tuple(StepShares(*step) for step in steps),
        vector(first),
        vector(second),
    )


def mac_bytes(p: NormedSumParameters) -> int:
    """What one party announces to another for its MACs."""
    return _scalar_bytes(p) + long_bytes(p.checked_ring, 2 * p.dimension, _GROUPS)


def _scalar_bytes(p: NormedSumParameters) -> int:
    return long_bytes(p.checked_scalar_ring, macs_of_numbers(p), _GROUPS)


def macs_of_numbers(p: NormedSumParameters) -> int:
    """How many numbers carry MACs (`scalars_of`)."""
    return _BEFORE + _PER_STEP * len(p.steps)


class MacsInTheMaking:
    """A party's MACs while they are made.

    Parameters
    ----------
    own : OwnMasks
        Of this party.
    scalars, vectors : list of int, array
        What it holds (`scalars_of`, `vectors_of`).
    """

    def __init__(self, own: OwnMasks, scalars: Sequence[int], vectors: Limbs) -> None:
        self._p = own.parameters
        self._scalars, self._vectors = self._p.checked_scalar_ring.from_ints(scalars), vectors
        self._tags: dict[int, PairMacs] = {}
        self._betas: dict[int, PairMacs] = {}

    def send(self, peer: int, rows: SenderRows, first: int) -> bytes:
        """To a peer, whose key's bits begin at transfer `first`."""
        wide, wider = self._p.checked_scalar_ring, self._p.checked_ring
        scalars, one = vector_send(wide, rows, first, self._scalars, _GROUPS, _SCALARS)
        vectors, other = vector_send(wider, rows, first, self._vectors, _GROUPS, _VECTORS)
        self._tags[peer] = PairMacs(tuple(wide.ints(scalars)), vectors)
        return one + other

    def receive(self, peer: int, rows: ReceiverRows, first: int, announced: bytes) -> None:
        """From a peer; the transfers' choices are the own key's bits."""
        p, end = self._p, _scalar_bytes(self._p)
        wide, wider = p.checked_scalar_ring, p.checked_ring
        scalars = vector_receive(wide, rows, first, macs_of_numbers(p), announced[:end], _GROUPS, _SCALARS)
        vectors = vector_receive(wider, rows, first, 2 * p.dimension, announced[end:], _GROUPS, _VECTORS)
        self._betas[peer] = PairMacs(tuple(-value for value in wide.ints(scalars)), wider.multiply(-1, vectors))

    def macs(self) -> Macs:
        """With all peers."""
        return Macs(self._tags, self._betas)


def deal_macs(
    owns: Sequence[OwnMasks], held: Sequence[tuple[Sequence[int], Limbs]], random_bytes: RandomBytes
) -> list[Macs]:
    """Everybody's, from somebody who sees all.

    Parameters
    ----------
    owns : sequence of OwnMasks
        By place.
    held : sequence of (scalars, vectors)
        What everybody holds, likewise.
    random_bytes : callable
        Source of randomness.
    """
    p, places = owns[0].parameters, range(len(owns))
    wide, wider = p.checked_scalar_ring, p.checked_ring
    dealt = [Macs({}, {}) for _ in places]
    for m, (scalars, vectors) in enumerate(held):
        for j in places:
            if j == m:
                continue
            some = [random_below(wide.bits, random_bytes) for _ in scalars]
            many = random_vector(wider, 2 * p.dimension, wider.bits, random_bytes)
            tags = [(owns[j].key * value + beta) % wide.modulus for value, beta in zip(scalars, some, strict=True)]
            dealt[m].tags[j] = PairMacs(tags, wider.add(wider.multiply(owns[j].key, vectors), many))
            dealt[j].betas[m] = PairMacs(some, many)
    return dealt
