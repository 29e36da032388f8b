"""PEM's aggregator: adds the servers' noisy sums, makes the next state, decides who is still there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemTotal
from ksdp.protocols.channel.keys import Envelope, seal
from ksdp.protocols.channel.state_machine import Machine, one_each
from ksdp.protocols.channel.wire import name_of, number_of, pack_names, unpack
from ksdp.protocols.pem.state_messages import pack_state
from ksdp.protocols.pem.terms import PemTerms, numbered, open_numbered


class PemAggregator(Machine):
    """For every iteration `begin`, `roster`, `reduce`; the last `begin` tells everybody that the run is over.

    Parameters
    ----------
    key : Ed25519PrivateKey
        Its identity.

    Raises
    ------
    InputError
        If the terms name another aggregator or another algorithm.
    """

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
        """From every server's list of arrivals, the clients whose uploads all of them have; the others are out.

        Raises
        ------
        ProtocolError
            If a server's list is missing, or fewer clients are left than the terms ask for.
        """
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
        """Add the servers' sums and make the next state.

        Raises
        ------
        ProtocolError
            If a server's sum is missing: without it the others are random numbers. If the sum is larger than
            records and noise can make it: then shares did not cancel, or somebody kept to no bound.
        """
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
        return seal(self._key, self._terms.session, kind, name, numbered(self.state.iteration, body))

    def _forget(self) -> None:
        self._rows = 0
