"""How a normed sum's long products are laid out in polynomials, and how long messages are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ksdp.audit.errors import InputError
from ksdp.protocols.norms.lattice_cipher import CIPHER_BYTES, ProductTerms
from ksdp.protocols.norms.lattice_ring import DEGREE
from ksdp.protocols.norms.normed_macs import macs_of_numbers
from ksdp.protocols.norms.normed_parameters import NormedSumParameters

CHUNK_LIMBS = 6
"""Numbers that carry MACs go in chunks of 96 bits."""
_LEAST_MAC_LIMBS = 13
"""A key of 48 bits times a chunk is below 2^144; a mask of 207 bits hides it but for 2^-63, and the two together
stay below 2^208: shares of the chunks are integers, and add up to one of the whole number."""


def pieces(count: int) -> Iterator[slice]:
    """Runs of at most N columns."""
    for at in range(0, count, DEGREE):
        yield slice(at, min(at + DEGREE, count))


def _fitted(*kinds: ProductTerms) -> list[ProductTerms]:
    """The same in the fewest parts with which the noise of all has room: they share encryptions."""
    for parts in range(1, kinds[0].factor_limbs + 1):
        tried = [replace(kind, parts=parts) for kind in kinds]
        if all(kind.fits for kind in tried):
            return tried
    raise InputError(
        f"Normed sums whose numbers have {16 * kinds[0].limbs} bits cannot be prepared by lattices: lower "
        "`fraction_bits` or `bound`, or leave it to oblivious transfers."
    )


class LatticeTerms:
    """Of one kind of sums.

    What is told counts for all pairs of an honest party and one that is not: at most M^2 / 4.

    Parameters
    ----------
    parameters : NormedSumParameters
        Of the sums.

    Raises
    ------
    InputError
        If the noise has no room.
    """

    def __init__(self, parameters: NormedSumParameters) -> None:
        p = self.parameters = parameters
        d, limbs, pairs = p.dimension, p.ring.limbs, p.parties**2 // 4
        self.vector: ProductTerms
        """mu u: an integer times a vector."""
        self.inner: ProductTerms
        """2 <u, u'>: with u' backwards, <u, u'> is the lowest coefficient of the product of two polynomials."""
        self.vector, self.inner = _fitted(
            ProductTerms(limbs, limbs, 1, pairs * d), ProductTerms(limbs, limbs, d, pairs)
        )
        self.numbers = macs_of_numbers(p)
        self.chunks = -(-p.checked_scalar_ring.limbs // CHUNK_LIMBS)
        """Of each number that carries MACs."""
        self.entries = 2 * d + self.chunks * self.numbers
        """That carry MACs: two vectors, and the chunks."""
        wide = max(p.checked_ring.limbs, _LEAST_MAC_LIMBS)
        (self.macs,) = _fitted(ProductTerms(wide, wide, min(self.entries, DEGREE), pairs * self.entries))

    @property
    def setup_bytes(self) -> int:
        """Public key and the encryptions of the MAC key."""
        return CIPHER_BYTES * (1 + self.macs.parts)

    @property
    def vector_bytes(self) -> int:
        """Encryptions of u."""
        return CIPHER_BYTES * self.vector.parts * len(list(pieces(self.parameters.dimension)))

    def answer_bytes(self, with_inner: bool) -> int:
        """Answers to them."""
        return self._answers(self.vector, self.parameters.dimension) + with_inner * self.inner.answer_bytes(1)

    @property
    def mac_bytes(self) -> int:
        """Answers to the encryptions of the MAC key."""
        return self._answers(self.macs, self.entries)

    @staticmethod
    def _answers(terms: ProductTerms, count: int) -> int:
        return sum(terms.answer_bytes(part.stop - part.start) for part in pieces(count))

    def split(self, terms: ProductTerms, count: int, data: bytes) -> Sequence[tuple[slice, bytes]]:
        """Each piece's answer."""
        found, at = [], 0
        for part in pieces(count):
            end = at + terms.answer_bytes(part.stop - part.start)
            found.append((part, data[at:end]))
            at = end
        return found
