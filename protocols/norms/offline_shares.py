"""A party's shares of products of masks while they are being collected, whatever way they are made."""

from __future__ import annotations

from ksdp.protocols.norms.normed_macs import Macs, scalars_of, vectors_of
from ksdp.protocols.norms.normed_material import NormedMaterial, Offline
from ksdp.protocols.norms.own_masks import OwnMasks
from ksdp.protocols.norms.wide_ring import Limbs


class OfflineShares:
    """First a party's own terms, then those with each peer.

    Parameters
    ----------
    own : OwnMasks
        Of this party.
    """

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

    def first(self, squares: list[int], crosses: list[int]) -> None:
        """Take in the shares of one direction with one peer; the last of `squares` is the test's."""
        *squares, test = squares
        self.squares = [a + b for a, b in zip(self.squares, squares, strict=True)]
        self.crosses = [a + b for a, b in zip(self.crosses, crosses, strict=True)]
        self.test += test

    def long(self, vector: Limbs, inner: int) -> None:
        """The same of mu u and of 2 <u, u'>."""
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

    def held(self) -> tuple[list[int], Limbs]:
        """All is collected: the numbers and the vectors that are to carry MACs."""
        for name in ("squares", "cubes", "crosses"):
            setattr(self, name, [value % self.modulus for value in getattr(self, name)])
        self.square, self.test = self.square % self.ring.modulus, self.test % self.modulus
        self.whole = self.ring.add(*self.product)
        scalars = scalars_of(self.own, self.square, self.squares, self.cubes, self.crosses, self.test)
        return scalars, vectors_of(self.own, self.whole)

    def material(self, batch: bytes, party: int, offline: Offline, macs: Macs) -> NormedMaterial:
        """All together."""
        squares, cubes, crosses = tuple(self.squares), tuple(self.cubes), tuple(self.crosses)
        return NormedMaterial(
            self.own.parameters,
            batch,
            party,
            offline,
            self.own,
            self.square,
            squares,
            cubes,
            crosses,
            self.test,
            self.whole,
            macs,
        )
