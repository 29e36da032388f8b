"""Terms that the parties of a run agree on before any message that depends on data, and who must be trusted.

Everybody sends the version of its software, all terms, which depend on no data, and a nonce. Where terms differ
the others say which and how. The nonces of all make a run a new one: nothing of an earlier run is taken for this
one's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from importlib.metadata import version
from typing import Any

from ksdp.audit.contract import Mechanism, guarantee_of
from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.keys import Participant, check_participants
from ksdp.protocols.channel.wire import name_of, pack, unpack
from ksdp.protocols.programs.programs import (
    Precision,
    check_noisy,
    check_program,
    how_summed,
    is_noisy,
    program_of,
)
from ksdp.protocols.programs.share_terms import (
    ShareTerms,
    check_sizes,
    noise_of_party,
    opens_final,
    share_terms,
    trusted_words,
    uses_shares,
)
from ksdp.protocols.shares.leaving import check_threshold, who_can_open
from ksdp.protocols.sums.secure_sum import what_follows

PROTOCOL_VERSION = 1
"""Version of the messages between parties, and of their order."""
NONCE_BYTES = 32
_MAX_TERMS = 256


class DifferentTerms(ProtocolError):
    """A party means another run."""


@dataclass(frozen=True)
class RunTerms:
    """Terms of a run that all parties must agree on.

    Parameters
    ----------
    mechanism : Mechanism
        With every parameter; seed, rank and the stop rule among them.
    features : int
        Columns.
    vocabulary : str
        `sha256:` of the names of the features in their order.
    participants : tuple of Participant
        The parties, sorted by name; at least two.
    server : Participant, optional
        Who collects, where the mechanism needs that; it holds no documents.
    rows : str
        `sha256:` of how every party makes its rows; empty where that is not agreed.
    shares : ShareTerms, optional
        Who computes on shares, where the final output alone is opened or norms are hidden; settled if not given.
    threshold : int
        So many parties must stay where some may leave; 0: nobody may.
    enters : tuple of int
        Documents that each participant enters at least; empty where nothing is agreed.

    Raises
    ------
    InputError
        If the mechanism cannot be run by these parties, the rank does not fit, sums could wrap, or there is a
        server where none is needed or none where one is.
    """

    mechanism: Mechanism
    features: int
    vocabulary: str
    precision: Precision
    participants: tuple[Participant, ...]
    server: Participant | None = None
    rows: str = ""
    shares: ShareTerms | None = None
    threshold: int = 0
    enters: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        check_participants(self.participants, 2)
        check_program(self.mechanism)
        self._check_server()
        if self.features < 1:
            raise InputError(f"`features` must be at least 1; got {self.features}.")
        self.mechanism.releases(self.features)
        self._settle_shares()
        noise_of_party(self.mechanism, self.parties)
        check_sizes(self.mechanism, self.features, self.parties * self.precision.bound)
        self.precision.coding(self.parties)
        if is_noisy(self.mechanism):
            check_noisy(self.mechanism, self.precision.fraction_bits, self.precision.bound, self.parties)
        if self.threshold:
            self._check_leaving()

    def _check_leaving(self) -> None:
        check_threshold(self.threshold, self.parties)
        name, promised = self.mechanism.name, guarantee_of(self.mechanism)
        if not is_noisy(self.mechanism) or self.server is not None or self.shares is not None:
            raise InputError(
                f"`leave` must be left out for {name}. Parties may leave where all that is opened are secure sums "
                "with noise: two exact sums, with and without a party, differ by this party's own share."
            )
        if promised.kind != "(epsilon, delta)" or not promised.sound:
            raise InputError(
                f"`leave` must be left out for {name} with these parameters: it promises no record anything."
            )
        if (colluders := getattr(self.mechanism, "colluders", None) or 0) >= self.threshold:
            raise InputError(
                f"`leave.threshold` must be above `mechanism.colluders` ({colluders}); got {self.threshold}."
            )

    @cached_property
    def as_run(self) -> Mechanism:
        """The mechanism with the noise of a run: that of any `threshold` parties is enough."""
        colluders = getattr(self.mechanism, "colluders", None)
        if not self.threshold or colluders is None or not is_noisy(self.mechanism):
            return self.mechanism  # without `colluders` each party's noise is enough by itself
        return replace(self.mechanism, **{"colluders": colluders + self.parties - self.threshold})

    def _settle_shares(self) -> None:
        given, names = self.shares, tuple(p.name for p in self.participants)
        if uses_shares(self.mechanism):
            settled = share_terms(self.mechanism, self.features, names, *(astuple(given) if given else ()))
            object.__setattr__(self, "shares", settled)
        elif given is not None:
            raise InputError('`shares` must be left out unless `opens` is "final" or norms are hidden.')

    def _check_server(self) -> None:
        name, why = self.mechanism.name, program_of(self.mechanism).server
        if self.server is None:
            if why:
                raise InputError(f"`server` must be given for {name}: {why}.")
            return
        if not why:
            raise InputError(f"`server` must not be given for {name}: its parties need no server.")
        check_participants(tuple(sorted(self.nodes)), 3)

    @property
    def parties(self) -> int:
        """M; the server is none of them."""
        return len(self.participants)

    @property
    def nodes(self) -> tuple[Participant, ...]:
        """The parties, then the server, where there is one."""
        return self.participants if self.server is None else (*self.participants, self.server)

    def others(self, name: str) -> tuple[str, ...]:
        """Names of all nodes but one."""
        return tuple(p.name for p in self.nodes if p.name != name)

    def fewest(self, identity: bytes) -> tuple[int, int]:
        """Documents that the party of this key enters at least, and all others together."""
        own = sum(n for p, n in zip(self.participants, self.enters, strict=False) if p.identity == identity)
        return own, sum(self.enters) - own

    @cached_property
    def terms(self) -> dict[str, Any]:
        """Every term by its name, as JSON knows values."""
        assert is_dataclass(self.mechanism)
        lines = {
            "protocol": PROTOCOL_VERSION,
            "mechanism.name": self.mechanism.name,
            "mechanism.version": self.mechanism.version,
            "features": self.features,
            "vocabulary": self.vocabulary,
            "precision.fraction_bits": self.precision.fraction_bits,
            "precision.bound": self.precision.bound,
            "sums": how_summed(self.mechanism),
            "parties": [[p.name, p.identity.hex()] for p in self.participants],
            "server": [self.server.name, self.server.identity.hex()] if self.server else None,
        }
        if self.rows:
            lines["rows"] = self.rows
        if self.threshold:
            lines["leave.threshold"] = self.threshold
        if any(self.enters):
            lines["enters"] = list(self.enters)
        if self.shares is not None:
            lines |= {f"shares.{name}": value for name, value in asdict(self.shares).items()}
        for each in fields(self.mechanism):
            if each.init:
                lines[f"mechanism.{each.name}"] = getattr(self.mechanism, each.name)
        return lines

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that two parties share only if they agree on everything."""
        return digest_of(self.terms)


