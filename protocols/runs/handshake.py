"""The first and the last messages of every node in a run, and what it holds at the end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.party_side import PartyResult
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.channel.wire import pack, pack_number
from ksdp.protocols.runs.run_terms import NONCE_BYTES, Greeting, RunTerms, Statement, session_seed
from ksdp.protocols.sums.secure_sum import SumTerms

_Read = TypeVar("_Read")


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """What is known once everybody is known to mean the same run."""

    statements: Mapping[str, Statement]
    sums: SumTerms
    """Of the parties; its `session` is the run's."""


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """The end of a run that all nodes confirmed."""

    result: PartyResult
    session: str
    """Of this run, 64 hex digits; the same at every node."""
    digest: str
    """SHA-256 of the public result; the same at every node."""
    statements: Mapping[str, Statement]
    """On what grounds each node took part."""
    sums: int = 0
    normed_sums: int = 0
    reveals: str = ""
    """What follows from what was announced, in plain words."""
    asked: Mapping[str, int] = field(default_factory=dict)
    """How often what was asked for, where parties add noise."""
    sizes: tuple[int, ...] = ()
    """Rows of every party, in the parties' order, where the mechanism makes them public."""


def check_node(terms: RunTerms, name: str, identity: Ed25519PrivateKey) -> None:
    """Refuse a name that is no node of the run, or a key that is not the one it is known by."""
    mine = next((p for p in terms.nodes if p.name == name), None)
    if mine is None:
        raise InputError(f"{name!r} is not among the parties.")
    if mine.identity != identity.public_key().public_bytes_raw():
        raise InputError(f"the key given is not the one that the parties know {name} by.")


def open_run(
    engine: RoundEngine, terms: RunTerms, statement: Statement, random_bytes: RandomBytes
) -> Rounds[OpenedRun]:
    """Greeting and statements.

    Raises
    ------
    ProtocolError
        If anybody means another run, or states what is not its to state.
    """
    nonces = {engine.name: random_bytes(NONCE_BYTES)}
    greeting = Greeting(terms.digest, terms.hashes, nonces[engine.name])
    for peer, body in (yield from engine.everybody("greeting", greeting.to_bytes())).items():
        theirs = _read(peer, Greeting.from_bytes, body)
        theirs.check(terms, peer)
        nonces[peer] = theirs.nonce
    statements = {engine.name: statement}
    for peer, body in (yield from engine.everybody("statement", statement.to_bytes())).items():
        statements[peer] = _read(peer, Statement.from_bytes, body)
    for peer, said in statements.items():
        if said.collects != (terms.server is not None and peer == terms.server.name):
            raise ProtocolError(f"{peer} takes part as what it is not: the server collects, parties do not.")
    seed = session_seed(terms, nonces, statements)
    return OpenedRun(dict(sorted(statements.items())), SumTerms(terms.participants, seed))


def _read(peer: str, parse: Callable[[bytes], _Read], body: bytes) -> _Read:
    """What a peer said; of what cannot be read, who said it."""
    try:
        return parse(body)
    except ProtocolError as error:
        raise ProtocolError(f"{peer}: {error}") from None


def agree_on_result(
    engine: RoundEngine, session: bytes, public: Mapping[str, NDArray[Any]], sizes: tuple[int, ...] = ()
) -> Rounds[str]:
    """The last round: nobody has a result unless all have the same, and were told the same sizes.

    Returns
    -------
    str
        SHA-256 of the public result.

    Raises
    ------
    ProtocolError
        If anybody has another.
    """
    digest = _digest(public, session, sizes)
    for peer, body in (yield from engine.everybody("result", digest)).items():
        if body != digest:
            raise ProtocolError(f"{peer} has another result: the run is void.")
    return _digest(public, b"", ()).hex()


def _digest(public: Mapping[str, NDArray[Any]], session: bytes, sizes: tuple[int, ...]) -> bytes:
    arrays = (
        pack("array", name.encode(), repr(array.shape).encode(), np.ascontiguousarray(array, "<f8").tobytes())
        for name, array in sorted(public.items())
    )
    agreed = [pack("sizes", *map(pack_number, sizes))] if sizes else []
    return hashlib.sha256(pack("result", session, *agreed, *arrays)).digest()
