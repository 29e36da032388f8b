"""A whole run, the server's side. It holds no documents, and does what the parties say comes next.

It learns what `answers` says that a server is told, and the public result. What it makes of uploads is the
mechanism's `collected`, to which it adds noise of its own.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.party_side import PartyResult
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.channel.wire import name_of, number_of, pack_array, unpack, unpack_array, unpack_arrays
from ksdp.protocols.runs.party_noise import NoiseSource, noised, vetted_noise
from ksdp.protocols.runs.party_rounds import RunOutcome, agree_on_result, check_node, open_run, what_noise_leaves
from ksdp.protocols.runs.programs import ServerSums, extra_sums
from ksdp.protocols.runs.run_terms import COLLECTS, RunTerms


def server_rounds(
    terms: RunTerms,
    identity: Ed25519PrivateKey,
    *,
    random_bytes: RandomBytes = os_random,
    noise: NoiseSource = vetted_noise,
) -> Rounds[RunOutcome]:
    """The server's side of a run.

    Parameters
    ----------
    terms : RunTerms
        The same at every node; with a server.
    identity : Ed25519PrivateKey
        Its signing key.
    random_bytes : callable
        Source of secrets; the operating system's unless a test injects another.
    noise : callable
        Source of the server's own noise; the vetted sampler unless a test injects another.

    Raises
    ------
    InputError
        If the run has no server, or the key is another's.
    ProtocolError
        If anybody deviates.
    """
    if terms.server is None:
        raise InputError("this run has no server.")
    check_node(terms, terms.server.name, identity)
    engine = RoundEngine(terms.server.name, terms.others(terms.server.name))
    opened = yield from open_run(engine, terms, COLLECTS, random_bytes)
    session = opened.sums.session
    yield from engine.tell("hello", {})
    server = _Server(terms, engine, noise)
    extra = extra_sums(terms.mechanism)
    if extra is not None:
        server.one_noise = extra.server(terms, session, engine)
        yield from server.one_noise.begin()
    public = yield from server.serve()
    digest = yield from agree_on_result(engine, session, public, server.sizes)
    return RunOutcome(
        PartyResult(public),
        session.hex(),
        digest,
        opened.statements,
        server.asked["sum"],
        reveals=what_noise_leaves(server.asked, terms.parties),
        asked=dict(server.asked),
        sizes=server.sizes,
    )


class _Server:
    """Follows what the parties say comes next."""

    def __init__(self, terms: RunTerms, engine: RoundEngine, noise: NoiseSource) -> None:
        self._terms, self._engine, self._source = terms, engine, noise
        self._names = tuple(p.name for p in terms.participants)
        self.one_noise: ServerSums | None = None
        self.asked: Counter[str] = Counter()
        self.sizes: tuple[int, ...] = ()

    def serve(self) -> Rounds[dict[str, Floats]]:
        """Until the parties are done; returns what they hold to be public."""
        while True:
            what, deviation, shape = yield from self._what_comes()
            if what == "done":
                break
            self.asked[what] += 1
            if what == "sizes":
                sizes = yield from self._from_all("sizes")
                self.sizes = tuple(number_of(sizes[name]) for name in self._names)
                if not all(self.sizes):
                    raise ProtocolError("A party says that it has no rows.")
            elif what in ("sum", "show"):  # among the parties
                yield from self._engine.tell(what, {})
            elif what == "upload":
                yield from self._collect()
            elif what == "one-noise" and self.one_noise is not None:
                yield from self.one_noise.total(shape, deviation)
            else:
                raise ProtocolError("The parties ask for something that this server does not do.")
        handed = set((yield from self._from_all("public")).values())
        if len(handed) > 1:
            raise ProtocolError("The parties hold different results: the run is void.")
        return unpack_arrays(handed.pop())

    def _what_comes(self) -> Rounds[tuple[str, float, tuple[int, ...]]]:
        requests = set((yield from self._from_all("ask")).values())
        if len(requests) > 1:
            raise ProtocolError("The parties ask for different things: they are out of step.")
        fields = unpack("ask", requests.pop())
        if len(fields) < 2:
            raise ProtocolError("What the parties ask for is damaged.")
        try:
            deviation = float.fromhex(name_of(fields[1])) if fields[1] else 0.0
        except (ValueError, OverflowError):
            raise ProtocolError("What the parties ask for is damaged.") from None
        return name_of(fields[0]), deviation, tuple(number_of(field) for field in fields[2:])

    def _collect(self) -> Rounds[None]:
        sent = {name: unpack("upload", body, 2) for name, body in (yield from self._from_all("upload")).items()}
        uploads = [unpack_array(sent[name][0]) for name in self._names]
        beside = [unpack_array(sent[name][1]) for name in self._names]
        if len({array.shape for array in uploads}) > 1 or len({array.shape for array in beside}) > 1:
            raise ProtocolError("The parties sent uploads of different shapes.")
        mechanism = self._terms.mechanism
        assert isinstance(mechanism, GaussianReleases)
        try:
            published, deviation = mechanism.collected(uploads, beside, self.sizes)
        except (ValueError, np.linalg.LinAlgError):  # what arrived may be anything
            raise ProtocolError("The parties' uploads cannot be put together.") from None
        if deviation:
            published = noised(published, deviation, self._terms.precision.bound, self._source).values
        body = pack_array(published)
        yield from self._engine.tell("told", dict.fromkeys(self._names, body))

    def _from_all(self, kind: str) -> Rounds[dict[str, bytes]]:
        return (yield from self._engine.exchange(kind, {}, self._names))
