"""A sum with one device's noise, nobody knowing whose, over the rounds of a run (FedPower, Algorithm 2).

The devices send the server their noisy shares under masks in pairs that cancel in the sum, so that it has the sum
of Y_i + N_i. A Paillier step then tells it the sum of all N_i but one. Rounds of a sum of n devices D_1, ..., D_n:

===========  =================================================================================================
masked       devices to the server: shares with noise, under masks
choices      server to D_1: one encryption of 0 and n - 1 of 1, in an order that it draws
bits         D_1 shuffles and re-randomises them, keeps one and gives every other device one
product      n rounds: D_i raises its bit's ciphertext to its packed noise, multiplies it into the product so far,
             re-randomises, and passes it on, D_n to the server
told         server to everybody: the sum with one noise
===========  =================================================================================================

Once a run the server tells its Paillier key, and the devices tell each other keys for the masks and a hash of the
server's. Messages travel over the run's own links, which prove who speaks and hide what is said.

**Who learns what**, if all follow the protocol and no device works with the server. The server: the sum of all
noises but one, not whose is missing (it does not know the shuffle, sees no single contribution, and the product
was re-randomised). A device: nothing; ciphertexts under a key that it has not. D_1 and the server together know
whose noise is left, and D_i-1 and D_i+1 with the server know N_i.

**A server that deviates reads every sum without any noise**: it encrypts 1 n times in place of one 0, and nothing
shows it. So the guarantee holds against a server that follows the protocol, and against nobody who is more than
curious.

As printed, the server picks the device and so knows it, each device returns its product straight to the server,
which could decrypt it alone, and the device does not re-randomise, so that the server, which knows the randomness
of its encryption of 0, finds the noise that was to stay hidden. Here one product is decrypted, of many packed
entries.

Source: Liu, Pejo & Tang (2023), https://doi.org/10.3390/app13137373, Algorithm 2, steps 8 to 13, and section 6.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.randomness import RandomBytes
from ksdp.extras.fedpower import paillier
from ksdp.extras.fedpower.paillier import FixedBase, PrivateKey, PublicKey, Slots
from ksdp.protocols.channel.keys import AgreementKey
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, read_from
from ksdp.protocols.channel.wire import pack, pack_array, unpack, unpack_array
from ksdp.protocols.programs.programs import ExtraSums
from ksdp.protocols.programs.run_terms import RunTerms
from ksdp.protocols.sums.masks import PairwiseMasks

_STEP = 2.0**-FRACTION_BITS
_TAIL = 12
"""Deviations: no noise is larger, but once in 10^32 numbers."""
_FEW_POWERS = 20
"""Powers of one base from which on a table pays."""


@dataclass(frozen=True)
class _Ciphertexts:
    """How the noise of one sum is packed and written."""

    public: PublicKey
    slots: Slots
    entries: int

    @classmethod
    def of(cls, public: PublicKey, deviation: float, devices: int, entries: int) -> _Ciphertexts:
        return cls(public, Slots(public.bits, math.ceil(_TAIL * deviation / _STEP), devices), entries)

    @property
    def count(self) -> int:
        """Ciphertexts of one device's noise."""
        return self.slots.plaintexts(self.entries)

    def write(self, ciphertexts: list[mpz]) -> bytes:
        return b"".join(int(c).to_bytes(self.public.width, "big") for c in ciphertexts)

    def read(self, data: bytes, count: int) -> list[mpz]:
        width = self.public.width
        if len(data) != count * width:
            raise ProtocolError(f"{count} ciphertexts have {count * width} bytes; got {len(data)}.")
        parts = (data[start : start + width] for start in range(0, len(data), width))
        return [self.public.check(int.from_bytes(part, "big")) for part in parts]


class _Node:
    """Common part of both sides."""

    def __init__(self, terms: RunTerms, session: bytes, engine: RoundEngine) -> None:
        if terms.server is None:
            raise InputError("`server` must be given: it takes the noises but one away.")
        self._session, self._engine = session, engine
        self._server = terms.server.name
        self._devices = tuple(p.name for p in terms.participants)
        self._coding = terms.precision.coding(len(self._devices))


