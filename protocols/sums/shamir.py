"""Shamir's secret sharing: any `threshold` shares give the secret, fewer say nothing about it.

The secret is the value at 0 of a polynomial of degree threshold - 1, modulo the prime 2^521 - 1, whose other
coefficients are random; share i is its value at i. The prime leaves room for 64 bytes. Python's integers: about
a hundred times faster than sharing 16-byte pieces over GF(2^128), as other libraries do.

Not constant in time: whoever can time this process learns something about the numbers.

Source: Shamir (1979), https://doi.org/10.1145/359168.359176.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random

PRIME = (1 << 521) - 1
"""The 13th Mersenne prime."""
MAX_SECRET_BYTES = 64
SHARE_BYTES = 66
"""A share written with a fixed length."""


def split(
    secret: bytes, threshold: int, points: Collection[int], *, random_bytes: RandomBytes = os_random
) -> dict[int, int]:
    """One share for each point.

    Parameters
    ----------
    secret : bytes
        At most 64 bytes.
    threshold : int
        How many shares give the secret back.
    points : collection of int
        Where the polynomial is read: positive, each once, at least `threshold`.
    random_bytes : callable
        Source of the coefficients.

    Returns
    -------
    dict of int to int
        Share by point, in [0, PRIME).

    Examples
    --------
    >>> shares = split(b"secret", 2, [1, 2, 3])
    >>> recover({i: shares[i] for i in (1, 3)}, 6)
    b'secret'
    """
    if len(secret) > MAX_SECRET_BYTES:
        raise InputError(f"`secret` must have at most {MAX_SECRET_BYTES} bytes; got {len(secret)}.")
    _check_points(points)
    if not 1 <= threshold <= len(points):
        raise InputError(f"`threshold` must be 1 to {len(points)}, the number of points; got {threshold}.")
    coefficients = [_random_element(random_bytes) for _ in range(threshold - 1)]
    shares = {}
    for point in points:
        value = 0
        for coefficient in coefficients:  # Horner, from the highest power
            value = (value + coefficient) * point % PRIME
        shares[point] = (value + int.from_bytes(secret, "big")) % PRIME
    return shares


def recover(shares: Mapping[int, int], length: int, weights: Mapping[int, int] | None = None) -> bytes:
    """The secret, from as many shares as the threshold says or more.

    Parameters
    ----------
    shares : mapping of int to int
        Share by point. Fewer than the threshold give something random, or a refusal.
    length : int
        Bytes of the secret.
    weights : mapping of int to int, optional
        `lagrange_at_zero(shares)`, where many secrets are shared at the same points.

    Raises
    ------
    ProtocolError
        If the result has more bytes than the secret: a share is false, or too few are here. A false share that
        changes only low bits is not noticed: compare with what is known of the secret (its public key, its hash).
    """
    weights = lagrange_at_zero(shares) if weights is None else weights
    value = sum(share * weights[point] for point, share in shares.items()) % PRIME
    if value >> (8 * length):
        raise ProtocolError("The shares do not fit together: one is false, or there are too few.")
    return value.to_bytes(length, "big")


def lagrange_at_zero(points: Collection[int]) -> dict[int, int]:
    """Weight of each point: p(0) = sum of weight * p(point), for every polynomial of lower degree than points.

    weight_i = prod_(j != i) j / (j - i) modulo the prime.
    """
    _check_points(points)
    weights = {}
    for i in points:
        above, below = 1, 1
        for j in points:
            if j != i:
                above = above * j % PRIME
                below = below * (j - i) % PRIME
        weights[i] = above * pow(below, -1, PRIME) % PRIME
    return weights


def _check_points(points: Collection[int]) -> None:
    if len(set(points)) != len(points) or not all(0 < p < PRIME for p in points):
        raise InputError("`points` must be positive, each once.")


def _random_element(random_bytes: RandomBytes) -> int:
    """Uniform modulo the prime: 521 random bits, again if they are all ones (which stand for 0 twice)."""
    while True:
        value = int.from_bytes(random_bytes(SHARE_BYTES), "big") & PRIME
        if value != PRIME:
            return value
