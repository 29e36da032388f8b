"""Screen a corpus: audit, take sensitive documents out, audit those that stay, sign the list of those."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ksdp.audit.corpus.groups import documents_of, restrict_to, unit_names
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.learning.measures import cost_of_leaving_out
from ksdp.audit.party_view import size_base
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import VERSION, Summary
from ksdp.audit.reviewing import plural
from ksdp.audit.screening.clearance import AuditQuestion, asked_of, screen_statement
from ksdp.audit.screening.rounds import (
    AS_ASKED,
    Ended,
    RoundSizes,
    ScreenRound,
    check_screenable,
    check_undecided,
    drawn_from,
    ending,
    no_proof,
    round_spec,
    runs_for_proof,
)
from ksdp.audit.screening.screen_summary import RoundSummary, ScreenSummary
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import Spec
from ksdp.dashboards.screening import render_screen
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import current
from ksdp.flows.prepare import GivenSpec, Prepared, prepare_stored, spec_corpus
from ksdp.flows.screening.clear import (
    Grounds,
    Signing,
    audited_sizes,
    clearance_of,
    evidence_of,
    exclusion_rows,
    sign,
)
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import check_none_lost, read_attempts
from ksdp.storage.audits.queries import proved_sensitive
from ksdp.storage.audits.screens import (
    RoundVerdicts,
    page_path,
    read_round,
    write_excluded,
    write_page,
    write_screen,
)
from ksdp.storage.keys import fingerprint
from ksdp.storage.reviews.decisions import Entry, exclusions
from ksdp.storage.store import Store


@dataclass(frozen=True)
class Rules:
    """When rounds end, and what may be listed."""

    rounds: int = 5
    """The most audits."""
    most: float = 0.5
    """Share of a round's documents above which leaving them out is called no help."""
    allowed: tuple[str, ...] = ("clear",)
    """Verdicts that let a document onto the list."""
    proof: bool = True
    """Audit the listed documents by themselves where others were in the databases too."""

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise InputError(f"`rounds` must be at least 1; got {self.rounds}.")
        if not 0 < self.most <= 1:
            raise InputError(f"`most` must be in (0, 1]; got {self.most}.")


def screen_id(spec: Spec, corpus: str, rules: Rules) -> str:
    """The same spec on the same corpus (by its hash) under the same rules is the same screen."""
    asked = {"screen": 3, "spec": spec.hash, "corpus": corpus}
    return content_key(asked | dataclasses.asdict(rules))[:12]


@dataclass(frozen=True, eq=False)
class Rounds:
    """What the rounds have found; `plan` and `last` (its verdicts) are of the last one.

    Where groups are audited, documents here are groups, and ids are their names.
    """

    about: list[RoundSummary]
    verdicts: list[RoundVerdicts]
    """Of each round but a void one."""
    plan: Plan
    last: RoundVerdicts
    ended: Ended
    listed: list[str]
    """Ids that may be listed; none unless the rounds ended stable."""
    why_beside: str | None = None
    """Why the listed documents were not audited by themselves; None where they were, or it was not asked for."""

    @property
    def excluded(self) -> list[str]:
        """Ids of all sensitive documents."""
        return [name for verdicts in self.verdicts for name in verdicts.sensitive]

    @property
    def among(self) -> int:
        """Documents that the last round's databases were drawn from."""
        return drawn_from(self.plan)

    @property
    def beside(self) -> int:
        """Of these, documents that may not be listed."""
        return self.among - len(self.listed)


@dataclass(frozen=True, eq=False)
class _Series:
    """What all rounds have in common."""

    spec: Spec
    corpus: Corpus
    """The whole one."""
    store: Path
    rules: Rules

    @property
    def id(self) -> str:
        """Of the screen."""
        return screen_id(self.spec, self.corpus.hash, self.rules)

    @property
    def question(self) -> AuditQuestion:
        """Of all rounds: later ones have a part of the corpus."""
        return asked_of(self.spec, self.corpus)

    def prepared(self, number: int, stay: Sequence[str] | None = None, asked: RoundSizes = AS_ASKED) -> Prepared:
        """The audit of a round, of those that stay; of all in the first."""
        unit, named = self.spec.design.unit, self.spec.design.documents
        corpus = self.corpus if stay is None else restrict_to(self.corpus, unit, stay)
        audited = asked.audited
        if audited is None and isinstance(named, tuple) and stay is not None:
            audited = sorted(set(named) & set(stay))
        units = size_base(self.spec, self.corpus)
        spec = round_spec(self.spec, number, self.rules.rounds, units, replace(asked, audited=audited))
        # The only round of a screen is the audit of its spec itself.
        given = GivenSpec(self.spec, self.question, None if spec.hash == self.spec.hash else self.id)
        plan = make_plan(spec, corpus)
        if number == 1 and "undecided" in self.rules.allowed:
            check_undecided(plan)
        return prepare_stored(plan, self.store, may_sample=True, asked=given)

    def exclusions(self) -> dict[str, Entry]:
        """Documents that people excluded."""
        return exclusions(Store.open(self.store), self.corpus, self.spec.corpus.path)

    def barred(self) -> frozenset[str]:
        """What may not be listed whatever the rounds say: excluded by people, or above the margin before."""
        units = dict(zip(self.corpus.ids.tolist(), unit_names(self.corpus, self.spec.design.unit), strict=True))
        alone = Counter(map(str, units.values()))
        out = Counter(str(units[document]) for document in self.exclusions())
        return frozenset(self.remembered() | {name for name, gone in out.items() if gone == alone[name]})

    def remembered(self) -> set[str]:
        """What audits of this question beside its own proved to be above the margin."""
        opened = Store.open(self.store)
        check_none_lost(opened)
        attempts = read_attempts(opened, self.question.content)
        others = [one for one in attempts if one.attempt != self.id]
        rule, unit = self.spec.rule, self.spec.design.unit
        return set(proved_sensitive(opened, others, margin=rule.margin, unit=unit))


