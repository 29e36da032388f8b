"""Stores with audits in them that nobody had to run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ksdp.audit.spec import parse_spec
from ksdp.storage.store import Store, write_json

SPEC = {"corpus": {"path": "mail.parquet"}, "mechanism": {"name": "pd-svd", "rank": 3}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def audited(store: Store) -> Callable[..., str]:
    """Put a finished audit into the store."""

    def put(name: str = "one", documents: int = 5, *, day: int = 1, valid: bool = True, **spec: object) -> str:
        asked = parse_spec(SPEC | spec)
        summary = {
            "audit": name,
            "valid": valid,
            "spec": json.loads(asked.model_dump_json()),
            "provenance": {"finished": f"2026-02-{day:02}T00:00:00+00:00"},
        }
        folder = store.audit(name)
        write_json(folder / "audit.json", summary)
        pq.write_table(pa.table({"document": [str(n) for n in range(documents)]}), folder / "verdicts.parquet")
        return name

    return put
