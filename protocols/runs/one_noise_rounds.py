"""A sum with one device's noise, and nobody knows whose: FedPower's Algorithm 2 over the rounds of a run.

For every sum a secure aggregation (`secure_aggregation`) brings the server the sum of all noisy shares, then the
Paillier step (`noise_removal`) the sum of all noises but one; it tells everybody the difference. The server's
Paillier key is made once and serves all sums of a run: every ciphertext is freshly randomised, and every session
is bound to the run and to the number of the sum. Rounds of a sum of n devices:

===========  =================================================================================================
keys         devices to the server: aggregation keys; to each other: agreement keys of the removal
key list     server to devices
shares       devices to the server: encrypted shares of their secrets
share list   server to each device
masked       devices to the server: noisy shares under masks
survivors    server to devices: all of them, or the run has ended
agreed       devices to the server
agreements   server to devices
unmask       devices to the server, which now has the sum with all noises
choices      server to the first device: one encryption of 0, n - 1 of 1
bits         first device to the others
product      n rounds, device to device, the last to the server
told         server to everybody: the sum with one noise
===========  =================================================================================================

Nobody may leave: the threshold is n, so that all but one device may work with the server as far as the aggregation
goes. For the removal none may (`noise_removal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.arrays import pack_array, unpack_array
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.rounds import Bodies, RoundEngine, Rounds, from_senders
from ksdp.protocols.channel.wire import pack, pack_number, unpack
from ksdp.protocols.one_noise.modulus_proof import check_modulus, prove_modulus
from ksdp.protocols.one_noise.noise_removal import RemovalDevice, RemovalServer
from ksdp.protocols.one_noise.paillier import PrivateKey, PublicKey
from ksdp.protocols.one_noise.removal_terms import RemovalTerms
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.sums.aggregation_client import AggregationClient
from ksdp.protocols.sums.aggregation_server import AggregationServer
from ksdp.protocols.sums.secure_aggregation import AggregationTerms

Source = TypeVar("Source")
_STEP = 2.0**-FRACTION_BITS
_TAIL = 12
"""Deviations: no noise is larger, but once in 10^32 numbers."""


class _OneNoise(Generic[Source]):
    """What both sides know: the terms of every sum.

    Parameters
    ----------
    terms : RunTerms
        With a server.
    source : callable
        Of a device's secret bytes; at the server, of a Paillier key of so many bits.
    """

    def __init__(
        self, terms: RunTerms, session: bytes, engine: RoundEngine, identity: Ed25519PrivateKey, source: Source
    ) -> None:
        if terms.server is None:
            raise InputError("`server` must be given: it takes the noises but one away.")
        self._terms, self._session, self._engine, self._identity = terms, session, engine, identity
        self._server = terms.server
        self._devices = tuple(p.name for p in terms.participants)
        self._source, self._number = source, 0

    def _agreed(
        self, shape: tuple[int, ...], deviation: float, public: PublicKey
    ) -> tuple[AggregationTerms, RemovalTerms]:
        """Of the next sum."""
        people = self._terms.participants
        n = len(people)
        agreement = pack("one-noise", self._session, pack_number(self._number))
        self._number += 1
        coding = self._terms.precision.coding(n)
        aggregation = AggregationTerms(people, self._server, n, coding, shape, agreement, colluders=n - 1)
        steps = math.ceil(_TAIL * deviation / _STEP)
        return aggregation, RemovalTerms(people, self._server, public, steps, math.prod(shape), agreement)

    def _from_devices(self, kind: str) -> Rounds[list[Envelope]]:
        arrived = yield from self._engine.exchange(kind, {}, self._devices)
        return from_senders(arrived, Envelope.from_bytes)


class OneNoiseDevice(_OneNoise[RandomBytes]):
    """A device's side: `begin` once, then `total` for every sum."""

    _public: PublicKey | None = None

    @cached_property
    def _place(self) -> int:
        return self._devices.index(self._engine.name)

    @cached_property
    def _peers(self) -> tuple[str, ...]:
        return tuple(name for name in self._devices if name != self._engine.name)

    def begin(self) -> Rounds[None]:
        """Take the server's Paillier key.

        Raises
        ------
        ProtocolError
            If it has another length than was agreed, or is not proved to be well formed.
        """
        body = yield from self._engine.hear("paillier key", self._server.name)
        written, proof = unpack("paillier", body, 2)
        n = int.from_bytes(written, "big")
        if n.bit_length() != self._terms.key_bits or n % 2 == 0:
            raise ProtocolError(f"{self._server.name} sent a key that does not have {self._terms.key_bits} bits.")
        check_modulus(n, proof)
        self._public = PublicKey(n)

    def total(self, values: Floats, noise: NDArray[np.int64], deviation: float) -> Rounds[Floats]:
        """The sum of all values with all noises but one taken away.

        Parameters
        ----------
        values : ndarray
            This device's share with its noise.
        noise : ndarray of int64
            That noise, in steps of the grid.
        deviation : float
            Of every device's noise.

        Raises
        ------
        InputError
            If the values or the noise are out of bounds.
        ProtocolError
            If anybody deviates.
        """
        assert self._public is not None
        aggregation, removal = self._agreed(values.shape, deviation, self._public)
        client = AggregationClient(aggregation, self._engine.name, self._identity, random_bytes=self._source)
        device = RemovalDevice(removal, self._engine.name, self._identity, random_bytes=self._source)
        yield from self._aggregate(client, device, values)
        yield from self._remove(device, noise)
        total = unpack_array((yield from self._hear("told")))
        if total.shape != values.shape:
            raise ProtocolError(f"{self._server.name} sent a sum of another shape.")
        return total

    def _aggregate(self, client: AggregationClient, device: RemovalDevice, values: Floats) -> Rounds[None]:
        hello = device.hello().to_bytes()
        keys = self._to_server(client.advertise()) | dict.fromkeys(self._peers, hello)
        hellos = yield from self._engine.exchange("keys", keys, self._peers)
        device.begin(from_senders(hellos, Envelope.from_bytes))
        listed = yield from self._envelope("key list")
        yield from self._engine.tell("shares", self._to_server(client.share_keys(listed)))
        mine = yield from self._envelope("share list")
        yield from self._engine.tell("masked", self._to_server(client.mask(mine, values)))
        survivors = yield from self._envelope("survivors")
        signed = client.agree(survivors)
        device.prepare()  # all devices at the same time; later each waits for the one before
        yield from self._engine.tell("agreed", self._to_server(signed))
        agreements = yield from self._envelope("agreements")
        yield from self._engine.tell("unmask", self._to_server(client.unmask(agreements)))

    def _remove(self, device: RemovalDevice, noise: NDArray[np.int64]) -> Rounds[None]:
        first = self._devices[0]
        bit = before = None
        if self._place:
            yield from self._engine.tell("choices", {})
            bit = Envelope.from_bytes((yield from self._hear("bits", first)))
        else:
            bits = device.mix((yield from self._envelope("choices")))
            yield from self._engine.tell("bits", {name: bit.to_bytes() for name, bit in bits.items()})
        for place in range(len(self._devices)):
            if place == self._place:
                after = (*self._devices[1:], self._server.name)[place]
                yield from self._engine.tell("product", {after: device.add(noise, bit, before).to_bytes()})
            elif place == self._place - 1:
                before = Envelope.from_bytes((yield from self._hear("product", self._devices[place])))
            else:
                yield from self._engine.tell("product", {})

    def _to_server(self, envelope: Envelope) -> dict[str, bytes]:
        return {self._server.name: envelope.to_bytes()}

    def _hear(self, kind: str, who: str = "") -> Rounds[bytes]:
        return (yield from self._engine.hear(kind, who or self._server.name))

    def _envelope(self, kind: str) -> Rounds[Envelope]:
        return Envelope.from_bytes((yield from self._hear(kind)))


