"""A whole run, one party's side: rounds in which everybody tells every other party one thing.

1. greeting: hashes of the terms, a nonce (`agreement`)
2. statement: cleared or not
3. hello: signed keys of this session, bound to everything said in 1 and 2 (`secure_sum`)
4. where norms are to stay hidden: base transfers (`ot_setup`)
5. sums, as the algorithm asks for them: SecSum, or NormedSecSum (offline phase, then online)
6. result: a hash of what everybody has learnt. Where it differs nobody gets a result.

The rounds are a generator: it yields what is to be sent, is sent what arrived, returns the outcome. Who moves the
messages must bring them unchanged, secret and in order from the party that they are said to come from
(`ksdp.tasks`: TLS between pinned keys): an exact sum can be read by whoever sees all messages.

Any fault ends the run. A generator that has ended cannot be asked again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.protocols.agreement import NONCE_BYTES, Greeting, RunTerms, Statement, session_seed
from ksdp.audit.protocols.keys import Envelope, RandomBytes, os_random
from ksdp.audit.protocols.party_programs import needs_norms
from ksdp.audit.protocols.party_steps import PartyResult, Steps, Wanted
from ksdp.audit.protocols.secure_sum import SumParty
from ksdp.audit.protocols.sum_messages import Contribution, SumTerms, what_follows
from ksdp.audit.protocols.wire import number_of, pack, pack_number, unpack

__all__ = ["Outcome", "Round", "Rounds", "largest_message", "party_rounds", "run_together"]

Bodies = Mapping[str, bytes]
_Message = TypeVar("_Message", Envelope, Contribution)


@dataclass(frozen=True)
class Round:
    """What one party says in one round."""

    number: int
    kind: str
    messages: Mapping[str, bytes]
    """By receiver; one for every other party."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a run that all parties confirmed."""

    result: PartyResult
    session: str
    """Of this run, 64 hex digits; the same at every party."""
    digest: str
    """SHA-256 of the public result; the same at every party."""
    statements: Mapping[str, Statement]
    """On what grounds each party took part."""
    sums: int
    normed_sums: int
    reveals: str
    """What follows from the sums, in plain words."""


Rounds = Generator[Round, Mapping[str, bytes], Outcome]


class _Talk:
    """Numbers the rounds and names them, so that nobody can take one message for another."""

    def __init__(self, name: str, others: Sequence[str]) -> None:
        self.name, self.others = name, tuple(others)
        self._number = 0

    def everybody(self, kind: str, body: bytes) -> Generator[Round, Bodies, dict[str, bytes]]:
        """Tell all the same."""
        return (yield from self._round(kind, dict.fromkeys(self.others, self._packed(kind, body))))

    def exchange(self, kind: str, bodies: Bodies) -> Generator[Round, Bodies, dict[str, bytes]]:
        """Tell each its own."""
        return (yield from self._round(kind, {peer: self._packed(kind, body) for peer, body in bodies.items()}))

    def _packed(self, kind: str, body: bytes) -> bytes:
        return pack("round", kind.encode(), pack_number(self._number), body)

    def _round(self, kind: str, messages: Bodies) -> Generator[Round, Bodies, dict[str, bytes]]:
        arrived = yield Round(self._number, kind, messages)
        found = {}
        for peer in self.others:
            theirs, number, body = unpack("round", arrived[peer], 3)
            if (theirs, number_of(number)) != (kind.encode(), self._number):
                raise ProtocolError(
                    f"{peer} is at another step: the parties drifted apart, or a message was repeated."
                )
            found[peer] = body
        self._number += 1
        return found


