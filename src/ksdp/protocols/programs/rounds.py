"""A run by announced sums: what every party and the server say in which round."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.party_side import (
    Broadcast,
    LocalNoise,
    NoisySum,
    NormedSecSum,
    OneNoiseSum,
    PartyProgram,
    PartyResult,
    Request,
    SecSum,
    Sizes,
    Upload,
    answered,
)
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS, draw, on_grid
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, agreed, read_from
from ksdp.protocols.channel.wire import (
    name_of,
    number_of,
    pack,
    pack_array,
    pack_arrays,
    pack_number,
    rows_of,
    unpack,
    unpack_array,
    unpack_arrays,
)
from ksdp.protocols.programs.programs import DeviceSums, ServerSums, extra_sums, sum_entries
from ksdp.protocols.programs.run_terms import COLLECTS, NONCE_BYTES, Greeting, RunTerms, Statement, session_seed
from ksdp.protocols.programs.share_terms import needs_norms, trusted_words
from ksdp.protocols.shares.leaving import LeavingRounds, who_can_open
from ksdp.protocols.sums.secure_sum import SumRounds, SumTerms, what_follows

if TYPE_CHECKING:
    from ksdp.protocols.shares.rounds import ComputingSide

NoiseSource = Callable[[tuple[int, ...], float], Floats]
"""Asked for a shape and a deviation, it gives noise in multiples of 2^-31."""
_STEP = 2.0**-FRACTION_BITS


def vetted_noise(shape: tuple[int, ...], deviation: float) -> Floats:
    """Noise by the vetted sampler; what every run uses unless a test injects another source."""
    return draw("discrete", shape, deviation, np.random.default_rng())


@dataclass(frozen=True, eq=False)
class Noised:
    """An array with noise, and the noise."""

    values: Floats
    """Multiples of 2^-31, each exactly a step plus a step of noise."""
    noise: NDArray[np.int64]
    """In steps of 2^-31."""


def noised(share: Floats, deviation: float, bound: float, source: NoiseSource) -> Noised:
    """Round a share to the grid and add noise to it, in whole numbers."""
    array = np.asarray(share, dtype=np.float64)
    _check(array, bound, f"A share has an entry that is not finite, or larger than {bound:g}")
    drawn = source(array.shape, deviation)
    too_large = f"A share with noise of deviation {deviation:.3g} has an entry larger than {bound:g}"
    _check(drawn, bound, too_large)
    noise = on_grid(drawn)
    values = np.asarray((on_grid(array) + noise) * _STEP, dtype=np.float64)
    _check(values, bound, too_large)
    return Noised(values, noise)


def _check(array: Floats, bound: float, what: str) -> None:
    if array.size and not float(np.abs(array).max()) <= bound:  # a NaN is not
        raise InputError(f"{what} (`precision.bound`): the run cannot go on.")


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """State of a run once everybody is known to mean the same one."""

    engine: RoundEngine
    statements: Mapping[str, Statement]
    sums: SumTerms
    """Terms of the parties' sums; their `session` is the run's."""


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """The end of a run that all nodes confirmed."""

    result: PartyResult
    session: str
    """Session of this run, 64 hex digits; the same at every node."""
    digest: str
    """SHA-256 of the public result; the same at every node."""
    statements: Mapping[str, Statement]
    """On what grounds each node took part."""
    sums: int = 0
    normed_sums: int = 0
    reveals: str = ""
    """Conclusions from the releases, in plain words."""
    asked: Mapping[str, int] = field(default_factory=dict)
    """How often what was asked for, where parties add noise."""
    sizes: tuple[int, ...] = ()
    """Rows of every party, in the parties' order, where the mechanism makes them public."""
    departed: Mapping[str, int] = field(default_factory=dict)
    """The parties that left, and in how many sums the share of each is."""


