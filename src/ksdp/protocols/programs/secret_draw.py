"""Which of a party's documents enter its runs, where every party enters a secret draw of them.

Whoever compares the runs of a party that holds x with those of one that holds another document in its place sees
two different laws only where the draw took that place. So whatever is announced, an advantage about what is *held*
is at most the share drawn times the advantage about what is *in the run*: exact, for every attack, as long as
nobody learns the draw.

A document is in or out for good, by a keyed hash of its id: all runs of one key together tell no more of who is
held than the share drawn. A renewed key is another draw, and adds its share.

Reference: Balle, Barthe & Gaboardi, "Privacy amplification by subsampling" (2018), https://arxiv.org/abs/1807.01647;
here for the total variation.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

_BYTES = 8


def secret_draw(identity: Ed25519PrivateKey, units: Iterable[str], share: float) -> NDArray[np.bool_]:
    """Whether each unit enters, shape (n_units,): independently of all others, each with probability `share`."""
    key = HKDF(SHA256(), 32, salt=None, info=b"ksdp-secret-draw-1").derive(identity.private_bytes_raw())
    below = round(share * 2 ** (8 * _BYTES))
    return np.array([_number(key, unit) < below for unit in units], dtype=np.bool_)


def _number(key: bytes, unit: str) -> int:
    digest = hmac.digest(key, unit.encode("utf-8", "surrogatepass"), hashlib.sha256)
    return int.from_bytes(digest[:_BYTES], "big")
