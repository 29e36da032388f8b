"""A run of PEM in rounds: what hosts with clients, servers and the aggregator say, and when.

An iteration has five rounds. The aggregator tells all the `state`. A host with clients adds up what they
contribute; it tells each server a share of that, and the aggregator of how many records it is (`uploads`). Servers
say whose shares they have (`present`). The aggregator tells all who is in the sum (`roster`). Each server tells it
the sum of their shares plus noise of its own (`partial`). In a last round all compare the final state (`result`).

Shares of one number add up to it modulo 2^64. A host with clients that is lost is left out, by one list for all
servers: two lists would be two releases.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, PemTotal, client_vector, sampled
from ksdp.audit.mechanisms.pem.noise import Budget, Sampler, VectorBlock, Vetted, reach
from ksdp.audit.numeric.array_types import Words
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.extras.pem.states import pack_state, unpack_state
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, read_from
from ksdp.protocols.channel.wire import number_of, pack, pack_names, pack_number, unpack, unpack_names
from ksdp.protocols.programs.rounds import greet
from ksdp.protocols.programs.run_terms import digest_of

Steps = NDArray[np.int64]
_LARGEST = 2**63 - 1


@dataclass(frozen=True, eq=False)
class PemTerms:
    """The hosts, their roles and the algorithm, on which everybody agrees before the first message."""

    holders: tuple[str, ...]
    """Hosts that hold clients, by name."""
    servers: tuple[str, ...]
    """By name; at least two."""
    aggregator: str
    budget: Budget
    rows: int
    """Most records that one client puts into one iteration."""
    algorithm: str
    """`repr` of the functions, frozen dataclasses of all parameters."""
    least_clients: int
    """With fewer the run ends."""
    terms: Mapping[str, Any]
    """Every term by its name, as all hosts must mean it."""

    def __post_init__(self) -> None:
        names = self.everybody
        if not self.holders or len(self.servers) < 2 or len(set(names)) != len(names):
            raise InputError("PEM needs a host with clients, two servers or more, and an aggregator, each once.")

    @property
    def everybody(self) -> tuple[str, ...]:
        """All hosts by name."""
        return tuple(sorted((*self.holders, *self.servers, self.aggregator)))

    @property
    def digest(self) -> bytes:
        """32 bytes that two hosts share only if they agree on everything."""
        return digest_of(self.terms)

    def role(self, name: str) -> str:
        """Role of a host: `server`, `aggregator` or `holder`."""
        return "aggregator" if name == self.aggregator else "server" if name in self.servers else "holder"

    def room(self, block: VectorBlock, clients: int) -> int:
        """The largest size, in steps, of an entry of a sum with its noise, but with probability 2^-60."""
        noise = reach(self.budget.scale(block), block.size, len(self.servers))
        return clients * self.rows * block.cap_steps + noise

    def check_room(self, blocks: Sequence[VectorBlock], clients: int) -> None:
        """Refuse vectors whose sum with the noise could leave 64 bits, but with probability 2^-60."""
        need = max((self.room(block, clients) for block in blocks), default=0)
        if need > _LARGEST:
            raise ProtocolError(
                f"A sum with its noise may need {need.bit_length() + 1} bits; there are 64. "
                "Take fewer fraction bits, fewer iterations or a larger epsilon."
            )


@dataclass(frozen=True, eq=False)
class PemOutcome:
    """The end of a run at one host."""

    session: str
    """64 hex digits; the same at every host."""
    state: PemState
    digest: str
    """SHA-256 of it as it was announced."""
    clients: int
    lost: tuple[str, ...]
    """Hosts that did not come, or were lost."""
    present: int = 0
    """Clients that were there at the end; the aggregator knows it."""
    rows: tuple[int, ...] = ()
    """Records that took part, iteration by iteration; the aggregator knows it."""
    sampler: str = ""
    """Sampler of this server's noise."""


