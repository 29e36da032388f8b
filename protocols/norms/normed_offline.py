"""The offline phase of a normed sum: the parties make their own material, by oblivious transfer between every
pair.

Four rounds after `ot_setup`, none of which depends on an input:

1. choices: for every pair and direction the receiver announces its extension, whose choice bits are those of its
   masks (lambda of every step, mu of the result, its key; its vector u for one direction of each pair).
2. announcements of the first products: lambda_k lambda_k', beta_k lambda_k mu_k, P lambda, mu u, and 2 <u, u'>.
3. announcements of the second: beta_k^2 lambda_k times the shares of lambda_k^2.
4. announcements of the MACs of all of these (`normed_macs`).

Every product of sums over parties splits into each party's own term and one term for every ordered pair.

**Claim.** Parties that follow the protocol, up to M - 1 of them together, learn nothing of another's masks beyond
what their own shares are. Assumptions: the Diffie-Hellman problem on Curve25519 with SHA-256 as a random oracle
(base transfers); AES-128 as a pseudorandom generator (extension) and, under a fixed key, as an ideal permutation
(hash of products). A receiver whose choices differ from column to column is found (`ot_check`), and ends the run.
**Not claimed**: a party that deviates as a sender *here* can make products that are wrong and carry right MACs (a
wrong result, noticed by its length only) or, by choosing the announcements of products, learn bits of masks from
whether the result is then refused. From here on nobody can tell a false share (`authenticated`). Python's integers
take time that depends on their values.

Messages need an authenticated channel, not a secret one: base transfers hide the keys from who listens.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import Exchange, Script
from ksdp.protocols.norms.normed_macs import Macs, MacsInTheMaking, mac_bytes, scalars_of, vectors_of
from ksdp.protocols.norms.normed_material import NormedMaterial
from ksdp.protocols.norms.normed_parameters import MAC_BITS, NormedSumParameters
from ksdp.protocols.norms.ot_extension import (
    Bytes,
    ReceiverRows,
    SenderRows,
    announced_bytes,
    extend_receiver,
    extend_sender,
)
from ksdp.protocols.norms.ot_products import (
    bits_of_int,
    bits_of_vector,
    inner_receive,
    inner_send,
    long_bytes,
    scalars_receive,
    scalars_send,
    vector_receive,
    vector_send,
)
from ksdp.protocols.norms.ot_setup import OtSetup
from ksdp.protocols.norms.own_masks import OwnMasks
from ksdp.protocols.norms.wide_ring import Limbs

__all__ = ["batch_of", "largest_offline", "offline_script"]

_SQUARE, _CROSS, _CUBE = range(3)
"""Slots: products of the same choice bits."""


def batch_of(setup: OtSetup, parameters: NormedSumParameters, number: int) -> bytes:
    """32 bytes that name one normed sum, the same at parties that mean the same."""
    head = b"ksdp-normed-offline-3" + setup.session + parameters.digest
    return hashlib.sha256(head + number.to_bytes(4, "big")).digest()


def offline_script(
    setup: OtSetup,
    parameters: NormedSumParameters,
    number: int,
    *,
    random_bytes: RandomBytes = os_random,
) -> Script[NormedMaterial]:
    """One party of the offline phase.

    Parameters
    ----------
    setup : OtSetup
        Its base transfers; they serve any number of sums.
    parameters : NormedSumParameters
        The public terms of the sum.
    number : int
        Of the sum, from 0, the same at all parties; never twice with one setup.
    random_bytes : callable
        Source of secrets; the operating system's unless a test injects another.

    Raises
    ------
    InputError
        If setup and parameters differ in the number of parties.
    ProtocolError
        If the number has been used.
    """
    if setup.parties != parameters.parties:
        raise InputError(f"`setup` is of {setup.parties} parties, `parameters` of {parameters.parties}.")
    if not 0 <= number < 1 << 32:
        raise InputError(f"`number` must be from 0 to 2^32 - 1; got {number}.")
    setup.take(number)
    batch = batch_of(setup, parameters, number)
    own = OwnMasks.draw(parameters, random_bytes)
    return _script(setup, _Layout(parameters), number, batch, own, random_bytes)


def largest_offline(parameters: NormedSumParameters) -> int:
    """No message of the offline phase has more bytes, its header aside."""
    layout = _Layout(parameters)
    return max(layout.announced(True), layout.extension(True), mac_bytes(parameters))


class _Layout:
    """Which transfers of a pair are for what, and how long the messages are."""

    def __init__(self, parameters: NormedSumParameters) -> None:
        p = self.parameters = parameters
        self.steps = len(p.steps)
        self.step_bits = p.t_mask_bits - p.t_shift
        """Of a lambda."""
        self.vector_at = (self.steps + 1) * self.step_bits
        self.key_at = self.vector_at + p.ring.bits
        self.inner_at = self.key_at + MAC_BITS
        self.inner = p.ring.bits * p.dimension

    def transfers(self, with_inner: bool) -> int:
        """A multiple of 8."""
        n = self.inner_at + (self.inner if with_inner else 0)
        return -(-n // 8) * 8

    def extension(self, with_inner: bool) -> int:
        """Bytes of the first message."""
        return announced_bytes(self.transfers(with_inner))

    def scalars(self, count: int) -> int:
        """Bytes announced for products with `count` lambdas."""
        return count * self.step_bits * self.parameters.scalar_ring.width

    def announced(self, with_inner: bool) -> int:
        """Bytes of the second message."""
        p = self.parameters
        long = long_bytes(p.ring, p.dimension)
        return self.scalars(2 * self.steps + 1) + long * (2 if with_inner else 1)

    def choices(self, own: OwnMasks, with_inner: bool) -> Bytes:
        """All choice bits of a receiver."""
        p = self.parameters
        bits = np.zeros(self.transfers(with_inner), dtype=np.uint8)
        for k in range(self.steps + 1):
            at = k * self.step_bits
            bits[at : at + self.step_bits] = bits_of_int(own.t_part(k), self.step_bits)
        bits[self.vector_at : self.key_at] = bits_of_int(own.output_part(), p.ring.bits)
        bits[self.key_at : self.inner_at] = bits_of_int(own.key, MAC_BITS)
        if with_inner:
            bits[self.inner_at : self.inner_at + self.inner] = bits_of_vector(own.vector)
        return bits


class _Shares:
    """A party's shares while they are being collected: first its own terms, then those with each peer."""

    def __init__(self, own: OwnMasks) -> None:
        p = own.parameters
        self.own, self.ring, self.modulus = own, p.ring, p.scalar_ring.modulus
        self.beta = [step.beta for step in p.steps]
        n = len(p.steps)
        self.lam = [own.t_part(k) for k in range(n + 1)]
        self.crossed = [self.beta[k] * own.y_part(k) for k in range(n)]
        """beta_k mu_k, what this party sends against the others' lambda_k."""
        self.square = p.ring.dot(own.vector, own.vector)
        self.squares = [lam * lam for lam in self.lam[:-1]]
        self.crosses = [lam * other for lam, other in zip(self.lam, self.crossed, strict=False)]
        self.test = own.factor * self.lam[-1]
        self.product = [p.ring.multiply(own.output_part(), own.vector)]

    def first(self, squares: list[int], crosses: list[int], vector: Limbs, inner: int) -> None:
        """Take in the shares of one direction with one peer; the last of `squares` is the test's."""
        *squares, test = squares
        self.squares = [a + b for a, b in zip(self.squares, squares, strict=True)]
        self.crosses = [a + b for a, b in zip(self.crosses, crosses, strict=True)]
        self.test += test
        self.product.append(vector)
        self.square += inner

    def begin_cubes(self) -> list[int]:
        """beta_k^2 times the shares of lambda_k^2, what this party sends; its own terms of the cubes."""
        factors = [b * b * square % self.modulus for b, square in zip(self.beta, self.squares, strict=True)]
        self.cubes = [factor * lam for factor, lam in zip(factors, self.lam, strict=False)]
        return factors

    def second(self, cubes: list[int]) -> None:
        """Take in the shares of one direction with one peer."""
        self.cubes = [a + b for a, b in zip(self.cubes, cubes, strict=True)]

    def reduce(self) -> None:
        """All are collected."""
        for name in ("squares", "cubes", "crosses"):
            setattr(self, name, [value % self.modulus for value in getattr(self, name)])
        self.square, self.test = self.square % self.ring.modulus, self.test % self.modulus
        self.whole = self.ring.add(*self.product)

    def begin_macs(self) -> MacsInTheMaking:
        """Of all that is collected."""
        self.reduce()
        scalars = scalars_of(self.own, self.square, self.squares, self.cubes, self.crosses, self.test)
        return MacsInTheMaking(self.own, scalars, vectors_of(self.own, self.whole))

    def material(self, batch: bytes, party: int, macs: Macs) -> NormedMaterial:
        """All together."""
        squares, cubes, crosses = tuple(self.squares), tuple(self.cubes), tuple(self.crosses)
        return NormedMaterial(
            self.own.parameters,
            batch,
            party,
            "ot",
            self.own,
            self.square,
            squares,
            cubes,
            crosses,
            self.test,
            self.whole,
            macs,
        )


