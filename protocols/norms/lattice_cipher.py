"""Products of one party's secret with another's, by additively homomorphic encryption over a ring (RLWE).

A party encrypts a polynomial m modulo 2^K under its own key s: (b, a) with b + a s = q m / 2^K + e modulo q, where
a is public and nobody's choice (`lattice_ring.uniform`), so that b alone travels. Whoever holds a polynomial x of
integers answers with

    (b', a') = sum x (b, a)  +  v (b0, a0) + (e0, e1)  +  (q r / 2^K + F, 0),

(b0, a0) being the encryption of zero that is the other's public key. b' + a' s is q (x m + r) / 2^K and noise:
the holder of s gets x m + r modulo 2^K, the other keeps -r. What wraps modulo 2^K costs no noise, as q / 2^K times
2^K is q. Of b' only coefficients that are wanted are told, and all is cut to 2^(K + 16), which is public and takes
a quarter of the room that noise has.

**What the holder of s sees of x.** Everything it sees follows from a' and from b' + a' s. (1) The noise but F is
x e + (e of b0) v + e0 + e1 s and roundings, at most `ProductTerms.noise` in size *whatever* x, v, e0 and e1 are;
F is uniform and so much wider (flooding) that what is told, with F, is within noise / 2^flood_bits a coefficient
of what it would be with F alone. So then b' + a' s tells x m + r, and r is uniform. (2) a' is x a + v a0 + e1, and
v appears nowhere else: RLWE with the secret v says that v a0 + e1 looks uniform. Without it a' = x a would give x
away, as a is known.

**What the other sees of m**: encryptions under s, that is RLWE samples of the secret s.

**Claim**, for holders of s that follow the protocol. One that encrypts with larger errors than it should widens
the noise until F does not cover it, and reads x there: nothing finds that out (oblivious transfer, with its check,
is the default for that reason). The other can answer with anything; it learns nothing from that here, and a bit
about s where a run ends for it.

Security: N = 16,384 and q < 2^420 with secrets uniform in {-1, 0, 1} and errors of deviation 3.2 have at least
128 bits against the classical attacks known, for which 438 bits of q are allowed.

Source: Fan & Vercauteren, Somewhat practical fully homomorphic encryption, https://eprint.iacr.org/2012/144; Baum,
Escudero, Pedrouzo-Ulloa, Scholl & Troncoso-Pastoriza, Efficient protocols for oblivious linear function evaluation
from ring-LWE, https://eprint.iacr.org/2020/970; Gentry, A fully homomorphic encryption scheme, 2009 (flooding);
Albrecht et al., Homomorphic Encryption Standard, 2018, https://eprint.iacr.org/2019/939, Table 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.norms.lattice_ring import (
    DEGREE,
    MODULUS,
    Residues,
    constants,
    forward,
    integers,
    inverse,
    lowered,
    raised,
    shifted,
    small,
    times,
    total,
    uniform,
)
from ksdp.protocols.norms.normed_parameters import KAPPA
from ksdp.protocols.norms.own_masks import random_vector
from ksdp.protocols.norms.wide_ring import LIMB_BITS, Limbs, WideRing

LARGEST_MODULUS_BITS = 438
"""Of q for N = 16,384, ternary secrets and 128 bits of security (Homomorphic Encryption Standard, Table 1)."""
_ERROR = 21
"""Errors are differences of two counts of so many fair coins: at most this in size, deviation sqrt(21 / 2)."""
_CIPHER = WideRing(26)
"""Of b as it travels: q is below 2^420, so that it loses less than four bits, no more than the error has."""
CIPHER_BYTES = _CIPHER.width * DEGREE
"""Of one encryption, and of a public key."""
_CUT = 1
"""Limbs to which an answer is kept beyond those of its message."""
_FRESH = _ERROR + 1 + -(-MODULUS // (2 * _CIPHER.modulus)) + 1
"""An encryption's error is at most this: its own, roundings, what was cut for the way."""
_RERANDOMISED = _FRESH * DEGREE + _ERROR * (DEGREE + 1) + 2
"""Noise of v (b0, a0) + (e0, e1), at most: no coefficient of v and s is larger than 1."""
_FLOOD = KAPPA + 4
"""All that is told of one kind, in one sum and by all parties, is within 2^-44 of telling nothing."""


