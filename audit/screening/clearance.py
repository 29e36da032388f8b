"""The clearance: which documents may enter a protocol run. What it says; `screening.clearances` signs it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.screening.attempts import Attempts

_SALT_BYTES = 16


@dataclass(frozen=True)
class MechanismIdentity:
    """What a mechanism computes: name, version and every parameter, defaults included."""

    name: str
    version: int
    parameters: Mapping[str, Any]
    """Values as JSON knows them (lists, not tuples)."""

    def without(self, left_out: Iterable[str]) -> MechanismIdentity:
        """The same but for some parameters."""
        kept = {name: value for name, value in self.parameters.items() if name not in set(left_out)}
        return MechanismIdentity(self.name, self.version, kept)


@dataclass(frozen=True)
class Reviewed:
    """What people decided, where a clearance was made from their decisions."""

    accepted: int
    """Documents on the list by decision alone: their verdict would not have put them there."""
    excluded: int
    """Documents left out by decision."""
    left_open: int
    """Documents left out because nothing was proved of them or decided, or not yet by everybody who must."""
    four_eyes: bool
    """Whether each decision was confirmed by a second person."""
    log_entries: int
    """Entries of the review log when it was made."""
    log_head: str
    """Hash of the newest of them: a log that does not hold it is not the one that was signed for."""


@dataclass(frozen=True)
class Evidence:
    """How much was looked at: what the deciding audit could see, and how often the question was asked."""

    runs: int
    """Of the deciding audit."""
    fewest_with: int
    """Runs that held the document that was in the fewest."""
    detectable_distance: float
    """Smallest advantage that it finds 8 times in 10."""
    attempts: Attempts

    def sentence(self) -> str:
        """For the statement."""
        return (
            f"The deciding audit made {self.runs} runs, at least {self.fewest_with} of them with each document; "
            f"it finds an advantage of {self.detectable_distance:.2f} 8 times in 10. {self.attempts.sentence()}"
        )


@dataclass(frozen=True)
class Covered:
    """What the audits behind a clearance looked at, of what a run shows its parties."""

    opens: str
    """`every round`, or `final`."""
    arrays: tuple[str, ...]
    """Names of the announced arrays that tested statistics read; sorted, each once."""

    def missing(self, opened: Iterable[str]) -> tuple[str, ...]:
        """Of what a run opens, the arrays that nobody looked at; sorted."""
        return tuple(sorted(set(opened) - set(self.arrays)))


def hash_document(document: str, salt: bytes) -> str:
    """`sha256(salt || id)` in hex.

    The salt stands in the file. It keeps hashes of two clearances from being matched, and ids that nobody can
    guess stay unknown; ids that can be guessed (row numbers, addresses) can be tried one by one.
    """
    return hashlib.sha256(salt + document.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True)
class Clearance:
    """Which documents may enter a run of which mechanism, who signed it, and for how long it holds."""

    corpus: str
    """Hash of the whole corpus, the excluded documents included."""
    mechanism: MechanismIdentity
    spec: str
    """Hash of the spec that was screened."""
    audits: tuple[str, ...]
    """Ids of the audits it rests on, in order; the last one found nothing sensitive, unless people decided."""
    verdicts: Mapping[str, int]
    """Documents by verdict in the last audit."""
    allowed: tuple[str, ...]
    """Verdicts that let a document onto the list."""
    documents: tuple[str, ...]
    """Ids, or their salted hashes; sorted, each once."""
    salt: bytes | None
    """None where `documents` are plain ids."""
    excluded: int
    """Documents left out as sensitive, or by decision."""
    excluded_documents: tuple[str, ...] | None
    """Their ids in plain, only if asked for; sorted."""
    reviewer: str
    """Who decided."""
    created: datetime
    expires: datetime
    """The first moment at which it holds no more."""
    statement: str
    """What this promises and what not, in plain words."""
    evidence: Evidence | None = None
    """None in older clearances, which did not keep it."""
    reviewed: Reviewed | None = None
    """None where no decision was looked at."""
    coverage: Covered | None = None
    """What the audits looked at. None in older clearances, which did not say: no run takes those."""
    certified: tuple[str, ...] | None = None
    """Of `documents`, in their form: those with a proved bound on every attack; None where there is none."""
    drawn: float | None = None
    """The share of a party's documents that enters a run, by its secret draw; None: all that are listed."""

    def __post_init__(self) -> None:
        for name in ("created", "expires"):
            if getattr(self, name).tzinfo is None:
                raise InputError(f"`{name}` must have a time zone.")
        if not self.created < self.expires:
            raise InputError("`expires` must be later than `created`.")
        if not self.reviewer.strip():
            raise InputError("`reviewer` must say who decided.")
        if self.salt is not None and len(self.salt) < _SALT_BYTES:
            raise InputError(f"`salt` must have at least {_SALT_BYTES} bytes; got {len(self.salt)}.")
        for name in ("documents", "excluded_documents", "certified"):
            listed = getattr(self, name)
            if listed is not None and any(a >= b for a, b in pairwise(listed)):
                raise InputError(f"`{name}` must be sorted, each once.")
        if not set(self.certified or ()) <= set(self.documents):
            raise InputError("`certified` must be among `documents`.")

    @staticmethod
    def entries(ids: Iterable[str], salt: bytes | None) -> tuple[str, ...]:
        """Ids as `documents` lists them: sorted, each once, hashed where there is a salt."""
        plain = {str(name) for name in ids}
        return tuple(sorted(plain if salt is None else {hash_document(name, salt) for name in plain}))

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.documents)

    def allows(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each id is on the list, shape (n_ids,)."""
        names = (str(name) for name in ids)
        entries = names if self.salt is None else (hash_document(name, self.salt) for name in names)
        return np.array([entry in self._listed for entry in entries], dtype=np.bool_)