def pem_rounds(
    terms: PemTerms,
    name: str,
    algorithm: PemAlgorithm | None = None,
    clients: Mapping[str, sp.csr_array] | None = None,
    *,
    random_bytes: RandomBytes = os_random,
    sampler: Sampler | None = None,
) -> Rounds[PemOutcome]:
    """One host's side of a run."""
    role, noise = terms.role(name), sampler or Vetted()
    if role != "server" and terms.algorithm != repr(algorithm):
        raise InputError("The terms name another algorithm, or other parameters.")
    side = _Side(terms, name)
    if role == "server":
        return (yield from _serve(side, random_bytes, noise))
    assert algorithm is not None
    if role == "aggregator":
        return (yield from _aggregate(side, random_bytes, algorithm))
    own_clients = _Clients(terms, algorithm, clients or {}, random_bytes, noise)
    return (yield from _hold(side, random_bytes, own_clients))


class _Side:
    """Common part of all hosts: greet, hear states, and compare the result."""

    def __init__(self, terms: PemTerms, name: str) -> None:
        self.terms, self.name = terms, name
        self.engine = RoundEngine(name, [other for other in terms.everybody if other != name])
        self.counts: dict[str, int] = {}
        """Clients of each host that holds some."""
        self.iteration, self.session = 0, b""
        self.roster = terms.holders

    @property
    def holders(self) -> tuple[str, ...]:
        """Hosts with clients that are still there."""
        return tuple(name for name in self.terms.holders if name in self.engine.others)

    @property
    def clients(self) -> int:
        return sum(self.counts.values())

    def begin(self, clients: int, random_bytes: RandomBytes) -> Rounds[None]:
        """Greet all, and tell them how many clients are here."""
        terms = self.terms
        nonces = yield from greet(self.engine, terms.terms, random_bytes)
        counts = {self.name: clients} if clients else {}
        for peer, body in (yield from self.engine.everybody("clients", pack_number(clients))).items():
            if count := read_from(peer, number_of, body):
                counts[peer] = count
        if counts.keys() - set(terms.holders) or not counts.keys() >= set(self.holders):
            raise ProtocolError("A host without clients says that it has some, or the other way round.")
        self.counts = counts
        self.enough(tuple(counts))
        fixed = (nonces[name] for name in (*terms.servers, terms.aggregator))  # the others may be lost
        self.session = hashlib.sha256(pack("pem-run", terms.digest, *fixed)).digest()

    def enough(self, roster: Sequence[str]) -> None:
        """Refuse a sum over fewer clients than the terms ask for."""
        remaining = sum(self.counts.get(name, 0) for name in roster)
        if remaining < self.terms.least_clients:
            raise ProtocolError(f"{remaining} clients are there; the terms ask for {self.terms.least_clients}.")

    def take(self, message: bytes) -> PemState | None:
        """The aggregator's state; none at the end. Iterations are counted here: each is a cost."""
        state, hub = read_from(self.terms.aggregator, unpack_state, message), self.terms.aggregator
        if state.iteration != self.iteration:
            raise ProtocolError(
                f"{hub} sent a state of iteration {state.iteration}; iteration {self.iteration} is due: "
                "the aggregator is not to be trusted."
            )
        if state.ends(self.terms.budget):
            return None
        self.terms.check_room(state.blocks, self.clients)
        self.iteration += 1
        return state

    def hear_roster(self) -> Rounds[tuple[str, ...]]:
        """Hear which hosts with clients are in the sum."""
        hub = self.terms.aggregator
        self.roster = read_from(hub, unpack_names, (yield from self.engine.hear("roster", hub)))
        self.enough(self.roster)
        return self.roster

    def end(self, message: bytes, **more: Any) -> Rounds[PemOutcome]:
        """Compare the last state with what all others were told."""
        digest = hashlib.sha256(pack("pem-result", self.session, message)).digest()
        for peer, theirs in (yield from self.engine.everybody("result", digest)).items():
            if theirs != digest:
                hub = self.terms.aggregator
                raise ProtocolError(f"{peer} was shown another result: {hub} is not to be trusted.")
        here = {self.name, *self.engine.others} & (set(self.roster) | {*self.terms.servers, self.terms.aggregator})
        lost = tuple(name for name in self.terms.everybody if name not in here)
        state, shown = unpack_state(message), hashlib.sha256(message).hexdigest()
        return PemOutcome(self.session.hex(), state, shown, self.clients, lost, **more)


