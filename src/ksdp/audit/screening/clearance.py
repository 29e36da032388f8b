"""The list of documents that may enter a run: which audits count, what the clearance says, who is on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.corpus.groups import Unit, unit_names
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.callables import FunctionMechanism
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.registry import mechanism_of
from ksdp.audit.reviewing import Decision, State, file_of, plural
from ksdp.audit.specs.content_keys import content_key, whole_numbers
from ksdp.audit.specs.design import as_rows
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Attempt:
    """One audit of an attempt; the audits of a screen are one attempt together."""

    question: str
    file: str
    attempt: str
    """Hash of the spec as it was given; of a list's own audits, the id of the audit that proposed it."""
    audit: str
    at: str
    """When it was first started, ISO 8601 with a time zone."""
    seed: int
    margin: float
    level: float
    """Error level of "clear", that of its certificate included."""
    statistics: str
    """Key of families, names and what is seen."""
    runs: int
    looks: int
    fresh_runs: int
    whole: float = 0.0
    """The level of all audits that the attempt may take: a screening that ended early could have gone on."""
    part: bool = False
    """Whether it is one of several audits of the attempt, and none that people decide about by itself."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """The clearance's statement about them."""

    attempts: int
    audits: int
    seeds: int
    margins: tuple[float, ...]
    """Ascending, each once."""
    statistics: int
    looks: int
    level: float
    """Error level of "clear", certificates included, summed over the attempts, at most 1: all together control it,
    by the union bound."""

    def sentence(self) -> str:
        """For statements and pages."""
        if self.attempts <= 1:
            return "This question was asked once of this corpus, this mechanism and these parties."
        margins = ", ".join(f"{margin:g}" for margin in self.margins)
        made = f"{plural(self.audits, 'audit')} with {plural(self.seeds, 'seed')}"
        return (
            f"This question was asked {self.attempts} times of this corpus, this mechanism and these parties: by "
            f"{made}, {plural(self.statistics, 'choice')} of statistics, and margins {margins}. "
            f"Together, what they call clear is held to a level of {self.level:g}."
        )


@dataclass(frozen=True, slots=True)
class AuditQuestion:
    """The question of an audit, in two keys. Audits of one content share proofs, those of one file are one row.

    The newest of a row is the one that people decide about.
    """

    content: str
    """Key of mechanism, parties and the content of the corpus."""
    file: str
    """Key of mechanism, parties and the name of its file, which may grow."""

    def same(self, other: AuditQuestion) -> bool:
        """Whether two are of one content, or of one file."""
        return self.content == other.content or self.file == other.file


def question_of(spec: Spec, corpus: str, units: int) -> AuditQuestion:
    """Derive the question of a spec. A default written out, 1 as 1.0, or a part in rows, asks nothing new."""
    mechanism = mechanism_of(spec.mechanism)
    name = mechanism.code if isinstance(mechanism, FunctionMechanism) else mechanism.name
    settings = {"name": name, "parameters": parameters_of(mechanism)}
    parties = spec.parties.model_dump(mode="json")
    rows = {name: parties[name] and as_rows(parties[name], units) for name in ("honest", "coalition")}
    question: dict[str, object] = {"mechanism": whole_numbers(settings), "unit": spec.design.unit}
    return AuditQuestion(
        content=content_key(question | {"corpus": corpus, "parties": parties | rows}),
        file=content_key(question | {"file": file_of(spec.corpus.path), "parties": whole_numbers(parties)}),
    )


def attempt_of(
    spec: Spec,
    audit: str,
    at: str,
    runs: int,
    looks: int,
    *,
    question: AuditQuestion,
    given: Spec,
    name: str | None = None,
) -> Attempt:
    """An audit as the ledger keeps it."""
    design = spec.design
    return Attempt(
        question=question.content,
        file=question.file,
        attempt=name or given.hash,
        audit=audit,
        at=at,
        seed=spec.seed,
        margin=spec.decision_in_run.margin,
        level=spec.level_of_clear,
        statistics=content_key(spec.statistics.model_dump(mode="json")),
        runs=runs,
        looks=looks,
        fresh_runs=design.fresh_with_runs,
        whole=given.level_of_clear,
        part=given.hash != spec.hash,
    )


_LIST = "list-"


