"""What a schedule looks at again, besides new and changed documents."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from prefect.states import Failed

from ksdp.audit.errors import CorpusError, InvalidAudit
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.registry import statistics
from ksdp.commands.schedules import _code
from ksdp.flows.interruption import utc_now
from ksdp.flows.schedules.scheduled_run import (
    DueAudit,
    _Attempted,
    _findings,
    _worth_another,
    due_audit,
    spec_basis,
)
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.schedules.changes import write_standing
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, append_run, check_schedule
from ksdp.storage.store import Store

from ...specs import spec_text

LEVERS = {"terms": "terms.txt"}
SPEC = {
    "seed": 3,
    "corpus": {"path": "mail.csv", "text": "body", "id": "id", "vocabulary": "vocabulary.txt", "levers": LEVERS},
    "mechanism": {"name": "pd-svd", "rank": 1},
    "design": {"party_size": 0.3, "with_runs": 10},
}
WORDS = ("apples", "figs", "pears", "plums")


def write(folder: Path, vocabulary: tuple[str, ...] = WORDS, terms: tuple[str, ...] = WORDS[:3]) -> None:
    bodies = [f"{WORDS[n % 4]} and {WORDS[(n + 1) % 4]} and {WORDS[n % 3]}" for n in range(20)]
    pd.DataFrame({"id": [f"d{n}" for n in range(20)], "body": bodies}).to_csv(folder / "mail.csv", index=False)
    (folder / "vocabulary.txt").write_text("\n".join(vocabulary) + "\n")
    (folder / "terms.txt").write_text("\n".join(terms) + "\n")


@pytest.fixture
def schedule(tmp_path: Path) -> Schedule:
    write(tmp_path)
    (tmp_path / "spec.toml").write_text(spec_text(SPEC))
    return check_schedule({"name": "nightly", "spec": str(tmp_path / "spec.toml"), "created": utc_now()})


def stands(store: Store, schedule: Schedule, due: DueAudit, **more: Any) -> None:
    """As if all documents had been audited."""
    columns = {"document": list(due.digests), "digest": list(due.digests.values())}
    same = {"verdict": "clear", "audit": "first", "statistic": "sums", "distance": 0.1, "log10_adjusted_p": 0.0}
    columns |= {name: [value] * len(due.digests) for name, value in same.items()}
    standing = write_standing(store, schedule.name, "first", pa.table(columns))
    about = {"started": utc_now(), "finished": utc_now(), "outcome": "audited"}
    about |= {"seconds": 1.0, "flow_run": "", "reason": None, "standing": standing}
    append_run(store, schedule.name, ScheduledRun.model_validate(about | {"basis": due.basis} | more))


@pytest.mark.parametrize("changed", [{}, {"terms": WORDS[:2]}, {"vocabulary": (*WORDS, "quinces")}])
def test_other_columns_make_everything_due(
    tmp_path: Path, schedule: Schedule, changed: dict[str, tuple[str, ...]]
) -> None:
    """What the files of a spec hold decides what a row is; their names alone had been looked at."""
    store = Store.open(tmp_path / "store")
    first = due_audit(store, schedule, full=False)
    assert first.full
    stands(store, schedule, first)
    write(tmp_path, **changed)
    due = due_audit(store, schedule, full=False)
    assert due.full is bool(changed)
    assert due.changes.changed == ()
    assert (due.spec is not None) is bool(changed)


def test_an_upgrade_of_what_is_run_or_tested_makes_everything_due(
    schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, _ = read_spec_file(Path(schedule.spec))
    bases = {spec_basis(spec)}
    newer: Any = {name: replace(each, version=99) for name, each in statistics().items()}  # type: ignore[type-var]
    with monkeypatch.context() as upgrade:
        upgrade.setattr("ksdp.flows.schedules.scheduled_run.statistics", lambda: newer)
        bases.add(spec_basis(spec))
    monkeypatch.setattr(PDSVD, "version", 99)
    assert len(bases | {spec_basis(spec)}) == 3


def test_an_appetite_that_was_missed_stays_missed_in_a_night_without_an_audit(
    tmp_path: Path, schedule: Schedule
) -> None:
    store = Store.open(tmp_path / "store")
    stands(store, schedule, due_audit(store, schedule, full=False), appetite_missed=("coverage",))
    for _ in range(2):
        due = due_audit(store, schedule, full=False)
        line, _ = _findings(store, schedule, _Attempted(due, None), utc_now())
        run = ScheduledRun(**line, started=utc_now(), finished=utc_now())
        assert (run.outcome, run.appetite_missed) == ("unchanged", ("coverage",))
        assert (_code(run, ["became-sensitive"]), _code(run, None)) == (4, 4)
        append_run(store, schedule.name, run)


def test_a_void_audit_is_not_tried_until_it_is_valid() -> None:
    for error, again in ((InvalidAudit("NaN"), False), (CorpusError("it is being written"), True)):
        assert asyncio.run(_worth_another(None, None, Failed(data=error))) is again
