"""`ksdp serve` as a person runs it: killed in the middle of a run, started again, paused by Prefect, stopped."""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import StoreError
from ksdp.storage.schedules.schedule_files import read_runs
from ksdp.storage.store import Store

from ...typed import typed

DEPLOYMENT = "ksdp-schedule/nightly"
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
            command("serve", "--store", store.root, "--metrics", "0"),
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


def prefect(store: Store, *arguments: str) -> str:
    """What a command of Prefect prints that is told of the server as `docs/scheduling.md` has it."""
    told = {
        "PREFECT_API_URL": (store.prefect / "serving").read_text() + "/api",
        "PREFECT_API_AUTH_STRING": (store.prefect / "password").read_text().strip(),
    }
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, env=os.environ | told, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def automate(store: Store, url: str) -> None:
    """Let the server that serves a store post which runs have found new sensitive documents."""
    from prefect.blocks.webhook import Webhook
    from prefect.events.actions import CallWebhook
    from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture

    async def ask(client: Any) -> None:
        block = await Webhook(url=url).save("privacy", client=client)
        call = CallWebhook(block_document_id=block, payload="{{ event.payload | tojson }}")
        trigger = EventTrigger(expect={"ksdp.document.turned-sensitive"}, posture=Posture.Reactive)
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


@pytest.mark.e2e
def test_two_nights_of_a_schedule(tmp_path: Path, spec: Callable[..., Path]) -> None:
    """Paused and killed in the first, and started again; one document changes before the second; stopped."""
    given, store = spec("nightly", with_runs=20, families=["geometry"]), Store.open(tmp_path / "store")
    path, corpus = (Path(shutil.copy(given.parent / name, tmp_path)) for name in (given.name, "counts.npz"))
    bare = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    made = command("schedule", path, "--cron", "* * * * *", "--store", store.root)
    subprocess.run(made, env=bare, check=True, timeout=SECONDS)
    with webhook() as (url, posted):
        with served(store) as (process, _):
            until(lambda: any(store.root.glob("audits/*/spec.json")), "the first night's audit to begin")
            (calendar,) = json.loads(prefect(store, "deployment", "schedule", "ls", DEPLOYMENT, "-o", "json"))
            prefect(store, "deployment", "schedule", "pause", DEPLOYMENT, calendar["id"])
            automate(store, url)
            family = process.children(recursive=True)
            process.kill()
            _, alive = psutil.wait_procs(family, timeout=120)
            assert alive == [], [child.cmdline() for child in alive]
        assert read_runs(store, "nightly") == []

        with served(store) as (process, log):
            first = until(lambda: read_runs(store, "nightly"), "the run that was interrupted")[0]
            assert (first.outcome, first.documents["audited"]) == ("audited", 120)
            until(lambda: "nightly: audited" in log.read_text(), "its line in the log")
            until(lambda: posted, "the automation, which outlives the server, to post it")
            assert (posted[0]["schedule"], posted[0]["audit"]) == ("nightly", first.audit)
            with pytest.raises(StoreError, match="is running already"):
                typed("serve", "--store", store.root)

            counts = sp.load_npz(corpus).tolil()
            counts[7, 0] += 3
            sp.save_npz(corpus, sp.csr_array(counts))
            prefect(store, "deployment", "run", DEPLOYMENT)
            until(lambda: read_runs(store, "nightly")[-1].documents["changed"], "the second night")
            second = read_runs(store, "nightly")[-1]
            assert (second.outcome, second.full, second.documents["audited"]) == ("audited", False, 1)

            prefect(store, "deployment", "run", DEPLOYMENT, "--param", "full=true")
            until(lambda: len(list(store.root.glob("audits/*/spec.json"))) > 2, "the audit of everything")
            family = process.children(recursive=True)
            process.terminate()
            assert process.wait(timeout=SECONDS) == 0, log.read_text()
            _, alive = psutil.wait_procs(family, timeout=120)
            assert alive == []

        # What was stopped is taken up, paused or not: a person asked for it.
        with served(store):
            until(lambda: read_runs(store, "nightly")[-1].full, "the run that was stopped")
