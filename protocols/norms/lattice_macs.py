"""MACs of a normed sum by homomorphic encryption (`lattice_cipher`): every party's key is encrypted once a run.
Who holds shares z answers with alpha z + r; its tag is -r, and the holder of the key has beta = -(alpha z + r).

The two vectors are modulo 2^K, as tags are. A number has three times as many bits: it goes in chunks z_j of 96, of
which alpha z_j + r_j is an integer without a wrap, so that the sum of 2^(96 j) (alpha z_j + r_j) is alpha z + r.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.norms.lattice_cipher import Cipher, Secret, answer
from ksdp.protocols.norms.lattice_ring import forward
from ksdp.protocols.norms.lattice_terms import CHUNK_LIMBS, LatticeTerms, pieces
from ksdp.protocols.norms.normed_macs import Macs, PairMacs
from ksdp.protocols.norms.own_masks import random_vector
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs, WideRing, carry


class LatticeMacs:
    """A party's MACs while they are made, of what `scalars_of` and `vectors_of` say it holds."""

    def __init__(
        self, terms: LatticeTerms, scalars: Sequence[int], vectors: Limbs, random_bytes: RandomBytes
    ) -> None:
        self._terms, self._random_bytes = terms, random_bytes
        self._wide, p = WideRing(terms.macs.limbs), terms.parameters
        numbers = WideRing(CHUNK_LIMBS * terms.chunks).from_ints(scalars)
        chunks = numbers.reshape(terms.chunks, CHUNK_LIMBS, -1).transpose(1, 0, 2).reshape(CHUNK_LIMBS, -1)
        held = np.concatenate([self._wide.widened(vectors), self._wide.widened(chunks)], axis=1)
        self._factors = [
            (part, [forward(each) for each in terms.macs.cut(held[:, part])]) for part in pieces(terms.entries)
        ]
        self._vectors, self._ring, self._scalar_ring = 2 * p.dimension, p.checked_ring, p.checked_scalar_ring
        self._tags: dict[int, PairMacs] = {}
        self._betas: dict[int, PairMacs] = {}

    def send(self, peer: int, zero: Cipher, key: Sequence[Cipher]) -> bytes:
        """To a peer with this public key, and its encrypted key of the MACs."""
        masks = random_vector(self._wide, self._terms.entries, self._wide.bits, self._random_bytes)
        masks[-1, self._vectors :] &= (1 << LIMB_BITS - 1) - 1
        self._tags[peer] = self._negative(masks)
        return b"".join(
            answer(zero, zip(key, factors, strict=True), masks[:, part], self._terms.macs, self._random_bytes)
            for part, factors in self._factors
        )

    def receive(self, peer: int, secret: Secret, data: bytes) -> None:
        """From a peer."""
        terms, entries = self._terms.macs, self._terms.entries
        told = [
            secret.decrypt(each, terms.limbs, part.stop - part.start)
            for part, each in self._terms.split(terms, entries, data)
        ]
        self._betas[peer] = self._negative(np.concatenate(told, axis=1))

    def macs(self) -> Macs:
        """With all peers."""
        return Macs(self._tags, self._betas)

    def _negative(self, columns: Limbs) -> PairMacs:
        vectors = self._ring.multiply(-1, columns[: self._ring.limbs, : self._vectors])
        chunks = columns[:, self._vectors :].reshape(len(columns), self._terms.chunks, -1)
        total = np.zeros((CHUNK_LIMBS * self._terms.chunks + len(columns), chunks.shape[2]), dtype=np.int64)
        for j in range(self._terms.chunks):
            total[CHUNK_LIMBS * j : CHUNK_LIMBS * j + len(columns)] -= chunks[:, j]
        return PairMacs(tuple(self._scalar_ring.ints(carry(total)[: self._scalar_ring.limbs])), vectors)
