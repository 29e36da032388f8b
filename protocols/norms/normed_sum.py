"""NormedSecSum: M parties learn s / ||s||, s being the sum of their vectors; nobody learns s or ||s||.

Rounds: (1) every party announces its masked vector; (2) the masked ||S||^2; (3) one round a step of the iteration
of `normed_parameters`; (4) a masked test that it converged; (5) a hash of all that was announced so far: the same
at all, or the run ends; (6) the result; (7) a hash of that. A secret v is held as a public Delta and shares of
lambda, v = Delta - lambda, so that sums, multiples and cuts (each party shifts its own part) are local and a
product costs one opening and shares of products of masks, made before (`normed_material`).

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
with nobody.

**What is noticed beyond that.** A party that tells some parties another thing than others, or a message changed on
its way: before the result is opened (the result itself: before it is used), unless SHA-256 collides. Choices of
transfers that do not hold together: `ot_check`. A result whose length is not one within its rounding: refused by
every party, but it has been opened then.

**Not claimed.** A party that tells *all* the same false share can change the result (nearly always noticed by its
length), and who shifts the masked square by a number of its own learns ||S|| from a result that all refuse. Only
authenticated shares (a MAC on each, at about three times the transfers) would keep that from being opened. No
protection of timing (Python's integers).

**Accuracy.** Against S / ||S|| of the sum on the grid 2^-f, every entry: 2^-f. Against s / ||s|| of the real
vectors: 2^-f (1 + M sqrt(d) / ||s||) (`NormedSumParameters.error_bound_at`). Sums with ||S|| 2^-f >=
2^-floor_bits are always accepted; a sum that is zero on the grid is always refused.

Source: Tsikhanovich, Magdon-Ismail, Ishaq & Zikas, PD-ML-Lite, https://arxiv.org/abs/1901.07986, Appendix E; the
protocol is another one, with no square root, one scalar iteration and two openings of vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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


class _Announced:
    """All that everybody was told, in order, as this party knows it."""

    def __init__(self, me: int, parties: int) -> None:
        self._me, self._parties = me, parties
        self._told = hashlib.sha256()

    def broadcast(self, payload: bytes) -> Script[dict[int, bytes]]:
        """Tell all the same; what all told, by place."""
        arrived = yield Exchange.broadcast(payload, self._me, self._parties)
        everybody = {**arrived, self._me: payload}
        for place in sorted(everybody):
            self._told.update(everybody[place])
        return everybody

    def compare(self) -> Script[None]:
        """Everybody must have been told the same so far."""
        own = self._told.digest()
        arrived: Mapping[int, bytes] = yield Exchange.broadcast(own, self._me, self._parties)
        if any(theirs != own for theirs in arrived.values()):
            raise ProtocolError(
                "The parties were not told the same: a message was changed, or a party told two things. "
                "The result is not used."
            )


def _script(material: NormedMaterial, codes: Limbs) -> Script[NormedSum]:
    p, own = material.parameters, material.own
    ring, first, told = p.ring, material.party == 0, _Announced(material.party, p.parties)

    vectors = yield from told.broadcast(ring.to_bytes(ring.subtract(codes, own.vector)))
    announced = ring.add(*(ring.from_bytes(vectors[i], p.dimension) for i in sorted(vectors)))

    # x = <D + U, D + U>
    share = 2 * ring.dot(announced, own.vector) + material.square + own.square
    if first:
        share += ring.dot(announced, announced)
    (delta_x,) = yield from _open(told, ring, share)

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
        delta_t, delta_y = yield from _open(told, p.scalar_ring, t_share, y_share)
        delta_t >>= p.t_shift
        delta_y >>= p.y_shift

    unit = 1 << p.scalar_bits
    test = own.factor * (unit - delta_t) + material.test + own.test + (unit if first else 0)
    (tested,) = yield from _open(told, p.scalar_ring, test)
    yield from told.compare()
    if tested > (p.parties << p.check_mask_bits) + 2 * unit:
        raise ProtocolError(
            f"The sum is zero, or shorter than 2^-{p.floor}: it has no direction to speak of and was not opened."
        )

    delta = delta_y >> (p.scalar_bits - p.y_bits)
    of_masks = ring.multiply(delta, own.vector)
    of_sum = ring.multiply((delta if first else 0) - own.output_part(), announced)
    mine = ring.combine([of_masks, of_sum, own.noise], [material.product])
    opened = yield from told.broadcast(ring.to_bytes(mine))
    yield from told.compare()
    values = _decode(p, [ring.from_bytes(opened[i], p.dimension) for i in sorted(opened)])
    _check_norm(p, values)
    return NormedSum(values, p.parties, p.fraction_bits, p.error_bound, material.offline)


def _open(told: _Announced, ring: WideRing, *shares: int) -> Script[list[int]]:
    """Announce shares and add up everybody's: from 0 to the modulus less one each."""
    payload = b"".join((share % ring.modulus).to_bytes(ring.width, "little") for share in shares)
    everybody = yield from told.broadcast(payload)
    totals = [0] * len(shares)
    for data in everybody.values():
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
