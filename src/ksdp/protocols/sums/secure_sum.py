"""SecSum: M parties announce the sum of their vectors, and nothing else.

The paper's Appendix C: every party splits its vector into M random shares that add up to it modulo 2^64, gives
one to each party, keeps one, and announces the sum of the shares it holds. With seeds exchanged once, the shares
to and from a peer are computed, not sent: party m announces

    y_m = x_m + sum_(i != m) (F_im(j) - F_mi(j))  modulo 2^64

for sum number j. The difference in brackets is as random as each of its terms and the same at both ends but for
the sign, so one stream a pair serves instead of two: y_m = x_m + sum_(i > m) F_(m,i)(j) - sum_(i < m) F_(i,m)(j).
One vector a party and sum is sent, and everybody adds all up.

**Who sees what.** Every party sees everybody's signed agreement key (once), then every y_m, with the shape and the
coding of the sum. From its own keys it knows its own streams.

**Claim.** Parties that follow the protocol but remember and combine all they see, up to M - 1 of them: what they
see could be computed from their own inputs and the sum, if AES is a pseudorandom function, HKDF an extractor and
the Diffie-Hellman problem on Curve25519 hard. They learn the sum *and what follows from it*: the sum of the
others' inputs; M - 1 parties together the last one's input; **with M = 2 each party the other's input**. Every
run says so (`what_follows`). Somebody who only carries the messages learns the sum (the announced
vectors add up to it) and can stop the run, not change it: agreement keys are signed, vectors carry a tag
(AES-GMAC) per receiver.

**Not claimed.** A party may announce a false vector, choose its input after it saw the others', or tell different
parties different vectors; the result is then false, though no input is given away beyond what follows from the
false result. Nobody may leave: a sum needs all M (`shares.leaving` needs fewer). Lengths are public.

Source: Tsikhanovich, Magdon-Ismail, Ishaq & Zikas, PD-ML-Lite, https://arxiv.org/abs/1901.07986, Appendix C.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.constant_time import bytes_eq
from numpy.typing import ArrayLike, NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.keys import (
    VERSION,
    AgreementKey,
    Envelope,
    Participant,
    check_participants,
    one_way,
    open_envelope,
    sign_envelope,
)
from ksdp.protocols.channel.rounds import Bodies, Machine, RoundEngine, Rounds, from_senders, one_each, read_from
from ksdp.protocols.channel.wire import name_of, number_of, pack, pack_number, unpack
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.masks import PairwiseMasks


@dataclass(frozen=True)
class SumTerms:
    """Agreement of all parties before the first message."""

    participants: tuple[Participant, ...]
    """Sorted by name; at least two."""
    agreement: bytes
    """Anything else they agreed on (hash of mechanism, spec, clearances), and what makes this run a new one."""

    def __post_init__(self) -> None:
        check_participants(self.participants, 2)

    @cached_property
    def session(self) -> bytes:
        """Hash of all this, 32 bytes; no key or message of another session is taken."""
        who = (field for p in self.participants for field in (p.name.encode(), p.identity))
        return hashlib.sha256(pack("sum-terms", VERSION, self.agreement, *who)).digest()


@dataclass(frozen=True)
class Contribution:
    """One party's masked vector for one sum, for everybody else."""

    session: bytes
    sender: str
    number: int
    shape: tuple[int, ...]
    coding: bytes
    payload: bytes | memoryview
    """Entries modulo 2^64, little-endian."""
    tags: tuple[tuple[str, bytes], ...]
    """Receiver and AES-GMAC tag (16 bytes) over all the rest, sorted by receiver."""

    def header(self) -> bytes:
        """All but the entries and the tags."""
        shape = (pack_number(n) for n in self.shape)
        return pack(
            "sum-header", self.session, self.sender.encode(), pack_number(self.number), self.coding, *shape
        )

    def to_bytes(self) -> bytes:
        """As it travels."""
        tags = (field for name, tag in self.tags for field in (name.encode(), tag))
        return pack("contribution", self.header(), self.payload, *tags)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> Contribution:
        """Read the bytes of `to_bytes`; the tag is checked by `SumParty.combine`."""
        fields = unpack("contribution", data)
        if len(fields) < 2 or len(fields) % 2:
            raise ProtocolError("A contribution has the wrong number of fields.")
        header = unpack("sum-header", fields[0])
        if len(header) < 4:
            raise ProtocolError("The header of a contribution has too few fields.")
        session, sender, number, coding = header[:4]
        shape = tuple(number_of(field) for field in header[4:])
        tags = tuple(zip(map(name_of, fields[2::2]), fields[3::2], strict=True))
        return cls(session, name_of(sender), number_of(number), shape, coding, fields[1], tags)


