"""Stores with audits or a schedule in them that nobody had to run."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ksdp.audit.screening.clearance import attempt_of, question_of
from ksdp.audit.specs.models import parse_spec
from ksdp.storage.audits.ledger import record_attempt
from ksdp.storage.codec import write_table_with_checksum
from ksdp.storage.findings import write_summary
from ksdp.storage.schedules.schedule_files import Schedule, check_schedule, write_schedule
from ksdp.storage.store import Store

from ..summaries import example, verdict_table

SPEC = {"corpus": {"path": "mail.parquet"}, "mechanism": {"name": "pd-svd", "rank": 3}}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store")


@pytest.fixture
def audited(store: Store) -> Callable[..., str]:

    def put(
        name: str = "one",
        documents: int = 5,
        *,
        day: int = 1,
        valid: bool = True,
        sensitive: Collection[str] = (),
        **spec: object,
    ) -> str:
        asked = parse_spec(SPEC | spec)
        usual = example()
        finished = replace(usual.provenance, finished=f"2026-02-{day:02}T00:00:00+00:00")
        folder = store.audit(name)
        summary = replace(usual, audit=name, valid=valid, spec=asked, provenance=finished)
        question = question_of(asked, summary.corpus, documents)
        record_attempt(store, attempt_of(asked, name, finished.finished, 50, 1, question=question, given=asked))
        write_summary(folder, summary)
        verdicts = {str(n): "sensitive" if str(n) in sensitive else "clear" for n in range(documents)}
        write_table_with_checksum(folder / "verdicts.parquet", verdict_table(verdicts))
        return name

    return put


@pytest.fixture
def scheduled(store: Store) -> Callable[..., Schedule]:
    """Write a schedule; created on the first of March 2026."""

    def write(**changes: Any) -> Schedule:
        values = {"name": "nightly", "spec": "/spec.toml"}
        schedule = check_schedule(values | {"created": datetime(2026, 3, 1, tzinfo=UTC)} | changes)
        write_schedule(store, schedule)
        return schedule

    return write
