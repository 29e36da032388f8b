"""One node of a run, party or server: from its rounds to its result folder, and what `run.json` says."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, KsdpError, SpecError
from ksdp.audit.mechanisms.contract import Mechanism, guarantee_of, traits_of
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.flows.interruption import Clock, utc_now
from ksdp.flows.runs.check_words import about_of
from ksdp.flows.runs.terms import Run
from ksdp.flows.runs.watch import Watch
from ksdp.protocols.channel.rounds import Rounds
from ksdp.protocols.network.certificates import make_credentials
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, Mesh, Peer
from ksdp.protocols.network.mesh_run import Note, run_over_mesh
from ksdp.protocols.runs.handshake import RunOutcome
from ksdp.protocols.runs.party_rounds import largest_message
from ksdp.protocols.runs.programs import sum_entries
from ksdp.protocols.runs.share_terms import opens_final
from ksdp.storage.runs.results import Transcript, require_no_result, write_run

_Played = TypeVar("_Played")
_NO_DATA = frozenset({"greeting", "statement", "hello", "ask"})
"""Kinds of messages that say nothing of anybody's documents, but that they are cleared."""


@dataclass(frozen=True, eq=False)
class Node:
    """A party of a run, or its server, on its own machine."""

    run: Run
    name: str
    identity: Ed25519PrivateKey
    out: Path
    """Folder of the result; made where there is none."""
    listen: Address | None = None
    """Where it is not the address that the others dial."""
    clock: Clock = utc_now
    watch: Watch = field(default_factory=Watch)
    """Told of all that happens."""

    def check(self) -> None:
        """Refuse a folder that holds a result, a name that is no node of the run, or a key that is another's."""
        require_no_result(self.out)
        known = {p.name: p.identity for p in self.run.terms.nodes}
        if self.name not in known:
            raise InputError(f"`--me` must be one of {', '.join(known)}; got {self.name!r}.")
        if known[self.name] != self.identity.public_key().public_bytes_raw():
            raise InputError(f"the key is not the one that the protocol file names for {self.name}.")


class NotedRun:
    """A node's run as it is written down, whatever its protocol; a context that closes the transcript.

    Parameters
    ----------
    out : Path
        Folder of the result.
    clock : callable
    watch : Watch
        Told of every event that is noted.
    before_data : callable, optional
        Called once, before the first message that depends on data goes out; what it raises ends the run.
    no_data : kinds of messages
        That depend on no data.
    """

    def __init__(
        self, out: Path, clock: Clock, watch: Watch, before_data: Callable[[], None] | None, no_data: Set[str]
    ) -> None:
        self._began, self._started = time.monotonic(), clock()
        self._clock, self._watch, self._no_data = clock, watch, no_data
        self._waiting = [before_data] if before_data else []
        self.transcript = Transcript(out, clock)

    def __enter__(self) -> NotedRun:
        return self

    def __exit__(self, *ended: Any) -> None:
        self.transcript.__exit__(*ended)

    def note(self, **event: Any) -> None:
        """Tell whoever watches, and the transcript."""
        if self._waiting and event["what"] == "sent" and event["kind"] not in self._no_data:
            self._waiting.pop()()
        self._watch.note(**event)
        self.transcript.note(**event)

    def played(self, play: Coroutine[Any, Any, _Played]) -> _Played:
        """Play to the end; an end without a result is noted, with its reason."""
        try:
            return asyncio.run(play)
        except KsdpError as error:
            self.note(what="ended without a result", reason=str(error))
            raise
        except KeyboardInterrupt:
            self.note(what="ended without a result", reason="stopped here")
            raise

    def took(self) -> dict[str, Any]:
        """Times, rounds and bytes, for `run.json`."""
        return {
            "started": self._started.isoformat(timespec="seconds"),
            "finished": self._clock().isoformat(timespec="seconds"),
            "seconds": round(time.monotonic() - self._began, 3),
            "rounds": self._watch.rounds,
            "bytes": {"sent": self._watch.sent.total(), "received": self._watch.received.total()},
        }