def list_attempt(audit: str) -> str:
    """The ledger's name for all audits of the list that an audit proposed."""
    return f"{_LIST}{audit}"


def proposed_by(attempt: str) -> str | None:
    """The audit of a `list_attempt`; None for any other attempt."""
    return attempt.removeprefix(_LIST) if attempt.startswith(_LIST) else None


def count_attempts(attempts: Sequence[Attempt]) -> Attempts:
    """Count what was tried for one question; an attempt has its whole level, or the sum of its audits'."""
    reserved: dict[str, float] = {}
    parts: dict[str, dict[str, float]] = {}
    for attempt in attempts:
        reserved[attempt.attempt] = max(reserved.get(attempt.attempt, 0.0), attempt.whole)
        parts.setdefault(attempt.attempt, {})[attempt.audit] = attempt.level
    levels = {name: max(reserved[name], sum(parts[name].values())) for name in reserved}
    return Attempts(
        attempts=len(levels),
        audits=len({attempt.audit for attempt in attempts}),
        seeds=len({attempt.seed for attempt in attempts}),
        margins=tuple(sorted({attempt.margin for attempt in attempts})),
        statistics=len({attempt.statistics for attempt in attempts}),
        looks=sum(attempt.looks for attempt in attempts),
        level=min(sum(levels.values()), 1.0),
    )


@dataclass(frozen=True)
class MechanismIdentity:
    """Identity of a mechanism: name, version and every parameter, defaults included."""

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
    """Decisions of people that a clearance was made from."""

    accepted: int
    """Documents on the list by decision alone: their verdict would not have put them there."""
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
    fewest_with: int
    """Runs that held the document that was in the fewest."""
    detectable_distance: float
    """Smallest advantage that it finds 8 times in 10."""
    attempts: Attempts

    def sentence(self) -> str:
        """For the statement."""
        least = self.detectable_distance
        power = (
            f"find an advantage of {least:.2f} 8 times in 10" if least < 1 else "may miss any leak of one document"
        )
        return (
            f"The deciding audit made {self.runs} runs, at least {self.fewest_with} of them with each document; "
            f"its tests {power}. {self.attempts.sentence()}"
        )


@dataclass(frozen=True)
class Covered:
    """Releases that the audits behind a clearance examined."""

    opens: str
    arrays: tuple[str, ...]
    """Names of the announced arrays that tested statistics read; sorted, each once."""

    def missing(self, opened: Iterable[str]) -> tuple[str, ...]:
        """Arrays that a run opens and no tested statistic reads; sorted."""
        return tuple(sorted(set(opened) - set(self.arrays)))


@dataclass(frozen=True)
class AuditedSizes:
    """Sizes of the databases of the deciding audit. A smaller run is another run, and leaks more."""

    unit: Unit
    size: int
    """Size of the party's own part of a database."""
    honest: int
    """Documents of other parties in every database; they hide the party's own."""
    coalition: int
    """Documents of the coalition in every database, which it subtracts."""
    parties: int
    """Parties in a database, the coalition as one."""
    every_size: bool
    """A bound of every attack holds at every size: nothing is compared."""

    def refused(self, entering: int, parties: int | None, others: int | None) -> str | None:
        """Why a run with so few is not what was audited, and what to do; None where it is.

        `others` are the documents (or groups) that all other parties enter at least; None: not known here.
        """
        if self.every_size:
            return None
        if entering < self.size:
            return (
                f"{entering} {self.unit}s enter, and the audited databases had {self.size}. With fewer a run "
                f"leaks more. Set `design.party_size = {entering}` in the spec, and sign what that audit clears: "
                "`ksdp clear SPEC --clearance FILE --key KEY --who NAME`"
            )
        if parties is not None and parties < self.parties:
            return (
                f"{parties} parties take part, and the audited databases had {self.parties}: `ksdp audit SPEC` "
                "with the `parties` of the run, then `ksdp clear`"
            )
        wanted = self.honest + self.coalition if self.honest else 0
        if others is not None and others < wanted:
            return (
                f"the protocol file has the other parties enter at least {others} {self.unit}s, and the audited "
                f"databases had {wanted} of theirs, which hid the party's own. Write `enters = NUMBER` into the "
                "tables of the other parties, and let all sign again; or audit without `parties`"
            )
        return None


