"""A whole run, one party's side: rounds in which everybody tells every other node one thing.

1. greeting: hashes of the terms, a nonce (`agreement`)
2. statement: cleared or not
3. hello: signed keys of this session, bound to everything said in 1 and 2 (`secure_sum`)
4. where norms are to stay hidden: base transfers (`ot_setup`)
5. sums, as the algorithm asks for them: SecSum, or NormedSecSum (offline phase, then online); what a mechanism
   with noise asks for is in `noisy_rounds`, the server's side in `server_rounds`
6. result: a hash of what everybody has learnt. Where it differs nobody gets a result.

The rounds are a generator: it yields what is to be sent, is sent what arrived, returns the outcome. Who moves the
messages must bring them unchanged, secret and in order from the party that they are said to come from
(`ksdp.tasks`: TLS between pinned keys): an exact sum can be read by whoever sees all messages.

Any fault ends the run. A generator that has ended cannot be asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.party_side import Asks
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.runs.agreement import RunTerms, Statement
from ksdp.protocols.runs.exchange import Hops, Round, Talk
from ksdp.protocols.runs.node import Opened, Outcome, Rounds, agree_on_result, check_node, open_run
from ksdp.protocols.runs.noisy_programs import is_noisy
from ksdp.protocols.runs.noisy_rounds import NoisyRounds
from ksdp.protocols.runs.own_noise import NoiseSource, vetted_noise
from ksdp.protocols.runs.party_programs import needs_norms
from ksdp.protocols.runs.party_steps import PartyResult, Steps, Wanted
from ksdp.protocols.runs.sum_rounds import SumRounds
from ksdp.protocols.sums.sum_messages import what_follows

__all__ = ["largest_message", "party_rounds", "run_together"]


def party_rounds(
    terms: RunTerms,
    name: str,
    identity: Ed25519PrivateKey,
    steps: Steps | Asks,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
    noise: NoiseSource = vetted_noise,
) -> Rounds:
    """One party's side of a run.

    Parameters
    ----------
    terms : RunTerms
        The same at every node.
    name : str
        Which participant this is.
    identity : Ed25519PrivateKey
        Its signing key.
    steps : Steps or Asks
        Its side of the algorithm (`party_steps`); not begun before the terms are known to be the same.
    statement : Statement
        On what grounds it takes part.
    random_bytes : callable
        Source of secrets; the operating system's unless a test injects another.
    noise : callable
        Source of noise, where the mechanism has some; the vetted sampler unless a test injects another.

    Raises
    ------
    InputError
        If `name` is no participant, the key is another's, or a share is out of bounds.
    ProtocolError
        If anybody deviates.
    """
    check_node(terms, name, identity)
    if terms.server is not None and name == terms.server.name:
        raise InputError(f"{name} is the server, which has no side of the algorithm.")
    talk = Talk(name, terms.others(name))
    opened = yield from open_run(talk, terms, statement, random_bytes)
    sums = SumRounds(terms, opened.sums, talk, identity, random_bytes)
    yield from sums.begin()
    if is_noisy(terms.mechanism):
        noisy = NoisyRounds(terms, opened, talk, sums, identity, noise, random_bytes)
        return (yield from noisy.play(cast(Asks, steps)))
    return (yield from _exact(terms, opened, talk, sums, cast(Steps, steps), random_bytes))


def _exact(
    terms: RunTerms, opened: Opened, talk: Talk, sums: SumRounds, steps: Steps, random_bytes: RandomBytes
) -> Hops[Outcome]:
    """The rest of a run whose sums have no noise."""
    session = opened.sums.session
    normed = None
    if needs_norms(terms.mechanism):
        # Oblivious transfer takes a second to import, which runs with plain sums need not pay.
        from ksdp.protocols.runs.normed_rounds import NormedRounds

        normed = NormedRounds(terms, talk.name, session, talk.exchange, random_bytes)
        yield from normed.begin()

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
            total = yield from sums.total(wanted.share)

    digest = yield from agree_on_result(talk, session, result.public)
    plain = what_follows(terms.parties) if sums.taken else ""
    return Outcome(
        result,
        session.hex(),
        digest,
        opened.statements,
        sums.taken,
        normed.taken if normed else 0,
        " ".join(text for text in (plain, normed.reveals if normed else "") if text),
    )


def largest_message(terms: RunTerms, entries: int) -> int:
    """No message of a run has more bytes.

    Parameters
    ----------
    terms : RunTerms
    entries : int
        Of the largest sum (`party_programs.sum_entries`).
    """
    plain: int = 8 * entries + 256 * terms.parties + (1 << 16)
    if terms.server is not None:
        # Packed ciphertexts have up to three times the bytes; a list of all names goes to the server n times.
        return 3 * plain + 128 * terms.parties**2
    if not needs_norms(terms.mechanism):
        return plain
    from ksdp.protocols.runs.normed_rounds import largest_batch

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