def run_node(
    node: Node,
    rounds: Rounds[RunOutcome],
    *,
    header: Mapping[str, Any],
    about: Mapping[str, Any],
    own: Mapping[str, NDArray[Any]],
    before_data: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Take part and write the result.

    Parameters
    ----------
    rounds : Rounds
        The node's side of the protocol.
    header : mapping
        Of this node, for the first line of the transcript.
    about : mapping
        Of this node, for `run.json`.
    own : mapping
        Arrays that stay with it.
    before_data : callable, optional
        Called once, before the first message that depends on data goes out; what it raises ends the run.

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
    node.check()
    run = node.run
    with NotedRun(node.out, node.clock, node.watch, before_data, _NO_DATA) as noted:
        agreed = {"agreement": run.terms.digest.hex(), "mechanism": run.terms.mechanism.name}
        noted.transcript.note(what="run", me=node.name, **agreed, **header)
        grounds = "collects" if node.name == run.server else "uncleared" if header.get("uncleared") else "cleared"
        mesh = _mesh(node, noted.note, about=lambda: about_of(run, grounds, node.clock()).to_bytes())

        async def play() -> RunOutcome:
            async with mesh:
                return await run_over_mesh(rounds, mesh, present=run.spec.timeouts.present, note=noted.note)

        outcome = noted.played(play())
        whole = _about(run, node.name, outcome) | dict(about) | noted.took()
        write_run(node.out, outcome.result.public, dict(own) | dict(outcome.result.own), whole)
        stated = {name: statement.as_json() for name, statement in outcome.statements.items()}
        noted.note(what="done", session=outcome.session, result=outcome.digest, grounds=stated)
    return whole


def guarantee_words(result: Mapping[str, Any]) -> str:
    """What `run.json` says is guaranteed, in one line."""
    guarantee, claimed = result["guarantee"], result["claimed"]
    if guarantee["kind"] != "(epsilon, delta)":
        how = "none" if guarantee["kind"] == "none" else "measured, not promised"
        return f"guarantee: {how}. {guarantee['notes']}"
    number = f"epsilon {claimed['epsilon']:.4g} at delta {claimed['delta']:g}" if claimed else "no epsilon"
    drawn = f"; noise by the sampler {guarantee['sampler']['name']!r}" if guarantee["sampler"] else ""
    unsound = "" if guarantee["sound"] else f"; UNSOUND as printed: {guarantee['notes']}"
    return f"guarantee: {number}; unit: {guarantee['unit']}; trust: {guarantee['trust']}{drawn}{unsound}"


def _mesh(node: Node, note: Note, *, about: Callable[[], bytes]) -> Mesh:
    run, others = node.run, [p for p in node.run.terms.nodes if p.name != node.name]
    keys = {p.name: Ed25519PublicKey.from_public_bytes(p.identity) for p in others}
    times = run.spec.timeouts
    return Mesh(
        node.name,
        node.listen or run.address(node.name),
        {peer: Peer(peer, run.address(peer), key) for peer, key in keys.items()},
        make_credentials(node.identity, keys, now=node.clock()),
        limit=_largest(run),
        times=LinkTimes(message=times.message, reconnect=times.reconnect),
        observe=lambda what, peer: note(what=what, peer=peer),
        about=about,
    )


def _largest(run: Run) -> int:
    terms = run.terms
    if opens_final(terms.mechanism):
        from ksdp.protocols.runs.final_rounds import largest_final_message

        return largest_final_message(terms)
    return largest_message(terms, sum_entries(terms.mechanism, terms.features))


def _about(run: Run, name: str, outcome: RunOutcome) -> dict[str, Any]:
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
        "opens": traits_of(mechanism).opens,
        "sum_error": None if opens_final(mechanism) else terms.precision.coding(terms.parties).error,
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