def entering_units(clearance: Clearance, corpus: Corpus) -> int:
    """How many of what the clearance's sizes count enter: those of its documents that a corpus holds."""
    return len(np.unique(unit_names(corpus, clearance.sizes.unit)[clearance.allows(corpus.ids)]))


@dataclass(frozen=True)
class Clearance:
    """Which documents may enter a run of which mechanism, who signed it, and for how long it holds."""

    corpus: str
    """Hash of the whole corpus, the excluded documents included."""
    mechanism: MechanismIdentity
    spec: str
    """Hash of the spec that people wrote, as far as the clearance is bound to it (`Spec.binding`)."""
    audits: tuple[str, ...]
    """Ids of the audits it rests on, in order; the last audited exactly the list, unless a proof holds for all."""
    verdicts: Mapping[str, int]
    """Documents by verdict in the last audit."""
    documents: tuple[str, ...]
    sensitive: int
    excluded: int
    """Documents left out by decision, whatever their verdict."""
    sizes: AuditedSizes
    reviewer: str
    created: datetime
    expires: datetime
    """The first moment at which it holds no more."""
    statement: str
    """Statement for people: what the clearance promises, and what it does not."""
    evidence: Evidence
    coverage: Covered
    reviewed: Reviewed | None = None
    """None where no decision was looked at."""
    certified: tuple[str, ...] | None = None
    """Entries of `documents` with a proved bound on every attack; None if there are none."""
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
        for name in ("documents", "certified"):
            listed = getattr(self, name)
            if listed is not None and any(a >= b for a, b in pairwise(listed)):
                raise InputError(f"`{name}` must be sorted, each once.")
        if not set(self.certified or ()) <= set(self.documents):
            raise InputError("`certified` must be among `documents`.")

    @staticmethod
    def entries(ids: Iterable[str]) -> tuple[str, ...]:
        """Ids as `documents` lists them: sorted, each once."""
        return tuple(sorted({str(name) for name in ids}))

    @cached_property
    def _listed(self) -> frozenset[str]:
        return frozenset(self.documents)

    def allows(self, ids: Iterable[str]) -> NDArray[np.bool_]:
        """Whether each id is on the list, shape (n_ids,)."""
        return np.array([str(name) in self._listed for name in ids], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Selection:
    """Documents of an audit by what happens to them; together they are all of them, each once."""

    proved: tuple[str, ...]
    accepted: tuple[str, ...]
    """Listed: not proved clear; a reviewer accepted the risk."""
    excluded: tuple[str, ...]
    left_open: tuple[str, ...]
    """Left out: nothing was proved or decided, more runs were asked for, or a second person did not answer yet."""
    waiting: tuple[str, ...]
    """Documents of `left_open` that wait for a second person."""
    not_picked: tuple[str, ...] = ()
    """Left out: they might be listed, and somebody named which are to be."""

    @property
    def listed(self) -> tuple[str, ...]:
        """Documents that may enter a run."""
        return self.proved + self.accepted

    def only(self, lines: Sequence[str]) -> Selection:
        """The same where exactly the documents of these lines are listed; `InputError` where one may not be."""
        places = dict.fromkeys(self.excluded, "excluded by decision")
        places |= dict.fromkeys(self.left_open, "not proved clear, nor accepted")
        listed, picked = set(self.listed), {line.strip() for line in lines} - {""}
        for row, name in enumerate((line.strip() for line in lines), start=1):
            if name and name not in listed:
                why = places.get(name, "not a document of this audit")
                raise InputError(f"row {row}: {name!r} may not be listed: it is {why}. Leave it out.")
        if not picked:
            raise InputError("no document is named. Write ids, one a line.")
        return replace(
            self,
            proved=tuple(name for name in self.proved if name in picked),
            accepted=tuple(name for name in self.accepted if name in picked),
            not_picked=tuple(name for name in self.listed if name not in picked),
        )


def select(verdicts: Mapping[str, str], states: Mapping[str, State]) -> Selection:
    """Sort the documents of an audit."""
    lists: dict[str, list[str]] = {"proved": [], "accepted": [], "excluded": [], "left_open": [], "waiting": []}
    for document, verdict in verdicts.items():
        state = states.get(document)
        clear = verdict == Verdict.CLEAR and not (state and state.proved_by)
        decision = state.decision if state else None
        if state and state.waiting is not None:
            lists["waiting"].append(document)
            place = "left_open"
        elif decision is Decision.EXCLUDE:
            place = "excluded"
        elif decision is Decision.ACCEPT:
            place = "proved" if clear else "accepted"
        elif clear and decision is None:
            place = "proved"
        else:
            place = "left_open"
        lists[place].append(document)
    return Selection(**{name: tuple(ids) for name, ids in lists.items()})


_NOT_SAID = (
    "The clearance says nothing of other corpora, mechanisms or parameters, nor of repeated releases, and it does "
    "not prove differential privacy."
)
_SUMS = "Where two parties open exact sums, each learns the other's input exactly."
_TWO_NAMES = (
    "Each exclusion and acceptance that the list follows stands in the log under two names. ksdp does not check "
    "that two people bear them."
)


@dataclass(frozen=True)
class ListCounts:
    """How many documents are listed, and how many are not, by the reason."""

    proved: int
    """Listed: clear in an audit of the list."""
    accepted: int
    """Listed: a reviewer accepted the risk."""
    excluded: int
    left_open: int
    """Not listed: nothing was proved or decided."""
    not_picked: int
    """Not listed: somebody named which documents are to be."""
    left_out: int
    """Not listed: they did not hold in an audit of the list, or held by the weakest evidence."""
    every_attack: int = 0
    """Documents of `proved` that a bound on every attack makes clear."""


def list_statement(
    counts: ListCounts,
    *,
    margin: float,
    attempts: Attempts,
    rows: int,
    among: int,
    four_eyes: bool,
    every_size: bool = False,
    any_knowledge: bool = False,
    sums: bool = True,
) -> str:
    """State what a clearance promises and what it does not; `sums`: its run opens sums without noise."""
    listed = counts.proved + counts.accepted
    by_proof, by_tests = counts.every_attack, counts.proved - counts.every_attack
    start = "1 document is listed" if listed == 1 else f"{listed} documents are listed"
    where = f"below {margin:g}, in databases of {rows} documents drawn from {among}"
    bound = f"a bound on every attack, whatever is tried, keeps the advantage of {by_proof} of them {where}."
    if every_size:
        proved = (
            f"{start}, by a proof and not by tests. A bound on every attack makes "
            f"{counts.proved} of them clear at margin {margin:g}, and holds for every part of the corpus and "
            "every number of documents, if those who must be trusted follow the protocol (semi-honest)."
        )
    elif not counts.proved:
        proved = f"{start}, and no audit proved anything of them."
    elif by_tests:
        proved = (
            f"{start}. An audit of exactly these proved {by_tests} of them clear by tests: "
            f"the advantage of every threshold on every statistic tried is {where}."
            f"{f' Of the others, {bound}' if by_proof else ''}"
        )
    else:
        proved = f"{start}, by a proof and not by tests: {bound}"
    promises = [
        f"{proved} Audits that asked this so far: {attempts.audits}; their levels add up to {attempts.level:g}."
    ]
    if counts.accepted:
        promises.append(
            f"{counts.accepted} are listed by decision alone: their risk was accepted, each with a reason in the "
            "log."
        )
    out = counts.excluded + counts.left_open + counts.not_picked + counts.left_out
    if out:
        picked = f", {counts.not_picked} not picked" if counts.not_picked else ""
        promises.append(
            f"{'1 document is' if out == 1 else f'{out} documents are'} not listed: {counts.excluded} excluded by "
            f"decision, {counts.left_open} left open{picked}, {counts.left_out} left out after an audit of the "
            "list."
        )
    else:
        promises.append("Every document of the audit is listed.")
    promises.append(_TWO_NAMES if four_eyes else "Decisions were made by one person each.")
    if by_tests and not every_size:
        promises.append("Tests say nothing of statistics that were not tried.")
    if not any_knowledge:
        promises.append("The clearance says nothing of adversaries who know other documents of the run.")
    if not every_size:
        promises.append("It says nothing of runs with fewer documents or parties.")
    promises += [
        f"{_NOT_SAID} {_SUMS}" if sums else _NOT_SAID,
        "Features and their weights are those of the whole corpus, and that documents were left out is itself "
        "information about them.",
    ]
    return " ".join(promises)