def _script(
    setup: OtSetup, layout: _Layout, number: int, batch: bytes, own: OwnMasks, random_bytes: RandomBytes
) -> Script[NormedMaterial]:
    me, shares = setup.party, _Shares(own)
    peers = [peer for peer in range(setup.parties) if peer != me]

    # The inner product is symmetric: the lower number of a pair receives, and the sender doubles.
    receiving: dict[int, ReceiverRows] = {}
    extensions: dict[int, bytes] = {}
    for peer in peers:
        bits = layout.choices(own, me < peer)
        receiving[peer], extensions[peer] = extend_receiver(
            setup.pairs[peer], bits, number, random_bytes=random_bytes
        )
    arrived = yield Exchange(extensions, {peer: layout.extension(peer < me) for peer in peers})

    sending: dict[int, SenderRows] = {}
    announced: dict[int, bytes] = {}
    for peer in peers:
        sending[peer] = extend_sender(setup.seeds[peer], setup.deltas[peer], arrived.pop(peer), number)
        announced[peer] = _send_first(layout, shares, sending[peer], peer < me)
    arrived = yield Exchange(announced, {peer: layout.announced(me < peer) for peer in peers})

    for peer in peers:
        _receive_first(layout, shares, receiving[peer], arrived.pop(peer), me < peer)

    q, size, steps = own.parameters.scalar_ring, layout.step_bits, layout.steps
    factors, announced = shares.begin_cubes(), {}
    for peer in peers:
        sent, announced[peer] = scalars_send(q, sending[peer], 0, size, _CUBE, factors)
        shares.second(sent)
    arrived = yield Exchange(announced, dict.fromkeys(peers, layout.scalars(steps)))
    for peer in peers:
        shares.second(scalars_receive(q, receiving[peer], 0, size, _CUBE, steps, arrived[peer]))

    macs = shares.begin_macs()
    announced = {peer: macs.send(peer, sending[peer], layout.key_at) for peer in peers}
    arrived = yield Exchange(announced, dict.fromkeys(peers, mac_bytes(own.parameters)))
    for peer in peers:
        macs.receive(peer, receiving[peer], layout.key_at, arrived.pop(peer))
    return shares.material(batch, me, macs.macs())


