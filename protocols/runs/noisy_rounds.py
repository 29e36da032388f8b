"""What a party of a mechanism with noise asks for (`mechanisms.party_side`), answered among real parties.

Every party draws its own noise. Where there is a server, it does not know the algorithm: before each answer the
parties tell it, and each other, what is asked for, one round of a few bytes. Rounds of an answer:

=========  ============================================================================================
`Keep`     none: the noise stays here, and nobody is told
`Sizes`    everybody tells everybody its number of rows
`Show`     the first party tells the others
`Sum`      one secure sum among the parties (`sum_rounds`); a server is told nothing
`Upload`   every party tells the server, then the server tells all what it made of it
`OneNoise` see `one_noise`
=========  ============================================================================================

At the end the parties hand the public result to the server, which takes part in the comparison of hashes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.party_side import Ask, Asks, Keep, OneNoise, Show, Sizes, Sum, Upload
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.arrays import pack_array, pack_arrays, unpack_array
from ksdp.protocols.channel.wire import number_of, pack, pack_number
from ksdp.protocols.runs.agreement import RunTerms
from ksdp.protocols.runs.exchange import Hops, Talk
from ksdp.protocols.runs.node import Opened, Outcome, agree_on_result
from ksdp.protocols.runs.noisy_programs import program_of
from ksdp.protocols.runs.one_noise_rounds import OneNoiseDevice
from ksdp.protocols.runs.own_noise import NoiseSource, noised
from ksdp.protocols.runs.party_steps import PartyResult
from ksdp.protocols.runs.sum_rounds import SumRounds

__all__ = ["NoisyRounds", "ask_body", "what_is_asked", "what_noise_leaves"]

_WORDS = {Keep: "keep", Sizes: "sizes", Show: "show", Sum: "sum", Upload: "upload", OneNoise: "one-noise"}


def what_is_asked(ask: Ask) -> str:
    """The word for it."""
    return _WORDS[type(ask)]


def ask_body(ask: Ask | None) -> bytes:
    """What a server is told of it before the answer; the same at every party. None: nothing more is asked.

    Nothing that only one party knows is in it: deviations of uploads depend on data.
    """
    if ask is None:
        return pack("ask", b"done", b"")
    deviation = ask.deviation.hex().encode() if isinstance(ask, OneNoise) else b""
    shape = ask.share.shape if isinstance(ask, Sum | OneNoise | Upload) else ()
    return pack("ask", what_is_asked(ask).encode(), deviation, *(pack_number(size) for size in shape))


class NoisyRounds:
    """One party's side of a mechanism with noise, once the secure sums have begun.

    Parameters
    ----------
    terms : RunTerms
    opened : Opened
    talk : Talk
    sums : SumRounds
    identity : Ed25519PrivateKey
    noise : NoiseSource
        The party's own.
    random_bytes : callable
        Source of secrets.
    """

    def __init__(
        self,
        terms: RunTerms,
        opened: Opened,
        talk: Talk,
        sums: SumRounds,
        identity: Ed25519PrivateKey,
        noise: NoiseSource,
        random_bytes: RandomBytes,
    ) -> None:
        self._terms, self._opened, self._talk, self._sums = terms, opened, talk, sums
        self._identity, self._source, self._random_bytes = identity, noise, random_bytes
        self._names = tuple(p.name for p in terms.participants)
        self._peers = tuple(name for name in self._names if name != talk.name)
        self._server = terms.server.name if terms.server else ""
        self._one_noise: OneNoiseDevice | None = None
        self._asked: Counter[str] = Counter()
        self._sizes: tuple[int, ...] = ()

    def play(self, asks: Asks) -> Hops[Outcome]:
        """Answer all that is asked, then agree on the result.

        Raises
        ------
        InputError
            If a share, with or without its noise, is out of bounds.
        ProtocolError
            If anybody deviates.
        """
        if program_of(self._terms.mechanism).one_noise:
            self._one_noise = OneNoiseDevice(
                self._terms, self._opened.sums.session, self._talk, self._identity, self._random_bytes
            )
            yield from self._one_noise.begin()
        told: Any = None
        while True:
            try:
                ask = asks.send(told)
            except StopIteration as stop:
                public = {name: np.asarray(array, dtype=np.float64) for name, array in stop.value.items()}
                break
            self._asked[what_is_asked(ask)] += 1
            told = yield from self._answer(ask)
        if self._server:
            yield from self._announce(None)
            yield from self._talk.tell("public", {self._server: pack_arrays(public)})
        session = self._opened.sums.session
        digest = yield from agree_on_result(self._talk, session, public, self._sizes)
        return Outcome(
            PartyResult(public),
            session.hex(),
            digest,
            self._opened.statements,
            self._sums.taken,
            reveals=what_noise_leaves(self._asked, self._terms.parties),
            asked=dict(self._asked),
            sizes=self._sizes,
        )

    def _answer(self, ask: Ask) -> Hops[Any]:
        if isinstance(ask, Keep):
            return self._noised(ask.array, ask.deviation)[0]
        yield from self._announce(ask)
        if isinstance(ask, Sizes):
            return (yield from self._tell_sizes(ask.rows))
        if isinstance(ask, Show):
            return (yield from self._show(ask.array))
        values, noise = self._noised(ask.share, ask.deviation)
        if isinstance(ask, Sum):
            total = yield from self._sums.total(values)
        elif isinstance(ask, OneNoise):
            assert self._one_noise is not None
            total = yield from self._one_noise.total(values, noise, ask.deviation)
        else:
            sent = pack("upload", pack_array(ask.send(values)), pack_array(ask.beside))
            yield from self._talk.tell("upload", {self._server: sent})
            total = unpack_array((yield from self._talk.hear("told", self._server)))
        return ask.after(total)

    def _announce(self, ask: Ask | None) -> Hops[None]:
        """Say what comes; without a server the rounds that come say it themselves."""
        if not self._server:
            return
        body = ask_body(ask)
        for peer, theirs in (yield from self._talk.exchange("ask", self._to_all(body), self._peers)).items():
            if theirs != body:
                raise ProtocolError(f"{peer} asks for something else: the parties drifted apart.")

    def _tell_sizes(self, rows: int) -> Hops[tuple[int, ...]]:
        arrived = yield from self._talk.exchange("sizes", self._to_all(pack_number(rows)), self._peers)
        found = {peer: number_of(body) for peer, body in arrived.items()} | {self._talk.name: rows}
        self._sizes = tuple(found[name] for name in self._names)
        if not all(self._sizes):
            raise ProtocolError("A party says that it has no rows.")
        return self._sizes

    def _show(self, array: NDArray[np.float64]) -> Hops[NDArray[np.float64]]:
        first = self._names[0]
        if self._talk.name != first:
            return unpack_array((yield from self._talk.hear("show", first)))
        yield from self._talk.tell("show", dict.fromkeys(self._peers, pack_array(array)))
        return array

    def _to_all(self, body: bytes) -> dict[str, bytes]:
        return dict.fromkeys(self._talk.others, body)

    def _noised(
        self, share: NDArray[np.float64], deviation: float
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        found = noised(share, deviation, self._terms.precision.bound, self._source)
        return found.values, found.noise


def what_noise_leaves(asked: Counter[str], parties: int) -> str:
    """What follows from what was announced, in plain words."""
    said = []
    if asked["sum"]:
        who = "Each party learns the other's" if parties == 2 else f"Any {parties - 1} learn the last one's"
        said.append(f"{who} share of every sum, with its noise.")
    if asked["upload"]:
        said.append("The server learns every party's uploads, with that party's noise, and what goes beside them.")
    if asked["show"]:
        said.append("Everybody learns what the first party showed, without noise.")
    if asked["one-noise"]:
        said.append(
            "Every sum has the noise of one device: that device can subtract it; the first device and the server "
            "together know which one it is, and the neighbours of a device with the server its noise."
        )
    return " ".join(said)
