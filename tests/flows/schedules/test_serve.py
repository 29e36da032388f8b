"""`ksdp serve` as a person runs it: killed in the middle of a run, started again, paused on pages, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.events.filters import EventFilter, EventNameFilter
from prefect.states import Cancelling

from ksdp.audit.errors import StoreError
from ksdp.flows.interruption import utc_now
from ksdp.flows.schedules.serve import being_served
from ksdp.storage.schedules.schedule_files import (
    check_schedule,
    interrupted,
    read_runs,
    read_schedule,
    remove_schedule,
    running,
    write_schedule,
)
from ksdp.storage.store import Store

from ...clearances import signed_copy
from ...typed import typed

SECONDS = 400.0


def until(true: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            if found := true():
                return found
        time.sleep(0.05)
    raise AssertionError(f"waited {SECONDS:.0f} s in vain for {what}")


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ksdp", *map(str, arguments)]


@contextlib.contextmanager
def served(store: Store) -> Iterator[tuple[psutil.Process, Path]]:
    """`ksdp serve` on this store, with a Prefect server of its own: (its process, its log)."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    log = store.root.parent / f"serve-{time.monotonic_ns()}.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command("serve", "--store", store.root, "--metrics-port", "0"),
            env=environment,
            stderr=output,
            stdout=output,
        )
    try:
        yield psutil.Process(process.pid), log
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def api(store: Store, ask: Callable[[Any], Any]) -> Any:
    """Ask the server that serves a store, as Prefect's pages do."""
    from prefect.client.orchestration import get_client
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    settings = {
        PREFECT_API_URL: (store.prefect / "serving").read_text() + "/api",
        PREFECT_API_AUTH_STRING: (store.prefect / "password").read_text().strip(),
    }

    async def asked() -> Any:
        async with get_client() as client:
            return await ask(client)

    with temporary_settings(settings):
        return asyncio.run(asked())


def states(store: Store) -> list[str]:
    async def ask(client: Any) -> list[str]:
        runs = await client.read_flow_runs(limit=100)
        wanted = [run for run in runs if run.deployment_id is not None and not run.state.is_scheduled()]
        return sorted(f"{run.state.type.value} {run.state.name}" for run in wanted)

    return list(api(store, ask))


def events(store: Store) -> set[tuple[str, str]]:
    """(name, resource) of those of ksdp that automations could have triggered on."""

    async def ask(client: Any) -> set[tuple[str, str]]:
        page = await client.read_events(EventFilter(event=EventNameFilter(prefix=["ksdp."])), limit=50)
        return {(one.event, one.resource.id) for one in page.events}

    return set(api(store, ask))


def automate(store: Store, url: str) -> None:
    """Let the server that serves a store post what missed runs come to, as a person does on its pages."""
    from prefect.blocks.webhook import Webhook
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

    async def ask(client: Any) -> None:
        block = await Webhook(url=url).save("privacy", client=client)
        call = CallWebhook(block_document_id=block, payload="{{ event.payload | tojson }}")
        trigger = EventTrigger(expect={"ksdp.schedule.missed"}, posture=Posture.Reactive)
        await client.create_automation(AutomationCore(name="tell", trigger=trigger, actions=[call]))

    api(store, ask)


