"""Who is there: every host's clients and a nonce, signed; from all of them together the terms of this one run.

A host of a protocol file may hold many clients. Their keys are made afresh for the run and signed for by the host,
whose key the file names. The aggregator collects the rolls and shows all of them to everybody: it can leave a host
out, as somebody who has not come, and neither invent clients nor move them. Everybody finds its own nonce in the
session, so that no roll of another run makes an old session again; and an aggregator that shows two hosts
different rolls has them in two sessions, where no message of one is taken in the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.budget import Budget
from ksdp.protocols.channel.keys import Envelope, Participant, open_envelope, seal
from ksdp.protocols.channel.wire import name_of, pack, unpack
from ksdp.protocols.pem.field_shares import PrimeField
from ksdp.protocols.pem.terms import PemTerms

NONCE_BYTES = 16
_KIND = "pem-roll"


@dataclass(frozen=True)
class PemNodes:
    """What a protocol file says: who takes part as what, and what is run."""

    holders: tuple[Participant, ...]
    """Hosts that hold clients, by name."""
    servers: tuple[Participant, ...]
    """By name."""
    aggregator: Participant
    budget: Budget
    rows: int
    """Most records that one client puts into one iteration."""
    algorithm: str
    """`repr` of the functions."""
    field: PrimeField
    least_clients: int
    agreement: bytes
    """SHA-256 of everything agreed on."""

    @property
    def everybody(self) -> Mapping[str, Participant]:
        """All hosts by name."""
        return {p.name: p for p in (*self.holders, *self.servers, self.aggregator)}

    def check(self, name: str, key: Ed25519PrivateKey) -> None:
        """Refuse a name that takes no part, or a key that is another's."""
        mine = self.everybody.get(name)
        if mine is None:
            raise InputError(f"`--me` must be one of {', '.join(sorted(self.everybody))}; got {name!r}.")
        if mine.identity != key.public_key().public_bytes_raw():
            raise InputError(f"the key is not the one that the protocol file names for {name}.")


def client_name(holder: str, client: str) -> str:
    """What a host's client is called in a run: no two hosts have one of the same name."""
    return f"{holder}/{client}"


def is_of(client: str, holder: str) -> bool:
    """Whether that is what one of this host's clients is called."""
    return client.startswith(client_name(holder, ""))


def make_roll(
    nodes: PemNodes, name: str, key: Ed25519PrivateKey, nonce: bytes, clients: Mapping[str, bytes]
) -> Envelope:
    """A host's own roll, signed.

    Parameters
    ----------
    nonce : bytes
        `NONCE_BYTES` random ones.
    clients : mapping
        Public keys by name (`client_name`); none but at a host that holds clients.
    """
    listed = (field for client, public in sorted(clients.items()) for field in (client.encode(), public))
    return seal(key, nodes.agreement, _KIND, name, pack(_KIND, nonce, *listed))


def meet(nodes: PemNodes, name: str, own: Envelope, rolls: Iterable[Envelope]) -> PemTerms:
    """The terms of this run, from everybody's rolls.

    Raises
    ------
    ProtocolError
        If somebody means something else, a server or the aggregator is missing, somebody else's clients are
        named, or this host's own roll is not among them as it was sent.
    """
    everybody, holders = nodes.everybody, {p.name for p in nodes.holders}
    heard: dict[str, Envelope] = {}
    clients: list[Participant] = []
    for roll in rolls:
        sender = everybody.get(roll.sender)
        if sender is None or roll.sender in heard:
            raise ProtocolError("The list of those present names an unknown party, or a party twice.")
        nonce, *listed = unpack(_KIND, open_envelope(roll, nodes.agreement, _KIND, sender))
        if len(nonce) != NONCE_BYTES or len(listed) % 2 or (listed and sender.name not in holders):
            raise ProtocolError(f"The roll of {sender.name} is damaged, or names clients that it cannot have.")
        heard[sender.name] = roll
        clients += _clients(sender.name, listed)
    missing = sorted(everybody.keys() - holders - heard.keys())
    if missing:
        raise ProtocolError(f"{', '.join(missing)} cannot be left out, and is not there.")
    if heard.get(name) != own:
        raise ProtocolError(f"{nodes.aggregator.name} does not tell the others what {name} said: the run is void.")
    if len(clients) < nodes.least_clients:
        raise ProtocolError(f"{len(clients)} clients are there; the terms ask for {nodes.least_clients}.")
    said = pack("pem-rolls", nodes.agreement, *(heard[who].to_bytes() for who in sorted(heard)))
    return PemTerms(
        tuple(sorted(clients)), nodes.servers, nodes.aggregator, nodes.budget, nodes.rows, nodes.algorithm,
        hashlib.sha256(said).digest(), nodes.field, nodes.least_clients,
    )  # fmt: skip


def _clients(holder: str, listed: list[bytes]) -> list[Participant]:
    found = []
    for name, public in zip(listed[::2], listed[1::2], strict=True):
        client = name_of(name)
        if not is_of(client, holder) or len(public) != 32:
            raise ProtocolError(f"The roll of {holder} names a client that is not its own.")
        found.append(Participant(client, public))
    if len({p.name for p in found}) != len(found):
        raise ProtocolError(f"The roll of {holder} names a client twice.")
    return found
