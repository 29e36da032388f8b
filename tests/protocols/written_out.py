"""Primitives written out as their standards define them, to compare with: neither fast nor constant in time."""

import hashlib
import hmac

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_REDUCTION = 0xE1 << 120
"""x^128 = 1 + x + x^2 + x^7, in GCM's order of bits."""


def hkdf(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """RFC 5869 with SHA-256, HMAC by HMAC."""
    extracted = hmac.digest(salt or bytes(32), secret, "sha256")
    out = last = b""
    for number in range(1, -(-length // 32) + 1):
        last = hmac.digest(extracted, last + info + bytes([number]), hashlib.sha256)
        out += last
    return out[:length]


def aes(key: bytes, block: bytes) -> bytes:
    """One block: nothing is chained."""
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor().update(block)


def aes_ctr(key: bytes, first: int, length: int, bits: int = 128) -> bytes:
    """The stream of SP 800-38A from a first counter block, of which the last `bits` count."""
    top, low = first >> bits << bits, first % (1 << bits)
    blocks = ((top + (low + at) % (1 << bits)).to_bytes(16, "big") for at in range(-(-length // 16)))
    return b"".join(aes(key, block) for block in blocks)[:length]


def aes_gcm(key: bytes, nonce: bytes, text: bytes, data: bytes) -> bytes:
    """Ciphertext and tag of SP 800-38D, for nonces of twelve bytes; the products bit by bit."""
    first = int.from_bytes(nonce + b"\0\0\0\1", "big")
    sealed = _xor(text, aes_ctr(key, first + 1, len(text), bits=32))
    padded = b"".join(part + bytes(-len(part) % 16) for part in (data, sealed))
    lengths = (8 * len(data)).to_bytes(8, "big") + (8 * len(sealed)).to_bytes(8, "big")
    hashing, total = int.from_bytes(aes(key, bytes(16)), "big"), 0
    for at in range(0, len(padded + lengths), 16):
        total = _product(total ^ int.from_bytes((padded + lengths)[at : at + 16], "big"), hashing)
    return sealed + _xor(total.to_bytes(16, "big"), aes(key, first.to_bytes(16, "big")))


def _product(a: int, b: int) -> int:
    total = 0
    for bit in range(127, -1, -1):
        total ^= b if a >> bit & 1 else 0
        b = b >> 1 ^ (_REDUCTION if b & 1 else 0)
    return total


def _xor(a: bytes, b: bytes) -> bytes:
    return bytes(x ^ y for x, y in zip(a, b, strict=True))
