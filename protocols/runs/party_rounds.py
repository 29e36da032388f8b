"""A whole run, one party's side, over the round engine (`channel.rounds`).

1. greeting: hashes of the terms, a nonce (`run_terms`)
2. statement: cleared or not
3. hello: signed keys of this session, bound to everything said in 1 and 2 (`secure_sum`)
4. where noises are taken away: the server's key
5. answers to what the party's program requests (`answers`); the server's side is in `server_rounds`
6. result: a hash of what everybody has learnt. Where it differs nobody gets a result.

Who moves the messages must keep them secret, too (`ksdp.protocols.network`: TLS between pinned keys): an exact sum
can be read by whoever sees all messages.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.party_side import PartyProgram
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.runs.handshake import RunOutcome, check_node, open_run
from ksdp.protocols.runs.party_noise import NoiseSource, vetted_noise
from ksdp.protocols.runs.program_rounds import ProgramRounds
from ksdp.protocols.runs.programs import sum_entries
from ksdp.protocols.runs.run_terms import RunTerms, Statement
from ksdp.protocols.runs.share_terms import needs_norms
from ksdp.protocols.sums.secure_sum import SumRounds


def party_rounds(
    terms: RunTerms,
    name: str,
    identity: Ed25519PrivateKey,
    program: PartyProgram,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
    noise: NoiseSource = vetted_noise,
) -> Rounds[RunOutcome]:
    """One party's side of a run.

    Parameters
    ----------
    terms : RunTerms
        The same at every node.
    name : str
        Which participant this is.
    identity : Ed25519PrivateKey
        Its signing key.
    program : PartyProgram
        Its side of the algorithm (`programs.party_program`); not begun before the terms are known to be the same.
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
    engine = RoundEngine(name, terms.others(name))
    opened = yield from open_run(engine, terms, statement, random_bytes)
    sums = SumRounds(opened.sums, terms.precision.coding(terms.parties), engine, identity, random_bytes)
    yield from sums.begin()
    program_rounds = ProgramRounds(terms, opened, engine, sums, identity, noise, random_bytes)
    return (yield from program_rounds.play(program))


def largest_message(terms: RunTerms, entries: int) -> int:
    """No message of a run has more bytes.

    Parameters
    ----------
    terms : RunTerms
        Of the run.
    entries : int
        Of the largest sum (`programs.sum_entries`).
    """
    plain: int = 8 * entries + 256 * terms.parties + (1 << 16)
    if terms.server is not None:
        # Packed ciphertexts have up to three times the bytes; a list of all names goes to the server n times.
        return 3 * plain + 128 * terms.parties**2
    if not needs_norms(terms.mechanism):
        return plain
    numbers = sum_entries(terms.mechanism, terms.features)  # of all rows that are normed together, 28 bytes each
    return plain + 2 * 28 * numbers + (1 << 20)
