"""A secure sum that parties may leave: what is in it is the sum of those whose vectors all others have.

Practical Secure Aggregation (Bonawitz et al. 2017; Appendix A of Liu, Pejo & Tang 2023) without its server: every
party is told what the server would be. All keys are made afresh for each sum, so that what is opened of one says
nothing of another. With threshold t of n parties:

0. *Keys.* Each signs two X25519 keys, one for letters and one for masks, and the hash of a seed.
1. *Shares.* It splits the secret of its mask key and its seed (Shamir, any t of n shares give one back), and sends
   each peer its two shares, encrypted. All tell whose shares they have; U is whose shares all have.
2. *Masked vectors.* x + stream(own seed) + the streams of all pairs in U, signed as `PairwiseMasks` says. All tell
   whose vectors they have; S is whose vectors all have. Who is still there and is not in U, or S, ends the sum.
3. *Consistency.* Each signs U, S, the hash of the keys of U and those of the vectors of S. Nobody goes on with
   fewer than t signatures, or with a signature of anything else: different keys or vectors for different parties
   are noticed before the sum is opened.
4. *Opening.* Each tells its share of the seed of who is in S, and of the mask key of who is in U alone: never both
   of one party. What t shares give must be what was signed in stage 0.

**Who may work together.** Up to t - 1 parties learn the sum of S and what follows from it. S has at least t: once
n - t have left, t - 1 learn the last one's share by subtraction. Any t have the keys of all. Two sets can both be
signed by t parties where c of them deviate, sign twice and cut the connections of the others, each of which signs
once: 2 (t - c) <= n - c. So fewer than 2 t - n are held off, and lost connections alone (2 t > n). With 3 of 5 or
2 of 3 parties **nobody** is held off who deviates and cuts connections.

**Not claimed.** As for `secure_sum`; and whoever hands out shares that do not fit can end a sum.

Primitives: `cryptography` (X25519, HKDF, AES, Ed25519) and Shamir's scheme of MPyC, over 2^521 - 1.

Sources: https://doi.org/10.1145/3133956.3133982, https://doi.org/10.3390/app13137373 (Appendix A).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from functools import partial

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.keys import AgreementKey, Envelope, one_way, open_envelope, sign_envelope
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, from_senders, read_from
from ksdp.protocols.channel.wire import pack, pack_names, pack_number, unpack, unpack_names
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.masks import KEY_BYTES, Keystream, PairwiseMasks
from ksdp.protocols.sums.secure_sum import SumTerms

_ONCE = bytes(12)
"""The nonce of a letter: its key is of one direction of one pair in one sum, and no other letter has it."""
_Fields = Mapping[str, tuple[bytes, ...]]


def check_threshold(threshold: int, parties: int) -> None:
    """Refuse thresholds with which two sets could be opened, or nobody may leave."""
    if not parties < 2 * threshold < 2 * parties:
        raise InputError(
            f"`leave.threshold` must be from {parties // 2 + 1} to {parties - 1} of {parties} parties: two halves "
            f"could each open a sum, and with all of them nobody may leave; got {threshold}."
        )


def who_can_open(threshold: int, parties: int) -> str:
    """Say in plain words who learns more than the sums."""
    last = "each learns the other's" if threshold == 2 else f"any {threshold - 1} of them learn the last one's"
    cutting = 2 * threshold - parties
    who = "One party that deviates and can" if cutting == 1 else f"{cutting} parties that deviate and can"
    return (
        f"Up to {parties - threshold} of the {parties} parties may leave. Any {threshold} together learn every "
        f"party's share of every sum, with its noise; once {threshold} are left, {last}. "
        f"{who} cut the connections of others may learn every share, too."
    )


class LeavingRounds:
    """One party's secure sums over the rounds of a run that parties may leave; any fault ends the run.

    Parameters
    ----------
    threshold : int
        So many parties must stay.
    """

    def __init__(
        self,
        sums: SumTerms,
        coding: FixedPoint,
        engine: RoundEngine,
        identity: Ed25519PrivateKey,
        random_bytes: RandomBytes,
        threshold: int,
    ) -> None:
        self._terms, self._coding, self._engine, self._threshold = sums, coding, engine, threshold
        self._identity, self._random_bytes, self._name = identity, random_bytes, engine.name
        self._participants = {p.name: p for p in sums.participants}
        self._session, self._sums_of = b"", Counter[str]()
        self.taken = 0

    @property
    def departed(self) -> dict[str, int]:
        """The parties that are gone, and in how many sums the share of each is."""
        here = (self._name, *self._engine.others)
        return {name: self._sums_of[name] for name in self._participants if name not in here}

    def begin(self) -> Rounds[None]:
        """Nothing: every sum has its own keys."""
        yield from ()

    def total(self, share: NDArray[np.float64]) -> Rounds[NDArray[np.float64]]:
        """The sum of the shares of those who are in it."""
        # MPyC takes a second to import, which other runs need not pay.
        from ksdp.protocols.shares.engine import split

        self._engine.may_leave = True
        numbers = pack_number(self.taken), pack_number(self._threshold)
        self._session = hashlib.sha256(pack("leaving-sum", self._terms.session, *numbers)).digest()
        secret, seed = self._random_bytes(32), self._random_bytes(32)
        letters, pairs = AgreementKey(self._random_bytes(32)), AgreementKey(secret)
        keys = yield from self._keys(letters.public, pairs.public, self._hash(self._name, seed))

        parts = (split(each, self._threshold, len(self._participants)) for each in (secret, seed))
        shares = dict(zip(self._participants, zip(*parts, strict=True), strict=True))
        holdings = yield from self._letters(letters, keys, shares)
        members = yield from self._in_all("shared", holdings)

        codes = self._coding.encode(share)
        vector = codes.reshape(-1)
        self._masks(self._name, pairs, keys, members).add_to(vector, 0)
        self._stream(seed).add_to(vector, 0)
        shape = map(pack_number, codes.shape)
        head = pack("leave-head", pack_names(members), self._coding.to_bytes(), *shape)
        vectors = yield from self._vectors(vector.tobytes(), head)
        addends = yield from self._in_all("arrived", vectors)

        key_hash = hashlib.sha256(pack("leave-keys", *(key for name in members for key in keys[name]))).digest()
        hashes = (hashlib.sha256(vectors[name]).digest() for name in addends)
        statement = pack("leave-set", pack_names(members), pack_names(addends), key_hash, *hashes)
        yield from self._consistent(statement)

        own = tuple(holdings[name][name in addends] for name in members)
        codes = yield from self._opened(own, keys, members, {name: vectors[name] for name in addends})
        self.taken += 1
        self._sums_of.update(addends)
        return self._coding.decode(codes.reshape(np.shape(share)), len(addends))

    def _keys(self, *own: bytes) -> Rounds[dict[str, tuple[bytes, ...]]]:
        bodies = yield from self._signed("keys", pack("leave-keys", *own))
        keys = {
            name: read_from(name, partial(unpack, "leave-keys", count=3), body) for name, body in bodies.items()
        }
        publics = [key for each in keys.values() for key in each[:2]]
        if len(set(publics)) != len(publics):
            raise ProtocolError("Two keys of this sum are the same: a party sent another's, or one twice.")
        self._check_enough(keys, "sent keys")
        return keys

    def _letters(self, own: AgreementKey, keys: _Fields, shares: _Fields) -> Rounds[dict[str, tuple[bytes, ...]]]:
        def cipher(sender: str, receiver: str, peer: str) -> AESGCM:
            purpose = one_way("leave-letter", sender, receiver)
            return AESGCM(own.derive(purpose, self._session, self._name, peer, keys[peer][0]))

        letters = {
            peer: cipher(self._name, peer, peer).encrypt(_ONCE, b"".join(shares[peer]), None)
            for peer in self._engine.others
        }
        holdings = {self._name: shares[self._name]}
        for peer, letter in (yield from self._engine.exchange("key shares", letters)).items():
            try:
                if len(letter) != len(letters[peer]):
                    raise InvalidTag
                both = cipher(peer, self._name, peer).decrypt(_ONCE, letter, None)
            except InvalidTag:
                raise ProtocolError(f"The shares of {peer} cannot be read.") from None
            holdings[peer] = both[: len(both) // 2], both[len(both) // 2 :]
        return holdings

    def _vectors(self, own: bytes, head: bytes) -> Rounds[dict[str, bytes]]:
        vectors = {self._name: own}
        arrived = yield from self._engine.everybody("sum", pack("leave-input", own, head))
        for peer, body in arrived.items():
            vectors[peer], theirs = read_from(peer, partial(unpack, "leave-input", count=2), body)
            if theirs != head or len(vectors[peer]) != len(own):
                raise ProtocolError(f"{peer} sent a vector of another shape, coding or set of parties.")
        return vectors

    def _consistent(self, own: bytes) -> Rounds[None]:
        statements = yield from self._signed("signed", own)
        if other := [name for name, body in statements.items() if body != own]:
            raise ProtocolError(
                f"{', '.join(other)} signed other keys, vectors or parties than {self._name}: one sent different "
                "ones to different parties, or left in between. Nothing of this sum was opened."
            )
        self._check_enough(statements, "signed the sum")

    def _opened(
        self, own: tuple[bytes, ...], keys: _Fields, members: tuple[str, ...], vectors: Mapping[str, bytes]
    ) -> Rounds[NDArray[np.uint64]]:
        from ksdp.protocols.shares.engine import join

        answers = {self._name: own}
        for peer, body in (yield from self._engine.everybody("opened", pack("leave-opened", *own))).items():
            answers[peer] = read_from(peer, partial(unpack, "leave-opened", count=len(members)), body)
        self._check_enough(answers, "opened the sum")
        place = {name: at for at, name in enumerate(self._participants)}
        quorum = sorted(answers)[: self._threshold]
        total = np.zeros(len(vectors[self._name]) // 8, dtype="<u8")
        own_masks = np.zeros_like(total)
        for at, name in enumerate(members):
            secret = join({place[who]: answers[who][at] for who in quorum})
            pairs = AgreementKey(secret)
            _, mask_key, seed_hash = keys[name]
            fits = self._hash(name, secret) == seed_hash if name in vectors else pairs.public == mask_key
            if not fits:
                raise ProtocolError(
                    f"The shares of {name}'s key do not fit: {name}, or one of {', '.join(quorum)}, sent a "
                    "false one."
                )
            if name in vectors:
                total += np.frombuffer(vectors[name], dtype="<u8")
                self._stream(secret).add_to(own_masks, 0)
            else:
                self._masks(name, pairs, keys, vectors).add_to(total, 0)
        return total - own_masks

    def _signed(self, kind: str, body: bytes) -> Rounds[dict[str, bytes]]:
        own = sign_envelope(self._identity, self._session, kind, self._name, body)
        arrived = yield from self._engine.everybody(kind, own.to_bytes())
        bodies = {self._name: body}
        for each in from_senders(arrived, Envelope.from_bytes):
            bodies[each.sender] = open_envelope(each, self._session, kind, self._participants[each.sender])
        return bodies

    def _in_all(self, kind: str, own: Collection[str]) -> Rounds[tuple[str, ...]]:
        lists = yield from self._engine.everybody(kind, pack_names(tuple(sorted(own))))
        names = set(own).intersection(*(read_from(peer, unpack_names, body) for peer, body in lists.items()))
        if outsiders := sorted({self._name, *lists} - names):
            raise ProtocolError(
                f"{', '.join(outsiders)} would be out of the sum, and still here: a message did not reach all, or "
                "somebody says so falsely. Nothing of this sum was opened."
            )
        self._check_enough(names, "are in the sum")
        return tuple(sorted(names))

    def _check_enough(self, names: Collection[str], what: str) -> None:
        if len(names) < self._threshold:
            raise ProtocolError(
                f"{len(names)} of {len(self._participants)} parties {what} ({', '.join(sorted(names))}); "
                f"`leave.threshold` is {self._threshold}: begin again when more of them are there."
            )

    def _masks(self, name: str, pairs: AgreementKey, keys: _Fields, peers: Collection[str]) -> PairwiseMasks:
        derive = partial(pairs.derive, "leave-mask", self._session, name)
        return PairwiseMasks(name, {peer: derive(peer, keys[peer][1]) for peer in peers if peer != name})

    def _stream(self, seed: bytes) -> Keystream:
        return Keystream(HKDF(SHA256(), KEY_BYTES, self._session, b"leave-seed").derive(seed))

    def _hash(self, name: str, seed: bytes) -> bytes:
        return hashlib.sha256(pack("leave-seed", self._session, name.encode(), seed)).digest()