def party_rounds(
    terms: RunTerms,
    name: str,
    identity: Ed25519PrivateKey,
    steps: Steps,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
) -> Rounds:
    """One party's side of a run.

    Parameters
    ----------
    terms : RunTerms
        The same at every party.
    name : str
        Which participant this is.
    identity : Ed25519PrivateKey
        Its signing key.
    steps : Steps
        Its side of the algorithm (`party_steps`); not begun before the terms are known to be the same.
    statement : Statement
        On what grounds it takes part.
    random_bytes : callable
        Source of secrets; the operating system's unless a test injects another.

    Raises
    ------
    InputError
        If `name` is no participant, the key is another's, or a share is out of bounds.
    ProtocolError
        If anybody deviates.
    """
    mine = next((p for p in terms.participants if p.name == name), None)
    if mine is None:
        raise InputError(f"{name!r} is not among the parties.")
    if mine.identity != identity.public_key().public_bytes_raw():
        raise InputError(f"the key given is not the one that the parties know {name} by.")
    talk = _Talk(name, [p.name for p in terms.participants if p.name != name])

    nonces = {name: random_bytes(NONCE_BYTES)}
    greeting = Greeting(terms.digest, terms.hashes, nonces[name])
    for peer, body in (yield from talk.everybody("greeting", greeting.to_bytes())).items():
        theirs = Greeting.from_bytes(body)
        theirs.check(terms, peer)
        nonces[peer] = theirs.nonce
    statements = {name: statement}
    for peer, body in (yield from talk.everybody("statement", statement.to_bytes())).items():
        statements[peer] = Statement.from_bytes(body)

    sum_terms = SumTerms(terms.participants, session_seed(terms, nonces, statements))
    party = SumParty(sum_terms, name, identity, random_bytes=random_bytes)
    hellos = yield from talk.everybody("hello", party.hello().to_bytes())
    party.begin(_from_senders(hellos, Envelope.from_bytes))
    normed = None
    if needs_norms(terms.mechanism):
        # Oblivious transfer takes a second to import, which runs with plain sums need not pay.
        from ksdp.audit.protocols.normed_rounds import NormedRounds

        normed = NormedRounds(terms, name, sum_terms.session, talk.exchange, random_bytes)
        yield from normed.begin()

    coding = terms.precision.coding(terms.parties)
    total: NDArray[np.float64] | None = None
    while True:
        try:
            wanted: Wanted = next(steps) if total is None else steps.send(total)
        except StopIteration as stop:
            result: PartyResult = stop.value
            break
        if wanted.normed:
            assert normed is not None
            total = yield from normed.total(wanted.share)
        else:
            contribution = party.contribute(wanted.share, coding)
            arrived = yield from talk.everybody("sum", contribution.to_bytes())
            total = party.combine(_from_senders(arrived, Contribution.from_bytes)).values

    digest = _digest(result, sum_terms.session)
    for peer, body in (yield from talk.everybody("result", digest)).items():
        if body != digest:
            raise ProtocolError(f"{peer} has another result: the run is void.")
    return Outcome(
        result,
        sum_terms.session.hex(),
        _digest(result, b"").hex(),
        dict(sorted(statements.items())),
        party.next_number,
        normed.taken if normed else 0,
        _reveals(party, normed.reveals if normed else "", terms.parties),
    )


def _from_senders(arrived: Bodies, read: Callable[[bytes], _Message]) -> list[_Message]:
    """What arrived, if each message names the party that it came from."""
    messages = {peer: read(body) for peer, body in arrived.items()}
    for peer, message in messages.items():
        if message.sender != peer:
            raise ProtocolError(f"{peer} sent a message of somebody else.")
    return list(messages.values())


def _reveals(party: SumParty, normed: str, parties: int) -> str:
    plain = what_follows(parties) if party.next_number else ""
    return " ".join(text for text in (plain, normed) if text)


def _digest(result: PartyResult, session: bytes) -> bytes:
    arrays = (
        pack("array", name.encode(), repr(array.shape).encode(), np.ascontiguousarray(array, "<f8").tobytes())
        for name, array in sorted(result.public.items())
    )
    return hashlib.sha256(pack("result", session, *arrays)).digest()


def largest_message(terms: RunTerms, entries: int) -> int:
    """No message of a run has more bytes.

    Parameters
    ----------
    terms : RunTerms
    entries : int
        Of the largest sum (`party_programs.sum_entries`).
    """
    plain: int = 8 * entries + 256 * terms.parties + (1 << 16)
    if not needs_norms(terms.mechanism):
        return plain
    from ksdp.audit.protocols.normed_rounds import largest_batch

    return plain + largest_batch(terms)


def run_together(parties: Mapping[str, Rounds]) -> tuple[dict[str, Outcome], list[tuple[str, Round]]]:
    """Run all parties in this process and carry their messages.

    Returns
    -------
    outcomes : dict
        By party.
    said : list of (sender, Round)
        All that was sent, in order: what somebody would see who reads every message.
    """
    said: list[tuple[str, Round]] = []
    outcomes: dict[str, Outcome] = {}
    rounds = {name: next(party) for name, party in parties.items()}
    while rounds:
        said += rounds.items()
        following = {}
        for name, party in parties.items():
            arrived = {sender: spoken.messages[name] for sender, spoken in rounds.items() if sender != name}
            try:
                following[name] = party.send(arrived)
            except StopIteration as stop:
                outcomes[name] = stop.value
        if following and outcomes:
            raise ProtocolError("Some parties are done, others are not: they drifted apart.")
        rounds = following
    return outcomes, said
