"""Schedules as files: what is audited again, and what became of it. When it runs is Prefect's to say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from ksdp.audit.errors import InputError, NotFound, SpecError, StoreError
from ksdp.audit.reviewing import plural
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import Section, Spec, validated
from ksdp.audit.verdicts.online import LevelBudget, open_budget, read_budget
from ksdp.audit.verdicts.verdict import VERDICTS
from ksdp.storage.codec import add_to_chain, read_chain, read_object, write_checked_json
from ksdp.storage.files import read_stored
from ksdp.storage.locks import try_lock
from ksdp.storage.store import Store

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class Schedule(Section, frozen=True):
    """An audit that comes back, and its level; its calendar is a deployment of Prefect."""

    name: str
    """Lower case letters, digits and single dashes; unique in the store."""
    spec: str
    """Absolute path of the spec, read again at every run."""
    created: AwareDatetime
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Error level of all the audits of this schedule together."""
    budget: Literal["lord", "spending"] = "lord"
    """`lord`: every audit on fresh runs, a discovery earns level back; `spending`: runs are reused."""
    full_every: Annotated[int, Field(ge=0)] = 0
    """Every n-th audit is of all documents, changed or not; 0: only the first."""
    workers: Annotated[int, Field(ge=1)] | None = None
    appetite: str | None = None
    """Absolute path of a risk appetite, read again at every run; with one, every audit is of all documents."""
    link: str | None = None
    """Address of the dashboard (`ksdp review`), for links."""

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if not _NAME.match(value) or len(value) > 60:
            raise ValueError("must be lower case letters, digits and single dashes, 60 at most.")
        return value


def check_schedule(values: dict[str, Any]) -> Schedule:
    """Check the values of a schedule."""
    return validated(Schedule, values, "schedule")


def check_schedulable(spec: Spec) -> None:
    """Refuse what cannot be followed from one audit to the next."""
    if spec.design.unit != "document":
        raise SpecError("`design.unit` must be document: a schedule follows single documents.")
    if isinstance(spec.design.documents, int):
        raise SpecError("`design.documents` must name ids or be left out: a schedule follows each document.")


def schedule_folder(store: Store, name: str) -> Path:
    """Folder of a schedule."""
    return store.root / "schedules" / name


def pool_of(store: Store) -> str:
    """The work pool of a store: its runs need the machine that has it."""
    return f"ksdp-{content_key({'store': str(store.root)})[:6]}"


def serving_lock(store: Store) -> Path:
    """The lock that `ksdp serve` holds while it runs."""
    return store.root / "schedules" / "serving.lock"


def write_schedule(store: Store, schedule: Schedule) -> None:
    """Write a schedule, in place of one of the same name."""
    write_checked_json(schedule_folder(store, schedule.name) / "schedule.json", schedule.model_dump(mode="json"))


def read_schedule(store: Store, name: str) -> Schedule:
    """Read a schedule."""
    path = schedule_folder(store, name) / "schedule.json"
    if not _NAME.match(name) or not path.is_file():
        raise NotFound(f"there is no schedule {name!r} in this store.")
    return read_object(path, Schedule.model_validate, f"schedule {name!r}", "restore the file from a backup")


def read_schedules(store: Store) -> list[Schedule]:
    """All schedules, by name."""
    files = sorted(store.root.glob("schedules/*/schedule.json"))
    return [read_schedule(store, file.parent.name) for file in files]


def add_schedule(store: Store, schedule: Schedule) -> Schedule:
    """Write a new schedule, or change the one of that name; it keeps its history, so its budget too."""
    if (schedule_folder(store, schedule.name) / "schedule.json").is_file():
        before = read_schedule(store, schedule.name)
        if (before.level, before.budget) != (schedule.level, schedule.budget):
            raise InputError(
                f"schedule {schedule.name!r} has the level {before.level} and the budget {before.budget!r}, which "
                "cannot be changed; choose another name."
            )
        schedule = schedule.model_copy(update={"created": before.created})
    write_schedule(store, schedule)
    return schedule


def hold(store: Store) -> AbstractContextManager[bool]:
    """Try to hold the store's schedules; whether it went well."""
    return try_lock(store.root / "schedules" / "lock")


