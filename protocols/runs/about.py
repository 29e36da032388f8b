"""What two parties tell each other in a check, before any data: who they are, what they mean, what time it is.

Nothing in it depends on data but whether there is a clearance. It travels over the connections of a run, which
prove both keys.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ksdp.audit.errors import ProtocolError

LARGEST_ABOUT = 4 << 20
"""Bytes."""
GROUNDS = ("cleared", "uncleared", "collects", "not said")
_MOST_TERMS = 256
_SHOWN = 60
_LONGEST = 80
_NAMES_OF_MECHANISMS = {
    "mechanism.name": ("mechanism.", "sums", "shares."),
    "mechanism.mechanism": ("mechanism.parameters.", "mechanism.mechanism_version", "sums", "shares."),
}
"""The name of a mechanism, and of one within it; and how the terms begin that follow from it."""


@dataclass(frozen=True)
class About:
    """One end of a check."""

    ksdp: str
    """Version of the package."""
    code: str
    """Hash of what computes."""
    clock: float
    """Seconds since 1970."""
    terms: Mapping[str, Any]
    """Every term by its name, as `RunTerms.terms`."""
    grounds: str = "not said"
    """On what grounds it will take part, one of `GROUNDS`."""

    def to_bytes(self) -> bytes:
        """As it travels."""
        return json.dumps(asdict(self), ensure_ascii=True, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> About:
        """What `to_bytes` wrote."""
        try:
            fields = json.loads(data)
            about = cls(**fields)
            texts = all(_plain(text) for text in (about.ksdp, about.code))
            fits = texts and isinstance(about.clock, float) and math.isfinite(about.clock)
            fits = fits and isinstance(about.terms, dict) and len(about.terms) <= _MOST_TERMS
            if not (fits and about.grounds in GROUNDS):
                raise ValueError
        except (TypeError, ValueError, RecursionError):
            raise ProtocolError("said something that no check says") from None
        return about


def _plain(text: Any) -> bool:
    """Whether it can be shown as it is: a peer's words must not move anybody's terminal."""
    return isinstance(text, str) and len(text) <= _LONGEST and text.isascii() and text.isprintable()


def different_terms(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[str, ...]:
    """The lines of two protocol files that differ: what stands here and what stands there.

    Of the parties only those are named that are not the same. Terms that only the other end knows are its own
    words, and are not repeated. Parameters of a table are terms of their own; where mechanisms differ, theirs are
    not compared.

    >>> own = {"mechanism.name": "counted", "mechanism.parameters": {"rank": 2, "sweeps": 20}}
    >>> different_terms(own, {"mechanism.name": "counted", "mechanism.parameters": {"rank": 2, "sweeps": 30}})
    ('`mechanism.parameters.sweeps` is 20 here and 30 there',)
    >>> different_terms(own, {"mechanism.name": "pd-nmf", "mechanism.rank": 2})
    ('`mechanism.name` is "counted" here and "pd-nmf" there',)
    """
    own, theirs = _spread(own), _spread(theirs)
    left_out = _of_another_mechanism(own, theirs)
    own = {name: here for name, here in own.items() if name not in left_out}
    theirs = {name: there for name, there in theirs.items() if name not in left_out}
    lines = []
    for name, here in own.items():
        there = theirs.get(name)
        if _same(here, there):
            continue
        if name == "parties":
            lines += _different_parties(here, there)
        else:
            lines.append(f"`{name}` is {_shown(here)} here and {_shown(there)} there")
    if theirs.keys() - own.keys():
        lines.append("the other end has a term that is not known here")
    return tuple(lines)


def _spread(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Each parameter of a table by its own name."""
    spread: dict[str, Any] = {}
    for name, value in terms.items():
        table = value if isinstance(value, Mapping) else None
        spread |= {name: value} if table is None else {f"{name}.{key}": one for key, one in table.items()}
    return spread


def _of_another_mechanism(own: Mapping[str, Any], theirs: Mapping[str, Any]) -> set[str]:
    """Terms that are not compared: a mechanism's own where its name differs."""
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
    """The first groups of the fingerprint of a key in hex."""
    try:
        digest = hashlib.sha256(bytes.fromhex(key)).hexdigest()
    except ValueError:
        return "no key"
    return f"{digest[:4]}-{digest[4:8]}-..."


def _same(here: Any, there: Any) -> bool:
    return json.dumps(here, sort_keys=True) == json.dumps(there, sort_keys=True)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
