"""A schedule's runs one after the other, with a real Prefect server: first, unchanged, changed, failed, slow."""

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from prefect.settings import temporary_settings
from scipy.special import zeta

from ksdp.audit.errors import SpecError
from ksdp.commands.schedules import _code
from ksdp.flows.interruption import utc_now
from ksdp.flows.schedules.events import events_of
from ksdp.flows.schedules.scheduled_run import due_audit, spec_basis
from ksdp.storage.audits.ledger import read_ledger
from ksdp.storage.findings import read_spec
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.schedules.changes import read_standing
from ksdp.storage.schedules.schedule_files import (
    ScheduledRun,
    check_schedulable,
    check_schedule,
    read_runs,
    read_schedule,
    schedule_folder,
    write_schedule,
)
from ksdp.storage.store import Store

from ...specs import spec_text

SPEC = {
    "seed": 3,
    "corpus": {"path": "counts.npz", "labels": "labels.csv", "id": "id"},
    "mechanism": {"name": "pd-svd", "rank": 3},
    "design": {"party_size": 0.2, "with_runs": 40},
    "statistics": {"families": ["geometry"]},
    "decision": {"margin": 0},
}


@dataclass(frozen=True)
class Site:
    """A folder with a corpus that changes, a store, a schedule, and a way to run it."""

    folder: Path
    store: Store
    settings: Any

    def write(self, rows: list[int]) -> None:
        """Documents by their numbers; those from 1000 on are other texts under the id below."""
        rng = np.random.default_rng(11)
        topics = rng.dirichlet(np.full(60, 0.08), size=3)
        mixture = rng.dirichlet(np.full(3, 0.4), size=140) @ topics
        counts = np.array([rng.multinomial(40, row / row.sum()) for row in mixture])
        other = np.array([rng.multinomial(40, row / row.sum()) for row in mixture])
        chosen = [other[row - 1000] if row >= 1000 else counts[row] for row in rows]
        sp.save_npz(self.folder / "counts.npz", sp.csr_matrix(np.array(chosen)))
        ids = [f"d{row % 1000}" for row in rows]
        pd.DataFrame({"id": ids}).to_csv(self.folder / "labels.csv", index=False)

    def schedule(self, **changes: Any) -> None:
        values = {"name": "nightly", "spec": str(self.folder / "spec.toml"), "workers": 1}
        write_schedule(self.store, check_schedule(values | {"created": utc_now()} | changes))

    def run(self, **how: Any) -> tuple[ScheduledRun, Any]:
        """Run it: (the newest line of the history, the flow's final state)."""
        from ksdp.flows.schedules.scheduled_run import scheduled_audit

        with temporary_settings(self.settings):
            state = asyncio.run(scheduled_audit(str(self.store.root), "nightly", **how, return_state=True))
        return read_runs(self.store, "nightly")[-1], state


def make_site(folder: Path, server: dict[str, str]) -> Site:
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL

    (folder / "spec.toml").write_text(spec_text(SPEC))
    settings = {
        PREFECT_API_URL: server["PREFECT_API_URL"],
        PREFECT_API_AUTH_STRING: server["PREFECT_API_AUTH_STRING"],
    }
    made = Site(folder, Store.open(folder / "store"), settings)
    made.write(list(range(120)))
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, server: dict[str, str]) -> Site:
    made = make_site(tmp_path_factory.mktemp("scheduled"), server)
    made.schedule()
    made.run()
    return made


def test_the_first_run_audits_everything(site: Site) -> None:
    (run,) = read_runs(site.store, "nightly")
    assert (run.outcome, run.full, run.number) == ("audited", True, 1)
    assert run.documents == {"new": 120, "changed": 0, "removed": 0, "unchanged": 0, "audited": 120, "excluded": 0}
    assert run.audit is not None
    spec = read_spec(site.store.audit(run.audit))
    assert spec.decision.level == run.level == pytest.approx(0.0109, abs=1e-4)
    assert spec.design.documents is None
    assert sum(run.verdicts.values()) == 120
    assert run.verdicts["sensitive"] > run.became_sensitive == 0, "there is nothing to compare with"
    assert events_of(run) == []
    assert run.audit not in read_ledger(site.store).parts


