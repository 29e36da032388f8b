"""Identities and secrets that a seed decides, and who deviates; plain functions, as tables of cases need them."""

import hashlib
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.channel.rounds import Round, Rounds
from ksdp.protocols.channel.wire import pack, unpack

Mail = dict[str, dict[str, bytes]]
"""What arrives: by receiver, then by sender."""
Meddle = Callable[[dict[str, Round], Mail], None]
"""Given what was said, changes what arrives."""


def seeded(seed: str) -> RandomBytes:
    """Bytes that look random and are the same every time."""
    calls = count()
    return lambda n: hashlib.shake_256(f"{seed} {next(calls)}".encode()).digest(n)


def identity(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


def participant(name: str) -> Participant:
    return Participant(name, identity(name).public_key().public_bytes_raw())


def ended_by(nodes: dict[str, Rounds[Any]], meddle: Meddle) -> str:

    def play() -> None:
        spoken = {n: next(node) for n, node in nodes.items()}
        while True:
            mail = {n: {o: spoken[o].messages[n] for o in spoken if o != n} for n in nodes}
            meddle(spoken, mail)
            spoken = {n: node.send(mail[n]) for n, node in nodes.items()}

    with pytest.raises(ProtocolError) as caught:
        play()
    return str(caught.value)


def body_of(message: bytes, body: bytes) -> bytes:
    kind, number, _ = unpack("round", message, 3)
    return pack("round", kind, number, body)


def instead(kind: str, sender: str, receiver: str, body: bytes) -> Meddle:
    """Another body in every message of a kind between these two."""

    def meddle(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken[sender].kind == kind:
            mail[receiver][sender] = body_of(mail[receiver][sender], body)

    return meddle