@dataclass(frozen=True)
class ProductTerms:
    """One kind of products, and the room for its noise.

    Parameters
    ----------
    limbs : int
        K / 16.
    factor_limbs : int
        Of every coefficient of x, which is from 0 to 2^(16 factor_limbs) - 1.
    terms : int
        Coefficients of x that are not zero, at most, over all encryptions that one answer adds up.
    told : int
        Coefficients of answers of this kind in one sum, over all pairs of parties.
    parts : int
        x is cut into so many parts, each against an encryption of its own, of m times the part's weight: the noise
        is that of a part.
    """

    limbs: int
    factor_limbs: int
    terms: int
    told: int
    parts: int = 1

    @property
    def part_limbs(self) -> int:
        """Of a part of x."""
        return -(-self.factor_limbs // self.parts)

    @property
    def noise(self) -> int:
        """No coefficient of an answer has more, F aside."""
        return (self.parts * self.terms * _FRESH << LIMB_BITS * self.part_limbs) + _RERANDOMISED

    @property
    def flood_bits(self) -> int:
        """F is uniform from -2^(this - 1) to 2^(this - 1) - 1."""
        return self.noise.bit_length() + _FLOOD + self.told.bit_length()

    @property
    def fits(self) -> bool:
        """Whether every answer is read as it was meant.

        Noise has room for q / 2^(K + 1). Half of that is for the noise with F, a quarter goes to what is cut:
        (N + 1) / 2 of 2^16.
        """
        return self.noise + (1 << self.flood_bits - 1) << LIMB_BITS * self.limbs + 2 <= MODULUS

    def answer_bytes(self, count: int) -> int:
        """Of an answer of so many coefficients."""
        return WideRing(self.limbs + _CUT).width * (count + DEGREE)

    def cut(self, factors: Limbs) -> list[Residues]:
        """The parts of x as coefficients, shape (14, n) each; of an integer (L, 1) as constants."""
        step = self.part_limbs
        return [integers(factors[at : at + step]) for at in range(0, step * self.parts, step)]

    def weighted(self, message: Limbs) -> list[Limbs]:
        """m times the weight of every part, modulo 2^K."""
        shifted = []
        for part in range(self.parts):
            kept = np.zeros((self.limbs, message.shape[1]), dtype=np.uint16)
            low = message[: max(self.limbs - part * self.part_limbs, 0)]
            kept[part * self.part_limbs : part * self.part_limbs + len(low)] = low
            shifted.append(kept)
        return shifted


@dataclass(frozen=True, eq=False, repr=False)
class Cipher:
    """An encryption, as values at the roots; a public key is one of zero."""

    body: Residues
    """b."""
    mask: Residues
    """a."""

    @classmethod
    def from_bytes(cls, data: bytes, label: bytes) -> Cipher:
        """What `Secret.encrypt` made under this label; any such number of bytes is one."""
        return cls(forward(raised(_CIPHER.from_bytes(data, DEGREE))), uniform(label))


class Secret:
    """One party's key.

    Parameters
    ----------
    random_bytes : callable
        Source of secrets.
    """

    def __init__(self, random_bytes: RandomBytes) -> None:
        self._key = forward(small(_ternary(random_bytes)))
        self._random_bytes = random_bytes

    def encrypt(self, label: bytes, message: Limbs | None = None) -> bytes:
        """b of a polynomial, its coefficients of shape (L, n); of zero unless given.

        Parameters
        ----------
        label : bytes
            Says what a is: never twice with one key.
        message : Limbs, optional
            Modulo 2^(16 L).
        """
        hidden = inverse(times(times(uniform(label), self._key), constants(-1)))
        body = [hidden, small(_errors(self._random_bytes)), *([] if message is None else [raised(message)])]
        return _CIPHER.to_bytes(lowered(total(body), _CIPHER.limbs))

    def decrypt(self, data: bytes, limbs: int, count: int) -> Limbs:
        """x m + r of an answer, shape (L, count)."""
        ring = WideRing(limbs + _CUT)
        body = ring.from_bytes(data[: ring.width * count], count)
        mask = ring.from_bytes(data[ring.width * count :], DEGREE)
        product = inverse(times(forward(raised(mask)), self._key))[:, :count]
        return lowered(total([raised(body), product]), limbs)


def answer(
    zero: Cipher,
    products: Iterable[tuple[Cipher, Residues]],
    masks: Limbs,
    terms: ProductTerms,
    random_bytes: RandomBytes,
) -> bytes:
    """The first coefficients of a sum of products, masked.

    Parameters
    ----------
    zero : Cipher
        Public key of whoever encrypted.
    products : iterable of (Cipher, Residues)
        Encryptions, each with x at the roots, or a constant.
    masks : Limbs
        r, shape (K / 16, coefficients to tell).
    terms : ProductTerms
        Of these products.
    random_bytes : callable
        Source of secrets.
    """
    body, mask = _hidden(zero, products, masks, terms, random_bytes)
    told = WideRing(terms.limbs + _CUT)
    return told.to_bytes(lowered(body, told.limbs)) + told.to_bytes(lowered(mask, told.limbs))


def _hidden(
    zero: Cipher,
    products: Iterable[tuple[Cipher, Residues]],
    masks: Limbs,
    terms: ProductTerms,
    random_bytes: RandomBytes,
) -> tuple[Residues, Residues]:
    """b' and a' before they are cut."""
    v, count = forward(small(_ternary(random_bytes))), masks.shape[1]
    bodies, hidden = [times(zero.body, v)], [times(zero.mask, v)]
    for cipher, factor in products:
        bodies.append(times(cipher.body, factor))
        hidden.append(times(cipher.mask, factor))
    wide = random_vector(WideRing.of_bits(terms.flood_bits), count, terms.flood_bits, random_bytes)
    flood = shifted(integers(wide), -(1 << terms.flood_bits - 1))
    errors = small(_errors(random_bytes)[:count])
    body = total([inverse(total(bodies))[:, :count], errors, raised(masks), flood])
    return body, total([inverse(total(hidden)), small(_errors(random_bytes))])


def _ternary(random_bytes: RandomBytes) -> NDArray[np.int64]:
    """Uniform in {-1, 0, 1}, each to 2^-62."""
    words = np.frombuffer(random_bytes(8 * DEGREE), dtype="<u8")
    return (words % 3).astype(np.int64) - 1


def _errors(random_bytes: RandomBytes) -> NDArray[np.int64]:
    """Centred binomial."""
    words, coins = np.frombuffer(random_bytes(8 * DEGREE), dtype="<u8"), np.uint64((1 << _ERROR) - 1)
    first, second = words & coins, (words >> np.uint64(_ERROR)) & coins
    errors: NDArray[np.int64] = np.bitwise_count(first).astype(np.int64) - np.bitwise_count(second)
    return errors
