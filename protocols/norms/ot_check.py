"""The consistency check of extended oblivious transfers: it catches a receiver whose columns differ.

In the extension (`ot_extension`) the sender's columns must satisfy q_i = t_i + Delta_i r with *one* r for all i. A
receiver that announces u_i with different r_i learns bits of Delta from what the products then show, and with
Delta every mask. So it also tells x = L(r) and y_i = L(t_i), for a hash L that is linear over GF(2) and was
unknown when it announced its columns, and the sender checks L(q_i) = y_i + Delta_i x for every i. Columns that
differ pass only where the receiver has guessed Delta_i: c of them with probability 2^-c, plus less than 2^-100 for
the hash. What is left to it are those c guessed bits.

128 choices that nobody uses, at random, stand before the others: they make x uniform, whatever the others are; y_i
tells the sender nothing more, for it is L(q_i) or L(q_i) + x. L is GHASH, the polynomial hash of AES-GCM: of a
column of n bytes it is the tag of the column as associated data plus the tag of n zeros. Its key is the SHA-256 of
what was announced, taken as a random oracle.

Source: Roy, SoftSpokenOT, https://eprint.iacr.org/2022/192 (universal hashes of columns, and why the check of
Keller, Orsini & Scholl, 2015, was not proved); McGrew & Viega, The Galois/Counter Mode of Operation (GHASH).
"""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

HASH_BYTES = 16
_NONCE = bytes(12)


class ColumnHash:
    """L: columns of one length to 16 bytes each, linear over GF(2).

    Parameters
    ----------
    announced : bytes
        The receiver's columns, which fix it.
    number : int
        Of the extension.
    n_bytes : int
        Length of a column.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.random.default_rng(0).integers(0, 256, (2, 40)).astype(np.uint8)
    >>> of = ColumnHash(b"announced", 0, 40)
    >>> bool((of(a ^ b) == of(a) ^ of(b)).all())
    True
    """

    def __init__(self, announced: bytes, number: int, n_bytes: int) -> None:
        name = b"ksdp ot check 1" + number.to_bytes(8, "big")
        self._cipher = AESGCM(hashlib.sha256(name + announced).digest()[:16])
        self._zero = self._tag(bytes(n_bytes))

    def __call__(self, column: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Of one column."""
        return self._tag(np.ascontiguousarray(column).data) ^ self._zero

    def _tag(self, column: bytes | memoryview) -> NDArray[np.uint8]:
        return np.frombuffer(self._cipher.encrypt(_NONCE, b"", column), dtype=np.uint8)
