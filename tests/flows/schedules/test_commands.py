"""The schedule family as typed: what it writes, what it refuses, and its exit codes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ksdp.commands.schedules import _code
from ksdp.storage.schedules.schedule_files import ScheduledRun, read_schedule
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
Typed = Callable[..., Any]


@pytest.fixture
def nightly(spec: Callable[..., Path], tmp_path: Path) -> tuple[str | Path, ...]:
    return ("schedule", spec("nightly"), "--cron", "30 2 * * *", "--store", tmp_path / "store")


def test_a_schedule_from_its_making_to_its_end(typed: Typed, nightly: tuple[Any, ...], tmp_path: Path) -> None:
    there, store = ("--store", tmp_path / "store"), Store(tmp_path / "store")
    options = ("--full-every", "7", "--budget", "spending", "--link", "https://review.example")
    made = typed(*nightly, *options, "--json", check=0).out
    assert (made["schedule"], made["paused"], made["runs"], len(made["next"])) == ("nightly", False, 0, 3)
    kept = read_schedule(store, "nightly")
    assert (kept.full_every, kept.budget, kept.link) == (7, "spending", "https://review.example")
    assert "has not run" in typed("schedules", *there, check=0).text
    typed("pause", "nightly", *there, check=0)
    (listed,) = typed("schedules", *there, "--json", check=0).out["schedules"]
    assert (listed["paused"], listed["next"]) == (True, [])
    typed("resume", "nightly", *there, check=0)
    assert not read_schedule(store, "nightly").paused
    typed("unschedule", "nightly", *there, check=0)
    assert typed("schedules", *there, "--json", check=0).out == {"served": False, "schedules": []}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--cron", "30 2 * *"), "`cron`"),
        (("--timezone", "Europe/Atlantis"), "`timezone`"),
        (("--budget", "generous"), "`budget`"),
        (("--full-every", "-1"), "`full_every`"),
        (("--retries", "-1"), "`retries`"),
        (("--appetite", "none.toml"), "none.toml cannot be read"),
    ],
)
def test_what_is_refused_leaves_nothing(
    typed: Typed, nightly: tuple[Any, ...], tmp_path: Path, change: tuple[str, str], said: str
) -> None:
    assert said in typed(*nightly, *change, check=2).err
    assert not (tmp_path / "store" / "schedules" / "nightly").exists()


def test_a_promise_is_not_changed(typed: Typed, nightly: tuple[Any, ...], tmp_path: Path) -> None:
    typed(*nightly, check=0)
    typed(*nightly, "--cron", "0 4 * * *", check=0)
    assert "cannot be changed" in typed(*nightly, "--budget", "spending", check=2).err
    assert read_schedule(Store(tmp_path / "store"), "nightly").cron == "0 4 * * *"


@pytest.mark.parametrize("command", ["pause", "resume", "now", "unschedule"])
def test_one_that_is_not_there(typed: Typed, tmp_path: Path, command: str) -> None:
    Store.open(tmp_path / "store")
    assert "'nobody'" in typed(command, "nobody", "--store", tmp_path / "store", check=2).err


@pytest.mark.parametrize(
    ("outcome", "verdicts", "code"),
    [
        ("audited", {"sensitive": 2, "clear": 1, "undecided": 1}, 3),
        ("audited", {"sensitive": 0, "clear": 1, "undecided": 1}, 4),
        ("audited", {"sensitive": 0, "clear": 2, "undecided": 0}, 0),
        ("unchanged", {"sensitive": 2, "clear": 1, "undecided": 0}, 3),
        ("unchanged", {"sensitive": 0, "clear": 1, "undecided": 0}, 0),
        ("void", {"sensitive": 2, "clear": 1, "undecided": 0}, 5),
        ("failed", {}, 1),
        ("timed-out", {}, 1),
        ("crashed", {}, 1),
        ("cancelled", {}, 1),
    ],
)
def test_what_a_run_means_to_a_shell(outcome: Any, verdicts: dict[str, int], code: int) -> None:
    run = ScheduledRun(planned=NOW, started=NOW, finished=NOW, outcome=outcome, verdicts=verdicts)
    assert _code(run) == code
    if code in (0, 3, 4):
        assert _code(run.model_copy(update={"appetite_missed": ()})) == 0
        assert _code(run.model_copy(update={"appetite_missed": ("sensitive", "level")})) == 3
