"""Reviewing: what people decided about the documents of an audit, and which decision may follow which.

A decision is an entry of an append-only log (`reviews.decisions`); nothing is ever edited. What holds for a
document is folded from its entries. The *version* of a document's state is the number of the newest entry about it
in that audit, 0 where there is none. A decision says up to which entry its reviewer had seen the log; it is stale
where the document has a newer one.

::

              exclude, accept
        open ────────────────> waiting ──confirm (another person)──> decided ──withdraw──> ...
                               (four eyes; without them the arrow ends in decided at once)

`more-runs` lets nobody's document into a run, so it never waits. A withdrawal of what is in force waits for a
second person too: two undo what two have done. A newer audit that asks the same of the same document
(`ksdp.audit.screening.clearance.question_of`) supersedes what was decided: the old decision is still shown, and
counts no more.

An exclusion is of the document, not of an audit: it holds for its corpus and id in every audit, before the first
one too, until it is withdrawn. Nothing else may be decided before that.

Comments and assignments (`NOTES`) stand in the same log and decide nothing: `fold` passes them over.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

from ksdp.audit.errors import InputError

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode's categories: controls, formats, surrogates, private, unassigned, line and paragraph separators."""


def is_unseen(letter: str) -> bool:
    """Whether a letter is one of them.

    >>> is_unseen("\u202e"), is_unseen("ß")
    (True, False)
    """
    return unicodedata.category(letter) in _UNSEEN


def visible(text: str, *, lines: bool = False) -> str:
    """A text with whatever is not seen written as its number; with `lines`, line breaks and tabs stay."""
    allowed = "\n\t" if lines else ""
    return "".join(
        f"<U+{ord(letter):04X}>" if is_unseen(letter) and letter not in allowed else letter for letter in text
    )


def plural(count: int, word: str, does: str = "") -> str:
    """A number of things, and what they do.

    >>> plural(1, "document", "wait"), plural(2, "document", "wait")
    ('1 document waits', '2 documents wait')
    """
    counted = f"{count} {word}" if count == 1 else f"{count} {word}s"
    return f"{counted} {does}{'s' * (count == 1)}" if does else counted


class StaleDecision(InputError):
    """A decision was made without having seen what is in force by now; nothing was recorded.

    Parameters
    ----------
    newer : Entry or None
        The newest entry about the document; None where a newer audit, and no entry, is what was not seen.
    """

    def __init__(self, message: str, newer: Entry | None = None) -> None:
        super().__init__(message)
        self.newer = newer


LONGEST_REASON = 2000
"""Characters of a reason, at most."""
LONGEST_NAME = 200
"""Characters of a reviewer's or an owner's name, at most."""


class Decision(StrEnum):
    """A reviewer's decision about a document, or a note (`NOTES`), which decides nothing."""

    EXCLUDE = "exclude"
    """It may not enter a protocol run."""
    ACCEPT = "accept"
    """It may; the reviewer answers for the risk."""
    MORE_RUNS = "more-runs"
    """It is audited again with more runs; until then it may not enter."""
    CONFIRM = "confirm"
    """A second person agrees with what waits."""
    WITHDRAW = "withdraw"
    """A waiting decision is dropped; otherwise the one in force is taken back."""
    ASSIGN = "assign"
    """Somebody is to decide, perhaps until a day."""
    COMMENT = "comment"
    POLICY = "policy"
    """How decisions are made in this store is another from here on; the reason says how."""


NOTES = (Decision.ASSIGN, Decision.COMMENT, Decision.POLICY)
"""Entries that decide nothing, confirm nothing, and make no decision stale."""

WITHOUT_AUDIT = (Decision.EXCLUDE, Decision.CONFIRM, Decision.WITHDRAW)
"""Decisions that may be made before there is an audit."""


class Status(StrEnum):
    """Where a document stands."""

    OPEN = "open"
    """Nothing was decided, or it was withdrawn."""
    WAITING = "waiting"
    """A second person must confirm."""
    DECIDED = "decided"
    SUPERSEDED = "superseded"
    """A newer audit holds the document: what was decided here is shown, and counts no more."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the review log."""

    number: int
    """From 1, without gaps, over the whole store."""
    audit: str
    """Empty where it was decided without one."""
    corpus: str
    """Hash of the corpus that it is about."""
    source: str
    """Path of that corpus, as the spec has it."""
    unit: str
    """`document` or `group`: what `document` names; `store` for a policy."""
    document: str
    decision: Decision
    reason: str
    reviewer: str
    at: datetime
    """In UTC."""
    saw: int
    """The version of the document's state that the reviewer had before them."""
    previous: str
    """Hash of the entry before; 64 zeros in the first."""
    hash: str
    """SHA-256 over all the rest in canonical form, in hex."""
    owner: str = ""
    """Of `assign`: the person who is to decide."""
    due: str = ""
    """Of `assign`: the last day for it, as in 2026-12-31; empty where there is none."""


