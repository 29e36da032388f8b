"""What PEM's clients and servers share: an agreement key, said hello with, and a key with each of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.keys import AgreementKey, Envelope, Participant, seal
from ksdp.protocols.channel.state_machine import Machine, one_each
from ksdp.protocols.pem.terms import PemTerms, upload_key


class PemNode(Machine):
    """`hello`, then `hear`: a key for uploads with each node of the other kind.

    Parameters
    ----------
    role : {"client", "server"}
        What the terms must name it as.
    key : Ed25519PrivateKey
        Its identity.
    random : callable
        Secret bytes.

    Raises
    ------
    InputError
        If the terms do not name it.
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
            return seal(self._key, self._terms.session, "pem-hello", self.name, self._agreement.public)

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