def greet(engine: RoundEngine, terms: Mapping[str, Any], random_bytes: RandomBytes) -> Rounds[dict[str, bytes]]:
    """Greet all others: everybody's nonce."""
    own = Greeting(terms, random_bytes(NONCE_BYTES))
    nonces = {engine.name: own.nonce}
    for peer, body in (yield from engine.everybody("greeting", own.to_bytes())).items():
        theirs = read_from(peer, Greeting.from_bytes, body)
        theirs.check(terms, peer)
        nonces[peer] = theirs.nonce
    return nonces


def compare(engine: RoundEngine, terms: Mapping[str, Any], random_bytes: RandomBytes) -> Rounds[dict[str, str]]:
    """Greet all others and go no further: by node, why a run with it would end here; empty where it would not."""
    statements: dict[str, str] = {}
    own = Greeting(terms, random_bytes(NONCE_BYTES))
    for peer, body in (yield from engine.everybody("greeting", own.to_bytes())).items():
        try:
            read_from(peer, Greeting.from_bytes, body).check(terms, peer)
            statements[peer] = ""
        except ProtocolError as error:
            statements[peer] = str(error)
    return statements


def open_run(terms: RunTerms, name: str, statement: Statement, random_bytes: RandomBytes) -> Rounds[OpenedRun]:
    """Greeting and statements."""
    engine = RoundEngine(name, terms.others(name))
    nonces = yield from greet(engine, terms.terms, random_bytes)
    statements = {name: statement}
    for peer, body in (yield from engine.everybody("statement", statement.to_bytes())).items():
        statements[peer] = read_from(peer, Statement.from_bytes, body)
    for peer, theirs in statements.items():
        if theirs.collects != (terms.server is not None and peer == terms.server.name):
            raise ProtocolError(f"{peer} takes part as what it is not: the server collects, parties do not.")
    seed = session_seed(terms, nonces, statements)
    return OpenedRun(engine, dict(sorted(statements.items())), SumTerms(terms.participants, seed))


def agree_on_result(
    engine: RoundEngine, session: bytes, public: Mapping[str, NDArray[Any]], sizes: tuple[int, ...] = ()
) -> Rounds[str]:
    """The last round: nobody has a result unless all have the same, and were told the same sizes."""
    digest = _digest(public, session, sizes)
    for peer, body in (yield from engine.everybody("result", digest)).items():
        if body != digest:
            raise ProtocolError(f"{peer} has another result: the run is void.")
    return _digest(public, b"", ()).hex()


def _digest(public: Mapping[str, NDArray[Any]], session: bytes, sizes: tuple[int, ...]) -> bytes:
    arrays = (
        pack("array", name.encode(), repr(array.shape).encode(), np.ascontiguousarray(array, "<f8").tobytes())
        for name, array in sorted(public.items())
    )
    agreed = [pack("sizes", *map(pack_number, sizes))] if sizes else []
    return hashlib.sha256(pack("result", session, *agreed, *arrays)).digest()


_WORDS = {
    SecSum: "secsum",
    NormedSecSum: "normedsecsum",
    LocalNoise: "keep",
    Sizes: "sizes",
    Broadcast: "show",
    NoisySum: "sum",
    Upload: "upload",
    OneNoiseSum: "one-noise",
}
_EXACT = ("secsum", "normedsecsum")
_LENGTH = 1e-6
"""By how much an opened row may be off length one."""


def what_is_requested(request: Request) -> str:
    """The word for it."""
    return _WORDS[type(request)]


def request_body(request: Request | None) -> bytes:
    """Encode the request to a server, the same at every party. None: nothing more is requested."""
    if request is None:
        return pack("ask", b"done", b"")
    deviation = request.deviation.hex().encode() if isinstance(request, OneNoiseSum) else b""
    shape = () if isinstance(request, LocalNoise | Broadcast | Sizes) else request.share.shape
    return pack("ask", what_is_requested(request).encode(), deviation, *(pack_number(size) for size in shape))


