"""PEM's client: clips, adds up, splits into shares, seals one for each server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Vetted
from ksdp.audit.mechanisms.pem.ideal import client_vector, sampled
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.wire import pack, pack_number
from ksdp.protocols.pem.node import PemNode
from ksdp.protocols.pem.state_messages import unpack_state
from ksdp.protocols.pem.terms import PemTerms, PemUpload, open_numbered


class PemClient(PemNode):
    """`hello`, `hear`, then `answer` to every state of the aggregator.

    Parameters
    ----------
    records : CSR
        Its own; for a stream none, they are `offer`ed.
    random : callable
        Secret bytes, for shares and for the coins of sampling.
    sampler : Sampler
        Noise of the sparse vector technique, where it is used.

    Raises
    ------
    InputError
        If the terms do not name this client or this algorithm, or it has more records than they allow.
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

    def offer(self, records: sp.csr_array) -> None:
        """Buffer records of a stream; each enters one mini-batch, in the order in which they came.

        Raises
        ------
        InputError
            If the terms are not those of a stream.
        """
        if not self._terms.budget.stream:
            raise InputError("Records can be added only where the terms say that they are a stream.")
        self._records = sp.csr_array(sp.vstack((self._records, records), format="csr"))

    def answer(self, message: Envelope) -> dict[str, PemUpload]:
        """One share a server for the aggregator's state; nothing where the state says that the run is over.

        Raises
        ------
        ProtocolError
            If the message is not the aggregator's next one.
        """
        with self._step("answer", "answer"):
            terms = self._terms
            body = open_numbered(message, terms.session, "pem-state", terms.aggregator, self._iteration)
            state = unpack_state(body)
            if terms.budget.over(state):
                self._forget()
                return {}
            terms.check_room(state.blocks)
            records = self._batch()
            chosen = sampled(records, terms.budget.sampling, self._random)
            steps, places = client_vector(self._algorithm, chosen, state, terms.budget, self._sampler)
            sent = steps if places is None else steps[places]
            shares = terms.field.share(sent, len(terms.servers), self._random)
            where = b"" if places is None else pack("places", places.astype("<i8").tobytes())
            head = (hashlib.sha256(body).digest(), pack_number(records.shape[0]), where)
            uploads = {
                server: PemUpload.seal(
                    key, terms.session, self.name, server, state.iteration,
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
