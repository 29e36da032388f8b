"""What Prometheus scrapes, from a real port."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError
from ksdp.flows.interruption import utc_now
from ksdp.flows.metrics_port import serve_metrics
from ksdp.flows.schedules.serve import ScheduleMetrics
from ksdp.storage.schedules.schedule_files import ScheduledRun, append_run, check_schedule, write_schedule
from ksdp.storage.store import Store

from ..scraped import scrape


def run(finished: datetime, **about: object) -> ScheduledRun:
    return ScheduledRun.model_validate({"started": finished, "finished": finished} | about)


def test_metrics_follow_the_store(tmp_path: Path) -> None:
    store, now = Store.open(tmp_path / "store"), utc_now()
    with serve_metrics(ScheduleMetrics(store), "0") as url:
        assert scrape(url) == {}
        values = {"spec": "/s", "created": now - timedelta(hours=2)}
        write_schedule(store, check_schedule(values | {"name": "quiet"}))
        write_schedule(store, check_schedule(values | {"name": "mail"}))
        append_run(
            store,
            "mail",
            run(
                now - timedelta(minutes=30),
                outcome="audited",
                verdicts={"sensitive": 2, "clear": 7, "undecided": 1},
                became_sensitive=2,
                largest_d=0.75,
                seconds=12.5,
                level_left=0.03,
            ),
        )
        append_run(store, "mail", run(now - timedelta(minutes=20), outcome="void", reason="no"))
        found = scrape(url)
    assert found[("ksdp_scheduled_runs_total", "audited", "mail")] == 1
    assert found[("ksdp_scheduled_runs_total", "mail", "void")] == 1
    assert found[("ksdp_documents", "clear", "mail")] == 7
    assert found[("ksdp_largest_d", "mail")] == 0.75
    assert found[("ksdp_audit_seconds", "mail")] == 12.5
    assert found[("ksdp_level_left", "mail")] == 0.03
    assert found[("ksdp_level_left", "quiet")] == 0.05
    assert found[("ksdp_seconds_since_success", "mail")] == pytest.approx(1800, abs=60)
    assert found[("ksdp_seconds_since_success", "quiet")] == pytest.approx(7200, abs=60)
    assert ("ksdp_largest_d", "quiet") not in found
    assert datetime.fromtimestamp(found[("ksdp_last_success_timestamp_seconds", "mail")], UTC) < now


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(InputError, match=f"`--metrics` {port} cannot be used"),
            serve_metrics(ScheduleMetrics(Store.open(tmp_path / "store")), str(port)),
        ):
            pass
