"""PEM's parties as state machines: client, server, aggregator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, PemTotal, client_vector, sampled
from ksdp.audit.mechanisms.pem.noise import Sampler, Vetted
from ksdp.audit.numeric.array_types import Words
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.extras.pem.messages import (
    PemTerms,
    PemUpload,
    numbered,
    open_numbered,
    pack_state,
    unpack_state,
    upload_key,
)
from ksdp.protocols.channel.keys import AgreementKey, Envelope, Participant, sign_envelope
from ksdp.protocols.channel.rounds import Machine, one_each
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_names, pack_number, unpack, unpack_names


class PemNode(Machine):
    """`hello`, then `hear`: a key for uploads with each node of the other kind.

    Parameters
    ----------
    role : {"client", "server"}
        What the terms must name it as.
    """

    def __init__(self, terms: PemTerms, role: str, name: str, key: Ed25519PrivateKey, random: RandomBytes) -> None:
        super().__init__("hello")
        mine = (terms.client_of if role == "client" else terms.server_of).get(name)
        if mine is None or mine.identity != key.public_key().public_bytes_raw():
            raise InputError(f"The terms name no {role} {name} with this key.")
        self.name = name
        self._terms, self._key = terms, key
        self._agreement: AgreementKey | None = AgreementKey(random(32))
        self._keys: dict[str, bytes] = {}
        self._iteration = 0

    def hello(self) -> Envelope:
        """This session's agreement key, for every node of the other kind."""
        with self._step("hello", "hear"):
            assert self._agreement is not None
            return sign_envelope(self._key, self._terms.session, "pem-hello", self.name, self._agreement.public)

    def _due_state(self, message: Envelope) -> tuple[PemState, bytes] | None:
        """The state and its hash; none at the end. Iterations are counted here: they are nonces, and a cost."""
        terms = self._terms
        body = open_numbered(message, terms.session, "pem-state", terms.aggregator, self._iteration)
        state = unpack_state(body)
        if state.iteration != self._iteration:
            raise ProtocolError(
                f"{terms.aggregator.name} sent a state of iteration {state.iteration}; "
                f"iteration {self._iteration} is due: the aggregator is not to be trusted."
            )
        if terms.budget.over(state):
            self._due = "done"
            self._forget()
            return None
        terms.check_room(state.blocks)
        return state, hashlib.sha256(body).digest()

    def _agree(self, hellos: Iterable[Envelope], others: Mapping[str, Participant]) -> dict[str, bytes]:
        """A key with each of the others who said hello; there is no second one."""
        assert self._agreement is not None
        agreement, session = self._agreement, self._terms.session
        return {
            name: upload_key(agreement, session, self.name, hello, others[name])
            for name, hello in one_each(hellos, others, "first message").items()
        }

    def _forget(self) -> None:
        self._agreement, self._keys = None, {}


class PemClient(PemNode):
    """`hello`, `hear`, then `answer` to every state of the aggregator.

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
        key: Ed25519PrivateKey,
        algorithm: PemAlgorithm,
        records: sp.csr_array,
        *,
        random: RandomBytes = os_random,
        sampler: Sampler | None = None,
    ) -> None:
        super().__init__(terms, "client", name, key, random)
        if terms.algorithm != repr(algorithm):
            raise InputError("The terms name another algorithm, or other parameters.")
        if not terms.budget.stream and records.shape[0] > terms.rows:
            raise InputError(f"{name} has {records.shape[0]} records; the terms allow {terms.rows}.")
        self._algorithm, self._random = algorithm, random
        self._sampler = Vetted() if sampler is None else sampler
        self._records = records

    def hear(self, hellos: Iterable[Envelope]) -> None:
        """Take every server's agreement key."""
        with self._step("hear", "answer"):
            keys = self._agree(hellos, self._terms.server_of)
            if len(keys) != len(self._terms.servers):
                raise InputError("A server has not said hello: nothing is shared without all of them.")
            self._agreement, self._keys = None, keys

    def answer(self, message: Envelope) -> dict[str, PemUpload]:
        """One share a server for the aggregator's state; nothing where the state says that the run is over."""
        with self._step("answer", "answer"):
            terms, due = self._terms, self._due_state(message)
            if due is None:
                return {}
            state, digest = due
            records = self._batch()
            chosen = sampled(records, terms.budget.sampling, self._random)
            steps, places = client_vector(self._algorithm, chosen, state, terms.budget, self._sampler)
            sent = steps if places is None else steps[places]
            shares = terms.field.share(sent, len(terms.servers), self._random)
            where = b"" if places is None else pack("places", places.astype("<i8").tobytes())
            head = (digest, pack_number(records.shape[0]), where)
            uploads = {
                server: PemUpload.seal(
                    key, terms.session, self.name, server, self._iteration,
                    pack("pem-share", *head, terms.field.to_bytes(share)),
                )
                for (server, key), share in zip(sorted(self._keys.items()), shares, strict=True)
            }  # fmt: skip
            self._iteration += 1
            return uploads

    def _batch(self) -> sp.csr_array:
        """All records; of a stream the next ones, which are then gone."""
        if not self._terms.budget.stream:
            return self._records
        batch, self._records = self._records[: self._terms.rows], self._records[self._terms.rows :]
        return batch

    def _forget(self) -> None:
        super()._forget()
        self._records = sp.csr_array(np.zeros((0, self._records.shape[1])))