@dataclass(frozen=True, slots=True)
class CorpusUnits:
    """The documents (or groups) that decisions are about: a corpus, by its hash or by the name of its file."""

    corpus: str
    source: str
    """Path of it, as the spec has it."""
    unit: str

    @property
    def file(self) -> str:
        """Name of its file: the same data in another folder, or with other weights, is the same corpus."""
        return file_of(self.source)


def file_of(source: str) -> str:
    """Name of the file at a path.

    >>> file_of("data/mail/"), file_of("c:\\\\mail.csv")
    ('mail', 'mail.csv')
    """
    return source.replace("\\", "/").rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A decision to record."""

    audit: str
    """Empty: about a corpus, without an audit."""
    document: str
    decision: Decision
    reason: str
    reviewer: str
    saw: int | None = None
    """The newest entry of the log, or of the document, when the reviewer looked; 0 where there was none. None:
    whatever holds at present. `confirm` must say it."""
    owner: str = ""
    due: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """Decisions about a document in an audit."""

    audit: str
    document: str
    status: Status
    version: int
    """Number of the newest entry about it in this audit; 0 where there is none."""
    newest: Entry | None = None
    decided: Entry | None = None
    """In force: `exclude`, `accept` or `more-runs`."""
    confirmed: Entry | None = None
    """The second person's entry, where one confirmed what is in force."""
    waiting: Entry | None = None
    """Decision that a second person must confirm; the one in force stays until then."""
    superseded_by: str | None = None
    """The newest audit that holds the document, where this is not it."""
    earlier: Entry | None = None
    """Decision that was in force in the audit before this one. It is shown and no longer counts."""
    proved_by: str | None = None
    """Another audit of the same question and content that proved it sensitive: no newer one makes it clear."""
    assigned: Entry | None = None
    """Assignment that nobody has answered (`assignment`)."""

    @property
    def exclusion(self) -> Entry | None:
        """The exclusion that keeps it out, in force or waiting for a second person."""
        return next((entry for entry in (self.decided, self.waiting) if is_exclusion(entry)), None)

    @property
    def decision(self) -> Decision | None:
        """The decision in force."""
        return self.decided.decision if self.decided else None

    @property
    def asks_for_runs(self) -> bool:
        """Whether what is in force asks for more runs, which no newer audit of the document has brought."""
        return self.decision is Decision.MORE_RUNS and self.superseded_by is None


def same_person(name: str, other_name: str) -> bool:
    """Whether two names are one person's: case, spaces and Unicode spelling do not count."""
    return _plain(name) == _plain(other_name)


