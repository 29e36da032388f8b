"""Screening: audit, leave the sensitive documents out, audit the rest on fresh runs, ...; then the clearance.

Every round is an audit of its own in the same store, so an interrupted screen resumes where it was.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ksdp.audit.corpus import Corpus
from ksdp.audit.groups import documents_of, unit_names
from ksdp.audit.learning.measures import cost_of_leaving_out
from ksdp.audit.results.stored_summary import VERSION
from ksdp.audit.screening.clearance import asked_of, screen_statement
from ksdp.audit.screening.rounds import check_screenable
from ksdp.audit.screening.screen_summary import ScreenSummary
from ksdp.audit.spec import Spec
from ksdp.audit.verdicts.decide import Verdict
from ksdp.dashboards.screening.screen_report import render_screen
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.prepare import spec_corpus
from ksdp.flows.progress import current
from ksdp.flows.screening.rounds import Rounds, Rules, run_rounds, screen_id
from ksdp.flows.screening.signing import Grounds, Signing, evidence_of, sign
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import read_attempts
from ksdp.storage.audits.screens import page_path, write_excluded, write_page, write_screen
from ksdp.storage.keys import fingerprint
from ksdp.storage.store import Store

NO_HELP = ("hopeless", "limit", "too-few")
"""Outcomes in which leaving documents out does not make the rest safe."""


def screen(
    spec: Spec, base: Path, store: Path, signing: Signing, rules: Rules | None = None, place: Place = ANYWHERE
) -> ScreenSummary:
    """Audit and leave out until nothing new is sensitive; then write the clearance. The same call resumes.

    Parameters
    ----------
    spec : Spec
        What every round audits, at its part of the level.
    base : Path
        Folder that the spec's paths are relative to.
    store : Path
        Folder of the store; made where there is none.
    signing : Signing
        The clearance is written only if the last round found nothing sensitive and there is a document to list;
        an older one there is replaced then, and left alone otherwise.
    rules : Rules, optional
        When rounds end, and what may be listed. Where the databases of the last round also held documents that may
        not be listed (undecided ones), they are left out too and the listed ones audited by themselves, so that
        what is cleared is what was audited together. Where that cannot be, the clearance says so and why.
    place : Place, optional
        Where it is run.

    Returns
    -------
    ScreenSummary
        As `screens/<id>.json` holds it. The outcome `nothing-proved`: nothing is sensitive, and nothing may be
        listed.
    """
    started = time.monotonic()
    rules = rules or Rules()
    check_screenable(spec)
    signing.check()
    current().stage("prepare", 1)
    corpus = spec_corpus(spec, base)
    name = screen_id(spec, corpus.hash, rules)
    rounds = run_rounds(spec, corpus, store, rules, place)
    opened = Store.open(store)
    screened = _Screened(opened, spec, corpus, rules, rounds)
    if screened.excluded:
        members = (corpus.ids, unit_names(corpus, "group")) if spec.design.unit == "group" else None
        write_excluded(opened, name, rounds.verdicts, members)
    quality, statement = None, None
    if screened.cleared:
        current().say("learning from all documents and from the cleared ones, to see what leaving out costs")
        quality = cost_of_leaving_out(spec, corpus, screened.listed)
        statement = sign(signing, screened.grounds()).statement
    elif signing.path.exists():
        current().say(f"{signing.path} is an older clearance and was left as it is")
    summary = replace(
        screened.summary(name, signing),
        statement=statement,
        quality=quality,
        seconds=round(time.monotonic() - started, 3),
    )
    write_screen(opened, summary)
    write_page(opened, name, render_screen(opened, name))
    return summary


@dataclass(frozen=True, eq=False)
class _Screened:
    """A screen whose rounds have ended."""

    store: Store
    spec: Spec
    corpus: Corpus
    rules: Rules
    rounds: Rounds

    @cached_property
    def outcome(self) -> tuple[str, str]:
        """What became of it, and why, in a sentence."""
        return _outcome(self.rounds)

    @property
    def cleared(self) -> bool:
        """Whether a clearance is written."""
        return self.outcome[0] == "cleared"

    @cached_property
    def listed(self) -> list[str]:
        """Documents that may be listed; of groups, their documents."""
        return documents_of(self.corpus, self.spec.design.unit, self.rounds.listed)

    @cached_property
    def excluded(self) -> list[str]:
        """Documents that are left out."""
        return documents_of(self.corpus, self.spec.design.unit, self.rounds.excluded)

    def summary(self, name: str, signing: Signing) -> ScreenSummary:
        """All but what the clearance says and costs, and how long it took."""
        spec, rules, rounds = self.spec, self.rules, self.rounds
        outcome, reason = self.outcome
        return ScreenSummary(
            version=VERSION,
            screen=name,
            corpus=self.corpus.hash,
            mechanism=rounds.plan.mechanism.name,
            spec=spec.hash,
            outcome=outcome,
            helps=rounds.ended.helps,
            reason=reason,
            documents=len(self.corpus),
            unit=spec.design.unit,
            excluded=len(self.excluded),
            allowed=len(self.listed),
            allowed_verdicts=rules.allowed,
            exact=self.cleared and not rounds.beside,
            beside=rounds.beside if self.cleared else None,
            why_beside=rounds.why_beside,
            statement=None,
            rounds=tuple(rounds.about),
            most=rules.most,
            level=spec.decision.level,
            margin=spec.rule.margin,
            party_rows=rounds.plan.holdings.size,
            quality=None,
            clearance=str(signing.path.resolve()) if self.cleared else None,
            fingerprint=fingerprint(signing.private_key),
            reviewer=signing.who,
            finished=signing.now.isoformat(timespec="seconds"),
            seconds=0.0,
            store=str(self.store.root),
            report=str(page_path(self.store, name)),
        )

    def grounds(self) -> Grounds:
        """What the clearance rests on: the verdicts of the last round."""
        spec, rules, rounds = self.spec, self.rules, self.rounds
        last = rounds.about[-1]
        attempts = read_attempts(self.store, asked_of(spec, self.corpus))
        return Grounds(
            plan=rounds.plan,
            corpus=self.corpus,
            spec=spec.hash,
            audits=tuple(summary.audit for summary in rounds.about),
            verdicts={kind: last.verdicts.as_dict()[kind] for kind in Verdict},
            allowed=rules.allowed,
            listed=rounds.listed,
            certified=sorted(set(rounds.listed) & set(rounds.last.ids([Verdict.CERTIFIED]))),
            excluded=rounds.excluded,
            statement=screen_statement(
                margin=spec.rule.margin,
                level=spec.rule.for_clear,
                rows=rounds.plan.holdings.size,
                among=rounds.among,
                allowed=rules.allowed,
                beside=rounds.beside,
                rounds=len(rounds.about),
                why=rounds.why_beside,
            ),
            evidence=evidence_of(read_summary(self.store.audit(last.audit)), attempts),
        )


def _outcome(rounds: Rounds) -> tuple[str, str]:
    outcome, reason = rounds.ended.outcome, rounds.ended.reason
    if outcome != "stable":
        return outcome, reason
    if not rounds.listed:
        undecided, unread = len(rounds.last.ids(["undecided"])), rounds.plan.coverage.unread
        why = f"nobody looked at {', '.join(unread)}" if unread else "do more runs"
        return (
            "nothing-proved",
            f"{reason} {undecided} {rounds.plan.units.word}s are undecided and none may be listed: {why}.",
        )
    if rounds.why_beside:
        reason += f" The listed documents were not audited by themselves, because {rounds.why_beside}."
    elif rounds.about[-1].proof:
        reason += " It audited the listed documents by themselves."
    return "cleared", reason