def what_follows(parties: int) -> str:
    """Say in plain words what a party can compute from an exact sum."""
    if parties == 2:
        return "Two parties: each learns the other's input exactly, by subtracting its own from the sum."
    return f"Any {parties - 1} of the {parties} parties together learn the last one's input, by subtraction."


def tag(key: bytes, number: int, header: bytes, payload: bytes | memoryview) -> bytes:
    """AES-GMAC of a contribution under the key of one direction of one pair."""
    # GCM without plaintext is GMAC. A nonce is a sum's number, so none repeats under a key of one direction.
    mac = Cipher(algorithms.AES(key), modes.GCM(number.to_bytes(12, "big"))).encryptor()
    mac.authenticate_additional_data(header)
    mac.authenticate_additional_data(payload)
    mac.finalize()
    return mac.tag


_Message = TypeVar("_Message", Envelope, Contribution)
_HELLO = "sum-hello"
_MAX_ENTRIES = 1 << 27
"""1 GiB: what one authenticated message may hold."""


class SumParty(Machine):
    """One party: `hello`, `begin`, then `contribute` and `combine` in turns.

    Any `ProtocolError` ends it: its keys are forgotten and every later call is refused. A vector refused by
    `contribute` (`InputError`) ends nothing, nothing was sent.

    Parameters
    ----------
    terms : SumTerms
        What everybody agreed on.

    Examples
    --------
    >>> from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    >>> from ksdp.protocols.channel.keys import Participant
    >>> keys = {name: Ed25519PrivateKey.generate() for name in ("ada", "bob", "cyd")}
    >>> who = tuple(Participant(n, k.public_key().public_bytes_raw()) for n, k in keys.items())
    >>> terms = SumTerms(who, b"the contract of 1 May")
    >>> parties = [SumParty(terms, name, key) for name, key in keys.items()]
    >>> hellos = [party.hello() for party in parties]
    >>> for party in parties:
    ...     party.begin([h for h in hellos if h.sender != party.name])
    >>> coding = FixedPoint(fraction_bits=31, bound=10.0, parties=3)
    >>> sent = [party.contribute([1.5, float(i)], coding) for i, party in enumerate(parties)]
    >>> parties[0].combine(sent[1:])
    array([4.5, 3. ])
    """

    def __init__(
        self, terms: SumTerms, name: str, identity: Ed25519PrivateKey, *, random_bytes: RandomBytes = os_random
    ) -> None:
        super().__init__("hello")
        if Participant(name, identity.public_key().public_bytes_raw()) not in terms.participants:
            raise InputError(f"{name} with this key is not among the participants of the terms.")
        self.name = name
        self._terms = terms
        self._identity = identity
        self._peers = {p.name: p for p in terms.participants if p.name != name}
        self._agreement: AgreementKey | None = AgreementKey(random_bytes(32))
        self._masks: PairwiseMasks | None = None
        self._send_keys: dict[str, bytes] = {}
        self._receive_keys: dict[str, bytes] = {}
        self._number = 0
        self._own: tuple[Contribution, FixedPoint] | None = None

    @property
    def next_number(self) -> int:
        """Number of the sum that is taken next; it only grows."""
        return self._number

    def hello(self) -> Envelope:
        """The first message: this party's signed agreement key, for everybody."""
        with self._step("hello", "begin"):
            assert self._agreement is not None
            return sign_envelope(self._identity, self._terms.session, _HELLO, self.name, self._agreement.public)

    def begin(self, hellos: Iterable[Envelope]) -> None:
        """Take everybody else's first message and agree on keys."""
        with self._step("begin", "contribute"):
            session = self._terms.session
            publics = {
                name: open_envelope(envelope, session, _HELLO, self._peers[name])
                for name, envelope in self._all(hellos, "first message").items()
            }
            if len(set(publics.values())) != len(publics):
                raise ProtocolError("Two parties sent the same agreement key.")
            self._masks = PairwiseMasks(self.name, self._keys("sum-mask", publics))
            for peer, public in publics.items():
                self._send_keys |= self._keys(one_way("sum-tag", self.name, peer), {peer: public})
                self._receive_keys |= self._keys(one_way("sum-tag", peer, self.name), {peer: public})
            self._agreement = None  # the secret half is not needed again

    def contribute(self, values: ArrayLike, coding: FixedPoint) -> Contribution:
        """This party's masked vector, for everybody else; the sum's number is used up."""
        with self._step("contribute", "combine"):
            assert self._masks is not None
            if coding.parties != len(self._terms.participants):
                raise InputError(
                    f"`coding` is for sums of {coding.parties}; {len(self._terms.participants)} parties take part."
                )
            codes = coding.encode(values)
            if not 0 < codes.size <= _MAX_ENTRIES:
                raise InputError(f"`values` must have 1 to {_MAX_ENTRIES} entries; got {codes.size}.")
            flat = codes.reshape(-1)
            self._masks.add_to(flat, self._number)
            flat.flags.writeable = False
            payload = flat.data.cast("B")
            untagged = Contribution(
                self._terms.session, self.name, self._number, codes.shape, coding.to_bytes(), payload, ()
            )
            header = untagged.header()
            tags = tuple((n, tag(k, self._number, header, payload)) for n, k in self._send_keys.items())
            contribution = replace(untagged, tags=tags)
            self._own = contribution, coding
            return contribution

    def combine(self, messages: Iterable[Contribution]) -> NDArray[np.float64]:
        """The sum, from everybody else's vectors for it."""
        with self._step("combine", "contribute"):
            assert self._own is not None
            own, coding = self._own
            total = np.frombuffer(own.payload, dtype="<u8").copy()
            for name, message in self._all(messages, "contribution").items():
                self._check(message, name, own)
                total += np.frombuffer(message.payload, dtype="<u8")
            result = coding.decode(total.reshape(own.shape))
            self._number += 1
            self._own = None
            return result

    def _check(self, message: Contribution, name: str, own: Contribution) -> None:
        if message.session != own.session:
            raise ProtocolError(f"A contribution of {name} belongs to another session.")
        if message.number != own.number:
            raise ProtocolError(
                f"{name} sent its vector for sum {message.number}; sum {own.number} is being taken."
            )
        if message.coding != own.coding:
            raise ProtocolError(f"{name} codes its values otherwise: fraction bits, bound or parties differ.")
        if message.shape != own.shape or len(message.payload) != len(own.payload):
            raise ProtocolError(f"{name} sent a vector of another shape: {message.shape}, not {own.shape}.")
        received = dict(message.tags).get(self.name, b"")
        expected = tag(self._receive_keys[name], message.number, message.header(), message.payload)
        if not bytes_eq(received, expected):
            raise ProtocolError(f"A contribution of {name} was changed on the way, or is not from {name}.")

    def _keys(self, purpose: str, publics: Mapping[str, bytes]) -> dict[str, bytes]:
        assert self._agreement is not None
        return {
            peer: self._agreement.derive(purpose, self._terms.session, self.name, peer, public)
            for peer, public in publics.items()
        }

    def _all(self, messages: Iterable[_Message], what: str) -> dict[str, _Message]:
        by_sender = one_each(messages, self._peers, what)
        missing = sorted(set(self._peers) - set(by_sender))
        if missing:
            raise ProtocolError(f"The {what} of {', '.join(missing)} is missing: a secure sum needs everybody.")
        return by_sender

    def _forget(self) -> None:
        self._agreement = self._masks = self._own = None
        self._send_keys, self._receive_keys = {}, {}