class ProgramRounds:
    """One party's side of a run, once its terms are agreed and the secure sums have begun.

    Parameters
    ----------
    opened : OpenedRun
        What the handshake came to.
    sums : SumRounds
        Begun.
    """

    def __init__(
        self,
        terms: RunTerms,
        opened: OpenedRun,
        sums: SumRounds | LeavingRounds,
        noise: NoiseSource,
        random_bytes: RandomBytes,
    ) -> None:
        self._terms, self._opened, self._engine, self._sums = terms, opened, opened.engine, sums
        self._source, self._random_bytes = noise, random_bytes
        self._session = opened.sums.session
        self._names = tuple(p.name for p in terms.participants)
        self._peers = tuple(name for name in self._names if name != opened.engine.name)
        self._server = terms.server.name if terms.server else ""
        self._one_noise: DeviceSums | None = None
        self._shares: ComputingSide | None = None
        self._normed = 0
        self._asked: Counter[str] = Counter()
        self._sizes: tuple[int, ...] = ()

    def play(self, program: PartyProgram) -> Rounds[RunOutcome]:
        """Answer all requests, then agree on the result."""
        yield from self._begin()
        result = yield from answered(program, self._counted)
        public = {name: np.asarray(array, dtype=np.float64) for name, array in result.public.items()}
        if self._server:
            yield from self._announce(None)
            yield from self._engine.tell("public", {self._server: pack_arrays(public)})
        digest = yield from agree_on_result(self._engine, self._session, public, self._sizes)
        return RunOutcome(
            PartyResult(public, result.own),
            self._session.hex(),
            digest,
            self._opened.statements,
            self._sums.taken,
            self._normed,
            self._reveals(),
            {word: times for word, times in self._asked.items() if word not in _EXACT},
            self._sizes,
            self._sums.departed if isinstance(self._sums, LeavingRounds) else {},
        )

    def _counted(self, request: Request) -> Rounds[Any]:
        self._asked[what_is_requested(request)] += 1
        return (yield from self._answer(request))

    def _begin(self) -> Rounds[None]:
        extra = extra_sums(self._terms.mechanism)
        if extra is not None:
            self._one_noise = extra.device(self._terms, self._session, self._engine, self._random_bytes)
            yield from self._one_noise.begin()
        if self._terms.shares is not None:
            # MPyC takes a second to import, which other runs need not pay.
            from ksdp.protocols.shares.rounds import ComputingSide

            self._shares = ComputingSide(self._terms.shares.computing, self._engine, self._random_bytes)

    def _answer(self, request: Request) -> Rounds[Any]:
        if isinstance(request, LocalNoise):
            return self._noised(request.array, request.deviation).values
        yield from self._announce(request)
        match request:
            case SecSum(share=share):
                return (yield from self._sums.total(share))
            case NormedSecSum(share=share):
                return (yield from self._normed_rows(share))
            case Sizes(rows=rows):
                return (yield from self._tell_sizes(rows))
            case Broadcast(array=array):
                return (yield from self._broadcast(array))
        noise = request.part(self._terms.parties) if isinstance(request, NoisySum) else request.deviation
        mine = self._noised(request.share, noise)
        if isinstance(request, NoisySum):
            total = yield from self._sums.total(mine.values)
        elif isinstance(request, OneNoiseSum):
            assert self._one_noise is not None
            total = yield from self._one_noise.total(mine.values, mine.noise, request.deviation)
        else:
            sent = pack("upload", pack_array(request.send(mine.values)), pack_array(request.beside))
            yield from self._engine.tell("upload", {self._server: sent})
            answer = yield from self._engine.hear("told", self._server)
            total = read_from(self._server, unpack_array, answer)
        return request.after(total)

    def _normed_rows(self, share: NDArray[np.float64]) -> Rounds[NDArray[np.float64]]:
        assert self._shares is not None
        self._normed += len(share)
        rows = yield from self._shares.normed(share, self._terms.precision.bound, self._terms.parties)
        if (np.abs(np.linalg.norm(rows, axis=1) - 1.0) > _LENGTH).any():
            raise ProtocolError(
                "A row of the parties' sum is zero, or too short to have a direction with this `precision.bound` "
                f"({self._terms.precision.bound:g}): agree on a smaller bound, or a smaller `rank`."
            )
        return rows

    def _announce(self, request: Request | None) -> Rounds[None]:
        if not self._server:
            return
        body = request_body(request)
        for peer, theirs in (yield from self._engine.exchange("ask", self._to_all(body), self._peers)).items():
            if theirs != body:
                raise ProtocolError(f"{peer} asks for something else: the parties are out of step.")

    def _tell_sizes(self, rows: int) -> Rounds[tuple[int, ...]]:
        arrived = yield from self._engine.exchange("sizes", self._to_all(pack_number(rows)), self._peers)
        sizes = {peer: read_from(peer, rows_of, body) for peer, body in arrived.items()}
        sizes[self._engine.name] = rows
        self._sizes = tuple(sizes[name] for name in self._names)
        return self._sizes

    def _broadcast(self, array: NDArray[np.float64]) -> Rounds[NDArray[np.float64]]:
        first = self._names[0]
        if self._engine.name != first:
            return read_from(first, unpack_array, (yield from self._engine.hear("show", first)))
        yield from self._engine.tell("show", dict.fromkeys(self._peers, pack_array(array)))
        return array

    def _to_all(self, body: bytes) -> dict[str, bytes]:
        return dict.fromkeys(self._engine.others, body)

    def _noised(self, share: NDArray[np.float64], deviation: float) -> Noised:
        return noised(share, deviation, self._terms.precision.bound, self._source)

    def _reveals(self) -> str:
        sentences = [what_follows(self._terms.parties)] if self._asked["secsum"] else []
        if self._terms.shares is not None:
            sentences.append(trusted_words(self._terms.shares.computing, self._terms.mechanism))
        threshold = self._terms.threshold
        return " ".join(filter(None, (*sentences, what_noise_leaves(self._asked, self._terms.parties, threshold))))


