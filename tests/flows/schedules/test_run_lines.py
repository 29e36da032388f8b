from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from ksdp.flows.schedules.deployments import NewRuns, run_line
from ksdp.storage.schedules.schedule_files import ScheduledRun, append_run
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
RUN = ScheduledRun(
    planned=NOW, started=NOW, finished=NOW, outcome="audited", audit="0123456789ab",
    became_sensitive=2, seconds=3.2, documents={"audited": 8},
    verdicts={"sensitive": 2, "clear": 5, "undecided": 1},
)  # fmt: skip


def test_a_line_says_what_became_of_a_run() -> None:
    assert run_line("nightly", RUN) == (
        "2026-03-05T12:00:00+00:00 nightly: audited 8 documents, 2 became sensitive; "
        "all: 2 sensitive, 5 clear, 1 undecided (3.2 s)   audit 0123456789ab"
    )
    same = RUN.model_copy(update={"outcome": "unchanged", "audit": None, "missed": 2})
    assert run_line("nightly", same).endswith("nightly: unchanged; makes up for 2 missed (3.2 s)")
    failed = RUN.model_copy(update={"outcome": "failed", "audit": None, "reason": "no file"})
    assert run_line("nightly", failed).endswith("nightly: failed: no file (3.2 s)")


def test_as_json_it_is_one_object() -> None:
    said = json.loads(run_line("nightly", RUN, as_json=True))
    assert (said["schedule"], said["outcome"], said["documents"]) == ("nightly", "audited", {"audited": 8})
    assert "\n" not in run_line("nightly", RUN, as_json=True)


def test_only_runs_that_ended_since_the_last_look_are_told(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    append_run(store, "nightly", RUN)
    new = NewRuns(store)
    assert new.of("nightly") == []
    append_run(store, "nightly", RUN)
    assert new.of("nightly") == [RUN]
    assert new.of("nightly") == []
