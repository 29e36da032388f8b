"""The home page: what needs somebody today, and every question with its light and its trend over all audits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from ksdp.dashboards.addresses import link
from ksdp.dashboards.audits.pages import kind_of, read_more_runs
from ksdp.dashboards.audits.sentences import title
from ksdp.dashboards.reviews import Pending, overdue_of, pending_of
from ksdp.dashboards.timeline import Mark, gaps, spark_svg
from ksdp.dashboards.words import day, percent, plural
from ksdp.storage.audits.history import Brief, Summary, read_history, read_summary
from ksdp.storage.clearances import Clearance, content_hash, stored_clearance, stored_clearances
from ksdp.storage.reviews.decisions import audits_by_question, states
from ksdp.storage.reviews.log import check_chain
from ksdp.storage.schedules.schedule_files import Schedule, read_failure, read_runs, read_schedules
from ksdp.storage.store import Store, StoreError

_SOON = timedelta(days=30)
"""A review or a clearance that ends within this is named."""
_DRIFT = 0.1
"""A larger change of a D between two audits of a schedule is named."""

Light = Literal["act", "look", "fine"]


@dataclass(frozen=True)
class Need:
    """Something that needs somebody."""

    light: Light
    about: str
    words: str
    href: str
    event: str = ""
    """Name of the event that reminds of it; empty where none does."""
    subject: str = ""
    """Resource that the event is about; it stays the same when the question is audited again."""
    until: date = date.max
    """Day that it is due."""


@dataclass(frozen=True)
class _Question:
    pending: Pending
    audits: Sequence[Brief]
    summary: Summary
    signed: Clearance | None
    unread: bool
    """Whether a clearance of the store is damaged, which may be of this question."""

    @property
    def about(self) -> str:
        """Mechanism and file."""
        return f"{title(self.pending.brief.mechanism)} on {self.pending.brief.corpus_path}"


@dataclass(frozen=True)
class QuestionRow:
    """All audits of one question."""

    pending: Pending
    """The newest valid one, and where its documents stand."""
    margin: float
    audits: int
    light: Light
    words: str
    """Why the light is as it is."""
    spark: Markup
    share: float
    """Share of sensitive documents; and in the audit before, if there is one."""
    before: float | None


@dataclass(frozen=True)
class HomePage:
    """Contents of the page."""

    needs: tuple[Need, ...]
    """Each with its light, the most urgent first."""
    questions: tuple[QuestionRow, ...]


def read_home_page(store: Store, now: datetime) -> HomePage:
    """Read the page."""
    clearances = {path: stored_clearance(path) for path in stored_clearances(store)}
    changed = [path for path, signed in clearances.items() if signed is None]
    needs = [*_of_files(store, changed)]
    try:
        for schedule in read_schedules(store):
            needs += _of_schedule(store, schedule, now)
    except StoreError as error:
        needs.append(_damaged(str(error)))
    rows = []
    for newest, audits in audits_by_question(store):
        summary = read_summary(store.audit(newest.audit))
        names = {audit.audit for audit in audits}
        own = [c for c in clearances.values() if c is not None and c.audits and c.audits[-1] in names]
        signed = max(own, key=lambda c: c.created, default=None)
        question = _Question(pending_of(store, newest), audits, summary, signed, bool(changed))
        mine = list(_of_question(store, question, now))
        needs += mine
        rows.append(_row(question, mine))
    order = {"act": 0, "look": 1, "fine": 2}
    return HomePage(
        tuple(sorted((need for need in needs if need.light != "fine"), key=lambda need: order[need.light])),
        tuple(sorted(rows, key=lambda row: order[row.light])),
    )


def _damaged(sentence: str) -> Need:
    return Need("act", "this store", f"{sentence} “ksdp check” reads every file.", "/audits")


def _of_files(store: Store, changed: Iterable[Path]) -> Iterator[Need]:
    """Damage that shows without reading every file."""
    yield from map(_damaged, read_history(store).damaged)
    if not (report := check_chain(store.root)).whole:
        yield Need("act", "this store", f"The review log is broken: {report.reason}", "/log?check=1")
    for path in changed:
        yield _damaged(f"The copy {path.name[:12]}… of a clearance is damaged: it is not what was signed.")


def _of_schedule(store: Store, schedule: Schedule, now: datetime) -> Iterator[Need]:
    """Say what failed, did not come, or found something in the last run of a schedule."""
    about, here = f"schedule {schedule.name}", link("/schedules", f"schedule-{schedule.name}")
    try:
        failed, runs = read_failure(store, schedule.name), read_runs(store, schedule.name)
    except StoreError as error:
        yield Need("act", about, str(error), here)
        return
    late = [since for since, until in gaps([*(run.started for run in runs), now]) if until == now]
    if not runs and now - schedule.created > timedelta(days=7):
        late = [schedule.created]
    if failed is not None:
        yield Need("act", about, f"The last run failed {failed}", here)
    elif late:
        yield Need("act", about, f"No run came since {late[0]:%-d %b, %H:%M} UTC. Does “ksdp serve” run?", here)
    for last in runs[-1:]:
        at = f"/audits/{last.audit}" if last.audit else here
        if last.outcome == "void":
            yield Need("act", about, f"The last run is void: {last.reason}.", at)
        if last.appetite_missed:
            yield Need("act", about, f"The risk appetite is missed: {', '.join(last.appetite_missed)}.", at)
        if last.became_sensitive:
            yield Need("act", about, f"{_documents(last.became_sensitive)} became sensitive in the last run.", at)
        if (last.largest_drift or 0.0) > _DRIFT:
            yield Need("look", about, f"A D moved by {last.largest_drift:.2f}, and the setting is the same.", at)


def _of_question(store: Store, question: _Question, now: datetime) -> Iterator[Need]:
    """Say what a question needs, and where; a signed one that needs nothing comes last."""
    brief, counts, newest = question.pending.brief, question.pending.counts, question.audits[0]
    about, queue = question.about, link("/queue", audit=brief.audit)
    if not newest.valid:
        words = "Its newest audit is void: none of its verdicts may be used."
        yield Need("act", about, words, f"/audits/{newest.audit}")
    if counts["waiting"]:
        words = f"A second person must confirm what was decided about {_documents(counts['waiting'])}."
        yield Need("act", about, words, link("/queue", audit=brief.audit, show="waiting"))
    if late := overdue_of(store, brief.audit, now.date()):
        owners = ", ".join(dict.fromkeys(entry.owner for entry in late))
        words = f"Overdue since {day(late[0].due)}: {_documents(len(late))}, of {owners}."
        where, until = link("/queue", audit=brief.audit, show="assigned"), date.fromisoformat(late[0].due)
        yield Need("act", about, words, where, "ksdp.finding.overdue", f"ksdp.question.{brief.series}", until)
    more = read_more_runs(store, brief.audit)
    if more is not None and more.state in ("failed", "interrupted"):
        yield Need("act", about, f"More runs {'failed' if more.state == 'failed' else 'were interrupted'}.", queue)
    elif counts["more-runs"] and not (more and more.under_way):
        words = f"More runs of {_documents(counts['more-runs'])} are wanted, and none are under way."
        yield Need("act", about, words, link("/queue", audit=brief.audit, show="more-runs"))
    review = question.summary.spec.declared.review_date
    if review is not None and review - now.date() <= _SOON:
        past = review < now.date()
        words = f"The review {'was' if past else 'is'} due on {review:%-d %b %Y}."
        event = ("ksdp.review.due", f"ksdp.question.{brief.series}", review)
        yield Need("act" if past else "look", about, words, f"/audits/{brief.audit}", *event)
    yield from _of_clearance(store, question, now)


def _of_clearance(store: Store, question: _Question, now: datetime) -> Iterator[Need]:
    """Whether a signature stands and for how long; where none does, what waits for a decision."""
    brief, counts, signed = question.pending.brief, question.pending.counts, question.signed
    about, here, queue = question.about, f"/audits/{brief.audit}", link("/queue", audit=brief.audit)
    if signed is not None and brief.audit in signed.audits:
        end = f"{signed.expires:%-d %b %Y}"
        out = _fallen(store, brief.audit, signed)
        if out:
            words = f"Excluded or proved since it was signed: {_documents(out)}. Sign again."
            yield Need("act", about, words, queue)
        if signed.expires <= now:
            yield Need("act", about, f"The clearance expired on {end}.", here)
        elif signed.expires - now < _SOON:
            event = ("ksdp.clearance.expires", f"ksdp.clearance.{content_hash(signed)}", signed.expires.date())
            yield Need("look", about, f"The clearance expires on {end}.", here, *event)
        elif not out:
            yield Need("fine", about, f"{_documents(len(signed.documents))} may enter a run until {end}.", here)
        return
    others = counts["open"] - counts["sensitive"]
    also = f" Undecided: {_documents(others)}."
    if counts["sensitive"]:
        words = f"Given away, and nobody has decided: {_documents(counts['sensitive'])}."
        yield Need("act", about, words + (also if others else ""), queue)
    elif others:
        yield Need("look", about, f"{also.strip()} Decide, or audit with more runs.", queue)
    if signed is not None:
        words = f"It was audited again since the clearance of {signed.created:%-d %b %Y}: sign again."
        yield Need("act", about, words, here)
    elif question.unread:
        words = "A clearance of this store is damaged, and none that can be read is of this question."
        yield Need("look", about, words, here)
    elif not counts["open"]:
        yield Need("look", about, "Everything is decided, and nothing is signed: “ksdp clear” signs.", queue)


def _fallen(store: Store, audit: str, signed: Clearance) -> int:
    """Documents of a signed list that were excluded, or proved to be given away, after it was signed."""
    seen, listed = signed.reviewed.log_entries if signed.reviewed else 0, set(signed.documents)
    groups = signed.sizes.unit == "group"
    fallen = 0
    for name, state in states(store, audit).items():
        out = state.exclusion is not None and state.exclusion.number > seen
        proved = state.proved_by is not None and state.decided is None
        fallen += (groups or name in listed) and (out or (proved and not groups))
    return fallen


def _documents(number: int) -> str:
    return plural(number, "document", "documents")


def _share(brief: Brief) -> float:
    return brief.verdicts.sensitive / max(brief.documents, 1)


_SPARKED = 40


def _row(question: _Question, needs: Sequence[Need]) -> QuestionRow:
    audits = question.audits
    marks = [Mark(audit.finished, kind_of(audit), _share(audit)) for audit in audits[:_SPARKED][::-1]]
    valid = [_share(audit) for audit in audits if audit.valid]
    said = f"Sensitive at first: {percent(valid[-1])}; in the newest of {len(audits)} audits: {percent(valid[0])}."
    light: Light = next((kind for kind in ("act", "look") if any(need.light == kind for need in needs)), "fine")
    first = next(need for need in needs if need.light == light)
    return QuestionRow(
        question.pending,
        question.summary.spec.decision_in_run.margin,
        len(audits),
        light,
        first.words,
        spark_svg(marks, said),
        valid[0],
        valid[1] if len(valid) > 1 else None,
    )