def what_noise_leaves(counts: Counter[str], parties: int, threshold: int = 0) -> str:
    """Say in plain words what follows from releases with noise."""
    sentences = []
    if counts["sum"] and threshold:
        sentences.append(who_can_open(threshold, parties))
    elif counts["sum"]:
        who = "Each party learns the other's" if parties == 2 else f"Any {parties - 1} learn the last one's"
        sentences.append(f"{who} share of every sum, with its noise.")
    if counts["upload"]:
        sentences.append(
            "The server learns every party's uploads, with that party's noise, and what goes beside them."
        )
    if counts["show"]:
        sentences.append("Everybody learns what the first party showed, without noise.")
    if counts["one-noise"]:
        sentences.append(
            "Every sum has the noise of one device: that device can subtract it; the first device and the server "
            "together know which one it is, and the neighbours of a device with the server its noise. A server "
            "that deviates from the protocol can take all noise away, and nothing shows it."
        )
    return " ".join(sentences)


def party_rounds(
    terms: RunTerms,
    name: str,
    identity: Ed25519PrivateKey,
    program: PartyProgram,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
    noise: NoiseSource = vetted_noise,
) -> Rounds[RunOutcome]:
    """One party's side of a run."""
    opened = yield from open_run(terms, name, statement, random_bytes)
    make = partial(LeavingRounds, threshold=terms.threshold) if terms.threshold else SumRounds
    sums = make(opened.sums, terms.precision.coding(terms.parties), opened.engine, identity, random_bytes)
    yield from sums.begin()
    return (yield from ProgramRounds(terms, opened, sums, noise, random_bytes).play(program))


def largest_message(terms: RunTerms, entries: int) -> int:
    """No message of a run has more bytes."""
    plain: int = 8 * entries + 256 * terms.parties + (1 << 16)
    if terms.server is not None:
        # Packed ciphertexts have up to three times the bytes; a list of all names goes to the server n times.
        return 3 * plain + 128 * terms.parties**2
    if not needs_norms(terms.mechanism):
        return plain
    numbers = sum_entries(terms.mechanism, terms.features)  # of all rows that are normed together, 28 bytes each
    return plain + 2 * 28 * numbers + (1 << 20)