_SPARE = 0.8
"""Size of a database, over the documents that may be listed, where these are fewer than were audited."""


def run_rounds(spec: Spec, corpus: Corpus, store: Path, rules: Rules, place: Place = ANYWHERE) -> Rounds:
    """Audit and leave out until nothing new is sensitive, a limit is reached or too few documents are left.

    What is listed is what a run may enter: where fewer may be listed than the audited databases had, these are
    audited again in databases a fifth smaller than that, until no fewer are left. With `rules.proof`, documents
    that may not be listed are then left out as well and the rest is audited again by itself. Such an audit has as
    many runs as make its bands narrower than those before it (`proof_runs`).
    """
    summaries: list[RoundSummary] = []
    rounds: list[RoundVerdicts] = []
    proving, asked = False, AS_ASKED
    series = _Series(spec, corpus, store, rules)
    prepared = series.prepared(1)
    barred = series.barred()
    share = prepared.plan.holdings.size / drawn_from(prepared.plan)
    while True:
        number, plan = len(summaries) + 1, prepared.plan
        what = "the listed documents by themselves, " if proving else ""
        size = f", in databases of {asked.size}" if asked.size else ""
        current().say(f"round {number}: {what}{plural(len(plan.audited), plan.units.word)}{size}")
        summary = run_prepared([prepared], place)[0]
        verdicts = read_round(Store(Path(prepared.ref.store)), prepared.ref.audit, number)
        summaries.append(_about(number, prepared, summary, verdicts, proving))
        if not summary.valid:
            why = f"Round {number} is void: {summary.controls.reason}. Nothing of it may be used."
            return Rounds(summaries, rounds, plan, verdicts, Ended("void", None, why), [])
        rounds.append(verdicts)
        may_list = [name for name in verdicts.ids(rules.allowed) if name not in barred]
        stay = may_list if proving else _others(plan, verdicts.sensitive)
        ended = _ended(rounds, plan, stay, share, rules)
        if ended is not None and ended.outcome != "stable":
            return Rounds(summaries, rounds, plan, verdicts, ended, [])
        if ended is None:
            asked = replace(asked, audited=asked.audited and sorted({*asked.audited} - {*verdicts.sensitive}))
        else:
            done = Rounds(summaries, rounds, plan, verdicts, ended, may_list)
            listed, rows = len(may_list), plan.holdings.size
            if 0 < listed < rows and not audited_sizes(plan).every_size:
                if number == rules.rounds:
                    return replace(done, ended=_fewer_than_audited(listed, rows, plan.units.word), listed=[])
                named = None if spec.parties.honest or spec.parties.coalition else sorted(may_list)
                # Some of them may stay undecided: what is audited is a little less than what may enter.
                proving, asked = False, RoundSizes(named, max(1, math.floor(_SPARE * listed)))
                stay = _others(plan, verdicts.sensitive)
            elif rules.proof and listed and done.beside:
                why_not = no_proof(
                    number=number,
                    rounds=rules.rounds,
                    listed=listed,
                    rows=rows,
                    share=share,
                    others=bool(spec.parties.honest or spec.parties.coalition or spec.parties.me),
                )
                if why_not:
                    return replace(done, why_beside=why_not)
                proving, stay = True, may_list
                asked = replace(asked, audited=None, with_runs=runs_for_proof(plan, listed))
            else:
                return done
        try:
            prepared = series.prepared(number + 1, stay, asked)
        except InputError as error:
            if ended is not None and proving:
                return replace(done, why_beside=f"that audit is refused: {error}".rstrip("."))
            ended = Ended("too-few", False, f"What is left cannot be audited: {error}")
            return Rounds(summaries, rounds, plan, verdicts, ended, [])


