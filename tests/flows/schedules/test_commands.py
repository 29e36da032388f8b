"""The schedule family as typed: what it writes, what it refuses, and its exit codes."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from ksdp.commands.schedules import _code
from ksdp.storage.schedules.schedule_files import ScheduledRun, pool_of, read_schedule
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
Typed = Callable[..., Any]


@pytest.fixture
def nightly(spec: Callable[..., Path], tmp_path: Path) -> tuple[str | Path, ...]:
    return ("schedule", spec("nightly"), "--cron", "30 2 * * *", "--store", tmp_path / "store")


@pytest.fixture(autouse=True)
def shared(typed: Typed, monkeypatch: pytest.MonkeyPatch, server: dict[str, str]) -> Iterator[None]:
    """Commands of this file write to the server of all tests."""
    monkeypatch.setenv("PREFECT_API_URL", server["PREFECT_API_URL"])
    named = {
        PREFECT_API_URL: server["PREFECT_API_URL"],
        PREFECT_API_AUTH_STRING: server["PREFECT_API_AUTH_STRING"],
    }
    with temporary_settings(named):
        yield


def deployment(server: dict[str, str], name: str) -> dict[str, Any]:
    """As Prefect's own commands and pages have it."""
    user, password = server["PREFECT_API_AUTH_STRING"].split(":")
    address = f"{server['PREFECT_API_URL']}/deployments/name/ksdp-schedule/{name}"
    return dict(httpx.get(address, auth=(user, password)).raise_for_status().json())


def test_a_schedule_is_a_deployment(
    typed: Typed, nightly: tuple[Any, ...], tmp_path: Path, server: dict[str, str]
) -> None:
    options = ("--full-every", "7", "--budget", "spending", "--link", "https://review.example", "--name", "made")
    made = typed(*nightly, *options, "--timezone", "Europe/Vienna", "--json", check=0).out
    assert (made["deployment"], made["cron"], made["level"]) == ("ksdp-schedule/made", "30 2 * * *", 0.05)
    kept = read_schedule(Store(tmp_path / "store"), "made")
    assert (kept.full_every, kept.budget, kept.link) == (7, "spending", "https://review.example")
    there = deployment(server, "made")
    (calendar,) = (one["schedule"] for one in there["schedules"])
    assert (calendar["cron"], calendar["timezone"]) == ("30 2 * * *", "Europe/Vienna")
    assert there["work_pool_name"] == pool_of(Store(tmp_path / "store"))
    assert there["parameters"] == {
        "store": str(tmp_path / "store"), "schedule": "made", "retries": 2, "retry_delay_seconds": 60.0,
        "timeout_seconds": None,
    }  # fmt: skip
    typed(*nightly, *options, "--cron", "0 4 * * 1", check=0)
    (calendar,) = (one["schedule"] for one in deployment(server, "made")["schedules"])
    assert (calendar["cron"], calendar["timezone"]) == ("0 4 * * 1", "UTC")


def test_two_stores_of_one_server_have_different_names(
    typed: Typed, nightly: tuple[Any, ...], tmp_path: Path
) -> None:
    typed(*nightly, "--name", "shared", check=0)
    other = (*nightly[:-1], tmp_path / "other")
    assert f"of the store {tmp_path / 'store'}" in typed(*other, "--name", "shared", check=2).err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--cron", "30 2 * *"), "`cron`"),
        (("--timezone", "Europe/Atlantis"), "`timezone`"),
        (("--budget", "generous"), "`budget`"),
        (("--full-every", "-1"), "`full_every`"),
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
    assert "cannot be changed" in typed(*nightly, "--budget", "spending", check=2).err
    assert read_schedule(Store(tmp_path / "store"), "nightly").budget == "lord"


@pytest.mark.parametrize(
    ("outcome", "verdicts", "code"),
    [
        ("audited", {"sensitive": 2, "clear": 1, "undecided": 1}, 3),
        ("audited", {"sensitive": 0, "clear": 1, "undecided": 1}, 4),
        ("audited", {"sensitive": 0, "clear": 2, "undecided": 0}, 0),
        ("unchanged", {"sensitive": 2, "clear": 1, "undecided": 0}, 3),
        ("unchanged", {"sensitive": 0, "clear": 1, "undecided": 0}, 0),
        ("void", {"sensitive": 2, "clear": 1, "undecided": 0}, 5),
    ],
)
def test_what_a_run_means_to_a_shell(outcome: Any, verdicts: dict[str, int], code: int) -> None:
    run = ScheduledRun(started=NOW, finished=NOW, outcome=outcome, verdicts=verdicts)
    assert _code(run, None) == code
    if code in (0, 3, 4):
        assert _code(run.model_copy(update={"appetite_missed": ()}), None) == 0
        assert _code(run.model_copy(update={"appetite_missed": ("sensitive", "level")}), None) == 3


def test_a_pipeline_may_fail_only_in_the_night_in_which_a_document_turns() -> None:
    run = ScheduledRun(started=NOW, finished=NOW, outcome="audited", verdicts={"sensitive": 2, "undecided": 1})
    turned = run.model_copy(update={"became_sensitive": 1})
    assert (_code(run, ["became-sensitive"]), _code(turned, ["became-sensitive"])) == (0, 3)
    assert (_code(run, ["undecided"]), _code(turned, ["undecided"]), _code(run, ["sensitive"])) == (4, 4, 3)
    assert _code(turned.model_copy(update={"outcome": "void"}), ["became-sensitive"]) == 5