class PemServer(PemNode):
    """`hello`, `hear`, then for every iteration `open`, `take` what arrives, `present`, `total`.

    It gives one noisy sum an iteration, over one list of clients: a second list would be a second release. How
    much noise follows from the terms and from the state that the clients were shown too.

    Parameters
    ----------
    sampler : Sampler
        OpenDP's unless a simulation says otherwise.
    """

    def __init__(
        self,
        terms: PemTerms,
        name: str,
        key: Ed25519PrivateKey,
        *,
        sampler: Sampler | None = None,
        random: RandomBytes = os_random,
    ) -> None:
        super().__init__(terms, "server", name, key, random)
        self.sampler: Sampler = Vetted() if sampler is None else sampler
        self._state: PemState | None = None
        self._digest = b""
        self._taken: dict[str, tuple[int, Words]] = {}

    def hear(self, hellos: Iterable[Envelope]) -> None:
        """Take the clients' agreement keys; a client that is not heard takes no part."""
        with self._step("hear", "open"):
            self._keys = self._agree(hellos, self._terms.client_of)
            self._agreement = None

    @property
    def waits_for(self) -> frozenset[str]:
        """Clients that are still in the run and whose upload of this iteration has not arrived."""
        return frozenset(self._keys) - frozenset(self._taken)

    def open(self, message: Envelope) -> bool:
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
        if upload.receiver != self.name or upload.sender not in self._keys:
            raise ProtocolError("An upload arrived from a party that was not expected to send one.")
        if upload.sender in self._taken:
            raise ProtocolError(f"{upload.sender} sent its upload twice.")
        if upload.iteration != self._iteration:
            raise ProtocolError(f"{upload.sender} sent an upload of another iteration.")
        body = upload.open(self._keys[upload.sender], self._terms.session)
        digest, rows, where, share = unpack("pem-share", body, 4)
        if digest != self._digest:
            raise ProtocolError(f"{upload.sender} was shown another state: the aggregator is not to be trusted.")
        if number_of(rows) > self._terms.rows:
            raise ProtocolError(f"{upload.sender} puts in more records than the terms allow.")
        spread = self._spread(upload.sender, where, share, self._state.entries)
        self._taken[upload.sender] = number_of(rows), spread

    def _spread(self, sender: str, where: bytes, share: bytes, entries: int) -> Words:
        sparse = self._terms.budget.sparse
        if (sparse is None) != (not where):
            asked = "a whole vector" if sparse is None else "places and their values"
            raise ProtocolError(f"{sender} sent another form of upload than the terms ask for: {asked}.")
        if sparse is None:
            return self._terms.field.from_bytes(share, entries)
        (raw,) = unpack("places", where, 1)
        if len(raw) % 8 or len(raw) // 8 > sparse.most:
            raise ProtocolError(f"{sender} sent more places than the terms allow, {sparse.most}.")
        places = np.frombuffer(raw, dtype="<i8")
        if places.size and not (places[0] >= 0 and places[-1] < entries and (np.diff(places) > 0).all()):
            raise ProtocolError(f"{sender} sent places that are not there, or not in order.")
        full = np.zeros(entries, dtype=np.uint64)
        full[places] = self._terms.field.from_bytes(share, len(places))
        return full

    def present(self) -> Envelope:
        """Whose uploads have arrived, and of how many records; the driver decides when it is late enough."""
        with self._step("present", "total"):
            pairs = (
                field
                for name, (rows, _) in sorted(self._taken.items())
                for field in (name.encode(), pack_number(rows))
            )
            body = numbered(self._iteration, pack("pem-present", *pairs))
            return sign_envelope(self._key, self._terms.session, "pem-present", self.name, body)

    def total(self, message: Envelope) -> Envelope:
        """The sum of the listed clients' shares plus this server's noise; the others leave the run."""
        with self._step("total", "open"):
            terms, state = self._terms, self._state
            assert state is not None
            body = open_numbered(message, terms.session, "pem-roster", terms.aggregator, self._iteration)
            names = unpack_names(body)
            if not set(names) <= set(self._taken):
                raise ProtocolError("The list of clients names one whose upload has not arrived here.")
            if len(names) < terms.least_clients:
                raise ProtocolError(f"{len(names)} clients are left; the terms ask for {terms.least_clients}.")
            field = terms.field
            noise = [self.sampler.draw(terms.budget.scale(b), b.size) for b in state.blocks]
            shares = (self._taken[name][1] for name in names)
            total = field.total((field.encode(np.concatenate(noise)), *shares), state.entries)
            self._keys = {name: self._keys[name] for name in names}
            self._taken = {}
            partial = numbered(self._iteration, field.to_bytes(total))
            self._iteration += 1
            return sign_envelope(self._key, terms.session, "pem-partial", self.name, partial)

    def _forget(self) -> None:
        super()._forget()
        self._taken = {}