class _Clients:
    """The clients of one host, and what they contribute together to each iteration."""

    def __init__(
        self,
        terms: PemTerms,
        algorithm: PemAlgorithm,
        records: Mapping[str, sp.csr_array],
        random: RandomBytes,
        sampler: Sampler,
    ) -> None:
        self._terms, self._algorithm, self._random, self._sampler = terms, algorithm, random, sampler
        self._records = dict(records)
        for name, part in records.items():
            if not terms.budget.stream and part.shape[0] > terms.rows:
                raise InputError(f"{name} has {part.shape[0]} records; the terms allow {terms.rows}.")

    def __len__(self) -> int:
        return len(self._records)

    def contribute(self, state: PemState, message: bytes) -> tuple[list[bytes], int]:
        """One upload a server, and of how many records they are."""
        budget, total = self._terms.budget, np.zeros(state.entries, dtype=np.int64)
        rows, chosen = 0, [np.zeros(0, dtype=np.int64)]
        for name in self._records:
            batch = self._batch(name)
            rows += batch.shape[0]
            records = sampled(batch, budget.sampling, self._random)
            steps, places = client_vector(self._algorithm, records, state, budget, self._sampler)
            total += steps
            chosen += [] if places is None else [places]
        places = None if budget.sparse is None else np.unique(np.concatenate(chosen))
        sent, where = (total, b"") if places is None else (total[places], places.astype("<i8").tobytes())
        shares, digest = split(sent, len(self._terms.servers), self._random), hashlib.sha256(message).digest()
        return [pack("pem-upload", digest, where, share.astype("<u8").tobytes()) for share in shares], rows

    def _batch(self, name: str) -> sp.csr_array:
        records, rows = self._records[name], self._terms.rows
        if not self._terms.budget.stream:
            return records
        self._records[name] = records[rows:]
        return records[:rows]


def split(values: Steps, servers: int, random: RandomBytes = os_random) -> Words:
    """One share a server, shape (servers, entries), which add up to the values modulo 2^64; fewer say nothing."""
    drawn = np.frombuffer(random(8 * (servers - 1) * values.size), dtype="<u8").astype(np.uint64)
    drawn = drawn.reshape(servers - 1, values.size)
    return np.vstack((drawn, values.view(np.uint64) - drawn.sum(axis=0, dtype=np.uint64)))


def read_words(data: bytes, entries: int) -> Words:
    """So many numbers of eight bytes."""
    if len(data) != 8 * entries:
        raise ProtocolError(f"A vector of {entries} entries has {8 * entries} bytes; got {len(data)}.")
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


def read_upload(data: bytes, shown: bytes, entries: int, most: int | None) -> Words:
    """The whole vector of an upload."""
    digest, where, share = unpack("pem-upload", data, 3)
    if digest != shown:
        raise ProtocolError("shown another state: the aggregator is not to be trusted.")
    if most is None:
        if where:
            raise ProtocolError("sent places and their values, where a whole vector is due.")
        return read_words(share, entries)
    if len(where) % 8 or len(where) // 8 > most:
        raise ProtocolError(f"sent more places than the terms allow, {most}.")
    places = np.frombuffer(where, dtype="<i8")
    if places.size and not (places[0] >= 0 and places[-1] < entries and (np.diff(places) > 0).all()):
        raise ProtocolError("sent places that are not there, or not in order.")
    full = np.zeros(entries, dtype=np.uint64)
    full[places] = read_words(share, len(places))
    return full


def _hold(side: _Side, random_bytes: RandomBytes, clients: _Clients) -> Rounds[PemOutcome]:
    """Hold clients: give a share of their sum to every server, iteration by iteration."""
    yield from side.begin(len(clients), random_bytes)
    engine, hub = side.engine, side.terms.aggregator
    while True:
        message = yield from engine.hear("state", hub)
        state = side.take(message)
        if state is None:
            return (yield from side.end(message))
        uploads, rows = clients.contribute(state, message)
        yield from engine.tell(
            "uploads", dict(zip(side.terms.servers, uploads, strict=True), **{hub: pack_number(rows)})
        )
        yield from engine.tell("present", {})
        yield from side.hear_roster()
        yield from engine.tell("partial", {})


