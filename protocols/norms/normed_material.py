"""What a party holds before a normed sum begins: its own masks, and shares of products of masks.

The own masks are drawn by each party alone. The shares of products come from the parties themselves
(by oblivious transfer, `normed_offline`, `offline="transfers"`; by lattices, `lattice_offline`,
`offline="lattice"`), or from a dealer who sees every mask (`deal`,
`offline="dealer"`): a dealer learns no input, but together with any one party it learns all of them. It is here
for tests. Every material and every result says which it was.

Material serves **one** sum: two sums under the same masks give their difference away. `spend` refuses the second
use within a process; whoever stores material must delete it before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.norms.normed_macs import Macs, Shares, deal_macs, scalars_of, shares_of, vectors_of
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.own_masks import OwnMasks, random_below, random_vector
from ksdp.protocols.norms.wide_ring import Limbs, WideRing

Offline = Literal["transfers", "lattice", "dealer"]
"""Where shares of products come from."""


@dataclass(frozen=True, eq=False, repr=False)
class NormedMaterial:
    """One party's material for one normed sum. Shares add up over the parties, in the ring named.

    With U the sum of the vector masks, lambda_k and mu_k those of the steps, P the sum of the factors:
    """

    parameters: NormedSumParameters
    batch: bytes
    """32 bytes, the same for all parties; the session of the sum."""
    party: int
    offline: Offline
    own: OwnMasks
    square: int
    """<U, U>; `ring`."""
    squares: tuple[int, ...]
    """lambda_k^2; `scalar_ring`."""
    cubes: tuple[int, ...]
    """beta_k^2 lambda_k^3; `scalar_ring`."""
    crosses: tuple[int, ...]
    """beta_k lambda_k mu_k; `scalar_ring`."""
    test: int
    """P lambda after the last step; `scalar_ring`."""
    product: Limbs
    """mu U for the mu of `OwnMasks.output_part`; `ring`, shape (L, d)."""
    macs: Macs
    """Of all of these and of the masks, with every peer."""
    _spent: list[bool] = field(default_factory=list)

    @property
    def shares(self) -> Shares:
        """Of all that opened values are made of, with their MACs."""
        scalars = scalars_of(self.own, self.square, self.squares, self.cubes, self.crosses, self.test)
        return shares_of(self.own, scalars, vectors_of(self.own, self.product), self.macs)

    def spend(self) -> None:
        """Mark as used.

        Raises
        ------
        ProtocolError
            If it has been used before.
        """
        if self._spent:
            raise ProtocolError("This material has been used: two sums under the same masks give both away.")
        self._spent.append(True)


def deal(parameters: NormedSumParameters, random_bytes: RandomBytes = os_random) -> tuple[NormedMaterial, ...]:
    """Material for all parties from somebody who sees all masks; for tests, and labelled so.

    Parameters
    ----------
    parameters : NormedSumParameters
        The public terms.
    random_bytes : callable, optional
        Source of randomness.
    """
    p, r, q = parameters, parameters.ring, parameters.scalar_ring
    own = [OwnMasks.draw(p, random_bytes) for _ in range(p.parties)]
    total = r.add(*(masks.vector for masks in own))
    steps = range(len(p.steps))
    lam = [sum(masks.t_part(k) for masks in own) for k in range(len(p.steps) + 1)]
    mu = [sum(masks.y_part(k) for masks in own) for k in steps]
    beta = [step.beta for step in p.steps]

    def split(ring: WideRing, value: int) -> list[int]:
        parts = [random_below(ring.bits, random_bytes) for _ in range(p.parties - 1)]
        return [*parts, (value - sum(parts)) % ring.modulus]

    def split_all(values: Sequence[int]) -> list[tuple[int, ...]]:
        return list(zip(*(split(q, value) for value in values), strict=True))

    square = split(r, r.dot(total, total))
    squares = split_all([lam[k] ** 2 for k in steps])
    cubes = split_all([beta[k] ** 2 * lam[k] ** 3 for k in steps])
    crosses = split_all([beta[k] * lam[k] * mu[k] for k in steps])
    test = split(q, sum(masks.factor for masks in own) * lam[-1])
    product = [random_vector(r, p.dimension, r.bits, random_bytes) for _ in range(p.parties - 1)]
    whole = r.multiply(sum(masks.output_part() for masks in own), total)
    product.append(r.combine([whole], product))
    batch = random_bytes(32)

    held = [
        (scalars_of(own[m], square[m], squares[m], cubes[m], crosses[m], test[m]), vectors_of(own[m], product[m]))
        for m in range(p.parties)
    ]
    macs = deal_macs(own, held, random_bytes)
    products = list(zip(square, squares, cubes, crosses, test, product, macs, strict=True))
    return tuple(NormedMaterial(p, batch, m, "dealer", own[m], *products[m]) for m in range(p.parties))


def check_material(material: NormedMaterial) -> None:
    """Refuse material whose shapes do not fit its terms."""
    p, n = material.parameters, len(material.parameters.steps)
    lengths = {len(material.squares), len(material.cubes), len(material.crosses)}
    shape = (p.ring.limbs, p.dimension)
    if lengths != {n} or material.product.shape != shape or material.own.vector.shape != shape:
        raise InputError("The material does not fit its parameters.")
