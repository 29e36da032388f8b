"""Identities and secrets that a seed decides, for tests; plain functions, because tables of cases need them."""

from __future__ import annotations

import hashlib
from itertools import count

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.keys import Participant


def seeded(seed: str) -> RandomBytes:
    """Bytes that look random and are the same every time."""
    calls = count()
    return lambda n: hashlib.shake_256(f"{seed} {next(calls)}".encode()).digest(n)


def identity(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def participant(name: str) -> Participant:
    return Participant(name, identity(name).public_key().public_bytes_raw())
