"""One node of a run, party or server: from its rounds to its result folder, and what `run.json` says."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, KsdpError, SpecError
from ksdp.audit.mechanisms.contract import Mechanism, opens_of
from ksdp.audit.mechanisms.guarantee import guarantee_of
from ksdp.audit.mechanisms.privacy.released import GaussianReleases
from ksdp.audit.plan import parameters_of
from ksdp.flows.runs.check_words import about_of
from ksdp.flows.runs.terms import Run
from ksdp.flows.runs.watch import Watch
from ksdp.protocols.channel.rounds import Rounds
from ksdp.protocols.network.certificates import make_credentials
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Peer
from ksdp.protocols.network.mesh_run import Note, run_over_mesh
from ksdp.protocols.runs.handshake import Outcome
from ksdp.protocols.runs.party_rounds import largest_message
from ksdp.protocols.runs.programs import sum_entries
from ksdp.storage.runs.results import Transcript, require_no_result, write_run

__all__ = ["Clock", "check_name", "claimed", "guarantee_words", "run_node", "utc_now"]

Clock = Callable[[], datetime]
_NO_DATA = frozenset({"greeting", "statement", "hello", "ask"})
"""Kinds of messages that say nothing of anybody's documents, but that they are cleared."""


def utc_now() -> datetime:
    """The time, with a time zone."""
    return datetime.now(UTC)


def check_name(run: Run, name: str, identity: Ed25519PrivateKey) -> None:
    """Refuse a name that is no node of the run, or a key that is another's.

    Raises
    ------
    InputError
        Saying which.
    """
    known = {p.name: p.identity for p in run.terms.nodes}
    if name not in known:
        raise InputError(f"`--me` must be one of {', '.join(known)}; got {name!r}.")
    if known[name] != identity.public_key().public_bytes_raw():
        raise InputError(f"the key is not the one that the protocol file names for {name}.")


def run_node(
    run: Run,
    name: str,
    identity: Ed25519PrivateKey,
    rounds: Rounds[Outcome],
    out: Path,
    *,
    said: Mapping[str, Any],
    about: Mapping[str, Any],
    own: Mapping[str, NDArray[Any]],
    listen: Address | None,
    clock: Clock,
    before_data: Callable[[], None] | None = None,
    watch: Watch | None = None,
) -> dict[str, Any]:
    """Take part and write the result.

    Parameters
    ----------
    rounds : Rounds
        The node's side of the protocol.
    out : Path
        Folder of the result; made where there is none.
    said : mapping
        Of this node, for the first line of the transcript.
    about : mapping
        Of this node, for `run.json`.
    own : mapping
        Arrays that stay with it.
    listen : Address, optional
        Where to listen, where it is not the address that the others dial.
    before_data : callable, optional
        Called once, before the first message that depends on data goes out; what it raises ends the run.
    watch : Watch, optional
        Told of all that happens.

    Returns
    -------
    dict
        What `run.json` says.

    Raises
    ------
    InputError
        If the name, the key, the folder or the address is refused.
    ProtocolError
        If the run ends without a result; then none is written.
    """
    require_no_result(out)
    check_name(run, name, identity)
    began, started, seen = time.monotonic(), clock(), watch or Watch()
    with Transcript(out, clock) as transcript:
        waiting = [before_data] if before_data else []

        def note(**event: Any) -> None:
            if waiting and event["what"] == "sent" and event["kind"] not in _NO_DATA:
                waiting.pop()()
            seen.note(**event)
            transcript.note(**event)

        agreed = {"agreement": run.terms.digest.hex(), "mechanism": run.terms.mechanism.name}
        transcript.note(what="run", me=name, **agreed, **said)
        grounds = "collects" if name == run.server else "uncleared" if said.get("uncleared") else "cleared"
        mesh = _mesh(
            run,
            name,
            identity,
            listen or run.address(name),
            note,
            clock(),
            about=lambda: about_of(run, grounds, clock()).to_bytes(),
        )

        async def play() -> Outcome:
            async with mesh:
                return await run_over_mesh(rounds, mesh, present=run.spec.timeouts.present, note=note)

        try:
            outcome = asyncio.run(play())
        except KsdpError as error:
            note(what="ended without a result", reason=str(error))
            raise
        except KeyboardInterrupt:
            note(what="ended without a result", reason="stopped here")
            raise
        times: dict[str, Any] = {
            "started": started.isoformat(timespec="seconds"),
            "finished": clock().isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - began, 3),
            "rounds": seen.rounds,
            "bytes": {"sent": seen.sent.total(), "received": seen.received.total()},
        }
        whole = _about(run, name, outcome) | dict(about) | times
        write_run(out, outcome.result.public, dict(own) | dict(outcome.result.own), whole)
        stated = {node: statement.as_json() for node, statement in outcome.statements.items()}
        note(what="done", session=outcome.session, result=outcome.digest, grounds=stated)
    return whole


