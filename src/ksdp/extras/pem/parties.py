"""PEM's parties as state machines: client, server, aggregator.

Messages carry no signature: whoever moves them must bring them unchanged, in order, and from whom they name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, PemTotal, client_vector, sampled
from ksdp.audit.mechanisms.pem.noise import Sampler, Vetted
from ksdp.audit.numeric.array_types import Words
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.extras.pem.messages import PemTerms, PemUpload, pack_state, unpack_state
from ksdp.protocols.channel.rounds import Machine
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_names, pack_number, unpack, unpack_names


class PemNode(Machine):
    """Who is shown the aggregator's states, one an iteration."""

    def __init__(self, terms: PemTerms, first: str) -> None:
        super().__init__(first)
        self._terms, self._iteration = terms, 0

    def _due_state(self, message: bytes) -> tuple[PemState, bytes] | None:
        """The state and its hash; none at the end. Iterations are counted here: each is a cost."""
        terms, state = self._terms, unpack_state(message)
        if state.iteration != self._iteration:
            raise ProtocolError(
                f"{terms.nodes.aggregator.name} sent a state of iteration {state.iteration}; "
                f"iteration {self._iteration} is due: the aggregator is not to be trusted."
            )
        if terms.nodes.budget.over(state):
            self._due = "done"
            self._forget()
            return None
        terms.check_room(state.blocks)
        return state, hashlib.sha256(message).digest()


class PemClient(PemNode):
    """`answer` to every state of the aggregator.

    Parameters
    ----------
    records : CSR
        Its own, in the order in which a stream takes them.
    random : callable
        Secret bytes, for shares and for the coins of sampling.
    sampler : Sampler
        Noise of the sparse vector technique, where it is used.
    """

    def __init__(
        self,
        terms: PemTerms,
        name: str,
        algorithm: PemAlgorithm,
        records: sp.csr_array,
        *,
        random: RandomBytes = os_random,
        sampler: Sampler | None = None,
    ) -> None:
        super().__init__(terms, "answer")
        nodes = terms.nodes
        if nodes.algorithm != repr(algorithm):
            raise InputError("The terms name another algorithm, or other parameters.")
        if not nodes.budget.stream and records.shape[0] > nodes.rows:
            raise InputError(f"{name} has {records.shape[0]} records; the terms allow {nodes.rows}.")
        self.name, self._algorithm, self._random = name, algorithm, random
        self._sampler = Vetted() if sampler is None else sampler
        self._records = records

    def answer(self, message: bytes) -> dict[str, PemUpload]:
        """One share a server for the aggregator's state; nothing where the state says that the run is over."""
        with self._step("answer", "answer"):
            nodes, due = self._terms.nodes, self._due_state(message)
            if due is None:
                return {}
            state, digest = due
            records = self._batch()
            chosen = sampled(records, nodes.budget.sampling, self._random)
            steps, places = client_vector(self._algorithm, chosen, state, nodes.budget, self._sampler)
            sent = steps if places is None else steps[places]
            shares = nodes.field.share(sent, len(nodes.servers), self._random)
            where = b"" if places is None else pack("places", places.astype("<i8").tobytes())
            self._iteration += 1
            return {
                server.name: PemUpload(self.name, digest, records.shape[0], where, nodes.field.to_bytes(share))
                for server, share in zip(nodes.servers, shares, strict=True)
            }

    def _batch(self) -> sp.csr_array:
        """All records; of a stream the next ones, which are then gone."""
        if not self._terms.nodes.budget.stream:
            return self._records
        rows = self._terms.nodes.rows
        batch, self._records = self._records[:rows], self._records[rows:]
        return batch

    def _forget(self) -> None:
        self._records = sp.csr_array(np.zeros((0, self._records.shape[1])))


