"""Shares that carry a MAC for every other party, and their opening: a false share is detected.

Party m holds its share z of a value and, for every peer j, a tag; j holds a key alpha_j of 48 bits, the same for
all values, and a beta for this one, with

    tag = alpha_j z + beta   modulo 2^(K + 48),

where values are read modulo 2^K. Sums and public multiples of shares are those of tags and betas. Who tells j a
share that is off by e, not zero modulo 2^K, must tell tag + alpha_j e, hence must have guessed all 48 bits of
alpha_j: 2^-48, whatever it can compute. j looks before it says anything that depends on the share. The tag of a
true share is what j can work out by itself: it tells nothing.

Above 2^K a share carries what has wrapped there; every share that is opened has a fresh uniform mask of these 48
bits (`OwnMasks.high`).

Source: Bendlin, Damgård, Orlandi & Zakarias, https://eprint.iacr.org/2010/514 (MACs between pairs); Cramer et al.,
SPDZ2k, https://eprint.iacr.org/2018/482 (modulo a power of two).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add, sub

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.rounds import Exchange, Script
from ksdp.protocols.norms.wide_ring import Limbs, WideRing

Numbers = Mapping[int, int]
"""By peer."""
Vectors = Mapping[int, Limbs]


@dataclass(frozen=True)
class Share:
    """Of a number; reduced where it is opened."""

    value: int
    tags: Numbers
    """For every peer, told with the value."""
    betas: Numbers
    """Of every peer's share: what its tag is looked at with."""

    def __add__(self, other: Share) -> Share:
        return self._with(other, add)

    def __sub__(self, other: Share) -> Share:
        return self._with(other, sub)

    def __rmul__(self, factor: int) -> Share:
        tags = {peer: factor * tag for peer, tag in self.tags.items()}
        return Share(factor * self.value, tags, {peer: factor * beta for peer, beta in self.betas.items()})

    def _with(self, other: Share, of: Callable[[int, int], int]) -> Share:
        tags = {peer: of(tag, other.tags[peer]) for peer, tag in self.tags.items()}
        betas = {peer: of(beta, other.betas[peer]) for peer, beta in self.betas.items()}
        return Share(of(self.value, other.value), tags, betas)


@dataclass(frozen=True, eq=False)
class VectorShare:
    """Of a vector."""

    ring: WideRing
    """Of all: with the 48 bits above."""
    value: Limbs
    tags: Vectors
    betas: Vectors

    def dot(self, public: Limbs) -> Share:
        """Inner product with a public vector of that ring."""
        dot = self.ring.dot
        tags = {peer: dot(public, tag) for peer, tag in self.tags.items()}
        return Share(dot(public, self.value), tags, {peer: dot(public, beta) for peer, beta in self.betas.items()})

    @classmethod
    def spread(cls, ring: WideRing, share: Share, public: Limbs) -> VectorShare:
        """A number times a public vector."""
        tags = {peer: ring.multiply(tag, public) for peer, tag in share.tags.items()}
        betas = {peer: ring.multiply(beta, public) for peer, beta in share.betas.items()}
        return cls(ring, ring.multiply(share.value, public), tags, betas)

    def __add__(self, other: VectorShare) -> VectorShare:
        return self._with(other, self.ring.add)

    def __sub__(self, other: VectorShare) -> VectorShare:
        return self._with(other, self.ring.subtract)

    def __rmul__(self, factor: int) -> VectorShare:
        times = self.ring.multiply
        tags = {peer: times(factor, tag) for peer, tag in self.tags.items()}
        betas = {peer: times(factor, beta) for peer, beta in self.betas.items()}
        return VectorShare(self.ring, times(factor, self.value), tags, betas)

    def _with(self, other: VectorShare, of: Callable[[Limbs, Limbs], Limbs]) -> VectorShare:
        tags = {peer: of(tag, other.tags[peer]) for peer, tag in self.tags.items()}
        betas = {peer: of(beta, other.betas[peer]) for peer, beta in self.betas.items()}
        return VectorShare(self.ring, of(self.value, other.value), tags, betas)


class Holder:
    """One party that opens shares.

    Parameters
    ----------
    me, parties : int
        Its place, and how many there are.
    key : int
        Its alpha.
    """

    def __init__(self, me: int, parties: int, key: int) -> None:
        self._me, self._key = me, key
        self._peers = [peer for peer in range(parties) if peer != me]

    def public(self, value: int) -> Share:
        """A public number, held by the first party: it has no tag, and the others take it off its share."""
        betas = {peer: -self._key * value if peer == 0 else 0 for peer in self._peers}
        return Share(value if self._me == 0 else 0, dict.fromkeys(self._peers, 0), betas)

    def open(self, ring: WideRing, *shares: Share) -> Script[list[int]]:
        """Tell shares, and add up everybody's: from 0 to the modulus less one, the bits above included.

        Raises
        ------
        ProtocolError
            If a party's share is false.
        """
        values = b"".join((share.value % ring.modulus).to_bytes(ring.width, "little") for share in shares)
        payloads = {
            peer: values
            + b"".join((share.tags[peer] % ring.modulus).to_bytes(ring.width, "little") for share in shares)
            for peer in self._peers
        }
        arrived = yield Exchange(payloads, dict.fromkeys(self._peers, 2 * len(values)))
        totals = [share.value for share in shares]
        for peer, data in arrived.items():
            numbers = [
                int.from_bytes(data[at : at + ring.width], "little") for at in range(0, len(data), ring.width)
            ]
            sent, tags = numbers[: len(shares)], numbers[len(shares) :]
            for share, value, tag in zip(shares, sent, tags, strict=True):
                if (self._key * value + share.betas[peer] - tag) % ring.modulus:
                    raise _false(peer)
            totals = [total + value for total, value in zip(totals, sent, strict=True)]
        return [total % ring.modulus for total in totals]

    def open_vector(self, share: VectorShare) -> Script[Limbs]:
        """The same of a vector."""
        ring, length = share.ring, share.value.shape[1]
        value = ring.to_bytes(share.value)
        payloads = {peer: value + ring.to_bytes(share.tags[peer]) for peer in self._peers}
        arrived = yield Exchange(payloads, dict.fromkeys(self._peers, 2 * len(value)))
        terms = [share.value]
        for peer, data in arrived.items():
            sent = ring.from_bytes(data[: len(value)], length)
            tag = ring.from_bytes(data[len(value) :], length)
            if (ring.add(ring.multiply(self._key, sent), share.betas[peer]) != tag).any():
                raise _false(peer)
            terms.append(sent)
        return ring.add(*terms)


def _false(peer: int) -> ProtocolError:
    return ProtocolError(
        f"A share of party {peer + 1} is not what it holds: a message was changed, or it does not follow the "
        "protocol. Nothing that depends on it was sent, and there is no result."
    )
