"""PEM's server: adds up shares, determines the noise level, adds noise, hands on the sum."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.array_types import Words
from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemState
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Vetted
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import Envelope, seal
from ksdp.protocols.channel.wire import number_of, pack, pack_number, unpack, unpack_names
from ksdp.protocols.pem.node import PemNode
from ksdp.protocols.pem.state_messages import unpack_state
from ksdp.protocols.pem.terms import PemTerms, PemUpload, numbered, open_numbered


class PemServer(PemNode):
    """`hello`, `hear`, then for every iteration `open`, `take` what arrives, `present`, `total`.

    It gives one noisy sum an iteration, over one list of clients: a second list would be a second release. How
    much noise follows from the terms and from the state that the clients were shown too.

    Parameters
    ----------
    sampler : Sampler
        OpenDP's unless a simulation says otherwise.
    random : callable
        Secret bytes.

    Raises
    ------
    InputError
        If the terms do not name this server.
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
            terms = self._terms
            body = open_numbered(message, terms.session, "pem-state", terms.aggregator, self._iteration)
            state = unpack_state(body)
            over = terms.budget.over(state)
            if not over:
                terms.check_room(state.blocks)
            self._state, self._digest, self._taken = state, hashlib.sha256(body).digest(), {}
        if over:
            self._due = "done"
            self._forget()
        return not over

    def take(self, upload: PemUpload) -> None:
        """Add one client's share. What is refused changes nothing: to the server that client has not been heard.

        Raises
        ------
        ProtocolError
            If it is not due, was changed, or is of another iteration, state or length.
        """
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
        self._taken[upload.sender] = number_of(rows), self._spread(where, share, self._state.entries)

    def _spread(self, where: bytes, share: bytes, entries: int) -> Words:
        sparse = self._terms.budget.sparse
        if (sparse is None) != (not where):
            raise ProtocolError("An upload is sparse where it should not be, or the other way round.")
        if sparse is None:
            return self._terms.field.from_bytes(share, entries)
        (raw,) = unpack("places", where, 1)
        if len(raw) % 8 or len(raw) // 8 > sparse.most:
            raise ProtocolError("An upload names too many places.")
        places = np.frombuffer(raw, dtype="<i8")
        if places.size and not (places[0] >= 0 and places[-1] < entries and (np.diff(places) > 0).all()):
            raise ProtocolError("An upload names places that are not there, or not in order.")
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
            return seal(self._key, self._terms.session, "pem-present", self.name, body)

    def total(self, message: Envelope) -> Envelope:
        """The sum of the listed clients' shares plus this server's noise; the others leave the run.

        Raises
        ------
        ProtocolError
            If the list is too short or names a client whose upload has not arrived.
        """
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
            return seal(self._key, terms.session, "pem-partial", self.name, partial)

    def _forget(self) -> None:
        super()._forget()
        self._taken = {}