class SumRounds:
    """One party's secure sums over the rounds of a run. A server is told nothing."""

    def __init__(
        self,
        sums: SumTerms,
        coding: FixedPoint,
        engine: RoundEngine,
        identity: Ed25519PrivateKey,
        random_bytes: RandomBytes,
    ) -> None:
        self._party = SumParty(sums, engine.name, identity, random_bytes=random_bytes)
        self._engine = engine
        self._peers = tuple(p.name for p in sums.participants if p.name != engine.name)
        self._coding = coding
        self._heard = bytes(32)
        """Hash of all sums so far, sent with the next share: nobody goes on from another sum than the others."""

    @property
    def taken(self) -> int:
        """Sums so far."""
        return self._party.next_number

    def begin(self) -> Rounds[None]:
        """Signed keys of this session, among the parties."""
        hello = self._party.hello().to_bytes()
        hellos = yield from self._engine.exchange("hello", dict.fromkeys(self._peers, hello), self._peers)
        self._party.begin(from_senders(hellos, Envelope.from_bytes))

    def total(self, share: NDArray[np.float64]) -> Rounds[NDArray[np.float64]]:
        """The sum of the parties' shares."""
        contribution = self._party.contribute(share, self._coding).to_bytes()
        message = pack("summed", self._heard, contribution)
        arrived = yield from self._engine.exchange("sum", dict.fromkeys(self._peers, message), self._peers)
        total = self._party.combine(from_senders(self._opened(arrived), Contribution.from_bytes))
        self._heard = hashlib.sha256(pack("heard", self._heard, total.astype("<f8").tobytes())).digest()
        return total

    def _opened(self, arrived: Bodies) -> dict[str, bytes]:
        contributions = {}
        for peer, body in arrived.items():
            heard, contributions[peer] = read_from(peer, partial(unpack, "summed", count=2), body)
            if heard != self._heard:
                raise ProtocolError(
                    f"{peer} received another sum than {self._engine.name}: a party sent different values "
                    "to different parties. The run is void."
                )
        return contributions