def _fewer_than_audited(listed: int, rows: int, unit: str) -> Ended:
    return Ended(
        "too-few",
        None,
        f"{plural(listed, unit)} may be listed, fewer than the {rows} of the audited databases, and no round was "
        f"left to audit databases of {listed}: allow more with `--rounds`.",
    )


def _ended(
    rounds: Sequence[RoundVerdicts], plan: Plan, stay: Sequence[str], share: float, rules: Rules
) -> Ended | None:
    """Whether the last of some rounds, by this plan, ends them; None where those that stay are audited again."""
    *earlier, last = rounds
    return ending(
        ScreenRound(
            len(rounds),
            rules.rounds,
            audited=len(plan.audited),
            sensitive=len(last.sensitive),
            before=sum(len(verdicts.sensitive) for verdicts in earlier),
            left=len({*plan.units.ids[plan.holdings.victim].tolist()} & {*stay}),
            rows=plan.holdings.size,
            share=share,
            most=rules.most,
            unit=plan.units.word,
        )
    )


def _others(plan: Plan, out: Sequence[str]) -> list[str]:
    """Ids of a round's documents (or groups) without some."""
    left_out = set(out)
    return [name for name in map(str, plan.units.ids) if name not in left_out]


def _about(
    number: int, prepared: Prepared, summary: Summary, verdicts: RoundVerdicts, proving: bool
) -> RoundSummary:
    return RoundSummary(
        round=number,
        proof=proving,
        audit=prepared.ref.audit,
        corpus=prepared.ref.corpus,
        among=drawn_from(prepared.plan),
        rows=prepared.plan.holdings.size,
        documents=summary.documents,
        verdicts=summary.verdicts,
        median_D=verdicts.median_distance,
        largest_D=verdicts.largest_distance,
        level=prepared.plan.spec.decision.level,
        seed=prepared.plan.spec.seed,
        runs=summary.runs,
        cached_runs=summary.cached_runs,
        valid=summary.valid,
    )


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
    signing : Signing
        The clearance is written only if the last round found nothing sensitive and there is a document to list.
    rules : Rules, optional
        When rounds end, and what may be listed. Where the databases of the last round also held documents that may
        not be listed (undecided ones), they are left out too and the listed ones audited by themselves, so that
        what is cleared is what was audited together. Where that cannot be, the clearance says so and why.

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
    quality, clearance = None, None
    if screened.cleared:
        current().say("learning from all documents and from the cleared ones, to see what leaving out costs")
        quality = cost_of_leaving_out(spec, corpus, screened.listed)
        clearance = clearance_of(signing, screened.grounds(), opened)
    summary = replace(
        screened.summary(name, signing),
        statement=None if clearance is None else clearance.statement,
        quality=quality,
        seconds=round(time.monotonic() - started, 3),
    )
    write_screen(opened, summary)
    write_page(opened, name, render_screen(opened, name))
    if clearance is not None:  # last of all: where it is, nothing is left to do
        sign(signing, clearance, opened)
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
    def out(self) -> dict[str, Entry]:
        """Documents that people excluded."""
        return exclusions(self.store, self.corpus, self.spec.corpus.path)

    @cached_property
    def listed(self) -> list[str]:
        """Documents that may be listed; of groups, their documents."""
        named = documents_of(self.corpus, self.spec.design.unit, self.rounds.listed)
        return [document for document in named if document not in self.out]

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
            exclusions=tuple(exclusion_rows(self.out)),
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
        attempts = read_attempts(self.store, asked_of(spec, self.corpus).content)
        return Grounds(
            plan=rounds.plan,
            corpus=self.corpus,
            spec=spec.hash,
            audits=tuple(summary.audit for summary in rounds.about),
            verdicts=last.verdicts.as_dict(),
            allowed=rules.allowed,
            listed=rounds.listed,
            certified=sorted(set(rounds.listed) & set(rounds.last.every_attack)),
            sensitive=rounds.excluded,
            excluded=self.out,
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
    (left, called), unread = rounds.about[-1].verdicts.left, rounds.plan.coverage.unread
    word = rounds.plan.units.word
    if not rounds.listed:
        why = f"nothing reads {', '.join(unread)}" if unread else "do more runs"
        are = "is" if left == 1 else "are"
        return ("nothing-proved", f"{reason} {plural(left, word)} {are} {called}, and none may be listed: {why}.")
    reason += f" {plural(len(rounds.listed), word)} of {rounds.about[0].among} may enter."
    if left:
        reason += f" {plural(left, word)} stayed {called} in the last round."
    if rounds.why_beside:
        reason += f" The listed documents were not audited by themselves, because {rounds.why_beside}."
    elif rounds.about[-1].proof:
        reason += " It audited the listed documents by themselves."
    return "cleared", reason