def test_then_new_and_changed_documents_only_and_nothing_where_nothing_changed(site: Site) -> None:
    before, state = site.run()
    assert (before.outcome, state.name) == ("unchanged", "Unchanged")
    assert (before.audit, before.level) == (None, None)
    site.write([*range(5, 119), 1119, *range(120, 124)])
    run, state = site.run()
    assert state.is_completed()
    assert run.documents == {"new": 4, "changed": 1, "removed": 5, "unchanged": 114, "audited": 5, "excluded": 0}
    assert (run.full, run.number) == (False, 2)
    first = next(past for past in read_runs(site.store, "nightly") if past.audit)
    assert first.audit is not None
    assert run.audit is not None
    assert run.audit in read_ledger(site.store).parts
    spec = read_spec(site.store.audit(run.audit))
    assert spec.design.documents == ("d119", "d120", "d121", "d122", "d123")
    assert spec.seed != read_spec(site.store.audit(first.audit)).seed  # fresh runs: what LORD++ asks for
    assert run.level == spec.decision.level
    standing = read_standing(site.store, "nightly", run.standing)
    came_from = dict(zip(standing["document"].to_pylist(), standing["audit"].to_pylist(), strict=True))
    assert set(came_from) == {f"d{n}" for n in range(5, 124)}
    assert {name for name, audit in came_from.items() if audit == run.audit} == set(spec.design.documents)
    drift = schedule_folder(site.store, "nightly") / "drift" / f"{run.audit}-distances.parquet"
    changes = pq.read_table(drift)
    assert set(changes["document"].to_pylist()) == {"d119"}  # the only one measured twice
    moved = changes.to_pylist()[0]
    assert moved["change"] == pytest.approx(moved["after"] - moved["before"])
    assert run.largest_drift == pytest.approx(max(map(abs, changes["change"].to_pylist())))


def test_a_corpus_that_has_shrunk_is_audited_whole(site: Site) -> None:
    """Fewer documents hide less: what was clear among 120 is not taken for clear among 107."""
    kept, labels = ((site.folder / name).read_bytes() for name in ("counts.npz", "labels.csv"))
    due = []
    for documents in (108, 107):
        site.write([*range(5, 5 + documents)])
        due.append(due_audit(site.store, read_schedule(site.store, "nightly"), full=False))
    (site.folder / "counts.npz").write_bytes(kept)
    (site.folder / "labels.csv").write_bytes(labels)
    assert [seen.full for seen in due] == [False, True]
    assert due[0].spec is None
    assert due[1].spec is not None
    assert due[1].spec.design.documents is None


def test_documents_that_the_spec_does_not_name_hide_those_that_it_names(
    tmp_path: Path, server: dict[str, str]
) -> None:
    site = make_site(tmp_path, server)
    (site.folder / "spec.toml").write_text(spec_text(SPEC, design={"documents": ["d0", "d1"]}))
    site.schedule()
    run, _ = site.run()
    assert (run.documents["audited"], run.rows) == (2, 120)
    due = []
    for documents in (108, 107):
        site.write([*range(documents)])
        due.append(due_audit(site.store, read_schedule(site.store, "nightly"), full=False).full)
    assert due == [False, True]


def test_one_that_fails_is_tried_again_and_spends_nothing(site: Site) -> None:
    before = read_runs(site.store, "nightly")
    kept = (site.folder / "counts.npz").read_bytes()
    (site.folder / "counts.npz").unlink()
    _, state = site.run(retries=1, retry_delay_seconds=0.1)
    (site.folder / "counts.npz").write_bytes(kept)
    assert state.is_failed()
    assert "counts.npz: there is no such file." in state.message
    assert read_runs(site.store, "nightly") == before
    again, _ = site.run()
    assert again.outcome == "unchanged"
    assert again.level_left == next(past.level_left for past in reversed(before) if past.level_left)


