"""What each party of a normed sum draws for itself: masks for everything that is opened, and its MAC key."""

from __future__ import annotations

from dataclasses import dataclass

from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.norms.normed_parameters import MAC_BITS, NormedSumParameters
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs, WideRing


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
    key: int
    """Of the MACs of all others' shares, MAC_BITS bits."""
    high: tuple[int, ...]
    """Hide what shares carry above the ring, one for every scalar that is opened: MAC_BITS bits each."""
    high_result: Limbs
    """The same for the result, shape (limbs of a MAC's key, d)."""

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
            random_below(MAC_BITS, random_bytes),
            tuple(random_below(MAC_BITS, random_bytes) for _ in range(2 * len(p.steps) + 2)),
            random_vector(WideRing.of_bits(MAC_BITS), p.dimension, MAC_BITS, random_bytes),
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