def server_rounds(
    terms: RunTerms, *, random_bytes: RandomBytes = os_random, noise: NoiseSource = vetted_noise
) -> Rounds[RunOutcome]:
    """The server's side of a run."""
    assert terms.server is not None
    opened = yield from open_run(terms, terms.server.name, COLLECTS, random_bytes)
    engine, session = opened.engine, opened.sums.session
    yield from engine.tell("hello", {})
    server = _Server(terms, engine, noise)
    extra = extra_sums(terms.mechanism)
    if extra is not None:
        server.one_noise = extra.server(terms, session, engine)
        yield from server.one_noise.begin()
    public = yield from server.serve()
    digest = yield from agree_on_result(engine, session, public, server.sizes)
    return RunOutcome(
        PartyResult(public),
        session.hex(),
        digest,
        opened.statements,
        server.asked["sum"],
        reveals=what_noise_leaves(server.asked, terms.parties),
        asked=dict(server.asked),
        sizes=server.sizes,
    )


def _upload(body: bytes) -> tuple[Floats, Floats]:
    values, more = unpack("upload", body, 2)
    return unpack_array(values), unpack_array(more)


def _asked(body: bytes) -> tuple[str, float, tuple[int, ...]]:
    try:
        what, deviation, *shape = unpack("ask", body)
        return name_of(what), float.fromhex(name_of(deviation)) if deviation else 0.0, tuple(map(number_of, shape))
    except (ValueError, OverflowError):
        raise ProtocolError("What it asks for is damaged.") from None


class _Server:
    """Follows what the parties say comes next."""

    def __init__(self, terms: RunTerms, engine: RoundEngine, noise: NoiseSource) -> None:
        self._terms, self._engine, self._source = terms, engine, noise
        self._names = tuple(p.name for p in terms.participants)
        self.one_noise: ServerSums | None = None
        self.asked: Counter[str] = Counter()
        self.sizes: tuple[int, ...] = ()

    def serve(self) -> Rounds[dict[str, Floats]]:
        """Until the parties are done; returns what they hold to be public."""
        while True:
            requests = yield from self._from_all("ask")
            wanted = {name: read_from(name, _asked, body) for name, body in requests.items()}
            what, deviation, shape = agreed(wanted, "ask for different things and are out of step")
            if what == "done":
                break
            self.asked[what] += 1
            if what == "sizes":
                sizes = yield from self._from_all("sizes")
                self.sizes = tuple(read_from(name, rows_of, sizes[name]) for name in self._names)
            elif what in ("sum", "show"):  # among the parties
                yield from self._engine.tell(what, {})
            elif what == "upload":
                yield from self._collect()
            elif what == "one-noise" and self.one_noise is not None:
                yield from self.one_noise.total(shape, deviation)
            else:
                raise ProtocolError("The parties ask for something that this server does not do.")
        handed = yield from self._from_all("public")
        return unpack_arrays(agreed(handed, "hold different results, and the run is void"))

    def _collect(self) -> Rounds[None]:
        sent = yield from self._from_all("upload")
        read = [read_from(name, _upload, sent[name]) for name in self._names]
        uploads, beside = [upload for upload, _ in read], [more for _, more in read]
        shapes = {name: (upload.shape, more.shape) for name, (upload, more) in zip(self._names, read, strict=True)}
        agreed(shapes, "sent uploads of different shapes")
        mechanism = self._terms.mechanism
        assert isinstance(mechanism, GaussianReleases)
        try:
            published, deviation = mechanism.collected(uploads, beside, self.sizes)
        except (ValueError, np.linalg.LinAlgError):  # what arrived may be anything
            raise ProtocolError("The parties' uploads cannot be put together.") from None
        if deviation:
            published = noised(published, deviation, self._terms.precision.bound, self._source).values
        body = pack_array(published)
        yield from self._engine.tell("told", dict.fromkeys(self._names, body))

    def _from_all(self, kind: str) -> Rounds[dict[str, bytes]]:
        return (yield from self._engine.exchange(kind, {}, self._names))
