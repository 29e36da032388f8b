"""A run among parties that share nothing but secure sums: what one of them does, from its files to its result."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.clearance import MechanismIdentity
from ksdp.audit.corpus import Corpus, restrict
from ksdp.audit.errors import ClearanceError, InputError, KsdpError
from ksdp.audit.plan import parameters_of
from ksdp.audit.protocols.agreement import Statement
from ksdp.audit.protocols.party_programs import party_steps, sum_entries
from ksdp.audit.protocols.party_rounds import Outcome, largest_message, party_rounds
from ksdp.audit.spec import CorpusSpec
from ksdp.flows.prepare import read_spec_file
from ksdp.flows.run_terms import Run, features_hash
from ksdp.storage.clearances import verify_clearance
from ksdp.storage.corpora import corpus_features, load_corpus
from ksdp.storage.run_results import Transcript, require_no_result, write_run
from ksdp.tasks.certificates import make_credentials
from ksdp.tasks.links import LinkTimes
from ksdp.tasks.mesh import Address, Mesh, Peer
from ksdp.tasks.taking_part import Note, take_part

__all__ = ["Entered", "enter_documents", "run_party"]


@dataclass(frozen=True, eq=False)
class Entered:
    """The documents that a party enters, and on what grounds."""

    corpus: Corpus
    statement: Statement
    of: int
    """Documents of its corpus; the others are not on the clearance."""
    clearance: dict[str, Any] | None
    """Who signed it and what was checked."""


def enter_documents(
    run: Run,
    corpus: Path,
    *,
    clearance: Path | None,
    uncleared: bool,
    signer: Ed25519PublicKey,
    now: datetime,
) -> Entered:
    """Load a party's corpus and keep the documents that its clearance lists.

    Parameters
    ----------
    run : Run
    corpus : Path
        An audit's spec (TOML), of which `[corpus]` counts, or a count matrix with the columns of the run.
    clearance : Path, optional
    uncleared : bool
        Enter every document without one; everybody is told.
    signer : Ed25519PublicKey
        Who must have signed the clearance.
    now : datetime
        With a time zone.

    Raises
    ------
    InputError
        If the corpus is refused, its columns are not those of the run, or no document is left; if there is neither
        a clearance nor `uncleared`, or both.
    ClearanceError
        Naming the first check that failed.
    """
    if clearance is None and not uncleared:
        raise InputError("a party enters documents on a clearance (`--clearance FILE`), or says `--uncleared`.")
    if clearance is not None and uncleared:
        raise InputError("`--clearance` and `--uncleared` exclude each other.")
    spec_hash = None
    if corpus.suffix == ".toml":
        spec, base = read_spec_file(corpus)
        found, spec_hash = spec.corpus, spec.hash
    else:
        if run.spec.features.vocabulary is None:
            raise InputError("`--corpus` must name a spec: the protocol file has no vocabulary for a bare matrix.")
        vocabulary = str((run.base / run.spec.features.vocabulary).resolve())
        found, base = CorpusSpec(path=str(corpus.resolve()), vocabulary=vocabulary), run.base
    if features_hash(corpus_features(found, base)) != run.terms.vocabulary:
        raise InputError("the features of the corpus, or their order, are not those of the protocol file.")
    mechanism = run.terms.mechanism
    whole = load_corpus(found, base, nonnegative=getattr(mechanism, "nonnegative", False))
    if whole.features != run.terms.features:
        raise InputError(f"the corpus has {whole.features} features, the protocol file {run.terms.features}.")
    if clearance is None:
        return Entered(whole, Statement(cleared=False), len(whole), None)
    verified = verify_clearance(
        clearance,
        now=now,
        public_key=signer,
        corpus_hash=whole.hash,
        mechanism=MechanismIdentity(mechanism.name, mechanism.version, parameters_of(mechanism)),
        spec_hash=spec_hash,
    )
    rows = np.flatnonzero(verified.clearance.allows(whole.ids))
    if not len(rows):
        raise ClearanceError("content", f"{clearance.name} lists no document of the corpus.")
    said = {
        "signer": verified.fingerprint,
        "checked": list(verified.checked),
        "reviewer": verified.clearance.reviewer,
    }
    digest = hashlib.sha256(clearance.read_bytes()).hexdigest()
    return Entered(restrict(whole, rows), Statement(True, digest), len(whole), said)


def run_party(
    run: Run,
    name: str,
    identity: Ed25519PrivateKey,
    entered: Entered,
    out: Path,
    *,
    listen: Address | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> dict[str, Any]:
    """Take part and write the result.

    Parameters
    ----------
    run : Run
    name : str
        Which party this is.
    identity : Ed25519PrivateKey
    entered : Entered
    out : Path
        Folder of the result; made where there is none.
    listen : Address, optional
        Where to listen, where it is not the address that the others dial.
    clock : callable
        The time, with a time zone.

    Returns
    -------
    dict
        What `run.json` says.

    Raises
    ------
    InputError
        If the name, the key, or the folder is refused.
    ProtocolError
        If the run ends without a result; then none is written.
    """
    require_no_result(out)
    steps = party_steps(run.terms.mechanism, entered.corpus.matrix)
    mine = {p.name: p.identity for p in run.terms.participants}.get(name)
    if mine is None:
        raise InputError(
            f"`--me` must be one of {', '.join(p.name for p in run.terms.participants)}; got {name!r}."
        )
    if mine != identity.public_key().public_bytes_raw():
        raise InputError(f"the key is not the one that the protocol file names for {name}.")
    rounds = party_rounds(run.terms, name, identity, steps, entered.statement)
    began = time.monotonic()
    with Transcript(out, clock) as transcript:
        transcript.note(
            what="run",
            me=name,
            agreement=run.terms.digest.hex(),
            mechanism=run.terms.mechanism.name,
            documents=len(entered.corpus),
            of=entered.of,
            uncleared=not entered.statement.cleared,
            clearance=entered.statement.clearance or None,
        )
        mesh = _mesh(run, name, identity, listen or run.address(name), transcript.note, clock())

        async def play() -> Outcome:
            async with mesh:
                return await take_part(rounds, mesh, present=run.spec.timeouts.present, note=transcript.note)

        try:
            outcome = asyncio.run(play())
        except KsdpError as error:
            transcript.note(what="ended without a result", reason=str(error))
            raise
        except KeyboardInterrupt:
            transcript.note(what="ended without a result", reason="stopped here")
            raise
        about = _about(run, name, entered, outcome) | {"seconds": round(time.monotonic() - began, 3)}
        own = {"ids": entered.corpus.ids} | dict(outcome.result.own)
        write_run(out, outcome.result.public, own, about)
        grounds = {party: asdict(statement) for party, statement in outcome.statements.items()}
        transcript.note(what="done", session=outcome.session, result=outcome.digest, grounds=grounds)
    return about


def _mesh(run: Run, name: str, identity: Ed25519PrivateKey, listen: Address, note: Note, now: datetime) -> Mesh:
    terms = run.terms
    keys = {p.name: Ed25519PublicKey.from_public_bytes(p.identity) for p in terms.participants if p.name != name}
    times = run.spec.timeouts
    return Mesh(
        name,
        listen,
        {peer: Peer(peer, run.address(peer), key) for peer, key in keys.items()},
        make_credentials(name, identity, keys, now=now),
        limit=largest_message(terms, sum_entries(terms.mechanism, terms.features)),
        times=LinkTimes(message=times.message, reconnect=times.reconnect),
        observe=lambda what, peer: note(what=what, peer=peer),
    )


def _about(run: Run, name: str, entered: Entered, outcome: Outcome) -> dict[str, Any]:
    mechanism = run.terms.mechanism
    return {
        "me": name,
        "session": outcome.session,
        "agreement": run.terms.digest.hex(),
        "result": outcome.digest,
        "mechanism": {"name": mechanism.name, "version": mechanism.version, **parameters_of(mechanism)},
        "features": run.terms.features,
        "parties": {
            party: {"cleared": statement.cleared, "clearance": statement.clearance or None}
            for party, statement in outcome.statements.items()
        },
        "documents": len(entered.corpus),
        "of": entered.of,
        "uncleared": not entered.statement.cleared,
        "clearance": entered.clearance,
        "sums": outcome.sums,
        "normed_sums": outcome.normed_sums,
        "sum_error": run.terms.precision.coding(run.terms.parties).error,
        "reveals": outcome.reveals,
    }
