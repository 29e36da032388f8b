"""From verdicts and decisions to the list of a clearance: which documents, and what it promises in plain words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ksdp.audit.reviewing import Decision, State
from ksdp.audit.screening.attempts import Attempts
from ksdp.audit.verdicts.decide import CLEARED


@dataclass(frozen=True, slots=True)
class Selection:
    """Documents of an audit by what happens to them; together they are all of them, each once."""

    proved: tuple[str, ...]
    """Listed: proved clear."""
    accepted: tuple[str, ...]
    """Listed: not proved clear; a reviewer accepted the risk."""
    excluded: tuple[str, ...]
    """Left out by decision."""
    left_open: tuple[str, ...]
    """Left out: nothing was proved or decided, more runs were asked for, or a second person did not answer yet."""
    waiting: tuple[str, ...]
    """Those of `left_open` that wait for a second person."""

    @property
    def listed(self) -> tuple[str, ...]:
        """Documents that may enter a run."""
        return self.proved + self.accepted


def select(
    verdicts: Mapping[str, str], states: Mapping[str, State], remembered: Collection[str] = ()
) -> Selection:
    """Sort the documents of an audit.

    Parameters
    ----------
    verdicts : mapping from id to `sensitive`, `clear`, `certified clear` or `undecided`
    states : mapping from id to State
        A document that is not in it is open. A clear document that was excluded in an earlier audit, and of which
        nothing was decided since, stays out: nobody took the exclusion back.
    remembered : collection of ids
        What an earlier audit proved to be above the margin: listed, if clear now, only where somebody accepts it.
    """
    found: dict[str, list[str]] = {"proved": [], "accepted": [], "excluded": [], "left_open": [], "waiting": []}
    for document, verdict in verdicts.items():
        state = states.get(document)
        clear = verdict in CLEARED and document not in remembered
        decision = state.decision if state else None
        before = state.earlier.decision if state and state.earlier else None
        if state and state.waiting is not None:
            found["waiting"].append(document)
            place = "left_open"
        elif decision is Decision.EXCLUDE:
            place = "excluded"
        elif decision is Decision.ACCEPT:
            place = "proved" if clear else "accepted"
        elif clear and decision is None and before is not Decision.EXCLUDE:
            place = "proved"
        else:
            place = "left_open"
        found[place].append(document)
    return Selection(**{name: tuple(ids) for name, ids in found.items()})


def review_statement(
    *,
    margin: float,
    asked: Attempts,
    rows: int,
    among: int,
    selection: Selection,
    accepted_sensitive: int,
    four_eyes: bool,
    newest: bool,
) -> str:
    """What a clearance made from decisions promises and what it does not, in plain words.

    Parameters
    ----------
    margin : float
        Of the decision.
    asked : Attempts
        What the store's ledger holds of this question, as the clearance's evidence has it. What each audit
        controls, all together control at the sum (union bound), whatever made people look again: an audit of
        chosen documents has runs that nobody has looked at, or counts all that could have been chosen.
    rows, among : int
        Documents in a database, and documents they were drawn from.
    accepted_sensitive : int
        Documents proved sensitive among the accepted ones.
    newest : bool
        Whether no later audit asked the same.
    """
    promises = [
        f"{len(selection.proved)} documents are listed because they were proved clear: the advantage of every "
        f"threshold on every statistic tried is below {margin:g}, in databases of {rows} documents drawn from "
        f"{among}. Audits that asked this so far: {asked.audits}; their levels add up to {asked.level:g}."
        " Of what an audit calls clear, at most its level is expected to be wrong; it counts every document that "
        "its runs could test, so that looking again at chosen ones gains nothing."
    ]
    if selection.accepted:
        others = len(selection.accepted) - accepted_sensitive
        promises.append(
            f"{len(selection.accepted)} are listed by decision alone: {accepted_sensitive} were proved sensitive, "
            f"of {others} nothing is proved. Their risk was accepted, each with a reason in the review log."
        )
    out = len(selection.excluded) + len(selection.left_open)
    if out:
        promises.append(
            f"{out} documents are not listed: {len(selection.excluded)} excluded by decision, "
            f"{len(selection.left_open)} left open. What is left when they are out was not audited again: leaving "
            "documents out can make others sensitive that they hid."
        )
    else:
        promises.append("Every document of the audit is listed.")
    if four_eyes:
        promises.append("Every exclusion and every acceptance was confirmed by a second person.")
    else:
        promises.append("Decisions were made by one person each.")
    if not newest:
        promises.append("A later audit asked the same; what it found does not count here.")
    promises.append(
        "It says nothing of statistics that were not tried, of adversaries who know other documents of the "
        "database, of other corpora, mechanisms, parameters or party sizes, or of repeated releases, and it is "
        "not differential privacy. That documents were left out is itself information about them."
    )
    return " ".join(promises)


def screen_statement(
    *,
    margin: float,
    level: float,
    rows: int,
    among: int,
    allowed: Sequence[str],
    beside: int,
    rounds: int,
    why: str | None = None,
) -> str:
    """What a clearance made by a screen promises and what it does not, in plain words.

    Parameters
    ----------
    margin, level : float
        Of the decision; the level of "clear" of all rounds together.
    rows, among : int
        Documents in a database, and documents they were drawn from in the last round.
    allowed : sequence of str
        Verdicts on the list.
    beside : int
        Documents in `among` that are not on the list.
    why : str, optional
        Why the listed documents were not audited by themselves, where some were beside them.
    """
    promises = [
        f"In the last of {rounds} audits, on runs of its own, no listed document was found sensitive in databases "
        f"of {rows} documents drawn from {among}. All rounds together were held to a level of {level:g}."
    ]
    if "clear" in allowed:
        promises.append(
            "Documents with the verdict clear: the advantage of every threshold on every statistic tried was "
            f"proved to be below {margin:g}; of those that an audit calls clear, at most its level is expected to "
            "be wrong."
        )
    if "undecided" in allowed:
        promises.append(
            "Documents with the verdict undecided are listed by decision of the reviewer: nothing is proved of "
            "them."
        )
    if beside:
        promises.append(
            f"The audit's databases also held {beside} documents that are not listed (undecided or not audited); "
            f"the listed ones were not audited without them{f', because {why}' if why else ''}."
        )
    else:
        promises.append("The audit's databases were drawn from the listed documents and from no others.")
    promises.append(
        "It says nothing of statistics that were not tried, of adversaries who know other documents of the "
        "database, of other corpora, mechanisms, parameters or party sizes, or of repeated releases, and it is "
        "not differential privacy. Features and their weights are those of the whole corpus, and that documents "
        "were left out is itself information about them."
    )
    return " ".join(promises)
