"""Audit a list by itself on fresh runs, leave out what does not hold, and repeat until all of it holds."""

from __future__ import annotations

from dataclasses import dataclass

from ksdp.audit.coverage import coverage_of
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import plural
from ksdp.audit.screening.clearance import AuditQuestion, list_attempt
from ksdp.audit.screening.rounds import drawn_from, list_corpus, list_spec
from ksdp.audit.screening.screen_summary import RoundSummary
from ksdp.audit.verdicts.verdict import Verdict
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import current
from ksdp.flows.prepare import GivenSpec, prepare_stored
from ksdp.storage.audits.screens import RoundVerdicts
from ksdp.storage.findings import check_verdicts
from ksdp.storage.store import Store


@dataclass(frozen=True, eq=False)
class ProposedList:
    """A list of documents (or groups), and the audit that proposed it."""

    store: Store
    plan: Plan
    summary: Summary
    verdicts: RoundVerdicts
    question: AuditQuestion
    listed: tuple[str, ...]
    accepted: frozenset[str]
    """Documents of the list whose risk people accepted: they stay, whatever an audit says of them."""


@dataclass(frozen=True, eq=False)
class Screened:
    """How the audits of a list ended; `plan`, `summary` and `verdicts` are of the last audit."""

    outcome: str
    """`signed` (all that is listed holds), `too-few`, `out-of-rounds` or `void`."""
    reason: str
    listed: tuple[str, ...]
    """The documents that hold: accepted by people, or clear in the last audit; empty where nothing is proved."""
    plan: Plan
    summary: Summary
    verdicts: RoundVerdicts
    rounds: tuple[RoundSummary, ...]
    """The audit that proposed the list, then those of the list by itself."""
    left_out: tuple[tuple[RoundVerdicts, tuple[str, ...]], ...]
    """Documents that did not hold in each round."""


def first_round(proposal: ProposedList) -> RoundSummary:
    """The audit that proposed a list, as the first line of a table of rounds."""
    return _about(0, proposal.plan, proposal.summary, proposal.verdicts)


def is_exact(proposal: ProposedList) -> bool:
    """Whether the databases of the audit that proposed a list were drawn from exactly the listed documents."""
    units, holdings = proposal.plan.units, proposal.plan.holdings
    return set(proposal.listed) == set(units.ids[holdings.victim].tolist())


def screen(proposal: ProposedList, rounds: int, place: Place = ANYWHERE, fewest: int = 1) -> Screened:
    """Audit a proposed list by itself until all of it holds. Interrupted, the same call resumes."""
    plan, summary, verdicts, listed = proposal.plan, proposal.summary, proposal.verdicts, proposal.listed
    given = GivenSpec(plan.spec, proposal.question, list_attempt(summary.audit))
    about, left_out = [first_round(proposal)], list[tuple[RoundVerdicts, tuple[str, ...]]]()

    def ended(outcome: str, reason: str, holds: tuple[str, ...] = ()) -> Screened:
        return Screened(outcome, reason, holds, plan, summary, verdicts, tuple(about), tuple(left_out))

    word = plan.units.word
    current().say(_forecast(proposal, rounds))
    for number in range(1, rounds + 1):
        try:
            corpus, me = list_corpus(plan, listed)
            next_plan = make_plan(Opened.of(list_spec(plan, len(listed), number, me), corpus))
            if unread := coverage_of(next_plan).unread:
                raise SpecError(f"nobody on it could be clear, as no statistic tests {', '.join(unread)}.")
            prepared = prepare_stored(next_plan, proposal.store.root, may_sample=True, given=given)
        except InputError as error:
            reason = f"A list of {plural(len(listed), word)} cannot be audited by itself: {error}"
            return ended("too-few", reason)
        plan = next_plan
        drawn = f"the {plural(drawn_from(plan), plan.units.word)} of the list"
        current().say(f"round {number}: {drawn}, {plan.holdings.size} of them in each run, {plan.runs} runs")
        summary = run_prepared([prepared], place)[0]
        verdicts = RoundVerdicts(number, check_verdicts(proposal.store.audit(summary.audit), plan.spec))
        about.append(_about(number, plan, summary, verdicts))
        if not summary.valid:
            reason = f"Round {number} is void: {summary.controls.reason}. Nothing of it may be used."
            return ended("void", reason)
        good = {*verdicts.ids([Verdict.CLEAR])} | proposal.accepted
        failed = [name for name in listed if name not in good]
        weak = {*failed, *verdicts.weakest(good - proposal.accepted, len(failed))}
        out = tuple(name for name in listed if name in weak)
        listed = tuple(name for name in listed if name not in weak)
        current().say(f"round {number}: {summary.verdicts.words}")
        if not out:
            reason = f"All {plural(len(listed), word)} of the list hold in an audit of exactly this list."
            return ended("signed", reason, listed)
        left_out.append((verdicts, out))
        if len(listed) < fewest or not set(listed) - proposal.accepted:
            reason = (
                f"In an audit of the list by itself, too few {word}s of {len(plan.audited)} were clear: "
                f"{summary.verdicts.words}. The documents that were left out had hidden the others."
            )
            return ended("too-few", reason)
    reason = (
        f"After {plural(rounds, 'round')} of leaving out what did not hold, {plural(len(listed), word)} are left "
        "that no audit has proved by themselves."
    )
    return ended("out-of-rounds", reason)


def _forecast(proposal: ProposedList, rounds: int) -> str:
    plan, word, listed = proposal.plan, proposal.plan.units.word, len(proposal.listed)
    others = drawn_from(plan) - listed
    return (
        f"{plural(listed, word)} may be listed. They were audited among {others} that may not, so the list is "
        f"audited by itself on fresh runs, until all of it holds: {plural(rounds, 'round')} at most, each about "
        f"as long as the audit ({proposal.summary.seconds:.0f} s) or longer."
    )


def _about(number: int, plan: Plan, summary: Summary, verdicts: RoundVerdicts) -> RoundSummary:
    return RoundSummary(
        round=number,
        audit=summary.audit,
        corpus=summary.corpus,
        among=drawn_from(plan),
        rows=plan.holdings.size,
        documents=summary.documents,
        verdicts=summary.verdicts,
        median_D=verdicts.median_distance,
        largest_D=verdicts.largest_distance,
        level=plan.spec.decision.level,
        seed=plan.spec.seed,
        runs=summary.runs,
        cached_runs=summary.cached_runs,
        valid=summary.valid,
    )
