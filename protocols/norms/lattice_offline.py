"""The offline phase of a normed sum with its long products by homomorphic encryption: a fifteenth of the bytes.

The same material as by oblivious transfer (`normed_offline`), in as many rounds. Once a session
(`lattice_setup_script`): base transfers, every party's public key, and its MAC key, which is the same in all sums,
encrypted. For every sum:

1. the receiver's extension for the scalars (`offline_scalars`); u, encrypted under its own key.
2. announcements of the first products of scalars; answers with mu u' and, by one of a pair, 2 <u, u'>.
3. announcements of the second products of scalars.
4. answers with MACs.

**Claim.** Parties that follow the protocol here, up to M - 1 of them together, learn nothing of another's masks
beyond what their own shares are. Assumptions: those of `normed_offline` for the scalars, and ring LWE
(`lattice_cipher`, where the argument is); all that is told is within 2^-41 of telling nothing. MACs are as strong:
who holds the shares sees of a key an encryption.
**Not claimed**: anything against a party that deviates *here*. One that encrypts with errors that are too large
reads the masks of who answers, hence its input, and nothing notices: oblivious transfer, which is checked, is the
default. One that answers falsely makes products that are wrong and carry right MACs, as there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import Exchange, Script
from ksdp.protocols.norms.lattice_cipher import CIPHER_BYTES, Cipher, Secret, answer
from ksdp.protocols.norms.lattice_macs import LatticeMacs
from ksdp.protocols.norms.lattice_ring import DEGREE, Residues, forward
from ksdp.protocols.norms.lattice_terms import LatticeTerms, pieces
from ksdp.protocols.norms.normed_material import NormedMaterial
from ksdp.protocols.norms.normed_offline import batch_of
from ksdp.protocols.norms.normed_parameters import MAC_BITS, NormedSumParameters
from ksdp.protocols.norms.offline_scalars import ScalarTransfers
from ksdp.protocols.norms.offline_shares import OfflineShares
from ksdp.protocols.norms.ot_extension import announced_bytes, extend_receiver, extend_sender
from ksdp.protocols.norms.ot_setup import OtSetup, setup_script
from ksdp.protocols.norms.own_masks import OwnMasks, random_below, random_vector


@dataclass(frozen=True, eq=False, repr=False)
class LatticeSetup:
    """One party's keys, and what it has from every peer; secret to it."""

    transfers: OtSetup
    terms: LatticeTerms
    secret: Secret
    key: int
    """Of the MACs."""
    zeros: dict[int, Cipher]
    """The peers' public keys."""
    keys: dict[int, list[Cipher]]
    """The peers' keys of the MACs, encrypted."""


def lattice_setup_script(
    session: bytes, party: int, parameters: NormedSumParameters, *, random_bytes: RandomBytes = os_random
) -> Script[LatticeSetup]:
    """One party of what is done once a session, as `ot_setup.setup_script`, for sums of these parameters."""
    transfers = setup_script(session, party, parameters.parties, random_bytes=random_bytes)
    return _setup(transfers, session, party, LatticeTerms(parameters), random_bytes)


