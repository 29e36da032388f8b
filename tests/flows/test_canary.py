"""A word that stands in documents alone is found nowhere afterwards: in no file, log, database, page or output."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.audits.sql import ask
from ksdp.storage.store import Store

WORDS = [f"common{a}{b}" for a in "abcde" for b in "abcdef"]
CANARY = "Zyxcanaryqw"
"""In every third text, in upper and lower case letters."""


def inflated(path: Path) -> bytes:
    """What a file holds, and what is packed in it."""
    raw = path.read_bytes()
    parts = [raw]
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        texts = [column for column in table.columns if "string" in str(column.type)]
        parts += [repr(table.schema).encode(), *(repr(column.to_pylist()).encode() for column in texts)]
    elif raw[:2] == b"\x1f\x8b":
        parts.append(gzip.decompress(raw))
    elif zipfile.is_zipfile(io.BytesIO(raw)):
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            parts += [archive.read(name) for name in archive.namelist()]
    elif raw[:15] == b"SQLite format 3":
        with sqlite3.connect(path) as database:
            parts.append("\n".join(database.iterdump()).encode("utf-8", "replace"))
    return b"\n".join(parts)


def pages(store: Store, audit: str) -> list[str]:
    """All that the dashboard shows of it; no text is asked for."""
    origin = "http://127.0.0.1:8700"
    desk = {"actions": Actions(clock=lambda: datetime.now(UTC)), "source": LocalReviewer("Ada")}
    visitor = TestClient(create_app(store, **desk, origins=frozenset({origin})), base_url=origin)
    places = ("/audits", "/queue", "/log", f"/audits/{audit}", f"/audits/{audit}/report.html")
    return [visitor.get(place).text for place in (*places, f"/audits/{audit}/document?id=m0")]


@pytest.mark.e2e
def test_no_text_is_anywhere_and_no_file_is_for_others(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    with (tmp_path / "mail.jsonl").open("w") as file:
        for number in range(90):
            text = " ".join(rng.choice(WORDS, 30)) + (f" {CANARY} {CANARY.lower()}" if number % 3 == 0 else "")
            file.write(json.dumps({"id": f"m{number}", "body": text}) + "\n")
    (tmp_path / "spec.toml").write_text(
        'seed = 3\n[corpus]\npath = "mail.jsonl"\ntext = "body"\nid = "id"\n'
        '[mechanism]\nname = "pd-svd"\nrank = 2\n'
        "[design]\nparty_size = 0.3\nwith_runs = 40\n[decision]\nmargin = 0.3\n"
    )
    store = tmp_path / "store"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_API")}
    environment |= {"PREFECT_HOME": str(tmp_path / "home"), "PREFECT_LOGGING_LEVEL": "DEBUG"}
    said = []
    for asked in (("audit", tmp_path / "spec.toml", "--workers", "1", "--json"), ("list",), ("show", "latest")):
        done = subprocess.run(
            [sys.executable, "-m", "ksdp", *map(str, asked), "--store", str(store)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            umask=0,
        )
        assert done.returncode in (0, 3, 4), done.stderr
        said += [done.stdout, done.stderr]
    assert said[0].startswith("{")
    opened = Store.open(store)
    said += [*pages(opened, opened.audits()[0]), str(ask(opened, opened.audits()[0], "select * from verdicts"))]
    files = [path for path in (*store.rglob("*"), *(tmp_path / "home").rglob("*")) if path.is_file()]
    assert len(files) > 20
    assert not [path for path in store.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    needle = CANARY.lower().encode()
    assert needle in inflated(tmp_path / "mail.jsonl").lower()  # the search finds it where it is
    assert [path for path in files if needle in inflated(path).lower()] == []
    assert not [text for text in said if CANARY.lower() in text.lower()]
