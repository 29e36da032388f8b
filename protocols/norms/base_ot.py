"""Base oblivious transfer: 128 pairs of keys for a sender, one key of each pair for a receiver, over edwards25519.

Chou and Orlandi's protocol. The sender draws a and announces A = a B. For a choice c the receiver draws x
uniformly and answers R = x B + c A, which is uniform in the group whatever c is: the sender learns nothing,
without assumption. Keys are k_c = hash(c's point) with points a R (for 0) and a (R - A) (for 1); the receiver
knows the one that equals x A. That it does not know the other: the Diffie-Hellman problem on Curve25519
(computational) with SHA-256 as a random oracle, for parties that follow the protocol. Every key hashes the
session, both names, the number, A and R.

The group is libsodium's, whose operations take the same time for all secrets.

Source: Chou & Orlandi, The simplest protocol for oblivious transfer, https://eprint.iacr.org/2015/267.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from nacl import bindings as sodium
from nacl.exceptions import RuntimeError as NoPoint

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes

KEY_BYTES = 16
_POINT = 32


class BaseSender:
    """Gets both keys of every pair.

    Parameters
    ----------
    label : bytes
        Session and names, the same at both ends, another for every pair and direction.
    random_bytes : callable
        Source of secrets.
    """

    def __init__(self, label: bytes, random_bytes: RandomBytes) -> None:
        self._label = label
        self._scalar = _scalar(random_bytes)
        self.announcement = sodium.crypto_scalarmult_ed25519_base_noclamp(self._scalar)
        """A, 32 bytes."""

    def keys(self, answer: bytes) -> list[tuple[bytes, bytes]]:
        """Both keys of every pair.

        Raises
        ------
        ProtocolError
            If an answer is no point of the group, or is A itself: the second key would be known to everybody.
        """
        pairs = []
        for number in range(-(-len(answer) // _POINT)):
            point = _checked(answer[_POINT * number : _POINT * (number + 1)])
            other = sodium.crypto_core_ed25519_sub(point, self.announcement)
            first, second = (
                _key(self._label, number, self.announcement, point, _times(self._scalar, candidate))
                for candidate in (point, other)
            )
            pairs.append((first, second))
        return pairs


class BaseReceiver:
    """Gets one key of every pair: the one it chose.

    Parameters
    ----------
    label : bytes
        As the sender's.
    announcement : bytes
        A.
    choices : sequence of int
        0 or 1 a pair.
    random_bytes : callable
        Source of secrets.

    Raises
    ------
    ProtocolError
        If the announcement is no point of the group.
    """

    def __init__(
        self, label: bytes, announcement: bytes, choices: Sequence[int], random_bytes: RandomBytes
    ) -> None:
        announced = _checked(announcement)
        answers, keys = [], []
        for number, choice in enumerate(choices):
            x = _scalar(random_bytes)
            point = sodium.crypto_scalarmult_ed25519_base_noclamp(x)
            # Both candidates are made, so that the time does not depend on the choice.
            answer = (point, sodium.crypto_core_ed25519_add(point, announced))[choice]
            answers.append(answer)
            keys.append(_key(label, number, announced, answer, _times(x, announced)))
        self.answer = b"".join(answers)
        """R of every pair, 32 bytes each."""
        self.keys = keys
        """The chosen key of every pair."""


def _scalar(random_bytes: RandomBytes) -> bytes:
    """Of the group's order, 2^-256 from uniform."""
    return sodium.crypto_core_ed25519_scalar_reduce(random_bytes(64))


def _checked(data: bytes) -> bytes:
    """A point as it came, if it is canonical, in the subgroup of prime order and not the neutral one."""
    if len(data) != _POINT or not sodium.crypto_core_ed25519_is_valid_point(data):
        raise ProtocolError("A point of the curve was expected; this is none.")
    return data


def _times(scalar: bytes, point: bytes) -> bytes:
    try:
        return sodium.crypto_scalarmult_ed25519_noclamp(scalar, point)
    except NoPoint:  # the neutral point: nobody who follows the protocol hits it
        raise ProtocolError("A base transfer was answered with a point that gives no key.") from None


def _key(label: bytes, number: int, announcement: bytes, answer: bytes, shared: bytes) -> bytes:
    head = b"ksdp-base-ot-2" + len(label).to_bytes(4, "big") + label + number.to_bytes(4, "big")
    return hashlib.sha256(head + announcement + answer + shared).digest()[:KEY_BYTES]