class OneNoiseServer(_OneNoise[Callable[[int], PrivateKey]]):
    """The server's side: `begin` once, then `total` for every sum."""

    @cached_property
    def _key(self) -> PrivateKey:
        return self._source(self._terms.key_bits)

    def begin(self) -> Rounds[None]:
        """Make a Paillier key and tell all devices its public half."""
        n = self._key.public.n
        body = pack("paillier", n.to_bytes(-(-n.bit_length() // 8), "big"), prove_modulus(self._key))
        yield from self._engine.tell("paillier key", dict.fromkeys(self._devices, body))

    def total(self, shape: tuple[int, ...], deviation: float) -> Rounds[Floats]:
        """The sum with one noise, which everybody is told.

        Raises
        ------
        ProtocolError
            If anybody deviates, or the devices ask for a sum that cannot be.
        """
        try:
            aggregation, removal = self._agreed(shape, deviation, self._key.public)
        except (ValueError, OverflowError):
            raise ProtocolError("The devices ask for a sum that cannot be taken.") from None
        noisy = yield from self._aggregate(AggregationServer(aggregation, self._identity))
        remover = RemovalServer(removal, self._identity, self._key)
        yield from self._engine.tell("choices", {self._devices[0]: remover.choices().to_bytes()})
        yield from self._engine.tell("bits", {})
        for _ in self._devices[1:]:
            yield from self._engine.tell("product", {})
        last = yield from self._engine.hear("product", self._devices[-1])
        others = remover.total(Envelope.from_bytes(last)).reshape(shape)
        total = np.asarray(noisy - others * _STEP)
        yield from self._engine.tell("told", self._to_all(pack_array(total)))
        return total

    def _aggregate(self, server: AggregationServer) -> Rounds[Floats]:
        listed = server.keys((yield from self._from_devices("keys")))
        yield from self._engine.tell("key list", self._to_all(listed.to_bytes()))
        each = server.shares((yield from self._from_devices("shares")))
        yield from self._engine.tell("share list", {name: share.to_bytes() for name, share in each.items()})
        survivors = server.masked((yield from self._from_devices("masked")))
        yield from self._engine.tell("survivors", self._to_all(survivors.to_bytes()))
        agreements = server.agreed((yield from self._from_devices("agreed")))
        yield from self._engine.tell("agreements", self._to_all(agreements.to_bytes()))
        return server.unmask((yield from self._from_devices("unmask"))).values

    def _to_all(self, body: bytes) -> Bodies:
        return dict.fromkeys(self._devices, body)