class PemAggregator(Machine):
    """For every iteration `begin`, `roster`, `reduce`; the last `begin` tells everybody that the run is over."""

    def __init__(self, terms: PemTerms, key: Ed25519PrivateKey, algorithm: PemAlgorithm) -> None:
        super().__init__("begin")
        if terms.aggregator.identity != key.public_key().public_bytes_raw():
            raise InputError("The terms name an aggregator with another key.")
        if terms.algorithm != repr(algorithm):
            raise InputError("The terms name another algorithm, or other parameters.")
        self._terms, self._key, self._algorithm = terms, key, algorithm
        self.state = algorithm.init()
        """The newest state."""
        self.totals: list[PemTotal] = []
        """What was learned, iteration by iteration."""
        self.present: tuple[str, ...] = tuple(p.name for p in terms.clients)
        """Clients that are still in the run."""
        self._rows = 0

    @property
    def over(self) -> bool:
        """Whether no iteration is left."""
        return self._terms.budget.over(self.state)

    @property
    def epsilon(self) -> float:
        """What the iterations so far have cost a record."""
        return self._terms.budget.spent(self.state.iteration)

    def begin(self) -> Envelope:
        """The state, for everybody."""
        with self._step("begin", "roster"):
            message = self._signed("pem-state", pack_state(self.state))
        if self.over:
            self._due = "done"
        return message

    def roster(self, messages: Iterable[Envelope]) -> Envelope:
        """From every server's list of arrivals, the clients whose uploads all of them have; the others are out."""
        with self._step("roster", "reduce"):
            lists = []
            for body in self._from_servers(messages, "pem-present"):
                fields = unpack("pem-present", body)
                if len(fields) % 2:
                    raise ProtocolError("A list of arrivals is damaged.")
                lists.append({name_of(n): number_of(r) for n, r in zip(fields[::2], fields[1::2], strict=True)})
            # A client that tells servers different numbers of records is left out like one that was not heard.
            there = [n for n in self.present if len({one.get(n) for one in lists}) == 1 and n in lists[0]]
            if len(there) < self._terms.least_clients:
                raise ProtocolError(
                    f"{len(there)} clients are left; the terms ask for {self._terms.least_clients}."
                )
            self.present = tuple(there)
            self._rows = sum(lists[0][name] for name in there)
            return self._signed("pem-roster", pack_names(self.present))

    def reduce(self, messages: Iterable[Envelope]) -> PemTotal:
        """Add the servers' sums and make the next state."""
        with self._step("reduce", "begin"):
            field, state = self._terms.field, self.state
            sums = [field.from_bytes(b, state.entries) for b in self._from_servers(messages, "pem-partial")]
            words = field.total(sums, state.entries)
            steps = field.decode(words)
            self._check_size(steps)
            total = PemTotal.of(steps, state.blocks, self._rows, self._terms.budget.sampling)
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

    def _from_servers(
        self, messages: Iterable[Envelope], kind: Literal["pem-present", "pem-partial"]
    ) -> list[bytes]:
        servers = {p.name: p for p in self._terms.servers}
        heard = one_each(messages, servers, "message")
        missing = sorted(set(servers) - set(heard))
        if missing:
            raise ProtocolError(f"The message of {', '.join(missing)} is missing: no sum without every server.")
        session, number = self._terms.session, self.state.iteration
        return [open_numbered(e, session, kind, servers[n], number) for n, e in heard.items()]

    def _signed(self, kind: str, body: bytes) -> Envelope:
        name = self._terms.aggregator.name
        return sign_envelope(self._key, self._terms.session, kind, name, numbered(self.state.iteration, body))

    def _forget(self) -> None:
        self._rows = 0
