from datetime import UTC, datetime
from pathlib import Path

from ksdp.audit.verdicts.online import open_budget
from ksdp.flows.schedules.serve import NewRuns, next_level_words, run_line
from ksdp.storage.schedules.schedule_files import ScheduledRun, append_run, check_schedule, write_schedule
from ksdp.storage.store import Store

from ...fences import DOCS

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
RUN = ScheduledRun(
    started=NOW, finished=NOW, outcome="audited", audit="0123456789ab", became_sensitive=2, seconds=3.2,
    documents={"audited": 8}, verdicts={"sensitive": 2, "clear": 5, "undecided": 1},
)  # fmt: skip


def test_a_line_says_what_became_of_a_run() -> None:
    assert run_line("nightly", RUN) == (
        "2026-03-05T12:00:00+00:00 nightly: audited 8 documents, 2 became sensitive; "
        "all: 2 sensitive, 5 clear, 1 undecided (3.2 s)   audit 0123456789ab"
    )
    assert "2 became sensitive (the first audit" in run_line("nightly", RUN.model_copy(update={"number": 1}))
    same = RUN.model_copy(update={"outcome": "unchanged", "audit": None})
    assert run_line("nightly", same).endswith("nightly: unchanged (3.2 s)")
    void = RUN.model_copy(update={"outcome": "void", "reason": "a planted leak was not detected"})
    assert "nightly: void: a planted leak was not detected (3.2 s)" in run_line("nightly", void)


def test_only_runs_that_ended_since_the_last_look_are_told(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    for name in ("nightly", "later"):
        write_schedule(store, check_schedule({"name": name, "spec": "/s", "created": NOW}))
    append_run(store, "nightly", RUN)
    new = NewRuns(store)
    assert new.lines() == []
    append_run(store, "nightly", RUN)
    append_run(store, "later", RUN)
    assert new.lines() == [run_line("later", RUN), run_line("nightly", RUN)]
    assert new.lines() == []


def test_a_level_that_has_become_small_is_said_with_the_runs_that_it_takes(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text('corpus.path = "x.csv"\nmechanism.name = "pd-svd"\n')
    store = Store.open(tmp_path / "store")
    values = {"name": "nightly", "spec": str(tmp_path / "spec.toml"), "created": NOW}
    write_schedule(store, check_schedule(values))
    assert next_level_words(store.root, "nightly") == "level   audit 1 will call documents clear at 0.022"
    budget, said = open_budget("lord", 0.05), []
    for _ in range(9):
        budget = budget.spend(False)
        append_run(store, "nightly", RUN.model_copy(update={"budget": budget.as_dict()}))
        said.append(next_level_words(store.root, "nightly"))
    assert said[0] == "level   audit 2 will call documents clear at 0.0072 (the first: 0.022)"
    assert said[8] == (
        "level   audit 10 will call documents clear at 0.00055 (the first: 0.022), which takes 1.4 times as many "
        "runs as the first (`design.with_runs`)"
    )
    page, budgets = (DOCS / "scheduling.md").read_text(), [open_budget(by, 0.05) for by in ("lord", "spending")]
    for audit in range(1, 366):
        levels = (*(each.next_level for each in budgets), budgets[0].next_clear_level)
        assert audit not in {1, 2, 10, 365} or f"| {audit} | {' | '.join(f'{at:.2g}' for at in levels)} |" in page
        budgets = [each.spend(False) for each in budgets]