class RemovalDevice(_Node):
    """A device's side: `begin` once, then `total` for every sum.

    Parameters
    ----------
    random_bytes : callable
        Source of the key for masks.
    """

    _masks: PairwiseMasks
    _public: PublicKey

    def __init__(self, terms: RunTerms, session: bytes, engine: RoundEngine, random_bytes: RandomBytes) -> None:
        super().__init__(terms, session, engine)
        self._agreement, self._number = AgreementKey(random_bytes(32)), 0
        self._place = self._devices.index(engine.name)
        self._peers = tuple(name for name in self._devices if name != engine.name)

    def begin(self) -> Rounds[None]:
        """Take the server's Paillier key, and agree on masks with the other devices."""
        body = yield from self._engine.hear("paillier key", self._server)
        n = int.from_bytes(body, "big")
        if n.bit_length() != paillier.KEY_BITS or n % 2 == 0:
            raise ProtocolError(f"{self._server} sent a key that does not have {paillier.KEY_BITS} bits.")
        self._public = PublicKey(n)
        digest, keys = hashlib.sha256(body).digest(), dict[str, bytes]()
        hello = pack("one-noise", self._agreement.public, digest)
        arrived = yield from self._engine.exchange("mask keys", dict.fromkeys(self._peers, hello), self._peers)
        for peer, theirs in arrived.items():
            public, seen = unpack("one-noise", theirs, 2)
            if seen != digest:
                raise ProtocolError(f"{self._server} showed {peer} another Paillier key: the run is void.")
            keys[peer] = self._agreement.derive("one-noise-mask", self._session, self._engine.name, peer, public)
        self._masks = PairwiseMasks(self._engine.name, keys)

    def total(self, values: Floats, noise: NDArray[np.int64], deviation: float) -> Rounds[Floats]:
        """The sum of all values with all noises but one taken away."""
        form = _Ciphertexts.of(self._public, deviation, len(self._devices), values.size)
        plaintexts = form.slots.pack(noise)
        masked = self._coding.encode(values).reshape(-1)
        self._masks.add_to(masked, self._number)
        self._number += 1
        yield from self._engine.tell("masked", {self._server: masked.tobytes()})
        zeros = [self._public.zero() for _ in plaintexts]  # all devices at the same time; later each waits
        bit, before = (yield from self._bit(form)), b""
        for place in range(len(self._devices)):
            if place == self._place:
                after = (*self._devices[1:], self._server)[place]
                products = form.read(before, form.count) if place else [mpz(1)] * form.count
                added = self._added(form, bit, plaintexts, products, zeros)
                yield from self._engine.tell("product", {after: form.write(added)})
            elif place == self._place - 1:
                before = yield from self._engine.hear("product", self._devices[place])
            else:
                yield from self._engine.tell("product", {})
        answer = yield from self._engine.hear("told", self._server)
        total = read_from(self._server, unpack_array, answer)
        if total.shape != values.shape:
            raise ProtocolError(f"{self._server} sent a sum of another shape.")
        return total

    def _bit(self, form: _Ciphertexts) -> Rounds[mpz]:
        if self._place:
            yield from self._engine.tell("choices", {})
            return form.read((yield from self._engine.hear("bits", self._devices[0])), 1)[0]
        choices = yield from self._engine.hear("choices", self._server)
        bits = [self._public.rerandomise(c) for c in form.read(choices, len(self._devices))]
        secrets.SystemRandom().shuffle(bits)
        sent = {name: form.write([bit]) for name, bit in zip(self._devices[1:], bits[1:], strict=True)}
        yield from self._engine.tell("bits", sent)
        return bits[0]

    def _added(
        self, form: _Ciphertexts, bit: mpz, plaintexts: list[int], products: list[mpz], zeros: list[mpz]
    ) -> list[mpz]:
        public = form.public
        table = FixedBase(int(bit), int(public.square), public.bits) if len(plaintexts) > _FEW_POWERS else None
        after = []
        for product, plaintext, fresh in zip(products, plaintexts, zeros, strict=True):
            exponent = plaintext % public.n
            power = table.power(exponent) if table else pow(bit, exponent, public.square)
            after.append(product * power % public.square * fresh % public.square)
        return after


class RemovalServer(_Node):
    """The server's side: `begin` once, then `total` for every sum."""

    @cached_property
    def _key(self) -> PrivateKey:
        return paillier.generate(paillier.KEY_BITS)

    def begin(self) -> Rounds[None]:
        """Make a Paillier key and tell all devices its public half."""
        n = self._key.public.n
        body = n.to_bytes(-(-n.bit_length() // 8), "big")
        yield from self._engine.tell("paillier key", dict.fromkeys(self._devices, body))
        yield from self._engine.tell("mask keys", {})

    def total(self, shape: tuple[int, ...], deviation: float) -> Rounds[Floats]:
        """The sum with one noise, which everybody is told."""
        n, entries = len(self._devices), math.prod(shape)
        try:
            form = _Ciphertexts.of(self._key.public, deviation, n, entries)
        except (ValueError, OverflowError) as error:
            raise ProtocolError(f"The devices ask for a sum that does not fit the key: {error}") from None
        masked = np.zeros(entries, dtype="<u8")
        for name, body in (yield from self._engine.exchange("masked", {}, self._devices)).items():
            if len(body) != masked.nbytes:
                raise ProtocolError(f"{name} sent a vector of another length.")
            masked += np.frombuffer(body, dtype="<u8")
        noisy = self._coding.decode(masked).reshape(shape)
        zero, unit = form.public.encrypt(0), form.public.encrypt(1)
        kept = secrets.randbelow(n)
        bits = [form.public.rerandomise(zero if i == kept else unit) for i in range(n)]
        yield from self._engine.tell("choices", {self._devices[0]: form.write(bits)})
        yield from self._engine.tell("bits", {})
        for _ in self._devices[1:]:
            yield from self._engine.tell("product", {})
        last = form.read((yield from self._engine.hear("product", self._devices[-1])), form.count)
        others = form.slots.unpack([self._key.decrypt(c) for c in last], entries).reshape(shape)
        total = np.asarray(noisy - others * _STEP)
        yield from self._engine.tell("told", dict.fromkeys(self._devices, pack_array(total)))
        return total


ONE_NOISE = ExtraSums(RemovalDevice, RemovalServer)
