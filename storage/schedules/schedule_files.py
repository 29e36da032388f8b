"""Schedules of audits, as files: the truth from which `ksdp serve` makes Prefect's deployments.

::

    schedules/
      key                      secret of the hashes that say whether a document has changed
      <name>/schedule.json     what, when, how often tried, who is told
             asked.json        somebody wants a run now
             ...               history (`schedules.history`), changes and drift (`schedules.changes`),
                               notices to send (`ksdp.storage.schedules.outbox`)
"""

from __future__ import annotations

import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import AwareDatetime, Field, field_validator, model_validator

from ksdp.audit.errors import InputError, StoreError
from ksdp.audit.spec_tables import Section, validated
from ksdp.storage.checksums import read_checked_json, write_checked_json
from ksdp.storage.schedules.marks import read_mark
from ksdp.storage.store import Store

Event = Literal["sensitive", "void", "not-run", "unchanged"]
"""A document has become sensitive; controls have failed; an audit did not run; audits were missed and nothing has
changed since, which whoever asks for `not-run` is told too."""

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")


class Notice(Section, frozen=True):
    """Who is notified of what, and how. Secrets are never in here: only names of environment variables."""

    kind: Literal["command", "webhook", "email"]
    on: tuple[Event, ...] = ("sensitive", "void", "not-run")
    command: tuple[str, ...] = ()
    """`command`: program and arguments; it reads JSON from standard input. No shell."""
    url: str | None = None
    """`webhook`: JSON is posted there."""
    to: tuple[str, ...] = ()
    """`email`: recipients."""
    sender: str | None = None
    host: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    starttls: bool = True
    user: str | None = None
    password_env: str | None = None
    """Environment variable that holds the SMTP password."""

    @model_validator(mode="after")
    def _fits(self) -> Notice:
        needs: dict[str, tuple[str, ...]] = {
            "command": ("command",),
            "webhook": ("url",),
            "email": ("to", "sender", "host"),
        }
        for key in needs[self.kind]:
            if not getattr(self, key):
                raise ValueError(f"`{key}` must be given for {self.kind!r}.")
        if self.kind == "webhook" and not str(self.url).startswith(("http://", "https://")):
            raise ValueError("`url` must start with http:// or https://.")
        if not self.on:
            raise ValueError("`on` must name at least one event.")
        if (self.user is None) != (self.password_env is None):
            raise ValueError("`user` and `password_env` go together.")
        return self


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
    link: str | None = None
    """Address of the dashboard (`ksdp review`), for links in notices."""
    notices: tuple[Notice, ...] = ()

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
    """Check the values of a schedule.

    Raises
    ------
    SpecError
        Naming every wrong key, one a line.
    """
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
        raise StoreError(f"there is no schedule {name!r} in this store.")
    try:
        return Schedule.model_validate(read_checked_json(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"the file of schedule {name!r} is damaged; remove the schedule and add it.") from error


def read_schedules(store: Store) -> list[Schedule]:
    """All schedules, by name."""
    files = sorted(store.root.glob("schedules/*/schedule.json"))
    return [read_schedule(store, file.parent.name) for file in files]


def remove_schedule(store: Store, name: str) -> None:
    """Remove a schedule with its history; its audits stay."""
    folder = schedule_folder(store, name)
    if not _NAME.match(name) or not (folder / "schedule.json").is_file():
        raise StoreError(f"there is no schedule {name!r} in this store.")
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
    return read_mark(path, RunRequest, lambda at: RunRequest(at=at, full=True, damaged=True))


def forget_asked(store: Store, name: str) -> None:
    """The run that was wanted is under way."""
    (schedule_folder(store, name) / "asked.json").unlink(missing_ok=True)


def add_schedule(store: Store, schedule: Schedule) -> Schedule:
    """Write a new schedule, or change the one of that name; it keeps its history, so its budget too.

    Raises
    ------
    InputError
        If the level or the kind of budget would change: what has been spent cannot be spent otherwise.
    """
    try:
        before = read_schedule(store, schedule.name)
    except StoreError:
        write_schedule(store, schedule)
        return schedule
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
