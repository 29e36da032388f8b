"""Who signs a clearance and for how long, and the one way from what it rests on to the signed file."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.groups import GROUPS_AUDITED, documents_of
from ksdp.audit.mechanisms.contract import opens_of
from ksdp.audit.plan import Plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.clearance import (
    Attempt,
    Clearance,
    Covered,
    Evidence,
    MechanismIdentity,
    Reviewed,
    count_attempts,
)
from ksdp.storage.clearances import read_clearance, write_clearance


@dataclass(frozen=True)
class Signing:
    """Who signs a clearance, where it goes, for how long it holds, and what it names."""

    path: Path
    """An older clearance there is replaced."""
    private_key: Ed25519PrivateKey = field(repr=False)
    who: str
    """Who answers for it."""
    now: datetime
    expires: datetime
    """Both with time zones."""
    salted: bool = False
    """List salted hashes instead of ids."""
    list_excluded: bool = False
    """Also list the excluded documents, by id."""

    def check(self) -> None:
        """Refuse now what would be refused after hours of work, or of waiting for people."""
        if not self.who.strip():
            raise InputError("`who` must say who signs.")
        for name in ("now", "expires"):
            if getattr(self, name).tzinfo is None:
                raise InputError(f"`{name}` must have a time zone.")
        if self.expires <= self.now:
            raise InputError("`expires` must be later than now.")
        if self.path.exists():
            try:
                read_clearance(self.path)
            except ClearanceError as error:
                raise InputError(f"{self.path} exists and is not a clearance; name another file.") from error

    def at(self, now: datetime) -> Signing:
        """The same for a clearance that holds as long, from another moment on."""
        return dataclasses.replace(self, now=now, expires=now + (self.expires - self.now))


@dataclass(frozen=True, eq=False)
class Grounds:
    """What a clearance rests on. Of groups, where these were audited, `listed` and `excluded` are the names."""

    plan: Plan
    """Of the audit that decided."""
    corpus: Corpus
    """The whole one, what was left out included."""
    spec: str
    """Hash of the spec that people wrote."""
    audits: tuple[str, ...]
    verdicts: Mapping[str, int]
    """How many documents of the last audit have each."""
    allowed: tuple[str, ...]
    """Verdicts that let a document onto the list."""
    listed: Sequence[str]
    certified: Sequence[str]
    """Of `listed`, those with the verdict certified clear."""
    excluded: Sequence[str]
    statement: str
    evidence: Evidence
    reviewed: Reviewed | None = None


def mechanism_identity(plan: Plan) -> MechanismIdentity:
    """What a clearance is bound to: the mechanism as the plan built it, defaults included."""
    runs = plan.runs_identity
    return MechanismIdentity(runs["mechanism"], runs["mechanism_version"], runs["parameters"])


def evidence_of(summary: Summary, attempts: Sequence[Attempt]) -> Evidence:
    """What the deciding audit could see, and how often its question was asked."""
    fewest, detectable = summary.design.n_with[0], summary.power.detectable_D
    return Evidence(summary.runs, fewest, detectable, count_attempts(attempts))


def covered_by(plan: Plan) -> Covered:
    """What an audit by this plan looks at, of what a run shows its parties."""
    return Covered(opens_of(plan.mechanism), tuple(sorted(plan.coverage.read_by)))


def sign(signing: Signing, grounds: Grounds) -> Clearance:
    """Write the signed clearance and return it."""
    plan, unit = grounds.plan, grounds.plan.spec.design.unit
    excluded = documents_of(grounds.corpus, unit, grounds.excluded)
    salt = secrets.token_bytes(16) if signing.salted else None
    clearance = Clearance(
        corpus=grounds.corpus.hash,
        mechanism=mechanism_identity(plan),
        spec=grounds.spec,
        audits=grounds.audits,
        verdicts=dict(grounds.verdicts),
        allowed=grounds.allowed,
        documents=Clearance.entries(documents_of(grounds.corpus, unit, grounds.listed), salt),
        salt=salt,
        excluded=len(excluded),
        excluded_documents=tuple(sorted(excluded)) if signing.list_excluded else None,
        reviewer=signing.who,
        created=signing.now,
        expires=signing.expires,
        statement=" ".join(_sentences(grounds)),
        evidence=grounds.evidence,
        reviewed=grounds.reviewed,
        coverage=covered_by(plan),
        certified=Clearance.entries(documents_of(grounds.corpus, unit, grounds.certified), salt) or None,
        drawn=plan.spec.corpus.levers.drawn,
    )
    write_clearance(signing.path, clearance, signing.private_key)
    return clearance


_OPENED = {
    "every round": "It was audited what a run that opens every round shows its parties.",
    "final": (
        "It was audited what a run that opens its final output alone shows its parties: it holds for no run that "
        "opens more, nor against two of the three parties that compute together."
    ),
}


def _sentences(grounds: Grounds) -> list[str]:
    groups = [GROUPS_AUDITED] if grounds.plan.spec.design.unit == "group" else []
    opens = _OPENED[opens_of(grounds.plan.mechanism)]
    draw = grounds.plan.spec.draw_sentence
    drawn = [] if draw is None else [draw]
    return [grounds.statement, *groups, *drawn, *_certified(grounds), grounds.evidence.sentence(), opens]


def _certified(grounds: Grounds) -> list[str]:
    """What is promised of more than the statistics that were tried."""
    count, spec = len(grounds.certified), grounds.plan.spec
    if not count:
        return []
    if spec.proved_by_draw:
        return [
            f"Of the listed {spec.design.unit}s, {count} are certified clear (`certified`): no attack of any kind "
            f"has an advantage above {spec.decision.margin:g} on who is held, as long as nobody learns the draw."
        ]
    if spec.certificate is None:
        return [
            f"Of the listed {spec.design.unit}s, {count} are certified clear (`certified`): no attack of any kind "
            f"that takes the others for random has an advantage above {spec.rule.margin:g} on them, as so many "
            "have the same content, and a run shows at most how many of these were in."
        ]
    return [
        f"Of the listed {spec.design.unit}s, the deciding audit certified {count} clear (`certified`): where the "
        f"noise is what the mechanism says, no attack of any kind that takes the others for random has an "
        f"advantage above {spec.rule.margin:g} on them; all of these bounds hold together but with a "
        f"probability of {spec.certificate_level:g}."
    ]
