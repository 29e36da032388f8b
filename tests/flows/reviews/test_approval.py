"""The flow that waits for people, under a real server."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from ksdp.flows.reviews import decide, undecided_documents
from ksdp.flows.screening.clear import verify_log
from ksdp.storage.clearances import verify_clearance
from ksdp.storage.keys import load_public, make_identity
from ksdp.storage.store import Store


def asked(server: dict[str, str], what: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    user, password = server["PREFECT_API_AUTH_STRING"].split(":")
    with httpx.Client(base_url=server["PREFECT_API_URL"], auth=(user, password)) as client:
        return list(client.post(f"/{what}/filter", json=body).json())


def until(true: Callable[[], Any], seconds: float = 600) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)
    return found


def test_it_waits_until_every_sensitive_document_is_decided(
    server: dict[str, str], spec: Callable[..., Path], ksdp: Callable, tmp_path: Path
) -> None:
    store, clearance = tmp_path / "store", tmp_path / "clearance.json"
    make_identity(tmp_path, "ana")
    command = [
        *("clear", str(spec("approval")), "--store", str(store), "--dask", "1"),
        *("--clearance", str(clearance), "--key", str(tmp_path / "ana.key"), "--who", "Ana"),
    ]
    late = ksdp(*command, "--hours", "0.0001", check=1)
    assert "got no decision in time" in late.err
    assert not clearance.exists()
    (audit,) = Store(store).audits()
    running = subprocess.Popen(
        [sys.executable, "-m", "ksdp", *command, "--hours", "1"],
        env=os.environ | server,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    key = {"artifacts": {"key": {"any_": [f"approval-{audit}"]}}, "sort": "CREATED_DESC"}
    (first,) = until(lambda: found if len(found := asked(server, "artifacts", key)) == 1 else None)
    _, waiting = undecided_documents(store, audit)
    assert waiting
    assert f"Audit {audit} waits for decisions" in first["data"]
    assert f"- `{waiting[0]}`" in first["data"]
    now = datetime.now(UTC)
    decide(store, audit, waiting[:1], "accept", "small", "Ana", now)
    decide(store, audit, waiting[1:], "exclude", "too much", "Ana", now)
    assert undecided_documents(store, audit) == (audit, [])
    _, err = running.communicate(timeout=600)
    assert running.returncode == 0, err
    verified = verify_clearance(
        clearance, now=datetime.now(UTC) + timedelta(seconds=1), public_key=load_public(tmp_path / "ana.pub")
    ).clearance
    assert verified.allows(waiting[:2]).tolist() == [True, False]
    assert verify_log(store, [clearance])["whole"]
    assert "is decided" in asked(server, "artifacts", key)[0]["data"]
    runs = {"flow_runs": {"id": {"any_": [first["flow_run_id"]]}}}
    (flow_run,) = asked(server, "flow_runs", runs)
    assert (flow_run["name"], flow_run["state_type"]) == (f"approval {audit}", "COMPLETED")
