"""NormedSecSum: M parties learn s / ||s||, s being the sum of their vectors; nobody learns s or ||s||.

Rounds: (1) every party announces its masked vector; (2) the masked ||S||^2; (3) one round a step of the iteration
of `normed_parameters`; (4) a masked test that it converged; (5) the result. A secret v is held as a public Delta
and shares of lambda, v = Delta - lambda, so that sums, multiples and cuts (each party shifts its own part) are
local and a product costs one opening and shares of products of masks, made before (`normed_material`).

**What is opened, and why it tells nothing.** A mask 2^49 times wider than what
it hides (kappa' = 49) leaves a statistical distance of at most 2^-49. Besides, every message is a share: it holds
a share of a product of masks that is used there only, so that given what is opened the messages of the honest
parties are uniform.

- D_m = X_m - u_m, u_m uniform in the ring: uniform, exactly.
- ||S||^2 + masks: each party's is 2^49 times wider than 2^B: at most 2^-49.
- t g^2 + masks and y g + masks, in every step: the same; fewer than 126 of them.
- P (1 - t) + masks, P secret: the test. The sum is accepted: P (1 - t) is below 2^-49 of a mask. It is refused:
  that is what is learnt, and one value within (2 M + 1) t + 2^-49 of what a sum of zero gives, t <= (64 ||s|| /
  floor)^2: nothing of a sum that is zero on the grid or far below the floor; of one just below it, that it is
  near.
- y S_i + noise: the result. Each party's noise is uniform, of width 2^-(f + 1 + ceil(log2(M + 1))). Without it y
  would be the common divisor of the opened products. How far y is from 1 / ||S|| disappears in it: at most
  2^-(kappa + 4) over all entries.

All together at most 2^-40 (kappa = 40). So a run tells what the ideal functionality tells: s / ||s|| plus that
noise, or that ||s|| is too small. What follows from the result is not hidden: with f = 31 a direction determines
a vector of small integers, and M - 1 parties learn the line that the last one's vector is on
(`NormedSum.reveals`).

**Claim.** Parties that follow the protocol but remember and combine all they see, up to M - 1 of them. With
material from oblivious transfer under the assumptions of `normed_offline`; with a dealer only while it colludes
with nobody. **Not claimed**: anything against parties that deviate, and no protection of timing (Python's
integers). A result whose length is not one within its rounding is refused by every party. That finds nearly all
accidents and clumsy forgeries; a party that means to deviate, and knows how, is believed, as it would be in any
protocol without authenticated shares.

**Accuracy.** Against S / ||S|| of the sum on the grid 2^-f, every entry: 2^-f. Against s / ||s|| of the real
vectors: 2^-f (1 + M sqrt(d) / ||s||) (`NormedSumParameters.error_bound_at`). Sums with ||S|| 2^-f >=
2^-floor_bits are always accepted; a sum that is zero on the grid is always refused.

Source: Tsikhanovich, Magdon-Ismail, Ishaq & Zikas, PD-ML-Lite, https://arxiv.org/abs/1901.07986, Appendix E; the
protocol is another one, with no square root, one scalar iteration and two openings of vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Exchange, Script
from ksdp.protocols.norms.normed_material import NormedMaterial, Offline, check_material
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.wide_ring import Limbs, WideRing

__all__ = ["NormedSum", "encode", "online_script"]


@dataclass(frozen=True, eq=False)
class NormedSum:
    """s / ||s||, and how it came about."""

    values: NDArray[np.float64]
    """Shape (d,), multiples of 2^-f, the same bits at every party."""
    parties: int
    fraction_bits: int
    error_bound: float
    """No entry is further than this from that of the sum on the grid 2^-f."""
    offline: Offline
    """`ot`: no third party; `dealer`: somebody saw all masks, a test."""

    @property
    def reveals(self) -> str:
        """What somebody who took part can compute from it, in plain words."""
        who = "each of the two parties" if self.parties == 2 else f"any {self.parties - 1} of the {self.parties}"
        return f"The direction of the sum, not its length: {who} can tell the line that the last input is on."


def online_script(material: NormedMaterial, vector: ArrayLike) -> Script[NormedSum]:
    """One party's online phase.

    Parameters
    ----------
    material : NormedMaterial
        Of this party; spent by this.
    vector : array_like of shape (d,)
        Its input; norm at most 2^integer_bits / M.

    Raises
    ------
    InputError
        If the vector does not fit; the material is not spent.
    ProtocolError
        If the material was used before.

    Examples
    --------
    >>> from ksdp.protocols.norms.normed_material import deal
    >>> from ksdp.protocols.norms.normed_simulation import deliver
    >>> materials = deal(NormedSumParameters(parties=2, dimension=2))
    >>> results, sent = deliver([online_script(m, v) for m, v in zip(materials, [[1.0, 2.0], [2.0, 2.0]])])
    >>> results[0].values.round(8), results[0].offline
    (array([0.6, 0.8]), 'dealer')
    """
    check_material(material)
    codes = encode(material.parameters, vector)
    material.spend()
    return _script(material, codes)


def encode(parameters: NormedSumParameters, vector: ArrayLike) -> Limbs:
    """A real vector on the grid 2^-f, as residues.

    Raises
    ------
    InputError
        If it is not finite, not of shape (d,), or its norm on the grid exceeds 2^integer_bits / M.
    """
    p = parameters
    values = np.asarray(vector, dtype=np.float64)
    if values.shape != (p.dimension,):
        raise InputError(f"`vector` must have shape ({p.dimension},); got {values.shape}.")
    if not np.isfinite(values).all():
        raise InputError("`vector` must be finite.")
    bound = 2.0**p.integer_bits / p.parties
    too_long = f"`vector` must have a norm of at most 2^{p.integer_bits} / {p.parties} = {bound:g}; it is longer."
    if np.abs(values).max() > bound:
        raise InputError(too_long)
    codes = p.ring.from_int64(np.rint(np.ldexp(values, p.fraction_bits)).astype(np.int64))
    if p.ring.dot(codes, codes) * p.parties**2 > 1 << p.square_bits:
        raise InputError(too_long)
    return codes


def _script(material: NormedMaterial, codes: Limbs) -> Script[NormedSum]:
    p, own, me = material.parameters, material.own, material.party
    ring, first = p.ring, material.party == 0

    masked = ring.subtract(codes, own.vector)
    sent = ring.to_bytes(masked)
    arrived = yield Exchange.broadcast(sent, me, p.parties)
    announced = ring.add(masked, *(ring.from_bytes(arrived[i], p.dimension) for i in sorted(arrived)))

    # x = <D + U, D + U>
    share = 2 * ring.dot(announced, own.vector) + material.square + own.square
    if first:
        share += ring.dot(announced, announced)
    (delta_x,) = yield from _open(p, me, ring, share)

    delta_t, delta_y = delta_x << (p.scalar_bits - p.square_bits), 1 << p.scalar_bits
    for k, step in enumerate(p.steps):
        lam, mu, beta = own.t_part(k), own.y_part(k), step.beta
        delta_g = (step.alpha << p.scalar_bits) - beta * delta_t
        t_share = (
            lam * (2 * beta * delta_t * delta_g - delta_g * delta_g)
            + material.squares[k] * (beta * beta * delta_t - 2 * beta * delta_g)
            - material.cubes[k]
            + own.t[k]
        )
        y_share = beta * delta_y * lam - delta_g * mu - material.crosses[k] + own.y[k]
        if first:  # the added units make every cut round upwards: t and y are never negative
            t_share += delta_t * delta_g * delta_g + (1 << p.t_shift)
            y_share += delta_y * delta_g + (1 << p.y_shift)
        delta_t, delta_y = yield from _open(p, me, p.scalar_ring, t_share, y_share)
        delta_t >>= p.t_shift
        delta_y >>= p.y_shift

    unit = 1 << p.scalar_bits
    test = own.factor * (unit - delta_t) + material.test + own.test + (unit if first else 0)
    (tested,) = yield from _open(p, me, p.scalar_ring, test)
    if tested > (p.parties << p.check_mask_bits) + 2 * unit:
        raise ProtocolError(
            f"The sum is zero, or shorter than 2^-{p.floor}: it has no direction to speak of and was not opened."
        )

    delta = delta_y >> (p.scalar_bits - p.y_bits)
    of_masks = ring.multiply(delta, own.vector)
    of_sum = ring.multiply((delta if first else 0) - own.output_part(), announced)
    mine = ring.combine([of_masks, of_sum, own.noise], [material.product])
    arrived = yield Exchange.broadcast(ring.to_bytes(mine), me, p.parties)
    opened = [ring.from_bytes(arrived[i], p.dimension) for i in sorted(arrived)]
    values = _decode(p, [mine, *opened])
    _check_norm(p, values)
    return NormedSum(values, p.parties, p.fraction_bits, p.error_bound, material.offline)


def _open(p: NormedSumParameters, me: int, ring: WideRing, *shares: int) -> Script[list[int]]:
    """Announce shares and add up everybody's: from 0 to the modulus less one each."""
    own = [share % ring.modulus for share in shares]
    payload = b"".join(share.to_bytes(ring.width, "little") for share in own)
    arrived = yield Exchange.broadcast(payload, me, p.parties)
    totals = own
    for data in arrived.values():
        parts = (int.from_bytes(data[at : at + ring.width], "little") for at in range(0, len(data), ring.width))
        totals = [(total + part) % ring.modulus for total, part in zip(totals, parts, strict=True)]
    return totals


def _check_norm(p: NormedSumParameters, values: NDArray[np.float64]) -> None:
    """A direction has length one: what was changed on the way, or by a party, seldom leaves it so."""
    longest = sqrt(p.dimension) * p.error_bound
    if abs(float(np.linalg.norm(values)) - 1.0) > longest + 1e-12:
        raise ProtocolError(
            "The result has not length one: a message was changed, or a party does not follow the protocol. It is "
            "not used."
        )


def _decode(p: NormedSumParameters, shares: Sequence[Limbs]) -> NDArray[np.float64]:
    cut = p.y_bits + p.integer_bits
    mean_noise = p.parties * ((1 << p.noise_bits) - 1) // 2
    rounding = p.ring.from_ints([(1 << (cut - 1)) - mean_noise])
    codes = p.ring.shifted(p.ring.add(*shares, rounding), cut)
    values: NDArray[np.float64] = np.ldexp(codes.astype(np.float64), -p.fraction_bits)
    return values