def _setup(
    transfers: Script[OtSetup], session: bytes, me: int, terms: LatticeTerms, random_bytes: RandomBytes
) -> Script[LatticeSetup]:
    setup = yield from transfers
    secret, key, parts = Secret(random_bytes), random_below(MAC_BITS, random_bytes), terms.macs.parts
    wide = np.zeros((terms.macs.limbs, 1), dtype=np.uint16)
    wide[: MAC_BITS // 16, 0] = [key >> 16 * limb & 65535 for limb in range(MAC_BITS // 16)]
    told = [secret.encrypt(_label(session, me, 0))]
    told += [secret.encrypt(_label(session, me, 1 + j), each) for j, each in enumerate(terms.macs.weighted(wide))]
    arrived = yield Exchange.broadcast(b"".join(told), me, setup.parties)
    zeros, keys = {}, {}
    for peer, data in arrived.items():
        zeros[peer], *keys[peer] = _ciphers(data, [_label(session, peer, j) for j in range(1 + parts)])
    return LatticeSetup(setup, terms, secret, key, zeros, keys)


def _label(session: bytes, party: int, number: int) -> bytes:
    """Of an encryption: no two of one party are the same, within a session or a batch."""
    return session + party.to_bytes(2, "big") + number.to_bytes(4, "big")


def _ciphers(data: bytes, labels: Sequence[bytes]) -> list[Cipher]:
    return [
        Cipher.from_bytes(data[CIPHER_BYTES * j : CIPHER_BYTES * (j + 1)], label) for j, label in enumerate(labels)
    ]


def lattice_batch(setup: LatticeSetup, parameters: NormedSumParameters, number: int) -> bytes:
    """32 bytes that name one normed sum, the same at parties that mean the same."""
    return hashlib.sha256(b"ksdp-normed-lattice-1" + batch_of(setup.transfers, parameters, number)).digest()


def largest_lattice(parameters: NormedSumParameters) -> int:
    """No message of setup or offline phase has more bytes, its header aside."""
    terms, scalars = LatticeTerms(parameters), ScalarTransfers(parameters)
    extension = announced_bytes(-(-scalars.transfers // 8) * 8) + terms.vector_bytes
    return max(terms.setup_bytes, extension, scalars.first_bytes + terms.answer_bytes(True), terms.mac_bytes)


def lattice_script(
    setup: LatticeSetup, number: int, *, random_bytes: RandomBytes = os_random
) -> Script[NormedMaterial]:
    """One party of the offline phase, as `normed_offline.offline_script`; a setup serves many sums of its terms.

    Raises
    ------
    InputError
        If the number is out of range.
    ProtocolError
        If it has been used.
    """
    setup.transfers.take(number)
    own = replace(OwnMasks.draw(setup.terms.parameters, random_bytes), key=setup.key)
    return _script(setup, number, own, random_bytes)


def _script(setup: LatticeSetup, number: int, own: OwnMasks, random_bytes: RandomBytes) -> Script[NormedMaterial]:
    terms, transfers, shares = setup.terms, setup.transfers, OfflineShares(own)
    me, batch, scalars = (
        transfers.party,
        lattice_batch(setup, terms.parameters, number),
        ScalarTransfers(own.parameters),
    )
    peers = [peer for peer in range(transfers.parties) if peer != me]
    bits = np.zeros(-(-scalars.transfers // 8) * 8, dtype=np.uint8)
    bits[: scalars.transfers] = scalars.choices(own)
    long = _LongProducts(setup, batch, own, random_bytes)

    encrypted, receiving, payloads = long.encrypted(me), {}, {}
    for peer in peers:
        receiving[peer], columns = extend_receiver(transfers.pairs[peer], bits, number, random_bytes=random_bytes)
        payloads[peer] = columns + encrypted
    end = announced_bytes(len(bits))
    arrived = yield Exchange(payloads, dict.fromkeys(peers, end + terms.vector_bytes))

    sending = {}
    for peer in peers:
        message = arrived.pop(peer)
        sending[peer] = extend_sender(transfers.seeds[peer], transfers.deltas[peer], message[:end], number)
        payloads[peer] = scalars.send_first(shares, sending[peer]) + long.send(shares, peer, message[end:])
    end = scalars.first_bytes
    arrived = yield Exchange(payloads, {peer: end + terms.answer_bytes(me < peer) for peer in peers})
    for peer in peers:
        message = arrived.pop(peer)
        scalars.receive_first(shares, receiving[peer], message[:end])
        long.receive(shares, peer, message[end:])

    factors = shares.begin_cubes()
    payloads = {peer: scalars.send_second(shares, sending[peer], factors) for peer in peers}
    arrived = yield Exchange(payloads, dict.fromkeys(peers, scalars.second_bytes))
    for peer in peers:
        scalars.receive_second(shares, receiving[peer], arrived[peer])

    macs = LatticeMacs(terms, *shares.held(), random_bytes)
    payloads = {peer: macs.send(peer, setup.zeros[peer], setup.keys[peer]) for peer in peers}
    arrived = yield Exchange(payloads, dict.fromkeys(peers, terms.mac_bytes))
    for peer in peers:
        macs.receive(peer, setup.secret, arrived.pop(peer))
    return shares.material(batch, me, "lattice", macs.macs())


class _LongProducts:
    """mu u in both directions, and 2 <u, u'>: of a pair the lower number encrypts for it, the other doubles."""

    def __init__(self, setup: LatticeSetup, batch: bytes, own: OwnMasks, random_bytes: RandomBytes) -> None:
        self._setup, self._batch, self._own, self._random_bytes = setup, batch, own, random_bytes
        self._terms, self._ring = setup.terms, own.parameters.ring
        self._pieces = list(pieces(own.parameters.dimension))
        self._parts = setup.terms.vector.parts

    def encrypted(self, me: int) -> bytes:
        """u: every piece with the weights of all parts."""
        labels = iter(self._labels(me))
        weighted = (self._terms.vector.weighted(self._own.vector[:, piece]) for piece in self._pieces)
        return b"".join(self._setup.secret.encrypt(next(labels), each) for parts in weighted for each in parts)

    def _labels(self, party: int) -> list[bytes]:
        return [_label(self._batch, party, j) for j in range(self._parts * len(self._pieces))]

    def send(self, shares: OfflineShares, peer: int, data: bytes) -> bytes:
        """Answers to a peer's u."""
        ring, me = self._ring, self._setup.transfers.party
        ciphers, zero = _ciphers(data, self._labels(peer)), self._setup.zeros[peer]
        of_piece = [ciphers[at : at + self._parts] for at in range(0, len(ciphers), self._parts)]
        masks = random_vector(ring, self._own.parameters.dimension, ring.bits, self._random_bytes)
        factor = self._terms.vector.cut(ring.from_ints([self._own.output_part()]))
        told = [
            answer(zero, zip(each, factor, strict=True), masks[:, piece], self._terms.vector, self._random_bytes)
            for piece, each in zip(self._pieces, of_piece, strict=True)
        ]
        inner = 0
        if peer < me:
            mask = random_vector(ring, 1, ring.bits, self._random_bytes)
            products = zip(ciphers, self._backwards, strict=True)
            told.append(answer(zero, products, mask, self._terms.inner, self._random_bytes))
            inner = -ring.ints(mask)[0]
        shares.long(ring.multiply(-1, masks), inner)
        return b"".join(told)

    @property
    def _backwards(self) -> list[Residues]:
        """2 u so that the lowest coefficient of a product is an inner product: u_0 - sum_i u_i X^(N - i)."""
        doubled, found = self._ring.add(self._own.vector, self._own.vector), []
        for piece in self._pieces:
            values = doubled[:, piece]
            backwards = np.zeros((len(values), DEGREE), dtype=np.uint16)
            backwards[:, 0] = values[:, 0]
            if values.shape[1] > 1:
                backwards[:, 1 - values.shape[1] :] = self._ring.multiply(-1, values[:, :0:-1])
            found += [forward(part) for part in self._terms.inner.cut(backwards)]
        return found

    def receive(self, shares: OfflineShares, peer: int, data: bytes) -> None:
        """A peer's answers."""
        terms, d, secret = self._terms, self._own.parameters.dimension, self._setup.secret
        told = [
            secret.decrypt(each, terms.vector.limbs, piece.stop - piece.start)
            for piece, each in terms.split(terms.vector, d, data)
        ]
        inner = 0
        if self._setup.transfers.party < peer:
            (inner,) = self._ring.ints(secret.decrypt(data[terms.answer_bytes(False) :], terms.inner.limbs, 1))
        shares.long(np.concatenate(told, axis=1), inner)