def _send_first(layout: _Layout, shares: _Shares, rows: SenderRows, with_inner: bool) -> bytes:
    p, size = layout.parameters, layout.step_bits
    lambdas = [*shares.lam[:-1], shares.own.factor]
    squares, first = scalars_send(p.scalar_ring, rows, 0, size, _SQUARE, lambdas)
    crosses, second = scalars_send(p.scalar_ring, rows, 0, size, _CROSS, shares.crossed)
    vector, third = vector_send(p.ring, rows, layout.vector_at, shares.own.vector)
    inner, fourth = 0, b""
    if with_inner:
        doubled = p.ring.add(shares.own.vector, shares.own.vector)
        inner, fourth = inner_send(p.ring, rows, layout.inner_at, doubled)
    shares.first(squares, crosses, vector, inner)
    return b"".join((first, second, third, fourth))


def _receive_first(
    layout: _Layout, shares: _Shares, rows: ReceiverRows, announced: bytes, with_inner: bool
) -> None:
    p, size, n = layout.parameters, layout.step_bits, layout.steps
    ends = np.cumsum([layout.scalars(n + 1), layout.scalars(n), long_bytes(p.ring, p.dimension)]).tolist()
    first, second = announced[: ends[0]], announced[ends[0] : ends[1]]
    third, fourth = announced[ends[1] : ends[2]], announced[ends[2] :]
    squares = scalars_receive(p.scalar_ring, rows, 0, size, _SQUARE, n + 1, first)
    crosses = scalars_receive(p.scalar_ring, rows, 0, size, _CROSS, n, second)
    vector = vector_receive(p.ring, rows, layout.vector_at, p.dimension, third)
    inner = inner_receive(p.ring, rows, layout.inner_at, p.dimension, fourth) if with_inner else 0
    shares.first(squares, crosses, vector, inner)
