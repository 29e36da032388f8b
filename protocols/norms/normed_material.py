"""What a party holds before a normed sum begins: its own masks, and shares of products of masks.

The own masks are drawn by each party alone. The shares of products come from the parties themselves
(`normed_offline`, by oblivious transfer, `offline="ot"`), or from a dealer who sees every mask (`deal`,
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
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs, WideRing

__all__ = ["NormedMaterial", "Offline", "OwnMasks", "deal"]

Offline = Literal["ot", "dealer"]
"""Where shares of products come from."""


def random_below(bits: int, random_bytes: RandomBytes) -> int:
    """Uniform in [0, 2^bits)."""
    return int.from_bytes(random_bytes(-(-bits // 8)), "little") & ((1 << bits) - 1)


def random_vector(ring: WideRing, length: int, bits: int, random_bytes: RandomBytes) -> Limbs:
    """Entries uniform in [0, 2^bits), of shape (L, length)."""
    values = ring.from_bytes(random_bytes(ring.width * length), length).copy()
    for row in range(ring.limbs):
        values[row] &= (1 << min(max(bits - LIMB_BITS * row, 0), LIMB_BITS)) - 1
    return values


@dataclass(frozen=True, eq=False, repr=False)
class OwnMasks:
    """What one party draws alone; secret to it."""

    parameters: NormedSumParameters
    vector: Limbs
    """u, uniform in the ring, shape (L, d): hides the input."""
    square: int
    """Hides ||S||^2."""
    t: tuple[int, ...]
    """Hide t g^2, one a step."""
    y: tuple[int, ...]
    """Hide y g."""
    factor: int
    """Multiplies 1 - t in the test."""
    test: int
    """Hides that product."""
    noise: Limbs
    """Drowns the low bits of the result, shape (L, d)."""

    @classmethod
    def draw(cls, parameters: NormedSumParameters, random_bytes: RandomBytes = os_random) -> OwnMasks:
        """Fresh ones."""
        p = parameters
        steps = range(len(p.steps))
        return cls(
            p,
            random_vector(p.ring, p.dimension, p.ring.bits, random_bytes),
            random_below(p.square_mask_bits, random_bytes),
            tuple(random_below(p.t_mask_bits, random_bytes) for _ in steps),
            tuple(random_below(p.y_mask_bits, random_bytes) for _ in steps),
            (1 << p.factor_bits) + random_below(p.factor_bits, random_bytes),
            random_below(p.check_mask_bits, random_bytes),
            random_vector(p.ring, p.dimension, p.noise_bits, random_bytes),
        )

    def t_part(self, step: int) -> int:
        """This party's part of lambda, where t = Delta - lambda before a step (or after the last)."""
        p = self.parameters
        if step == 0:
            return self.square << (p.scalar_bits - p.square_bits)
        return self.t[step - 1] >> p.t_shift

    def y_part(self, step: int) -> int:
        """This party's part of mu, where y = Delta - mu; y begins as the public 1."""
        return self.y[step - 1] >> self.parameters.y_shift if step else 0

    def output_part(self) -> int:
        """This party's part of mu for the y that multiplies the vector."""
        p = self.parameters
        return self.y_part(len(p.steps)) >> (p.scalar_bits - p.y_bits)


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
    _spent: list[bool] = field(default_factory=list)

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
    return tuple(
        NormedMaterial(
            p, batch, m, "dealer", own[m], square[m], squares[m], cubes[m], crosses[m], test[m], product[m]
        )
        for m in range(p.parties)
    )


def check_material(material: NormedMaterial) -> None:
    """Refuse material whose shapes do not fit its terms."""
    p, n = material.parameters, len(material.parameters.steps)
    lengths = {len(material.squares), len(material.cubes), len(material.crosses)}
    shape = (p.ring.limbs, p.dimension)
    if lengths != {n} or material.product.shape != shape or material.own.vector.shape != shape:
        raise InputError("The material does not fit its parameters.")
