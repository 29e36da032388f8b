"""A word that stands in documents alone is found nowhere afterwards: in no file, log, database, page or output."""

import gzip
import io
import json
import os
import sqlite3
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from starlette.testclient import TestClient

from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.audits.sql import ask
from ksdp.storage.store import Store

from ..typed import typed

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


def files_with(word: str, *folders: Path) -> list[Path]:
    """Files whose bytes, or what is packed in them, hold a word in whatever letters."""
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 20
    return [path for path in files if word.lower().encode() in inflated(path).lower()]


def write_mail(path: Path) -> None:
    """Ninety texts, every third with the canary."""
    rng = np.random.default_rng(8)
    with path.open("w") as file:
        for number in range(90):
            text = " ".join(rng.choice(WORDS, 30)) + (f" {CANARY} {CANARY.lower()}" if number % 3 == 0 else "")
            file.write(json.dumps({"id": f"m{number}", "body": text}) + "\n")


def test_no_text_is_anywhere_and_no_file_is_for_others(tmp_path: Path) -> None:
    write_mail(tmp_path / "mail.jsonl")
    assert CANARY.lower().encode() in inflated(tmp_path / "mail.jsonl").lower()  # the search finds it where it is
    (tmp_path / "spec.toml").write_text(
        'seed = 3\n[corpus]\npath = "mail.jsonl"\ntext = "body"\nid = "id"\n'
        '[mechanism]\nname = "pd-svd"\nrank = 2\n'
        "[design]\nparty_size = 0.3\nwith_runs = 12\n[decision]\nmargin = 0.3\n"
    )
    store, umask = tmp_path / "store", os.umask(0)
    try:
        asked = (("audit", tmp_path / "spec.toml", "--here", "1", "--json"), ("list",), ("show", "latest"))
        said = [typed(*each, "--store", store).output for each in asked]
    finally:
        os.umask(umask)
    opened = Store.open(store)
    said += [*pages(opened, opened.audits()[0]), str(ask(opened, opened.audits()[0], "select * from verdicts"))]
    assert files_with(CANARY, store) == []
    assert [path for path in store.rglob("*") if path.is_file() and path.stat().st_mode & 0o077] == []
    assert not [text for text in said if CANARY.lower() in text.lower()]
