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
from ksdp.protocols.norms.normed_macs import MacsInTheMaking, mac_bytes
from ksdp.protocols.norms.normed_material import NormedMaterial
from ksdp.protocols.norms.normed_parameters import MAC_BITS, NormedSumParameters
from ksdp.protocols.norms.offline_scalars import ScalarTransfers
from ksdp.protocols.norms.offline_shares import OfflineShares
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
    vector_receive,
    vector_send,
)
from ksdp.protocols.norms.ot_setup import OtSetup
from ksdp.protocols.norms.own_masks import OwnMasks


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
        If setup and parameters differ in the number of parties, or the number is out of range.
    ProtocolError
        If the number has been used.
    """
    if setup.parties != parameters.parties:
        raise InputError(f"`setup` is of {setup.parties} parties, `parameters` of {parameters.parties}.")
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
        self.scalars = ScalarTransfers(p)
        self.vector_at = self.scalars.transfers
        self.key_at = self.vector_at + p.ring.bits
        self.inner_at = self.key_at + MAC_BITS
        self.inner = p.ring.bits * p.dimension
        self.vector_bytes = long_bytes(p.ring, p.dimension)

    def transfers(self, with_inner: bool) -> int:
        """A multiple of 8."""
        n = self.inner_at + (self.inner if with_inner else 0)
        return -(-n // 8) * 8

    def extension(self, with_inner: bool) -> int:
        """Bytes of the first message."""
        return announced_bytes(self.transfers(with_inner))

    def announced(self, with_inner: bool) -> int:
        """Bytes of the second message."""
        return self.scalars.first_bytes + self.vector_bytes * (2 if with_inner else 1)

    def choices(self, own: OwnMasks, with_inner: bool) -> Bytes:
        """All choice bits of a receiver."""
        p = self.parameters
        bits = np.zeros(self.transfers(with_inner), dtype=np.uint8)
        bits[: self.vector_at] = self.scalars.choices(own)
        bits[self.vector_at : self.key_at] = bits_of_int(own.output_part(), p.ring.bits)
        bits[self.key_at : self.inner_at] = bits_of_int(own.key, MAC_BITS)
        if with_inner:
            bits[self.inner_at : self.inner_at + self.inner] = bits_of_vector(own.vector)
        return bits


def _script(
    setup: OtSetup, layout: _Layout, number: int, batch: bytes, own: OwnMasks, random_bytes: RandomBytes
) -> Script[NormedMaterial]:
    me, shares, scalars = setup.party, OfflineShares(own), layout.scalars
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
        rows = extend_sender(setup.seeds[peer], setup.deltas[peer], arrived.pop(peer), number)
        announced[peer] = scalars.send_first(shares, rows) + _send_long(layout, shares, rows, peer < me)
        sending[peer] = rows
    arrived = yield Exchange(announced, {peer: layout.announced(me < peer) for peer in peers})

    for peer in peers:
        message, end = arrived.pop(peer), scalars.first_bytes
        scalars.receive_first(shares, receiving[peer], message[:end])
        _receive_long(layout, shares, receiving[peer], message[end:], me < peer)

    factors = shares.begin_cubes()
    announced = {peer: scalars.send_second(shares, sending[peer], factors) for peer in peers}
    arrived = yield Exchange(announced, dict.fromkeys(peers, scalars.second_bytes))
    for peer in peers:
        scalars.receive_second(shares, receiving[peer], arrived[peer])

    macs = MacsInTheMaking(own, *shares.held())
    announced = {peer: macs.send(peer, sending[peer], layout.key_at) for peer in peers}
    arrived = yield Exchange(announced, dict.fromkeys(peers, mac_bytes(own.parameters)))
    for peer in peers:
        macs.receive(peer, receiving[peer], layout.key_at, arrived.pop(peer))
    return shares.material(batch, me, "transfers", macs.macs())


def _send_long(layout: _Layout, shares: OfflineShares, rows: SenderRows, with_inner: bool) -> bytes:
    ring, vector = layout.parameters.ring, shares.own.vector
    product, announced = vector_send(ring, rows, layout.vector_at, vector)
    inner, more = 0, b""
    if with_inner:
        inner, more = inner_send(ring, rows, layout.inner_at, ring.add(vector, vector))
    shares.long(product, inner)
    return announced + more


def _receive_long(
    layout: _Layout, shares: OfflineShares, rows: ReceiverRows, announced: bytes, with_inner: bool
) -> None:
    p, end = layout.parameters, layout.vector_bytes
    product = vector_receive(p.ring, rows, layout.vector_at, p.dimension, announced[:end])
    inner = inner_receive(p.ring, rows, layout.inner_at, p.dimension, announced[end:]) if with_inner else 0
    shares.long(product, inner)
