"""Base oblivious transfer: 128 pairs of keys for a sender, one key of each pair for a receiver, over edwards25519.

Chou and Orlandi's protocol. The sender draws a and announces A = a B. For a choice c the receiver draws x
uniformly and answers R = x B + c A, which is uniform in the group whatever c is: the sender learns nothing,
without assumption. Keys are k_c = hash(c's point) with points a R (for 0) and a (R - A) (for 1); the receiver
knows the one that equals x A. That it does not know the other: the Diffie-Hellman problem on Curve25519
(computational) with SHA-256 as a random oracle, for parties that follow the protocol. Every key hashes the
session, both names, the number, A and R.

Source: Chou & Orlandi, The simplest protocol for oblivious transfer, https://eprint.iacr.org/2015/267.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.norms.edwards import ORDER, Table, add, base_table, decode, encode, montgomery_u, negate

__all__ = ["KEY_BYTES", "BaseReceiver", "BaseSender"]

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
        seed = random_bytes(32)
        self._label = label
        self.announcement = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
        """A, 32 bytes."""
        # RFC 8032: the scalar of the public key is the first half of this hash, clamped as X25519 clamps
        self._scalar = X25519PrivateKey.from_private_bytes(hashlib.sha512(seed).digest()[:32])

    def keys(self, answer: bytes) -> list[tuple[bytes, bytes]]:
        """Both keys of every pair.

        Raises
        ------
        ProtocolError
            If an answer is no point of the group.
        """
        minus = negate(decode(self.announcement))
        pairs = []
        for number in range(len(answer) // _POINT):
            encoded = answer[_POINT * number : _POINT * (number + 1)]
            point = decode(encoded, prime_order=False)  # X25519 multiplies by the cofactor
            made = []
            for candidate in (point, add(point, minus)):
                try:
                    shared = self._scalar.exchange(X25519PublicKey.from_public_bytes(montgomery_u(candidate)))
                except ValueError:  # R = A or R = 0: nobody who follows the protocol hits it
                    raise ProtocolError("A base transfer was answered with a point that gives no key.") from None
                made.append(_key(self._label, number, self.announcement, encoded, shared))
            pairs.append((made[0], made[1]))
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
        point = decode(announcement)
        table = Table(point)
        answers, keys = [], []
        for number, choice in enumerate(choices):
            x = int.from_bytes(random_bytes(64), "little") % ORDER  # 2^-256 from uniform
            answer = base_table().times(x)
            encoded = encode(add(answer, point) if choice else answer)
            answers.append(encoded)
            keys.append(_key(label, number, announcement, encoded, montgomery_u(table.times(x))))
        self.answer = b"".join(answers)
        """R of every pair, 32 bytes each."""
        self.keys = keys
        """The chosen key of every pair."""


def _key(label: bytes, number: int, announcement: bytes, answer: bytes, shared: bytes) -> bytes:
    head = b"ksdp-base-ot-1" + len(label).to_bytes(4, "big") + label + number.to_bytes(4, "big")
    return hashlib.sha256(head + announcement + answer + shared).digest()[:KEY_BYTES]