Outcome = Literal["audited", "unchanged", "void"]
"""`unchanged`: no document to audit, nothing spent. A run that failed has no line (`read_failure`)."""


class ScheduledRun(BaseModel):
    """Result of a run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    started: AwareDatetime
    finished: AwareDatetime
    outcome: Outcome
    reason: str | None = None
    audit: str | None = None
    number: int | None = None
    """Number of the audit among those of this schedule that spent level, from 1."""
    corpus: str | None = None
    basis: str | None = None
    """Hash of what verdicts depend on besides the documents; another one asks for an audit of everything."""
    standing: str | None = None
    """File that holds the verdicts as they stand after this run (`changes.read_standing`)."""
    full: bool = False
    """All documents were audited, changed or not."""
    documents: Mapping[str, int] = {}
    """`new`, `changed`, `removed`, `unchanged`, `audited`, and `excluded` by people."""
    rows: int = 0
    """Documents of the corpus, those included that the spec does not name: all hide a document."""
    verdicts: Mapping[str, int] = {}
    """Number of documents by verdict, as they stand after this run."""
    became_sensitive: int = 0
    verdict_changes: int = 0
    appetite_missed: tuple[str, ...] | None = None
    """Criteria of the risk appetite that the audit misses; None where it is held to none."""
    largest_drift: float | None = None
    """Largest |change of D| of a (document, statistic) that was audited before."""
    largest_d: float | None = None
    level: float | None = None
    level_left: float | None = None
    """Level that is left for the audits to come, if nothing more is found."""
    budget: Mapping[str, Any] | None = None
    """State of the online budget after this audit."""
    sampled_runs: int = 0
    cached_runs: int = 0
    seconds: float = 0.0
    flow_run: str | None = None

    @property
    def words(self) -> str:
        """Sentence about the documents that were audited, and about all of them."""
        counts = ", ".join(
            f"{self.verdicts[verdict]} {verdict}" for verdict in VERDICTS if verdict in self.verdicts
        )
        out, missed = self.documents.get("excluded", 0), ", ".join(self.appetite_missed or ())
        notes = (f"{out} excluded by decision" if out else "", f"appetite missed: {missed}" if missed else "")
        every = "; ".join(filter(None, (f"all: {counts}", *notes)))
        audited = plural(self.documents.get("audited", 0), "document")
        first = " (the first audit has nothing to compare with)" if self.number == 1 else ""
        return f"{audited}, {self.became_sensitive} became sensitive{first}; {every}"


def append_run(store: Store, name: str, run: ScheduledRun) -> None:
    """Add a line to the history; a line is whole or is not read."""
    path = schedule_folder(store, name) / "history.jsonl"
    try:
        add_to_chain(path, run.model_dump(mode="json"))
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"the history of schedule {name!r} cannot be written: {why}.") from error


def note_failure(store: Store, name: str, at: datetime, reason: str | None) -> None:
    """Keep why the last run of a schedule failed; None: it did not."""
    path = schedule_folder(store, name) / "failed.json"
    path.unlink(missing_ok=True)
    if reason is not None:
        write_checked_json(path, {"failed": f"at {at:%-d %b %Y, %H:%M} UTC: {reason}"})


def read_failure(store: Store, name: str) -> str | None:
    """When the last run of a schedule failed, and why; None where it did not."""
    path = schedule_folder(store, name) / "failed.json"
    return read_object(path, lambda record: str(record["failed"]), name, "delete it") if path.is_file() else None


def read_runs(store: Store, name: str) -> list[ScheduledRun]:
    """The history, oldest first."""
    path = schedule_folder(store, name) / "history.jsonl"
    lines, broken = read_chain(read_stored(path)) if path.exists() else ([], None)
    if broken is not None:
        raise StoreError(
            f"the history of schedule {name!r}: line {broken} was changed. What its audits have spent is not "
            "known: restore the file from a backup, or schedule it under another name."
        )
    return [ScheduledRun.model_validate(line) for line in lines]


def budget_of(schedule: Schedule, runs: Sequence[ScheduledRun]) -> LevelBudget:
    """The level of a schedule as its history has left it."""
    stored = next((run.budget for run in reversed(runs) if run.budget is not None), None)
    return open_budget(schedule.budget, schedule.level) if stored is None else read_budget(stored)
