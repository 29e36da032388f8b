"""The server of secure aggregation: what it is told and what it cannot learn is in `secure_aggregation`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.keys import AgreementKey, Envelope, Participant, open_envelope, seal
from ksdp.protocols.channel.state_machine import Machine, one_each
from ksdp.protocols.channel.wire import pack, pack_names, unpack, unpack_names
from ksdp.protocols.sums.masks import Keystream
from ksdp.protocols.sums.secure_aggregation import (
    Aggregate,
    AggregationTerms,
    mask_key_of_seed,
    seed_commitment,
)
from ksdp.protocols.sums.shamir import PRIME, SHARE_BYTES, lagrange_at_zero, recover

_SECRET_BYTES = 32


class AggregationServer(Machine):
    """The server: `keys`, `shares`, `masked`, `agreed`, `unmask`, each once, with whatever arrived in time.

    A client that is missing has dropped out. Any `ProtocolError` ends the run.

    Parameters
    ----------
    terms : AggregationTerms
        What everybody agreed on.
    identity : Ed25519PrivateKey
        Its signing key.

    Examples
    --------
    Three clients, any two of which suffice; cyd leaves before it has sent anything.

    >>> from ksdp.protocols.sums.aggregation_client import AggregationClient
    >>> from ksdp.protocols.sums.fixed_point import FixedPoint
    >>> keys = {name: Ed25519PrivateKey.generate() for name in ("ada", "bob", "cyd", "server")}
    >>> *people, collector = (Participant(n, k.public_key().public_bytes_raw()) for n, k in keys.items())
    >>> terms = AggregationTerms(tuple(people), collector, 2, FixedPoint(20, 10.0, 3), (2,), b"1 May")
    >>> clients = {p.name: AggregationClient(terms, p.name, keys[p.name]) for p in people}
    >>> server = AggregationServer(terms, keys["server"])
    >>> listed = server.keys(c.advertise() for c in clients.values())
    >>> each = server.shares([c.share_keys(listed) for c in clients.values()])
    >>> _ = clients.pop("cyd")
    >>> survivors = server.masked([c.mask(each[n], [1.5, -2.0]) for n, c in clients.items()])
    >>> agreements = server.agreed([c.agree(survivors) for c in clients.values()])
    >>> result = server.unmask(c.unmask(agreements) for c in clients.values())
    >>> result.values, result.dropped
    (array([ 3., -4.]), ('cyd',))
    """

    def __init__(self, terms: AggregationTerms, identity: Ed25519PrivateKey) -> None:
        super().__init__("keys")
        if Participant(terms.server.name, identity.public_key().public_bytes_raw()) != terms.server:
            raise InputError("`identity` is not the key of the server in the terms.")
        self._terms = terms
        self._identity = identity
        self._public: dict[str, bytes] = {}
        """The public half of s of everybody in round 0."""
        self._commitments: dict[str, bytes] = {}
        """To the seed of everybody who shared."""
        self._total: NDArray[np.uint64] = np.zeros(terms.entries, dtype="<u8")
        self._survivors: tuple[str, ...] = ()
        self._signers: tuple[str, ...] = ()

    def keys(self, messages: Iterable[Envelope]) -> Envelope:
        """Round 0: from the clients' keys to the list for all of them."""
        with self._step("keys", "shares"):
            sent = self._collect("aggregation-keys", messages, tuple(self._terms.clients))
            for name, (_, body) in sent.items():
                _, self._public[name] = unpack("keys", body, 2)
            listed = pack("key-list", *(envelope.to_bytes() for envelope, _ in sent.values()))
            return self._seal("aggregation-key-list", listed)

    def shares(self, messages: Iterable[Envelope]) -> dict[str, Envelope]:
        """Round 1: from everybody's encrypted shares to those for each client, by name."""
        with self._step("shares", "masked"):
            sent = self._collect("aggregation-shares", messages, tuple(self._public))
            parts: dict[str, dict[str, bytes]] = {}
            for name, (_, body) in sent.items():
                commitment, packed, *encrypted = unpack("shares", body)
                targets = unpack_names(packed)
                if set(targets) != set(self._public) - {name} or len(encrypted) != len(targets):
                    raise ProtocolError(f"{name} did not share with everybody on the list.")
                self._commitments[name] = commitment
                parts[name] = dict(zip(targets, encrypted, strict=True))
            sharers = pack_names(tuple(sent))
            return {
                name: self._seal(
                    "aggregation-share-list",
                    pack("share-list", sharers, *(parts[other][name] for other in sent if other != name)),
                    receiver=name,
                )
                for name in sent
            }

    def masked(self, messages: Iterable[Envelope]) -> Envelope:
        """Round 2: from the masked vectors to the list of those whose arrived."""
        with self._step("masked", "agreed"):
            sent = self._collect("aggregation-masked", messages, tuple(self._commitments))
            for name, (_, body) in sent.items():
                if len(body) != 8 * self._terms.entries:
                    raise ProtocolError(f"{name} sent a vector of another length.")
                self._total += np.frombuffer(body, dtype="<u8")
            self._survivors = tuple(sent)
            return self._seal("aggregation-survivors", pack_names(self._survivors))

    def agreed(self, messages: Iterable[Envelope]) -> Envelope:
        """Round 3: from the signed lists to all of them, for everybody who signed."""
        with self._step("agreed", "unmask"):
            sent = self._collect("aggregation-agreed", messages, self._survivors)
            if len({body for _, body in sent.values()}) > 1:
                raise ProtocolError("The clients signed different lists.")
            self._signers = tuple(sent)
            listed = pack("agreements", *(envelope.to_bytes() for envelope, _ in sent.values()))
            return self._seal("aggregation-agreements", listed)

    def unmask(self, messages: Iterable[Envelope]) -> Aggregate:
        """Round 4: from the shares to the sum.

        Raises
        ------
        ProtocolError
            If fewer than the threshold answered, a share is false, or the sum is larger than the bounds allow.
        """
        with self._step("unmask", "done"):
            terms = self._terms
            sent = self._collect("aggregation-unmask", messages, self._signers)
            enough = list(sent)[: terms.threshold]
            shares = {terms.points[name]: self._shares_of(name, sent[name][1]) for name in enough}
            weights = lagrange_at_zero(shares)
            for index, name in enumerate(sorted(self._commitments)):
                points = {point: numbers[index] for point, numbers in shares.items()}
                secret = recover(points, _SECRET_BYTES, weights)
                (self._take_off_own if name in self._survivors else self._take_off_pairs)(name, secret)
            n = len(self._survivors)
            values = terms.coding.decode(self._total.reshape(terms.shape), n)
            dropped = tuple(sorted(set(terms.clients) - set(self._survivors)))
            self._forget()
            return Aggregate(
                values,
                self._survivors,
                dropped,
                f"The exact sum over {n} clients: whoever knows all but one of their vectors learns the last one.",
            )

    def _take_off_own(self, name: str, seed: bytes) -> None:
        session = self._terms.session
        if seed_commitment(session, name, seed) != self._commitments[name]:
            raise ProtocolError(f"The seed of {name} does not come out of the shares: one is false.")
        Keystream(mask_key_of_seed(session, name, seed)).add_to(self._total, 0, -1)

    def _take_off_pairs(self, name: str, secret: bytes) -> None:
        """Those that the survivors added for a client that left: what it would have added itself, added now."""
        key = AgreementKey(secret)
        if key.public != self._public[name]:
            raise ProtocolError(f"The key of {name} does not come out of the shares: one is false.")
        for other in self._survivors:
            pair = key.derive("aggregation-mask", self._terms.session, name, other, self._public[other])
            Keystream(pair).add_to(self._total, 0, 1 if name < other else -1)

    def _shares_of(self, name: str, body: bytes) -> list[int]:
        shares = unpack("unmask", body, len(self._commitments))
        numbers = [int.from_bytes(share, "big") for share in shares]
        if any(len(share) != SHARE_BYTES for share in shares) or any(n >= PRIME for n in numbers):
            raise ProtocolError(f"{name} gave something that is no share.")
        return numbers

    def _collect(
        self, kind: str, messages: Iterable[Envelope], allowed: tuple[str, ...]
    ) -> Mapping[str, tuple[Envelope, bytes]]:
        """Envelope and body of whoever answered; at least the threshold."""
        terms = self._terms
        sent = one_each(messages, allowed, "message")
        if len(sent) < terms.threshold:
            raise ProtocolError(f"{len(sent)} clients are left; the threshold is {terms.threshold}.")
        return {
            name: (
                envelope,
                open_envelope(envelope, terms.session, kind, terms.clients[name], receiver=terms.server.name),
            )
            for name, envelope in sent.items()
        }

    def _seal(self, kind: str, body: bytes, *, receiver: str = "") -> Envelope:
        return seal(self._identity, self._terms.session, kind, self._terms.server.name, body, receiver=receiver)

    def _forget(self) -> None:
        self._total = np.zeros(0, dtype="<u8")