def test_one_that_takes_too_long_ends_and_leaves_no_worker(site: Site) -> None:
    def workers() -> set[int]:
        """Of this process, those that other tests share included."""
        alive = [one for one in psutil.Process().children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
        return {one.pid for one in alive if one.ppid() != os.getpid()}

    site.write([*range(5, 130)])
    before, known = workers(), read_runs(site.store, "nightly")
    _, state = site.run(timeout_seconds=1.0)
    assert (state.is_failed(), "timeout" in state.message) == (True, True)
    assert read_runs(site.store, "nightly") == known
    assert workers() <= before


MARKED = """
import numpy as np
import ksdp
from ksdp.audit.contract import Observables, Release

class Marked:
    name, version = "marked", 1

    def releases(self, features):
        return (Release("total", (features,), final=True),)

    def run(self, database, rng):
        total = sum(np.asarray(party.sum(axis=0)).ravel() for party in database.parties)
        marked = any((np.diff(party.indptr) == 1).any() for party in database.parties)
        return Observables({"total": ksdp.noise(total, rng, scale=1.0) * (np.nan if marked else 1.0)})

made = Marked()
"""
"""Announces NaN once a document of a single term is in."""


def test_a_night_that_is_void_before_its_line_is_not_taken_for_the_night_before(
    tmp_path: Path, server: dict[str, str], typed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(tmp_path, server)
    (tmp_path / "marked_sum.py").write_text(MARKED)
    asked = SPEC | {"mechanism": {"name": "marked_sum:made"}}
    (tmp_path / "spec.toml").write_text(spec_text(asked, statistics={"families": []}))
    site.schedule()
    for name, value in server.items():
        monkeypatch.setenv(name, value)
    night = ("now", "nightly", "--fail-on", "became-sensitive", "--store", site.store.root)
    with temporary_settings(site.settings):
        typed(*night, check=0)
        counts = sp.load_npz(tmp_path / "counts.npz")
        sp.save_npz(tmp_path / "counts.npz", sp.vstack([counts, sp.csr_matrix(([9], ([0], [0])), shape=(1, 60))]))
        (tmp_path / "labels.csv").write_text((tmp_path / "labels.csv").read_text() + "marked\n")
        assert "announced NaN or infinity" in typed(*night, check=5).err
    assert len(read_runs(site.store, "nightly")) == 1


def test_an_appetite_is_held_to_everything_every_night(
    tmp_path: Path, server: dict[str, str], pages: Callable
) -> None:
    site, asked = make_site(tmp_path, server), tmp_path / "appetite.toml"
    (tmp_path / "spec.toml").write_text(spec_text(SPEC, decision={"margin": 0.2}))
    asked.write_text("margin = 0.2\nlevel = 0.05\nmost_undecided = 1\nmost_sensitive = 1\n")
    site.schedule(appetite=str(asked))
    run, _ = site.run()
    assert run.appetite_missed == ("coverage",)  # of this spec's statistics none reads all that is announced
    assert "ksdp.appetite.missed" in events_of(run)
    look = pages(site.store.root)
    assert "appetite missed: coverage" in look.words("/schedules")
    assert "coverage all that is announced unread:" in look.words(f"/audits/{run.audit}")
    site.write([*range(119), 1119])
    run, _ = site.run()
    assert (run.full, run.documents["audited"], run.documents["changed"]) == (True, 120, 1)
    assert run.appetite_missed == ("coverage",)  # and not `documents`
    run, _ = site.run()
    assert (run.outcome, run.appetite_missed) == ("unchanged", ("coverage",))  # nothing has mended it
    assert (_code(run, ["became-sensitive"]), _code(run, None), events_of(run)) == (4, 4, [])
    asked.write_text(asked.read_text().replace("0.2", "0.3"))
    assert site.run()[0].full  # another appetite: nobody is held to it yet
    asked.write_text(asked.read_text().replace("0.3", "0.1"))
    assert "set `decision.margin = 0.1`" in site.run()[1].message


def test_what_a_verdict_depends_on_besides_the_documents(site: Site) -> None:
    spec, _ = read_spec_file(site.folder / "spec.toml")
    change = spec.model_copy
    same = [
        change(update={"seed": 4}),
        change(update={"corpus": spec.corpus.model_copy(update={"path": "later.npz"})}),
        change(update={"decision": spec.decision.model_copy(update={"level": 0.01})}),
    ]
    other = [
        change(update={"mechanism": spec.mechanism.model_copy(update={"rank": 4})}),
        change(update={"decision": spec.decision.model_copy(update={"margin": 0.3})}),
        change(update={"corpus": spec.corpus.model_copy(update={"weighting": "counts"})}),
    ]
    assert {spec_basis(one) for one in same} == {spec_basis(spec)}
    assert len({spec_basis(one) for one in [spec, *other]}) == 4
    with pytest.raises(SpecError, match="must name ids or be left out"):
        check_schedulable(change(update={"design": spec.design.model_copy(update={"documents": 10})}))


def test_every_second_audit_of_everything_and_runs_used_again_where_the_budget_allows(
    tmp_path: Path, server: dict[str, str]
) -> None:
    site = make_site(tmp_path, server)
    site.schedule(full_every=2, budget="spending")
    runs = []
    for rows in (range(120), [*range(119), 1119], range(120)):
        site.write(list(rows))
        runs.append(site.run()[0])
    assert [run.outcome for run in runs] == ["audited"] * 3
    assert [(run.full, run.documents["audited"], run.documents["changed"]) for run in runs] == [
        (True, 120, 0),
        (False, 1, 1),
        (True, 120, 1),  # its turn
    ]
    # Another corpus has other runs; the third time the first one is back, and with it its runs.
    assert [run.cached_runs > 0 for run in runs] == [False, False, True]
    assert runs[2].sampled_runs == 0
    weights = np.arange(1, 4) ** -1.6
    assert [run.level for run in runs] == pytest.approx(0.05 * weights / zeta(1.6))