def _serve(side: _Side, random_bytes: RandomBytes, sampler: Sampler) -> Rounds[PemOutcome]:
    """Serve: add up shares and noise, one list of hosts and one sum an iteration."""
    yield from side.begin(0, random_bytes)
    terms, engine, hub = side.terms, side.engine, side.terms.aggregator
    sparse = terms.budget.sparse
    while True:
        message = yield from engine.hear("state", hub)
        state = side.take(message)
        if state is None:
            return (yield from side.end(message, sampler=sampler.label))
        taken, shown = {}, hashlib.sha256(message).digest()
        for holder, body in (yield from engine.exchange("uploads", {}, side.holders)).items():
            most = None if sparse is None else sparse.most * side.counts[holder]
            taken[holder] = read_from(
                holder, partial(read_upload, shown=shown, entries=state.entries, most=most), body
            )
        yield from engine.tell("present", {hub: pack_names(tuple(sorted(taken)))})
        roster = yield from side.hear_roster()
        if not set(roster) <= set(taken):
            raise ProtocolError(f"{hub} lists a host whose upload has not arrived here.")
        noise = np.concatenate([sampler.draw(terms.budget.scale(block), block.size) for block in state.blocks])
        total = noise.astype(np.int64).view(np.uint64)
        for holder in roster:
            total = total + taken[holder]
        yield from engine.tell("partial", {hub: total.astype("<u8").tobytes()})


def _aggregate(side: _Side, random_bytes: RandomBytes, algorithm: PemAlgorithm) -> Rounds[PemOutcome]:
    yield from side.begin(0, random_bytes)
    terms, engine = side.terms, side.engine
    state, counted = algorithm.init(), list[int]()
    while True:
        message = pack_state(state)
        yield from engine.tell("state", dict.fromkeys(engine.others, message))
        if side.take(message) is None:
            present = sum(side.counts.get(name, 0) for name in side.roster)
            return (yield from side.end(message, rows=tuple(counted), present=present))
        uploads = yield from engine.exchange("uploads", {}, side.holders)
        rows = {holder: _rows(side, holder, body) for holder, body in uploads.items()}
        lists = yield from engine.exchange("present", {}, terms.servers)
        there = set(rows) & set(side.roster)
        for server, body in lists.items():
            there &= set(read_from(server, unpack_names, body))
        side.roster = tuple(sorted(there))
        side.enough(side.roster)
        yield from engine.tell("roster", dict.fromkeys(engine.others, pack_names(side.roster)))
        counted.append(sum(rows[holder] for holder in side.roster))
        steps = np.zeros(state.entries, dtype=np.uint64)
        for server, body in (yield from engine.exchange("partial", {}, terms.servers)).items():
            steps = steps + read_from(server, partial(read_words, entries=state.entries), body)
        state = _next(side, algorithm, state, steps.view(np.int64), counted[-1])


def _rows(side: _Side, holder: str, body: bytes) -> int:
    rows, most = read_from(holder, number_of, body), side.counts[holder] * side.terms.rows
    if rows > most:
        raise ProtocolError(f"{holder} puts in {rows} records; the terms allow {most}.")
    return rows


def _next(side: _Side, algorithm: PemAlgorithm, state: PemState, steps: Steps, rows: int) -> PemState:
    sizes, rooms = zip(*((b.size, side.terms.room(b, side.clients)) for b in state.blocks), strict=True)
    limits = np.repeat(np.array(rooms), sizes)
    if ((steps > limits) | (steps < -limits)).any():
        raise ProtocolError("A sum is larger than the bounds and the noise allow: the run is void.")
    total = PemTotal.of(steps, state.blocks, rows, side.terms.budget.sampling)
    after = algorithm.reduce_in_aggregator(state, total)
    if after.iteration != state.iteration + 1:
        raise ProtocolError("`reduce_in_aggregator` must return the state of the next iteration.")
    return after