def digest_of(terms: Mapping[str, Any]) -> bytes:
    """32 bytes that are the same where all terms are."""
    return hashlib.sha256(pack("run-terms", _json(terms))).digest()


@dataclass(frozen=True)
class Greeting:
    """The first message of a node; it holds nothing of anybody's data."""

    terms: Mapping[str, Any]
    nonce: bytes
    software: str = field(default_factory=lambda: version("ksdp"))

    def to_bytes(self) -> bytes:
        """As it travels."""
        return pack("greeting", self.nonce, self.software.encode(), _json(self.terms))

    @classmethod
    def from_bytes(cls, data: bytes) -> Greeting:
        """Read the bytes of `to_bytes`."""
        nonce, software, text = unpack("greeting", data, 3)
        terms = _object(text)
        plain = name_of(software)
        shown = len(plain) <= _LONGEST and plain.isascii() and plain.isprintable()
        if len(nonce) != NONCE_BYTES or len(terms) > _MAX_TERMS or not shown:
            raise ProtocolError("A greeting is damaged.")
        return cls(terms, nonce, plain)

    def check(self, terms: Mapping[str, Any], sender: str) -> None:
        """Refuse a node that means something else, or has another software."""
        ours = version("ksdp")
        if self.software != ours:
            raise DifferentTerms(f"{sender} has ksdp {self.software}, this is {ours}: install the same at both.")
        if lines := different_terms(terms, self.terms):
            what = "; ".join(lines)
            raise DifferentTerms(
                f"{sender} agreed to something else: {what}. Take one protocol file, the same at all."
            )


@dataclass(frozen=True)
class Statement:
    """On what grounds a node takes part; sent once the terms are known to be the same."""

    cleared: bool
    clearance: str = ""
    """SHA-256 of the clearance's file; empty where there is none."""
    collects: bool = False
    """The server's: it enters nothing, so that there is nothing to clear."""

    def __post_init__(self) -> None:
        if self.collects and (self.cleared or self.clearance):
            raise InputError("a server enters nothing that could be cleared.")

    def to_bytes(self) -> bytes:
        """As it travels."""
        word = b"collects" if self.collects else b"cleared" if self.cleared else b"uncleared"
        return pack("statement", word, self.clearance.encode())

    @classmethod
    def from_bytes(cls, data: bytes) -> Statement:
        """Read the bytes of `to_bytes`."""
        state, clearance = unpack("statement", data, 2)
        text = name_of(clearance)
        is_hash = len(text) == 64 and set(text) <= set("0123456789abcdef")
        states = ((b"cleared", True, False), (b"uncleared", False, True), (b"collects", False, True))
        if (state, is_hash, text == "") not in states:
            raise ProtocolError("A statement is damaged.")
        return cls(state == b"cleared", text, state == b"collects")

    def as_json(self) -> dict[str, Any]:
        """For files."""
        if self.collects:
            return {"collects": True}
        return {"cleared": self.cleared, "clearance": self.clearance or None}


COLLECTS = Statement(cleared=False, collects=True)
"""Statement of a server."""