@contextlib.contextmanager
def webhook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An HTTP server: (its address, what was posted)."""
    got: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", got
        server.shutdown()


@pytest.fixture
def store(tmp_path: Path, spec: Callable[..., Path]) -> Store:
    """A store whose only schedule was due three times while nobody served it."""
    made = Store.open(tmp_path / "store")
    now = utc_now()
    hour = (now - timedelta(hours=2)).hour  # far from the next time, whenever this test runs
    values = {
        "name": "nightly",
        "spec": str(spec("served", with_runs=20, families=["geometry"])),
        "cron": f"0 {hour} * * *",
    }
    values |= {"created": now - timedelta(days=3), "workers": 1, "retries": 2, "backoff": 1.0}
    write_schedule(made, check_schedule(values))
    return made


@pytest.mark.e2e
def test_killed_and_started_again_it_runs_once_what_was_missed(store: Store, spec: Callable[..., Path]) -> None:
    with webhook() as hook:
        _run_once_what_was_missed(store, spec, *hook)


def _run_once_what_was_missed(
    store: Store, spec: Callable[..., Path], url: str, posted: list[dict[str, Any]]
) -> None:
    with served(store) as (process, _):
        mark = until(lambda: running(store, "nightly"), "the run to begin")
        automate(store, url)
        assert being_served(store)
        family = process.children(recursive=True)
        process.kill()
        gone, alive = psutil.wait_procs(family, timeout=120)
        assert alive == [], [child.cmdline() for child in alive]
        assert gone
    assert not being_served(store)
    assert read_runs(store, "nightly") == []
    signed = signed_copy(store, expires=utc_now())
    assert interrupted(store, "nightly") == mark

    with served(store) as (process, log):
        (run,) = until(lambda: read_runs(store, "nightly"), "the run that was interrupted")
        assert (run.outcome, run.missed, run.planned) == ("audited", 2, mark.planned)
        until(lambda: "nightly: audited" in log.read_text(), "its line in the log")
        until(lambda: "COMPLETED Completed" in states(store), "its flow to end")
        assert states(store).count("COMPLETED Completed") == 1
        assert "CRASHED Crashed" in states(store)  # the killed one is no zombie
        told = {("ksdp.schedule.missed", "ksdp.schedule.nightly")}
        told |= {("ksdp.clearance.expired", f"ksdp.clearance.{signed}")}
        until(lambda: told <= events(store), "the events")
        until(lambda: posted, "the automation, which outlives the server, to post it")
        assert [(one["schedule"], one["missed"], one["audit"]) for one in posted] == [("nightly", 2, run.audit)]

        # A person asks for a run; nothing has changed.
        typed("now", "nightly", "--store", store.root)
        until(lambda: len(read_runs(store, "nightly")) == 2, "the run that was asked for")
        assert read_runs(store, "nightly")[1].outcome == "unchanged"

        # Paused on Prefect's pages, resumed by the command: the file and the pages agree.
        def deployments(client: Any) -> Any:
            return client.read_deployments()

        (deployment,) = api(store, deployments)
        assert deployment.schedules == []  # the store is the calendar
        api(store, lambda client: client.pause_deployment(deployment.id))
        until(lambda: read_schedule(store, "nightly").paused, "the store to hear of the pause")
        typed("resume", "nightly", "--store", store.root)
        until(lambda: not api(store, deployments)[0].paused, "Prefect to hear of the resumption")

        # Cancelled on Prefect's pages (too long an audit to end before it hears of that): not taken up again.
        endless = spec("endless", with_runs=60_000, families=["geometry"])
        write_schedule(store, read_schedule(store, "nightly").model_copy(update={"spec": str(endless)}))
        typed("now", "nightly", "--full", "--store", store.root)
        mark = until(lambda: running(store, "nightly"), "the run of everything")
        api(store, lambda client: client.set_flow_run_state(mark.flow_run, Cancelling()))
        until(lambda: len(read_runs(store, "nightly")) == 3, "the cancelled run's line")
        assert read_runs(store, "nightly")[2].outcome == "cancelled"
        until(lambda: running(store, "nightly") is None, "its mark to go, after the line is written")

        # Another `ksdp serve` is refused; the listing says when it runs next.
        with pytest.raises(StoreError, match="is running already"):
            typed("serve", "--store", store.root)
        said = json.loads(typed("schedules", "--json", "--store", store.root).stdout)
        assert said["served"]
        assert datetime.fromisoformat(said["schedules"][0]["next"][0]) > utc_now()
        assert said["schedules"][0]["last"]["outcome"] == "cancelled"

        # Schedules come and go while it runs.
        write_schedule(store, read_schedule(store, "nightly").model_copy(update={"name": "other"}))
        until(lambda: len(api(store, deployments)) == 2, "the other deployment")
        remove_schedule(store, "other")
        until(lambda: len(api(store, deployments)) == 1, "the deployment to go")

        # Stopped in the middle of a run: no crash, nothing lost, nothing left behind.
        typed("now", "nightly", "--full", "--store", store.root)
        until(lambda: running(store, "nightly"), "the run to stop")
        family = process.children(recursive=True)
        process.terminate()
        assert process.wait(timeout=SECONDS) == 0, log.read_text()
        _, alive = psutil.wait_procs(family, timeout=120)
        assert alive == []
        left, runs = interrupted(store, "nightly"), read_runs(store, "nightly")
        if left is None:  # Prefect gives a run half a minute to end: it came to its own end first
            assert (len(runs), runs[-1].outcome, runs[-1].full) == (4, "audited", True), log.read_text()
        else:
            assert (len(runs), left.stopped, left.full) == (3, True, True)