def guarantee_words(about: Mapping[str, Any]) -> str:
    """What `run.json` says is guaranteed, in one line."""
    said, claimed = about["guarantee"], about["claimed"]
    if said["kind"] != "(epsilon, delta)":
        return f"guarantee: {'none' if said['kind'] == 'none' else 'measured, not promised'}. {said['notes']}"
    number = f"epsilon {claimed['epsilon']:.4g} at delta {claimed['delta']:g}" if claimed else "no epsilon"
    drawn = f"; noise by the sampler {said['sampler']['name']!r}" if said["sampler"] else ""
    unsound = "" if said["sound"] else f"; UNSOUND as printed: {said['notes']}"
    return f"guarantee: {number}; unit: {said['unit']}; trust: {said['trust']}{drawn}{unsound}"


def _mesh(
    run: Run,
    name: str,
    identity: Ed25519PrivateKey,
    listen: Address,
    note: Note,
    now: datetime,
    *,
    about: Callable[[], bytes],
) -> Mesh:
    terms = run.terms
    keys = {p.name: Ed25519PublicKey.from_public_bytes(p.identity) for p in terms.nodes if p.name != name}
    times = run.spec.timeouts
    return Mesh(
        name,
        listen,
        {peer: Peer(peer, run.address(peer), key) for peer, key in keys.items()},
        make_credentials(identity, keys, now=now),
        limit=_largest(run),
        times=LinkTimes(message=times.message, reconnect=times.reconnect),
        observe=lambda what, peer: note(what=what, peer=peer),
        about=about,
    )


def _largest(run: Run) -> int:
    terms = run.terms
    if terms.final is not None:
        from ksdp.protocols.runs.final_rounds import largest_final_message

        return largest_final_message(terms)
    return largest_message(terms, sum_entries(terms.mechanism, terms.features))


def _about(run: Run, name: str, outcome: Outcome) -> dict[str, Any]:
    mechanism, terms = run.terms.mechanism, run.terms
    return {
        "me": name,
        "session": outcome.session,
        "agreement": terms.digest.hex(),
        "result": outcome.digest,
        "mechanism": {"name": mechanism.name, "version": mechanism.version, **parameters_of(mechanism)},
        "guarantee": guarantee_of(mechanism).as_json(),
        "claimed": claimed(mechanism, outcome.sizes, terms.features),
        "features": terms.features,
        "parties": {p.name: outcome.statements[p.name].as_json() for p in terms.participants},
        "server": run.server or None,
        "sizes": list(outcome.sizes) or None,
        "sums": outcome.sums,
        "normed_sums": outcome.normed_sums,
        "asked": dict(outcome.asked),
        "opens": opens_of(mechanism),
        "sum_error": None if terms.final else terms.precision.coding(terms.parties).error,
        "reveals": outcome.reveals,
    }


def claimed(mechanism: Mechanism, sizes: tuple[int, ...], features: int) -> dict[str, float] | None:
    """The epsilon and delta that a mechanism claims for the sizes of this run, where it makes them public.

    None where it claims nothing, or has no noise.

    Parameters
    ----------
    sizes : tuple of int
        Rows of every party; empty where nobody was told.
    """
    if not isinstance(mechanism, GaussianReleases):
        return None
    try:
        epsilon, delta = mechanism.claim(sizes, features)
    except SpecError:  # nothing is claimed with these parameters
        return None
    return {"epsilon": epsilon, "delta": delta} if math.isfinite(epsilon) else None
