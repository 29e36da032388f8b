"""More runs from the dashboard: queued, killed, started again, done. The real command in a process of its own."""

import html
import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from ksdp.audit.errors import InputError, StoreError
from ksdp.commands.reviews import _actions
from ksdp.dashboards.app import create_app
from ksdp.dashboards.security import LocalReviewer
from ksdp.flows.audits.run import one_at_a_time
from ksdp.flows.reviews import WantedRuns, more_runs
from ksdp.storage.audits.continuation import read_progress
from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.store import Store

ORIGIN = "http://127.0.0.1:8700"
OURS = {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}


def dashboard(store: Path, *, start: bool = True) -> TestClient:
    opened = Store.open(store, create=False)
    actions = _actions(opened, None, start)
    app = create_app(opened, actions=actions, source=LocalReviewer("Ana"), origins=frozenset({ORIGIN}))
    return TestClient(app, base_url=ORIGIN)


def words(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def want(client: TestClient, audit: str, document: str) -> str:
    form = {"document": document, "saw": "0", "decision": "more-runs", "reason": "close"}
    back = {"back": f"/audits/{audit}/document?id={document}"}
    got = client.post(f"/audits/{audit}/decisions", data=form | back, headers=OURS)
    assert got.status_code == 200, got.text
    return words(got.text)


def until(client: TestClient, audit: str, wanted: str, seconds: float = 600.0) -> tuple[str, set[str]]:
    """The progress once it says so, and every state that was seen on the way."""
    seen, end = set(), time.monotonic() + seconds
    while time.monotonic() < end:
        part = client.get(f"/audits/{audit}/more-runs?part=1").text
        seen.add(re.search(r'data-more-runs="(\w*)"', part)[1])  # type: ignore[index]
        if wanted in words(part):
            return part, seen
        time.sleep(0.05)
    raise AssertionError(words(part))


def test_more_runs_from_a_form_to_the_audit_that_continues(
    audited: tuple[Path, str],
    decided: Path,
    kinds: dict[str, list[str]],
    server: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    client, audit, store = dashboard(decided), audited[1], Store.open(decided, create=False)
    first, second = kinds["undecided"][:2]
    with one_at_a_time(decided):
        want(client, audit, first)
        part, seen = until(client, audit, "Another audit is running in this store")
        assert seen <= {"starting", "waiting"}
        assert f'data-poll="/audits/{audit}/more-runs?part=1"' in part
        assert "<button>" not in part
        said = read_progress(store, audit)
        assert said is not None
        with pytest.raises(StoreError, match="continued already"):
            more_runs(decided, audit)
        # It dies: nobody is told it goes on, and a person starts it again.
        os.kill(said["process"], signal.SIGKILL)
        part, _ = until(client, audit, "interrupted")
        assert "data-poll" not in part
        for page in (f"/audits/{audit}", f"/queue?audit={audit}", f"/audits/{audit}/document?id={first}"):
            assert "Start again" in words(client.get(page).text)
        client.post(f"/audits/{audit}/more-runs", data={}, headers=OURS)
        until(client, audit, "Another audit is running in this store")
        assert "queued" in want(client, audit, second)
    part, seen = until(client, audit, "More runs are done")
    assert "failed" not in seen
    done = read_progress(store, audit)
    assert (done["state"], done["documents"]) == ("done", 2)
    assert done["runs"] >= 512
    assert f'href="/audits/{done["audit"]}"' in part
    assert "<button>" not in part
    page = client.get(f"/audits/{audit}/document?id={first}").text
    assert f"/audits/{done['audit']}/document?id={first}" in page
    assert f"It continues audit {audit} with more runs" in words(client.get(f"/audits/{done['audit']}").text)
    assert client.post(f"/audits/{audit}/more-runs", data={}, headers=OURS).status_code == 400
    assert [(entry.reviewer, entry.document) for entry in read_log(store)] == [("Ana", first), ("Ana", second)]


def test_where_nothing_may_be_started_the_command_is_named(
    audited: tuple[Path, str], decided: Path, kinds: dict[str, list[str]]
) -> None:
    client, audit = dashboard(decided, start=False), audited[1]
    assert client.post(f"/audits/{audit}/more-runs", data={}, headers=OURS).status_code == 400
    assert "No decision asks for more runs" in words(client.get(f"/audits/{audit}/more-runs").text)
    assert f"ksdp more-runs {audit} runs them" in want(client, audit, kinds["undecided"][0])
    assert read_progress(Store(decided), audit) is None
    page = client.get(f"/queue?audit={audit}").text
    assert "which are not started yet" in words(page)
    assert f'action="/audits/{audit}/more-runs"' not in page


def test_a_failure_is_told_with_its_reason(
    audited: tuple[Path, str], decided: Path, kinds: dict[str, list[str]]
) -> None:
    client, audit = dashboard(decided, start=False), audited[1]
    want(client, audit, kinds["undecided"][0])
    shutil.rmtree(decided / "corpora")
    with pytest.raises(StoreError) as refused:
        more_runs(decided, audit)
    assert f"More runs failed: {refused.value}" in words(client.get(f"/audits/{audit}/more-runs").text)
    with pytest.raises(InputError, match="has no document 'nobody'"):
        more_runs(decided, audit, WantedRuns(("nobody",)))
