"""NormedSecSum: M parties learn s / ||s||, s being the sum of their vectors; nobody learns s or ||s||.

Rounds: (1) every party announces its masked vector; (2) a hash of all of these: the same at all, or the run ends;
(3) the masked ||S||^2; (4) one round a step of the iteration of `normed_parameters`; (5) a masked test that it
converged; (6) the result. A secret v is held as a public Delta and shares of lambda, v = Delta - lambda, so that
sums, multiples and cuts (each party shifts its own part) are local and a product costs one opening and shares of
products of masks, made before (`normed_material`). From (3) on every share is told with a MAC for the one that
hears it (`authenticated`), who looks at it before saying anything more.

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
material from oblivious transfer under the assumptions of `normed_offline`, by lattices under those of
`lattice_offline`; with a dealer only while it colludes with nobody.

**Parties that lie from here on.** With material as it should be and an input of at most the length agreed on, a
party can tell nobody a false share, in no round, but with probability 2^-48 a share: who hears it ends the run,
names it, and tells nothing that depends on it. So no wrong result is accepted, none is seen but a false share of
the last round (who tells it has the true one: the others are refused it), and nothing that the false share would
have unmasked is told. Two parties that were told different inputs end before anything is opened.

**Trusted.** That a party followed the *offline* phase: products of masks that it spoilt carry right MACs; their
result has nearly always another length than one, and is then refused, after it was seen. That an input is at most
as long as agreed: a longer one by 2^49 and more is no longer masked by what hides ||S||^2. No protection of timing
(Python's integers).

**Accuracy.** Against S / ||S|| of the sum on the grid 2^-f, every entry: 2^-f. Against s / ||s|| of the real
vectors: 2^-f (1 + M sqrt(d) / ||s||) (`NormedSumParameters.error_bound_at`). Sums with ||S|| 2^-f >=
2^-floor_bits are always accepted; a sum that is zero on the grid is always refused.

Source: Tsikhanovich, Magdon-Ismail, Ishaq & Zikas, PD-ML-Lite, https://arxiv.org/abs/1901.07986, Appendix E; the
protocol is another one, with no square root, one scalar iteration and two openings of vectors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.rounds import Exchange, Script
from ksdp.protocols.norms.authenticated import Holder, VectorShare
from ksdp.protocols.norms.normed_macs import cut_of_y
from ksdp.protocols.norms.normed_material import NormedMaterial, Offline, check_material
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.wide_ring import Limbs

PREPARED_BY_LATTICES = (
    "The masks were prepared by lattices: a party that deviated there can have read them, and the others' shares "
    "with them, and nothing shows it."
)


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
    """`transfers`, `lattice`: no third party; `dealer`: somebody saw all masks, a test."""

    @property
    def reveals(self) -> str:
        """What somebody who took part can compute from it, in plain words."""
        who = "each of the two parties" if self.parties == 2 else f"any {self.parties - 1} of the {self.parties}"
        line = f"The direction of the sum, not its length: {who} can tell the line that the last input is on."
        return f"{line} {PREPARED_BY_LATTICES}" if self.offline == "lattice" else line


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
    p, own, shares = material.parameters, material.own, material.shares
    ring, wide, scalar = p.ring, p.checked_ring, p.checked_scalar_ring
    holder = Holder(material.party, p.parties, own.key)

    vectors = yield from _tell(material, ring.to_bytes(ring.subtract(codes, own.vector)))
    yield from _compare(material, vectors)
    announced = wide.widened(ring.add(*(ring.from_bytes(data, p.dimension) for data in vectors.values())))

    # x = <D + U, D + U>
    square = 2 * shares.vector.dot(announced) + shares.square + shares.square_mask
    (opened_x,) = yield from holder.open(wide, square + holder.public(wide.dot(announced, announced)))
    delta_x, shift = opened_x % ring.modulus, p.scalar_bits - p.square_bits

    lam, mu = (1 << shift) * shares.square_mask, holder.public(0)
    delta_t, delta_y = delta_x << shift, 1 << p.scalar_bits
    for k, (constants, step) in enumerate(zip(p.steps, shares.steps, strict=True)):
        beta = constants.beta
        delta_g = (constants.alpha << p.scalar_bits) - beta * delta_t
        t = (
            (2 * beta * delta_t * delta_g - delta_g * delta_g) * lam
            + (beta * beta * delta_t - 2 * beta * delta_g) * step.squares
            - step.cubes
            + (1 << p.t_shift) * step.t_high
            + step.t_low
            # the added unit makes every cut round upwards: t and y are never negative
            + holder.public(delta_t * delta_g * delta_g + (1 << p.t_shift))
        )
        y = (
            beta * delta_y * lam
            - delta_g * mu
            - step.crosses
            + (1 << cut_of_y(p, k)) * step.y_high
            + step.y_low
            + holder.public(delta_y * delta_g + (1 << p.y_shift))
        )
        opened_t, opened_y = yield from holder.open(scalar, t, y)
        delta_t = opened_t % p.scalar_ring.modulus >> p.t_shift
        delta_y = opened_y % p.scalar_ring.modulus >> p.y_shift
        lam, mu = step.t_high, step.y_high

    unit = 1 << p.scalar_bits
    test = (unit - delta_t) * shares.factor + shares.test + shares.test_mask + holder.public(unit)
    (opened_test,) = yield from holder.open(scalar, test)
    if opened_test % p.scalar_ring.modulus > (p.parties << p.check_mask_bits) + 2 * unit:
        raise ProtocolError(
            f"The sum is zero, or shorter than 2^-{p.floor}: it has no direction to speak of and was not opened."
        )

    delta = delta_y >> (p.scalar_bits - p.y_bits)
    of_sum = VectorShare.spread(wide, holder.public(delta) - mu, announced)
    result = yield from holder.open_vector(delta * shares.vector + of_sum - shares.tail)
    values = _decode(p, result[: ring.limbs])
    _check_norm(p, values)
    return NormedSum(values, p.parties, p.fraction_bits, p.error_bound, material.offline)


def _tell(material: NormedMaterial, payload: bytes) -> Script[dict[int, bytes]]:
    """Tell all the same; what everybody told, by place."""
    arrived = yield Exchange.broadcast(payload, material.party, material.parameters.parties)
    return {**arrived, material.party: payload}


def _compare(material: NormedMaterial, vectors: Mapping[int, bytes]) -> Script[None]:
    """Nobody may have told two parties different inputs: what is opened next would not be masked."""
    own = hashlib.sha256(material.batch + b"".join(vectors[place] for place in sorted(vectors))).digest()
    arrived = yield from _tell(material, own)
    if any(theirs != own for theirs in arrived.values()):
        raise ProtocolError(
            "The parties received different inputs: a message was changed, or a party sent two versions. Nothing "
            "was computed from it."
        )


def _check_norm(p: NormedSumParameters, values: NDArray[np.float64]) -> None:
    """A direction has length one: what was changed on the way, or by a party, seldom leaves it so."""
    longest = sqrt(p.dimension) * p.error_bound
    if abs(float(np.linalg.norm(values)) - 1.0) > longest + 1e-12:
        raise ProtocolError(
            "The result has not length one: a message was changed, or a party does not follow the protocol. It is "
            "not used."
        )


def _decode(p: NormedSumParameters, opened: Limbs) -> NDArray[np.float64]:
    cut = p.y_bits + p.integer_bits
    mean_noise = p.parties * ((1 << p.noise_bits) - 1) // 2
    rounding = p.ring.from_ints([(1 << (cut - 1)) - mean_noise])
    codes = p.ring.shifted(p.ring.add(opened, rounding), cut)
    values: NDArray[np.float64] = np.ldexp(codes.astype(np.float64), -p.fraction_bits)
    return values
