"""The page "Runs": what a party took part in, from what is kept of it."""

import html
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.runs.results import keep_party_run
from ksdp.storage.store import Store

ORIGIN = "http://127.0.0.1:8700"


def words(store: Store, address: str = "/runs") -> str:
    source = {"source": LocalReviewer("Ada"), "origins": frozenset({ORIGIN})}
    app = create_app(store, actions=Actions(clock=lambda: datetime.now(UTC)), **source)
    got = TestClient(app, base_url=ORIGIN).get(address)
    assert got.status_code == 200
    assert not re.search(r"\sstyle=|\son[a-z]+=", got.text)
    return " ".join(
        html.unescape(re.sub(r"<(script|head)[^>]*>.*?</\1>|<[^>]+>", " ", got.text, flags=re.S)).split()
    )


def run(session: str, **changes: Any) -> dict[str, Any]:
    said = {
        "session": session * 64,
        "me": "ada",
        "finished": "2026-06-01T10:00:00+00:00",
        "seconds": 75.0,
        "mechanism": {"name": "pd-nmf", "version": 2, "rank": 7},
        "agreement": "a" * 64,
        "result": "b" * 64,
        "parties": {"ada": {"cleared": True}, "bob": {"cleared": False}, "<b>cyd": {"cleared": True}},
        "server": None,
        "documents": 5207,
        "of": 5300,
        "clearance": {"signer": "139e-3940", "checked": []},
        "opens": "every round",
        "rounds": 143,
        "bytes": {"sent": 2_735_572, "received": 2_735_999},
        "claimed": None,
        "guarantee": {"sound": True},
    }
    return said | changes


def test_runs_are_listed_with_who_what_how_much_and_at_what_cost(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    assert "No run is kept in this store yet" in words(store)
    keep_party_run(store, run("1"), "")
    noisy = {"claimed": {"epsilon": 1.0, "delta": 1e-5}, "clearance": None, "server": "hub"}
    keep_party_run(store, run("2", **noisy), "2 runs in all.")
    os.utime(store.root / "party-runs" / f"{'1' * 64}.json", (1, 1))
    (store.root / "party-runs" / f"{'3' * 64}.json").write_text("{}")
    os.utime(store.root / "party-runs" / f"{'3' * 64}.json", (2, 2))
    said = words(store)
    assert "2 runs in all." in said
    assert said.index("2" * 16) < said.index("1" * 16), "the newest first"
    assert "What is kept of 1 run is damaged" in said
    assert said.count("3" * 16) == 1, "one that cannot be read is named, and not shown"
    for shown in (
        "ada (here), bob uncleared , <b>cyd",
        "5,207 of 5,300",
        "signed by 139e-3940",
        "143",
        "2,736",
        "1 min 15 s",
        "measured, not promised",
        "epsilon 1.00 at delta 1e-05",
        "server hub",
    ):
        assert shown in said, shown