class PemServer(PemNode):
    """For every iteration `open`, `take` what arrives, `present`, `total`.

    It gives one noisy sum an iteration, over one list of clients: a second list would be a second release. How
    much noise follows from the terms and from the state that the clients were shown too.

    Parameters
    ----------
    sampler : Sampler
        OpenDP's unless a simulation says otherwise.
    """

    def __init__(self, terms: PemTerms, *, sampler: Sampler | None = None) -> None:
        super().__init__(terms, "open")
        self.sampler: Sampler = Vetted() if sampler is None else sampler
        self._left = frozenset(terms.clients)
        self._state: PemState | None = None
        self._digest = b""
        self._taken: dict[str, tuple[int, Words]] = {}

    @property
    def waits_for(self) -> frozenset[str]:
        """Clients that are still in the run and whose upload of this iteration has not arrived."""
        return self._left - self._taken.keys()

    def open(self, message: bytes) -> bool:
        """Begin the iteration of the aggregator's state; False where it says that the run is over."""
        with self._step("open", "present"):
            due = self._due_state(message)
            if due is not None:
                (self._state, self._digest), self._taken = due, {}
            return due is not None

    def take(self, upload: PemUpload) -> None:
        """Add one client's share. What is refused changes nothing: that client has not been heard."""
        if self.due != "present" or self._state is None:
            raise ProtocolError("No upload is due.")
        if upload.sender not in self._left:
            raise ProtocolError("An upload arrived from a party that was not expected to send one.")
        if upload.sender in self._taken:
            raise ProtocolError(f"{upload.sender} sent its upload twice.")
        if upload.state != self._digest:
            raise ProtocolError(f"{upload.sender} was shown another state: the aggregator is not to be trusted.")
        if upload.rows > self._terms.nodes.rows:
            raise ProtocolError(f"{upload.sender} puts in more records than the terms allow.")
        self._taken[upload.sender] = upload.rows, self._spread(upload, self._state.entries)

    def _spread(self, upload: PemUpload, entries: int) -> Words:
        sender, field, sparse = upload.sender, self._terms.nodes.field, self._terms.nodes.budget.sparse
        if (sparse is None) != (not upload.places):
            asked = "a whole vector" if sparse is None else "places and their values"
            raise ProtocolError(f"{sender} sent another form of upload than the terms ask for: {asked}.")
        if sparse is None:
            return field.from_bytes(upload.share, entries)
        (raw,) = unpack("places", upload.places, 1)
        if len(raw) % 8 or len(raw) // 8 > sparse.most:
            raise ProtocolError(f"{sender} sent more places than the terms allow, {sparse.most}.")
        places = np.frombuffer(raw, dtype="<i8")
        if places.size and not (places[0] >= 0 and places[-1] < entries and (np.diff(places) > 0).all()):
            raise ProtocolError(f"{sender} sent places that are not there, or not in order.")
        full = np.zeros(entries, dtype=np.uint64)
        full[places] = field.from_bytes(upload.share, len(places))
        return full

    def present(self) -> bytes:
        """Whose uploads have arrived, and of how many records; the driver decides when it is late enough."""
        with self._step("present", "total"):
            pairs = (
                field
                for name, (rows, _) in sorted(self._taken.items())
                for field in (name.encode(), pack_number(rows))
            )
            return pack("pem-present", *pairs)

    def total(self, roster: bytes) -> bytes:
        """The sum of the listed clients' shares plus this server's noise; the others leave the run."""
        with self._step("total", "open"):
            nodes, state = self._terms.nodes, self._state
            assert state is not None
            names = unpack_names(roster)
            if not set(names) <= set(self._taken):
                raise ProtocolError("The list of clients names one whose upload has not arrived here.")
            if len(names) < nodes.least_clients:
                raise ProtocolError(f"{len(names)} clients are left; the terms ask for {nodes.least_clients}.")
            field = nodes.field
            noise = [self.sampler.draw(nodes.budget.scale(b), b.size) for b in state.blocks]
            shares = (self._taken[name][1] for name in names)
            total = field.total((field.encode(np.concatenate(noise)), *shares), state.entries)
            self._left, self._taken = frozenset(names), {}
            self._iteration += 1
            return field.to_bytes(total)

    def _forget(self) -> None:
        self._taken = {}


class PemAggregator(Machine):
    """For every iteration `begin`, `roster`, `reduce`; the last `begin` tells everybody that the run is over."""

    def __init__(self, terms: PemTerms, algorithm: PemAlgorithm) -> None:
        super().__init__("begin")
        if terms.nodes.algorithm != repr(algorithm):
            raise InputError("The terms name another algorithm, or other parameters.")
        self._terms, self._algorithm = terms, algorithm
        self.state = algorithm.init()
        """The newest state."""
        self.totals: list[PemTotal] = []
        """What was learned, iteration by iteration."""
        self.present: tuple[str, ...] = terms.clients
        """Clients that are still in the run."""
        self._rows = 0

    @property
    def over(self) -> bool:
        """Whether no iteration is left."""
        return self._terms.nodes.budget.over(self.state)

    @property
    def epsilon(self) -> float:
        """What the iterations so far have cost a record."""
        return self._terms.nodes.budget.spent(self.state.iteration)

    def begin(self) -> bytes:
        """The state, for everybody."""
        with self._step("begin", "roster"):
            message = pack_state(self.state)
        if self.over:
            self._due = "done"
        return message

    def roster(self, present: Mapping[str, bytes]) -> bytes:
        """From every server's list of arrivals, the clients whose uploads all of them have; the others are out."""
        with self._step("roster", "reduce"):
            lists = []
            for body in self._from_servers(present):
                fields = unpack("pem-present", body)
                if len(fields) % 2:
                    raise ProtocolError("A list of arrivals is damaged.")
                lists.append({name_of(n): number_of(r) for n, r in zip(fields[::2], fields[1::2], strict=True)})
            # A client that tells servers different numbers of records is left out like one that was not heard.
            there = [n for n in self.present if len({one.get(n) for one in lists}) == 1 and n in lists[0]]
            least = self._terms.nodes.least_clients
            if len(there) < least:
                raise ProtocolError(f"{len(there)} clients are left; the terms ask for {least}.")
            self.present = tuple(there)
            self._rows = sum(lists[0][name] for name in there)
            return pack_names(self.present)

    def reduce(self, partials: Mapping[str, bytes]) -> PemTotal:
        """Add the servers' sums and make the next state."""
        with self._step("reduce", "begin"):
            field, state = self._terms.nodes.field, self.state
            sums = [field.from_bytes(body, state.entries) for body in self._from_servers(partials)]
            steps = field.decode(field.total(sums, state.entries))
            self._check_size(steps)
            total = PemTotal.of(steps, state.blocks, self._rows, self._terms.nodes.budget.sampling)
            after = self._algorithm.reduce_in_aggregator(state, total)
            if after.iteration != state.iteration + 1:
                raise ProtocolError("`reduce_in_aggregator` must return the state of the next iteration.")
            self.totals.append(total)
            self.state = after
            return total

    def _check_size(self, steps: NDArray[np.int64]) -> None:
        sizes = [block.size for block in self.state.blocks]
        limits = np.repeat([self._terms.room(block) for block in self.state.blocks], sizes)
        if (np.abs(steps) > limits).any():
            raise ProtocolError("A sum is larger than the bounds and the noise allow: the run is void.")

    def _from_servers(self, said: Mapping[str, bytes]) -> list[bytes]:
        missing = sorted({p.name for p in self._terms.nodes.servers} - said.keys())
        if missing:
            raise ProtocolError(f"The message of {', '.join(missing)} is missing: no sum without every server.")
        return list(said.values())

    def _forget(self) -> None:
        self._rows = 0
