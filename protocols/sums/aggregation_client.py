"""A client of secure aggregation: what it claims and what it checks is in `secure_aggregation`."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import ArrayLike

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import AgreementKey, Envelope, check_member, open_envelope, seal
from ksdp.protocols.channel.state_machine import Machine, one_each
from ksdp.protocols.channel.wire import pack, pack_names, unpack, unpack_names
from ksdp.protocols.sums.masks import Keystream, PairwiseMasks
from ksdp.protocols.sums.secure_aggregation import AggregationTerms, mask_key_of_seed, seed_commitment, view_of
from ksdp.protocols.sums.shamir import SHARE_BYTES, split

_SECRET_BYTES = 32
_NONCE = bytes(12)
"""A key of one direction, pair and session encrypts one message: no second nonce is needed."""


class AggregationClient(Machine):
    """One client: `advertise`, `share_keys`, `mask`, `agree`, `unmask`, each once.

    Any `ProtocolError` ends it: its secrets are forgotten and every later call is refused.

    Parameters
    ----------
    terms : AggregationTerms
        What everybody agreed on.
    name : str
        Which client this is.
    identity : Ed25519PrivateKey
        Its signing key.
    random_bytes : callable
        Source of secrets; the operating system's unless a test injects another.
    """

    def __init__(
        self,
        terms: AggregationTerms,
        name: str,
        identity: Ed25519PrivateKey,
        *,
        random_bytes: RandomBytes = os_random,
    ) -> None:
        super().__init__("advertise")
        check_member(terms.participants, name, identity)
        self.name = name
        self._terms = terms
        self._identity = identity
        self._random = random_bytes
        self._mask_secret = random_bytes(_SECRET_BYTES)
        self._seed = random_bytes(_SECRET_BYTES)
        self._encrypting: AgreementKey | None = AgreementKey(random_bytes(_SECRET_BYTES))
        self._masking: AgreementKey | None = AgreementKey(self._mask_secret)
        self._peers: dict[str, tuple[bytes, bytes]] = {}
        """Public keys (c, s) of everybody else in round 1."""
        self._share_keys: dict[str, bytes] = {}
        self._key_list = b""
        self._held: dict[str, tuple[bytes, bytes]] = {}
        """Our shares of (s, b) of everybody who shared, ourselves included."""
        self._agreed = b""
        self._survivors: tuple[str, ...] = ()

    def advertise(self) -> Envelope:
        """Round 0: our two public keys, signed, for the server."""
        with self._step("advertise", "share_keys"):
            assert self._encrypting is not None
            assert self._masking is not None
            return self._seal("aggregation-keys", pack("keys", self._encrypting.public, self._masking.public))

    def share_keys(self, key_list: Envelope) -> Envelope:
        """Round 1: from everybody's keys to our encrypted shares, for the server to hand on.

        Raises
        ------
        ProtocolError
            If a signature does not hold, a key appears twice, we are missing, or too few are there.
        """
        with self._step("share_keys", "mask"):
            terms = self._terms
            self._key_list = self._open("aggregation-key-list", key_list)
            sent = [Envelope.from_bytes(part) for part in unpack("key-list", self._key_list)]
            keys = {}
            for name, envelope in one_each(sent, terms.clients, "key").items():
                body = self._open_client("aggregation-keys", envelope, name)
                encrypting, masking = unpack("keys", body, 2)
                keys[name] = encrypting, masking
            self._enough(tuple(keys), "advertised keys")
            if self.name not in keys or keys[self.name] != (self._encrypting_public, self._masking_public):
                raise ProtocolError("The server's list does not hold our own keys.")
            if len({key for pair in keys.values() for key in pair}) != 2 * len(keys):
                raise ProtocolError("A public key appears twice in the server's list.")
            points = [terms.points[name] for name in keys]
            of_mask = split(self._mask_secret, terms.threshold, points, random_bytes=self._random)
            of_seed = split(self._seed, terms.threshold, points, random_bytes=self._random)
            parts = []
            for name in keys:
                point = terms.points[name]
                pair = tuple(shares[point].to_bytes(SHARE_BYTES, "big") for shares in (of_mask, of_seed))
                if name == self.name:
                    self._held[name] = pair[0], pair[1]
                    continue
                self._peers[name] = keys[name]
                parts.append(self._cipher(self.name, name).encrypt(_NONCE, pack("shares", *pair), None))
            commitment = seed_commitment(terms.session, self.name, self._seed)
            return self._seal(
                "aggregation-shares", pack("shares", commitment, pack_names(tuple(self._peers)), *parts)
            )

    def mask(self, shares: Envelope, values: ArrayLike) -> Envelope:
        """Round 2: from the others' encrypted shares to our masked vector.

        Parameters
        ----------
        shares : Envelope
            The server's message to us.
        values : array_like
            Of the agreed shape and within the agreed bound.

        Raises
        ------
        InputError
            If the values do not fit; nothing was sent, the call may be repeated.
        ProtocolError
            If a share does not decrypt, or fewer than the threshold shared.
        """
        with self._step("mask", "agree"):
            terms = self._terms
            codes = terms.coding.encode(values)
            if codes.shape != terms.shape:
                raise InputError(f"`values` must have the agreed shape {terms.shape}; got {codes.shape}.")
            names, *parts = unpack("share-list", self._open("aggregation-share-list", shares, to_us=True))
            sharers = unpack_names(names)
            self._enough(sharers, "shares")
            others = [name for name in sharers if name != self.name]
            if self.name not in sharers or not set(others) <= set(self._peers) or len(parts) != len(others):
                raise ProtocolError("The server's list of those who shared does not fit to what it said before.")
            for name, part in zip(others, parts, strict=True):
                try:
                    plain = self._cipher(name, self.name).decrypt(_NONCE, part, None)
                except InvalidTag:
                    raise ProtocolError(f"The shares of {name} were changed, or are not from {name}.") from None
                of_mask, of_seed = unpack("shares", plain, 2)
                self._held[name] = of_mask, of_seed
            keys = {name: self._derive("aggregation-mask", name, 1) for name in others}
            flat = codes.reshape(-1)
            PairwiseMasks(self.name, keys).add_to(flat, 0)
            Keystream(mask_key_of_seed(terms.session, self.name, self._seed)).add_to(flat, 0)
            # From here on only shares are needed, and those of others: our own secrets go.
            self._forget_own()
            return self._seal("aggregation-masked", flat.tobytes())

    def agree(self, survivors: Envelope) -> Envelope:
        """Round 3: sign whose vectors arrived, and all that we were shown before.

        Raises
        ------
        ProtocolError
            If we are not among them, somebody is who had not shared, or fewer than the threshold are left.
        """
        with self._step("agree", "unmask"):
            listed = unpack_names(self._open("aggregation-survivors", survivors))
            self._enough(listed, "survivors")
            if self.name not in listed:
                raise ProtocolError("The server says that we dropped out; we are here.")
            if not set(listed) <= set(self._held):
                raise ProtocolError("The server lists a survivor who never shared its keys.")
            self._survivors = listed
            view = view_of(self._terms.session, self._key_list, tuple(sorted(self._held)))
            self._agreed = pack("agreed", view, pack_names(listed))
            return self._seal("aggregation-agreed", self._agreed)

    def unmask(self, agreements: Envelope) -> Envelope:
        """Round 4: shown enough signatures on what we signed, our shares: b of survivors, s of the others.

        Raises
        ------
        ProtocolError
            If somebody signed anything else than we did, or fewer than the threshold signed.
        """
        with self._step("unmask", "done"):
            body = self._open("aggregation-agreements", agreements)
            sent = [Envelope.from_bytes(part) for part in unpack("agreements", body)]
            signed = one_each(sent, self._survivors, "signed list")
            for name, envelope in signed.items():
                if self._open_client("aggregation-agreed", envelope, name) != self._agreed:
                    raise ProtocolError(
                        f"{name} was shown other keys or other survivors than we: the server lies."
                    )
            self._enough(tuple(signed), "signed lists")
            shares = [
                of_seed if name in self._survivors else of_mask
                for name, (of_mask, of_seed) in sorted(self._held.items())
            ]
            message = self._seal("aggregation-unmask", pack("unmask", *shares))
            self._forget()
            return message

    @property
    def _encrypting_public(self) -> bytes:
        assert self._encrypting is not None
        return self._encrypting.public

    @property
    def _masking_public(self) -> bytes:
        assert self._masking is not None
        return self._masking.public

    def _derive(self, purpose: str, peer: str, which: int, *, length: int = 16) -> bytes:
        key = (self._encrypting, self._masking)[which]
        assert key is not None
        return key.derive(purpose, self._terms.session, self.name, peer, self._peers[peer][which], length=length)

    def _cipher(self, source: str, target: str) -> AESGCM:
        """For the shares of one direction: session, both names and both public keys enter the key itself."""
        peer = target if source == self.name else source
        if peer not in self._share_keys:  # used twice: there and back
            self._share_keys[peer] = self._derive("aggregation-shares", peer, 0, length=32)
        both = self._share_keys[peer]
        return AESGCM(both[:16] if source < target else both[16:])

    def _enough(self, names: tuple[str, ...], what: str) -> None:
        if len(names) < self._terms.threshold:
            raise ProtocolError(f"The server shows {len(names)} {what}; the threshold is {self._terms.threshold}.")

    def _seal(self, kind: str, body: bytes) -> Envelope:
        return seal(self._identity, self._terms.session, kind, self.name, body, receiver=self._terms.server.name)

    def _open(self, kind: str, envelope: Envelope, *, to_us: bool = False) -> bytes:
        receiver = self.name if to_us else ""
        return open_envelope(envelope, self._terms.session, kind, self._terms.server, receiver=receiver)

    def _open_client(self, kind: str, envelope: Envelope, name: str) -> bytes:
        terms = self._terms
        return open_envelope(envelope, terms.session, kind, terms.clients[name], receiver=terms.server.name)

    def _forget_own(self) -> None:
        self._encrypting = self._masking = None
        self._mask_secret = self._seed = b""
        self._share_keys = {}

    def _forget(self) -> None:
        self._forget_own()
        self._held = {}