def session_seed(terms: RunTerms, nonces: Mapping[str, bytes], statements: Mapping[str, Statement]) -> bytes:
    """32 bytes that only the nodes of this one run share, with all that was said so far."""
    parts = (pack("said", p.name.encode(), nonces[p.name], statements[p.name].to_bytes()) for p in terms.nodes)
    return hashlib.sha256(pack("run", terms.digest, *parts)).digest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError("A greeting is damaged.") from None
    if not isinstance(value, dict):
        raise ProtocolError("A greeting is damaged.")
    return value


LARGEST_GREETING = 4 << 20
"""Bytes."""
_SHOWN = 60
_LONGEST = 80
_DERIVED = ("sums", "shares.")
_NAMES_OF_MECHANISMS = {
    "mechanism.name": ("mechanism.", "sums", "shares."),
    "mechanism.mechanism": ("mechanism.parameters.", "mechanism.mechanism_version", "sums", "shares."),
}
"""The name of a mechanism, and of one within it; and how the terms begin that follow from it."""


def different_terms(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """The lines of two protocol files that differ: what stands here and what stands there.

    Of the parties only those are named that are not the same. Terms that only the other end knows are its own
    words, and are not repeated. Parameters of a table are terms of their own; where mechanisms differ, theirs are
    not compared. What follows from others comes last.

    >>> own = {"mechanism.name": "noisy", "mechanism.parameters": {"rank": 2, "sweeps": 20}}
    >>> different_terms(own, {"mechanism.name": "noisy", "mechanism.parameters": {"rank": 2, "sweeps": 30}})
    ('`mechanism.parameters.sweeps` is 20 here and 30 there',)
    >>> different_terms(own, {"mechanism.name": "pd-nmf", "mechanism.rank": 2})
    ('`mechanism.name` is "noisy" here and "pd-nmf" there',)
    """
    own, theirs = _spread(own), _spread(theirs)
    left_out = _of_another_mechanism(own, theirs)
    own = {name: here for name, here in own.items() if name not in left_out}
    theirs = {name: there for name, there in theirs.items() if name not in left_out}
    lines = []
    for name, here in sorted(own.items(), key=lambda item: item[0].startswith(_DERIVED)):
        there = theirs.get(name)
        if _same(here, there):
            continue
        if name == "parties":
            lines += _different_parties(here, there)
        else:
            lines.append(f"`{name}` is {_short(here)} here and {_short(there)} there")
    if theirs.keys() - own.keys():
        lines.append("the other end has a term that is not known here")
    return tuple(lines)


def _spread(terms: Mapping[str, Any]) -> dict[str, Any]:
    spread: dict[str, Any] = {}
    for name, value in terms.items():
        table = value if isinstance(value, Mapping) else None
        spread |= {name: value} if table is None else {f"{name}.{key}": item for key, item in table.items()}
    return spread


def _of_another_mechanism(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> set[str]:
    for name, follow in _NAMES_OF_MECHANISMS.items():
        if not _same(own.get(name), theirs.get(name)):
            return {term for term in {*own, *theirs} if term != name and term.startswith(follow)}
    return set()


def _different_parties(here: Any, there: Any) -> list[str]:
    ours = dict(here)
    try:
        others = {str(name): str(key) for name, key in there}
    except (TypeError, ValueError):
        return ["`parties` cannot be read there"]
    lines = [f"`parties`: {name} is named here, not there" for name in sorted(ours.keys() - others.keys())]
    unknown = len(others.keys() - ours.keys())
    lines += [f"`parties`: there are {unknown} there that are not named here"] if unknown else []
    for name in sorted(ours.keys() & others.keys()):
        if ours[name] != others[name]:
            lines.append(
                f"`parties`: {name} has another key there ({_hash(others[name])}; {_hash(ours[name])} here)"
            )
    return lines


def _hash(key: str) -> str:
    try:
        digest = hashlib.sha256(bytes.fromhex(key)).hexdigest()
    except ValueError:
        return "no key"
    return f"{digest[:4]}-{digest[4:8]}-..."


def _same(here: Any, there: Any) -> bool:
    return json.dumps(here, sort_keys=True) == json.dumps(there, sort_keys=True)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def who_must_be_trusted(terms: RunTerms) -> str:
    """Which coalition learns more than the result, before anybody takes part."""
    on_shares = trusted_words(terms.shares.computing, terms.mechanism) if terms.shares else ""
    if opens_final(terms.mechanism):
        return on_shares
    if is_noisy(terms.mechanism):
        promised = guarantee_of(terms.mechanism)
        unsound = "" if promised.sound else f" UNSOUND as printed: {promised.notes}"
        protects = f" Protected: {promised.unit}." if promised.unit else ""
        leaving = f" {who_can_open(terms.threshold, terms.parties)}" if terms.threshold else ""
        return f"Every round is opened, with noise. Trusted: {promised.trust}.{protects}{unsound}{leaving}"
    opened = f"Every round is opened: all parties see every sum. {what_follows(terms.parties)}"
    return f"{opened} {on_shares}".rstrip()