def _plain(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def is_exclusion(entry: Entry | None) -> bool:
    """Whether an entry excludes its document."""
    return entry is not None and entry.decision is Decision.EXCLUDE


def fold(
    entries: Iterable[Entry],
    audit: str,
    document: str,
    *,
    four_eyes: bool,
    superseded_by: str | None = None,
    earlier: Entry | None = None,
) -> State:
    """Fold a document's entries into its state."""
    newest = decided = confirmed = waiting = None
    for entry in (entry for entry in entries if entry.decision not in NOTES):
        excluded = is_exclusion(decided) or is_exclusion(waiting)
        about_exclusion = is_exclusion(entry) or (
            excluded and entry.decision in (Decision.CONFIRM, Decision.WITHDRAW)
        )
        if entry.document != document or not (about_exclusion or entry.audit == audit):
            continue
        newest = entry
        match entry.decision:
            case Decision.ACCEPT | Decision.MORE_RUNS if excluded:
                pass  # the exclusion comes first
            case Decision.MORE_RUNS:
                decided, confirmed, waiting = entry, None, None
            case Decision.CONFIRM:
                if waiting is not None and not same_person(entry.reviewer, waiting.reviewer):
                    undone = waiting.decision is Decision.WITHDRAW
                    decided, confirmed, waiting = (None, None, None) if undone else (waiting, entry, None)
            case Decision.WITHDRAW if waiting is not None:
                waiting = None
            case Decision.WITHDRAW if not four_eyes:
                decided = confirmed = None
            case Decision.WITHDRAW:
                waiting = entry if decided is not None else None
            case _ if four_eyes:
                waiting = entry
            case _:
                decided, confirmed = entry, None
    if superseded_by is not None:
        status = Status.SUPERSEDED
    elif waiting is not None:
        status = Status.WAITING
    else:
        status = Status.OPEN if decided is None else Status.DECIDED
    return State(
        audit=audit,
        document=document,
        status=status,
        version=newest.number if newest else 0,
        newest=newest,
        decided=decided,
        confirmed=confirmed,
        waiting=waiting,
        superseded_by=superseded_by,
        earlier=earlier,
    )


def assignment(entries: Iterable[Entry], audits: Collection[str]) -> Entry | None:
    """The newest assignment in some audits; an exclusion, acceptance or confirmation after it has answered it."""
    assigned = None
    for entry in entries:
        if entry.decision is Decision.ASSIGN and entry.audit in audits:
            assigned = entry
        elif is_exclusion(entry) or (
            entry.audit in audits and entry.decision in (Decision.ACCEPT, Decision.CONFIRM)
        ):
            assigned = None
    return assigned


def check_bounded(name: str, text: str, longest: int, *, lines: bool) -> None:
    """Refuse a text that is empty, too long, or not all seen."""
    if not text.strip():
        raise InputError(f"`{name}` must say something.")
    if len(text) > longest:
        raise InputError(f"`{name}` must have at most {longest} characters; got {len(text)}.")
    allowed = "\n\t" if lines else ""
    if any(is_unseen(letter) and letter not in allowed for letter in text):
        raise InputError(f"`{name}` must not hold control characters, or others that are not seen.")


def _check_day(due: str) -> None:
    try:
        if due and date.fromisoformat(due).isoformat() != due:
            raise ValueError
    except ValueError:
        raise InputError(f"`due` must be a day as in 2026-12-31; got {due!r}.") from None


def check_proposal(proposal: Proposal, state: State, *, four_eyes: bool) -> None:
    """Refuse what may not follow the present state."""
    if proposal.decision is not Decision.ASSIGN or proposal.reason.strip():
        check_bounded("reason", proposal.reason, LONGEST_REASON, lines=True)
    check_bounded("reviewer", proposal.reviewer, LONGEST_NAME, lines=False)
    if proposal.decision is Decision.ASSIGN:
        check_bounded("owner", proposal.owner, LONGEST_NAME, lines=False)
        _check_day(proposal.due)
    elif proposal.owner or proposal.due:
        raise InputError("an owner and a due date go with the decision `assign`, and with no other.")
    name, out = proposal.document, state.exclusion
    if state.superseded_by is not None:
        raise StaleDecision(
            f"document {name!r} was audited again in {state.superseded_by}: decide there.", state.newest
        )
    if state.newest is not None and proposal.saw is not None and proposal.saw < state.version:
        raise StaleDecision(f"document {name!r}: {_told(state.newest)} is newer than what was seen.", state.newest)
    match proposal.decision:
        case Decision.POLICY:
            raise InputError("`policy` is about no document: `ksdp decide --policy` sets it.")
        case Decision.CONFIRM:
            if state.waiting is None:
                why = "nothing waits" if four_eyes else "no second person is asked for, so nothing waits"
                raise InputError(f"document {name!r}: {why} for a confirmation.")
            if same_person(proposal.reviewer, state.waiting.reviewer):
                raise InputError(f"document {name!r}: {state.waiting.reviewer} proposed it; another must confirm.")
            if proposal.saw is None:
                raise InputError(f"document {name!r}: `saw` must name the entry that is confirmed.")
        case Decision.WITHDRAW:
            if state.decided is None and state.waiting is None:
                raise InputError(f"document {name!r}: there is nothing to withdraw.")
            if out is not None and out.document != name:
                raise InputError(
                    f"document {name!r} is excluded with the {out.unit} {out.document!r}: withdraw that, "
                    "`ksdp decide SPEC GROUP --groups --decision withdraw`."
                )
        case Decision.ACCEPT | Decision.MORE_RUNS if out is not None:
            raise InputError(
                f"document {name!r} is excluded, {excluded_words(exclusion_row(name, out))}. Withdraw that first: "
                "`--decision withdraw`."
            )
        case _:
            pass


def exclusion_row(document: str, entry: Entry, absent: bool = False) -> dict[str, str]:
    """Return the row of an excluded document: audit, person, time and reason."""
    return {
        "document": document,
        "audit": entry.audit,
        "who": entry.reviewer,
        "at": entry.at.isoformat(),
        "reason": entry.reason + (" (nothing in the corpus has this name)" if absent else ""),
    }


def excluded_words(row: Mapping[str, str]) -> str:
    """The same in words, but for the document."""
    where = f"in audit {row['audit']}" if row["audit"] else "without an audit"
    reason = " ".join(row["reason"].split())
    return visible(f"{where} by {row['who']} on {row['at'][:10]}: {reason}")


def _told(entry: Entry) -> str:
    when = entry.at.isoformat(timespec="seconds")
    return f"entry {entry.number} ({entry.decision}, by {entry.reviewer}, {when})"
