"""Remove all devices' noise but one from a noisy sum; nobody knows whose is left (FedPower, Algorithm 2).

After a secure aggregation the server has the sum of Y_i + N_i. This tells it the sum of all N_i but one. The
server holds a Paillier key; devices D_1, ..., D_n in the order of their names:

====  ==================  =======================================================================================
0     `hello`, `begin`    the devices agree on keys in pairs, through the server
1     `choices`           the server re-randomises one encryption of 0 and n - 1 of 1, in an order that it draws,
                          and sends them to D_1
2     `mix`               D_1 shuffles and re-randomises them and gives every device one, encrypted for it 3
`add`               D_i raises its bit's ciphertext to its packed noise, multiplies it into the product so far,
                          re-randomises, and passes it on, encrypted for D_i+1; D_n passes it to the server
4     `total`             the server decrypts the one product: the sum of b_i N_i
====  ==================  =======================================================================================

**Who learns what.** The server: the sum of all noises but one, not whose is missing (it does not know the
shuffle, sees no single contribution, and the product was re-randomised). A device: nothing; ciphertexts under a
key it has not. All are semi-honest, and no device works with the server: D_1 and the server together know whose
noise is left, and D_i-1 and D_i+1 with the server know N_i.

**Where the paper is not followed.** As printed, the server picks the device and so knows it; each device returns
its product straight to the server, which *could* decrypt it alone; and the device does not re-randomise, so that
the server, which knows the randomness r of its encryption of 0, finds the noise that was to stay hidden among
the few values of (r^n)^N. `test_noise_removal` carries that attack out. The paper's matrices of zeros and ones
are one number each: a power multiplies all packed entries at once. From its section 6: re-randomised instead of
fresh ciphertexts, one product decrypted instead of n.

Source: Liu, Pejo & Tang (2023), https://doi.org/10.3390/app13137373, Algorithm 2, steps 8 to 13, and section 6.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from gmpy2 import mpz
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import AgreementKey, Envelope, Participant, check_member, open_envelope, seal
from ksdp.protocols.channel.state_machine import Machine, one_each
from ksdp.protocols.channel.wire import pack, unpack
from ksdp.protocols.one_noise.paillier import FixedBase, PrivateKey
from ksdp.protocols.one_noise.removal_terms import RemovalTerms

_NONCE = bytes(12)
"""A key of one direction, pair and session encrypts one message: no second nonce is needed."""


class RemovalServer(Machine):
    """The server: `choices`, then `total`, each once. Any `ProtocolError` ends it."""

    def __init__(self, terms: RemovalTerms, identity: Ed25519PrivateKey, key: PrivateKey) -> None:
        super().__init__("choices")
        if Participant(terms.server.name, identity.public_key().public_bytes_raw()) != terms.server:
            raise InputError("`identity` is not the key of the server in the terms.")
        if key.public != terms.public:
            raise InputError("`key` is not the one of the terms.")
        self._terms, self._identity = terms, identity
        self._key: PrivateKey | None = key

    def choices(self) -> Envelope:
        """One encryption of 0 among encryptions of 1, for the first device."""
        with self._step("choices", "total"):
            terms = self._terms
            zero, one = terms.public.encrypt(0), terms.public.encrypt(1)
            kept = secrets.randbelow(len(terms.names))
            bits = [terms.public.rerandomise(zero if i == kept else one) for i in range(len(terms.names))]
            return seal(
                self._identity,
                terms.session,
                "removal-choices",
                terms.server.name,
                terms.write(bits),
                receiver=terms.names[0],
            )

    def total(self, message: Envelope) -> NDArray[np.int64]:
        """The sum of all noises but one, shape (entries,), in steps of the grid; from the last device.

        Raises
        ------
        ProtocolError
            If the message is not the last device's, or its sum is larger than the bounds allow.
        """
        with self._step("total", "done"):
            terms = self._terms
            assert self._key is not None
            last = terms.participants[-1]
            body = open_envelope(message, terms.session, "removal-total", last, receiver=terms.server.name)
            products = terms.read(body, terms.slots.plaintexts(terms.entries))
            noise = terms.slots.unpack([self._key.decrypt(c) for c in products], terms.entries)
            self._forget()
            return noise

    def _forget(self) -> None:
        self._key = None


class RemovalDevice(Machine):
    """One device: `hello`, `begin`, the first also `mix`, then `add`, each once. Any `ProtocolError` ends it.

    Parameters
    ----------
    name : str
        Which device this is.
    identity : Ed25519PrivateKey
        Its signing key.
    random_bytes : callable
        Source of the agreement key; the operating system's unless a test injects another.
    """

    def __init__(
        self,
        terms: RemovalTerms,
        name: str,
        identity: Ed25519PrivateKey,
        *,
        random_bytes: RandomBytes = os_random,
    ) -> None:
        super().__init__("hello")
        check_member(terms.participants, name, identity, whose="devices")
        self.name = name
        self._terms, self._identity = terms, identity
        self._place = terms.names.index(name)
        self._agreement: AgreementKey | None = AgreementKey(random_bytes(32))
        self._publics: dict[str, bytes] = {}
        self._bit: mpz | None = None
        self._zeros: list[mpz] = []

    def prepare(self) -> None:
        """Draw the encryptions of 0 that `add` re-randomises with, beforehand: they depend on nothing."""
        terms = self._terms
        self._zeros = [terms.public.zero() for _ in range(terms.slots.plaintexts(terms.entries))]

    def hello(self) -> Envelope:
        """This device's signed agreement key, for all others."""
        with self._step("hello", "begin"):
            assert self._agreement is not None
            return seal(self._identity, self._terms.session, "removal-hello", self.name, self._agreement.public)

    def begin(self, hellos: Iterable[Envelope]) -> None:
        """Take everybody else's.

        Raises
        ------
        ProtocolError
            If one is missing, repeated, from a stranger, or not signed.
        """
        with self._step("begin", "add" if self._place else "mix"):
            peers = {p.name: p for p in self._terms.participants if p.name != self.name}
            sent = one_each(hellos, peers, "first message")
            if set(sent) != set(peers):
                raise ProtocolError("A device's first message is missing: this needs everybody.")
            self._publics = {
                name: open_envelope(envelope, self._terms.session, "removal-hello", peers[name])
                for name, envelope in sent.items()
            }

    def mix(self, choices: Envelope) -> dict[str, Envelope]:
        """Of the first device: a shuffled, re-randomised bit for every other one; its own it keeps."""
        with self._step("mix", "add"):
            terms = self._terms
            body = open_envelope(choices, terms.session, "removal-choices", terms.server, receiver=self.name)
            bits = [terms.public.rerandomise(c) for c in terms.read(body, len(terms.names))]
            secrets.SystemRandom().shuffle(bits)
            self._bit = bits[0]
            return {
                name: self._send("removal-bit", name, terms.write([bit]))
                for name, bit in zip(terms.names[1:], bits[1:], strict=True)
            }

    def add(
        self, noise: NDArray[np.int64], bit: Envelope | None = None, before: Envelope | None = None
    ) -> Envelope:
        """Multiply this device's noise, or nothing, into the product, and pass it on.

        Parameters
        ----------
        noise : ndarray of int64
            In steps of the grid; exactly what was added to this device's vector.
        bit : Envelope, optional
            From the first device; the first device has its own.
        before : Envelope, optional
            From the device before; the first has none.

        Raises
        ------
        InputError
            If the noise has another size or leaves the bound; nothing was sent.
        ProtocolError
            If a message does not decrypt or does not fit.
        """
        with self._step("add", "done"):
            terms = self._terms
            steps = np.asarray(noise)
            if steps.size != terms.entries or not np.issubdtype(steps.dtype, np.integer):
                raise InputError(f"`noise` must be {terms.entries} whole numbers.")
            plaintexts = terms.slots.pack(steps)
            public = terms.public
            if self._place:
                if bit is None or before is None:
                    raise InputError("`bit` and `before` must be given by every device but the first.")
                (self._bit,) = terms.read(self._receive("removal-bit", terms.names[0], bit), 1)
                body = self._receive("removal-product", terms.names[self._place - 1], before)
                products = terms.read(body, len(plaintexts))
            else:
                products = [mpz(1)] * len(plaintexts)
            assert self._bit is not None
            # All powers are of one base: a table pays from some twenty plaintexts on.
            table = FixedBase(int(self._bit), int(public.square), public.bits) if len(plaintexts) > 20 else None
            after = []
            for product, plaintext in zip(products, plaintexts, strict=True):
                exponent = plaintext % public.n
                power = table.power(exponent) if table else pow(self._bit, exponent, public.square)
                fresh = self._zeros.pop() if self._zeros else public.zero()  # each is used once
                after.append(product * power % public.square * fresh % public.square)
            written = terms.write(after)
            if self._place + 1 < len(terms.names):
                message = self._send("removal-product", terms.names[self._place + 1], written)
            else:
                message = seal(
                    self._identity,
                    terms.session,
                    "removal-total",
                    self.name,
                    written,
                    receiver=terms.server.name,
                )
            self._forget()
            return message

    def _cipher(self, kind: str, source: str, target: str) -> AESGCM:
        assert self._agreement is not None
        peer = target if source == self.name else source
        purpose = f"{kind} {source} to {target}"
        session = self._terms.session
        return AESGCM(self._agreement.derive(purpose, session, self.name, peer, self._publics[peer]))

    def _send(self, kind: str, target: str, body: bytes) -> Envelope:
        hidden = self._cipher(kind, self.name, target).encrypt(_NONCE, pack("removal", body), None)
        return seal(self._identity, self._terms.session, kind, self.name, hidden, receiver=target)

    def _receive(self, kind: str, source: str, message: Envelope) -> bytes:
        sender = self._terms.participants[self._terms.names.index(source)]
        hidden = open_envelope(message, self._terms.session, kind, sender, receiver=self.name)
        try:
            plain = self._cipher(kind, source, self.name).decrypt(_NONCE, hidden, None)
        except InvalidTag:
            raise ProtocolError(f"A message of {source} was changed on the way.") from None
        return unpack("removal", plain, 1)[0]

    def _forget(self) -> None:
        self._agreement = self._bit = None
        self._publics, self._zeros = {}, []
