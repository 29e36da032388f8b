"""Marks that `ksdp serve` and others leave for each other in a schedule's folder."""

from __future__ import annotations

import contextlib
import itertools
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from ksdp.audit.errors import InputError, NotFound, StoreError
from ksdp.audit.specs.models import Section, validated
from ksdp.storage.codec import add_to_chain, read_chain, read_object, write_checked_json
from ksdp.storage.locks import try_lock
from ksdp.storage.store import Store

_Mark = TypeVar("_Mark", bound=BaseModel)


def _read_mark(path: Path, kind: type[_Mark], damaged: Callable[[datetime], _Mark]) -> _Mark | None:
    """A mark that was left in a file; None where there is none."""
    if not path.exists():
        return None
    try:
        return read_object(path, kind.model_validate, "a schedule")
    except StoreError:
        return damaged(_written(path)) if path.exists() else None


def _written(path: Path) -> datetime:
    """When a file was last written; the first moment there is where nobody can tell."""
    with contextlib.suppress(OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return datetime.fromtimestamp(0, UTC)


_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class Schedule(Section, frozen=True):
    """What is audited when."""

    name: str
    """Lower case letters, digits and single dashes; unique in the store."""
    spec: str
    """Absolute path of the spec, read again at every run."""
    cron: str
    """Five fields: minute, hour, day of month, month, day of week."""
    timezone: str = "UTC"
    """IANA name, such as `Europe/Vienna`."""
    created: AwareDatetime
    paused: bool = False
    since: AwareDatetime | None = None
    """Last resumed: what was planned before is not made up for."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """Of all the audits of this schedule together."""
    budget: Literal["lord", "spending"] = "lord"
    """`lord`: every audit on fresh runs, a discovery earns level back; `spending`: runs are reused."""
    full_every: Annotated[int, Field(ge=0)] = 0
    """Every n-th audit is of all documents, changed or not; 0: only the first."""
    retries: Annotated[int, Field(ge=0, le=20)] = 2
    """Further attempts after a failure."""
    backoff: Annotated[float, Field(gt=0)] = 60.0
    """Seconds before the first retry; doubled each time."""
    timeout: Annotated[float, Field(gt=0)] | None = None
    """Seconds an attempt may take."""
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

    @field_validator("cron")
    @classmethod
    def _cron(cls, value: str) -> str:
        fields = value.split()
        if len(fields) != 5:
            raise ValueError(f"must have five fields; got {len(fields)}.")
        try:
            CronSim(value, datetime(2000, 1, 1))
        except CronSimError as error:
            raise ValueError(f"is no cron expression: {error}.") from None
        return " ".join(fields)

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError, OSError):
            raise ValueError(f"must be an IANA time zone, such as Europe/Vienna; got {value!r}.") from None
        return value


class RunRequest(Section, frozen=True):
    """A run that was requested to start now."""

    at: AwareDatetime
    full: bool = False
    """Audit every document, changed or not."""
    damaged: bool = False
    """What was asked for cannot be read any more: every document, then nothing that was wanted is left out."""


def check_schedule(values: dict[str, Any]) -> Schedule:
    """Check the values of a schedule."""
    return validated(Schedule, values, "schedule")


def schedule_folder(store: Store, name: str) -> Path:
    """Folder of a schedule."""
    return store.root / "schedules" / name


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
    return read_object(path, Schedule.model_validate, f"schedule {name!r}", "remove the schedule and add it")


def read_schedules(store: Store) -> list[Schedule]:
    """All schedules, by name."""
    files = sorted(store.root.glob("schedules/*/schedule.json"))
    return [read_schedule(store, file.parent.name) for file in files]


def remove_schedule(store: Store, name: str) -> None:
    """Remove a schedule with its history; its audits stay."""
    folder = schedule_folder(store, name)
    if not _NAME.match(name) or not (folder / "schedule.json").is_file():
        raise NotFound(f"there is no schedule {name!r} in this store.")
    (folder / "schedule.json").unlink()  # first: from here on it is no schedule
    shutil.rmtree(folder, ignore_errors=True)


def set_paused(store: Store, name: str, paused: bool, now: datetime) -> Schedule:
    """Pause or resume; what was planned while it was paused is not made up for."""
    schedule = read_schedule(store, name)
    if schedule.paused == paused:
        return schedule
    changed = schedule.model_copy(update={"paused": paused} | ({} if paused else {"since": now}))
    write_schedule(store, changed)
    return changed


def ask_now(store: Store, name: str, ask: RunRequest) -> None:
    """Leave word that a run is wanted; `ksdp serve` starts it."""
    read_schedule(store, name)
    said = ask.model_dump(mode="json", exclude={"damaged"})
    write_checked_json(schedule_folder(store, name) / "asked.json", said)


def asked(store: Store, name: str) -> RunRequest | None:
    """The run that is wanted, if any; of all documents where the file is damaged."""
    path = schedule_folder(store, name) / "asked.json"
    return _read_mark(path, RunRequest, lambda at: RunRequest(at=at, full=True, damaged=True))


def forget_asked(store: Store, name: str) -> None:
    """The run that was wanted is under way."""
    (schedule_folder(store, name) / "asked.json").unlink(missing_ok=True)


def add_schedule(store: Store, schedule: Schedule) -> Schedule:
    """Write a new schedule, or change the one of that name; it keeps its history, so its budget too.

    Raises
    ------
    InputError
        If the level or the kind of budget would change: what has been spent cannot be spent otherwise.
    StoreError
        If the one of that name is damaged: what it may spend is not known.
    """
    if not (schedule_folder(store, schedule.name) / "schedule.json").is_file():
        write_schedule(store, schedule)
        return schedule
    before = read_schedule(store, schedule.name)
    if (before.level, before.budget) != (schedule.level, schedule.budget):
        raise InputError(
            f"schedule {schedule.name!r} has the level {before.level} and the budget {before.budget!r}, which "
            "cannot be changed; name another schedule, or remove this one."
        )
    # Another calendar starts counting now: times of the new one that lie in the past were never missed.
    same = (before.cron, before.timezone) == (schedule.cron, schedule.timezone)
    since = before.since if same else schedule.created
    changed = schedule.model_copy(update={"created": before.created, "paused": before.paused, "since": since})
    write_schedule(store, changed)
    return changed


class Running(BaseModel):
    """A run under way, or one that died."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    planned: AwareDatetime | None
    """None where somebody asked for it."""
    started: AwareDatetime
    pid: int
    full: bool = False
    crashes: int = 0
    """Earlier attempts whose process died."""
    stopped: bool = False
    """`ksdp serve` was told to stop: its death is no crash."""
    flow_run: str | None = None
    """Prefect's id."""
    damaged: bool = False
    """It cannot be read any more: that there was a run is all that is known, so that all documents are audited."""


def hold(store: Store) -> AbstractContextManager[bool]:
    """Try to hold the store's schedules; whether it went well."""
    return try_lock(store.root / "schedules" / "lock")


def begin(store: Store, name: str, mark: Running) -> None:
    """Leave the mark; the caller holds the store."""
    write_checked_json(schedule_folder(store, name) / "running.json", mark.model_dump(mode="json"))


def finish(store: Store, name: str) -> None:
    """Remove the mark: the run is in the history."""
    (schedule_folder(store, name) / "running.json").unlink(missing_ok=True)


def running(store: Store, name: str) -> Running | None:
    """The mark, whether its process lives or not, and whether it can be read or not."""
    path = schedule_folder(store, name) / "running.json"
    return _read_mark(path, Running, lambda at: Running(planned=None, started=at, pid=0, full=True, damaged=True))


def interrupted(store: Store, name: str) -> Running | None:
    """The mark of a run that is not under way any more: its process died."""
    mark = running(store, name)
    if mark is None:
        return None
    with hold(store) as free:
        return running(store, name) if free else None


Outcome = Literal["audited", "unchanged", "void", "failed", "timed-out", "crashed", "cancelled"]
"""`unchanged`: no document to audit, nothing spent. The last four did not run to their end."""

_MOST_MISSED = 10_000
"""More are not counted."""


class ScheduledRun(BaseModel):
    """What became of one run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    planned: AwareDatetime | None
    """The time on the calendar that it stands for; None where somebody asked for it."""
    started: AwareDatetime
    finished: AwareDatetime
    outcome: Outcome
    reason: str | None = None
    """Why it did not run to its end, or is void."""
    attempts: int = 1
    missed: int = 0
    """Earlier times on the calendar that passed without a run, and that this one makes up for."""
    audit: str | None = None
    number: int | None = None
    """Of the audits of this schedule that spent level, from 1."""
    corpus: str | None = None
    basis: str | None = None
    """Hash of what verdicts depend on besides the documents; another one asks for an audit of everything."""
    standing: str | None = None
    """File that holds the verdicts as they stand after this run (`changes.read_standing`)."""
    full: bool = False
    """All documents were audited, changed or not."""
    documents: Mapping[str, int] = {}
    """`new`, `changed`, `removed`, `unchanged`, `audited`, and `excluded` by people."""
    verdicts: Mapping[str, int] = {}
    """Of all documents as they stand after this run, by verdict."""
    became_sensitive: int = 0
    verdict_changes: int = 0
    appetite_missed: tuple[str, ...] | None = None
    """Criteria of the risk appetite that the audit misses; None where it is held to none."""
    largest_drift: float | None = None
    """Largest |change of D| of a (document, statistic) that was audited before."""
    largest_d: float | None = None
    level: float | None = None
    """At which this audit decided."""
    level_left: float | None = None
    """What the audits to come may spend, should nothing more be found."""
    budget: Mapping[str, Any] | None = None
    """State of the online budget after this audit."""
    sampled_runs: int = 0
    cached_runs: int = 0
    seconds: float = 0.0
    flow_run: str | None = None
    """Prefect's id."""

    @property
    def succeeded(self) -> bool:
        """Whether the question was answered: audited, or nothing to audit."""
        return self.outcome in ("audited", "unchanged")

    @property
    def words(self) -> str:
        """What was audited, and how all documents stand."""
        counts = ", ".join(f"{count} {verdict}" for verdict, count in self.verdicts.items())
        out, missed = self.documents.get("excluded", 0), ", ".join(self.appetite_missed or ())
        notes = (f"{out} excluded by decision" if out else "", f"appetite missed: {missed}" if missed else "")
        every = "; ".join(filter(None, (f"all: {counts}", *notes)))
        return f"{self.documents.get('audited', 0)} documents, {self.became_sensitive} became sensitive; {every}"


@dataclass(frozen=True)
class Due:
    """A run that should be made."""

    planned: datetime
    """The latest time on the calendar that has come."""
    missed: int
    """Earlier ones that passed without a run."""


def _times(schedule: Schedule, after: datetime) -> Iterator[datetime]:
    return CronSim(schedule.cron, after.astimezone(ZoneInfo(schedule.timezone)))


def next_times(schedule: Schedule, after: datetime, count: int = 1) -> list[datetime]:
    """The next times on the calendar after `after`, in the schedule's zone; pausing is not looked at.

    Examples
    --------
    >>> from datetime import UTC
    >>> night = Schedule(name="n", spec="/s", cron="30 2 * * *", timezone="Europe/Vienna",
    ...                  created=datetime(2026, 1, 1, tzinfo=UTC))
    >>> [time.isoformat() for time in next_times(night, datetime(2026, 7, 1, tzinfo=UTC), 2)]
    ['2026-07-01T02:30:00+02:00', '2026-07-02T02:30:00+02:00']
    """
    return list(itertools.islice(_times(schedule, after), count))


def due(schedule: Schedule, runs: Sequence[ScheduledRun], now: datetime) -> Due | None:
    """What should be run at `now`: one run for all the times that have come since the last planned one.

    Counted from the latest of: created, resumed, last planned run. None where no time has come. A run that failed
    has had its attempts and is not due again before the next time. What is later than `now` was said by a clock
    that was ahead and does not count: no time on the calendar waits for it, and none is run twice.
    """
    said = [schedule.created, schedule.since, *(run.planned for run in runs)]
    since = max((time for time in said if time is not None and time <= now), default=None)
    minute = now.astimezone(ZoneInfo(schedule.timezone)).replace(second=0, microsecond=0)
    latest = next(CronSim(schedule.cron, minute + timedelta(minutes=1), reverse=True))
    if since is None:
        return Due(latest, 0)
    times = itertools.takewhile(lambda time: time <= now, _times(schedule, since))
    count = sum(1 for _ in itertools.islice(times, _MOST_MISSED))
    return Due(latest, count - 1) if count else None


def append_run(store: Store, name: str, run: ScheduledRun) -> None:
    """Add a line to the history; a line is whole or is not read."""
    path = schedule_folder(store, name) / "history.jsonl"
    try:
        add_to_chain(path, run.model_dump(mode="json"))
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"the history of schedule {name!r} cannot be written: {why}.") from error


def read_runs(store: Store, name: str) -> list[ScheduledRun]:
    """The history, oldest first.

    Raises
    ------
    StoreError
        If a line was changed: what an audit has spent would be forgotten.
    """
    path = schedule_folder(store, name) / "history.jsonl"
    try:
        lines, broken = read_chain(path.read_bytes()) if path.is_file() else ([], None)
    except OSError as error:
        raise StoreError(f"the history of schedule {name!r} cannot be read: {error.strerror}.") from error
    if broken is not None:
        raise StoreError(
            f"the history of schedule {name!r}: line {broken} was changed. What its audits have spent is not "
            "known: restore the file, or remove the schedule and add it."
        )
    return [ScheduledRun.model_validate(line) for line in lines]
