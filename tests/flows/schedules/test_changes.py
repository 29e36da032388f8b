"""What a schedule looks at again, besides new and changed documents."""

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from ksdp.flows.interruption import utc_now
from ksdp.flows.schedules.scheduled_run import DueAudit, due_audit
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


def stands(store: Store, schedule: Schedule, due: DueAudit) -> None:
    """As if all documents had been audited."""
    columns = {"document": list(due.digests), "digest": list(due.digests.values())}
    same = {"verdict": "clear", "audit": "first", "statistic": "sums", "distance": 0.1, "log10_adjusted_p": 0.0}
    columns |= {name: [value] * len(due.digests) for name, value in same.items()}
    standing = write_standing(store, schedule.name, "first", pa.table(columns))
    about = {"started": utc_now(), "finished": utc_now(), "outcome": "audited"}
    about |= {"seconds": 1.0, "flow_run": "", "reason": None, "standing": standing}
    append_run(store, schedule.name, ScheduledRun.model_validate(about | {"basis": due.basis}))


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
