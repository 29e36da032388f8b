"""`ksdp test` may name statistics because of what was seen in the same runs: it has no verdict."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec
from ksdp.dashboards.audits.audit_model import read_audit_model
from ksdp.dashboards.audits.report import render_report
from ksdp.dashboards.audits.result import audit_result
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit, run_test
from ksdp.flows.prepare import open_spec
from ksdp.storage.findings import read_verdicts


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], Summary]:
    """A folder with a store, the spec, and its audit."""
    folder = tmp_path_factory.mktemp("chosen")
    rows = np.random.default_rng(1).normal(size=(60, 12))
    pd.DataFrame(rows, columns=[f"c{at}" for at in range(12)]).to_parquet(folder / "x.parquet")
    tables = {
        "corpus": {"path": "x.parquet"},
        "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
        "design": {"party_size": 0.5, "with_runs": 100, "fresh_runs": 0},
        "statistics": {"families": [], "names": ["d-sum", "row-space-energy"]},
        "decision": {"margin": 0.3},
    }
    return folder, tables, run_audit(open_spec(parse_spec(tables), folder), folder / "store", HERE)


@pytest.fixture
def tables(audited: tuple[Path, dict[str, Any], Summary], tmp_path: Path) -> dict[str, Any]:
    """The spec; corpus and store are copied beside the test."""
    shutil.copytree(audited[0], tmp_path, dirs_exist_ok=True)
    return dict(audited[1])


@pytest.fixture
def first(audited: tuple[Path, dict[str, Any], Summary]) -> Summary:
    return audited[2]


@pytest.mark.usefixtures("tables")
def test_what_is_named_after_looking_decides_nothing(first: Summary, tmp_path: Path) -> None:
    store = tmp_path / "store"
    again = run_test(store, first.audit, ("row-space-energy", "w-max"), HERE)
    assert again.sampled_runs == 0
    assert again.statistics["row-space-energy"].max_D == first.statistics["row-space-energy"].max_D
    assert (again.verdicts.sensitive, again.verdicts.clear, again.detected) == (0, 0, 0)
    assert first.verdicts.sensitive > 0, "the same column decides where it was named before"
    assert not any(statistic.sensitive for statistic in again.statistics.values())
    verdicts = read_verdicts(store / "audits" / again.audit).to_pandas()
    assert set(verdicts["verdict"]) == {"undecided"}
    assert not verdicts["detected"].any()
    assert "named after the runs had been seen" in Path(again.report).read_text(encoding="utf-8")


def test_a_verdict_by_an_explored_statistic_takes_fresh_runs(
    tables: dict[str, Any], first: Summary, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    run_test(store, first.audit, ("d-sum", "w-max"), HERE)
    named = {**tables, "statistics": {"families": [], "names": ["w-max", "row-space-energy"]}}
    for kept in ({}, {"observables": "all"}, {"precision": "float64"}):
        with pytest.raises(SpecError, match=r"explored with w-max .*another `seed`"):
            run_audit(open_spec(parse_spec({**named, "store": kept}), tmp_path), store, HERE)
    assert run_audit(open_spec(parse_spec({**named, "seed": 5}), tmp_path), store, HERE).sampled_runs > 0
    before = run_audit(open_spec(parse_spec(tables), tmp_path), store, HERE)
    assert before.audit == first.audit, "it was asked before"


@pytest.mark.learns
def test_what_is_always_measured_was_not_chosen_by_looking(
    tables: dict[str, Any], first: Summary, tmp_path: Path
) -> None:
    """The learnt statistic is: a test of another one takes no default audit of these runs away."""
    store = tmp_path / "store"
    assert "simulated" in run_test(store, first.audit, ("w-max",), HERE).statistics
    other = parse_spec({**tables, "decision": {"margin": 0.9}})
    later = run_audit(open_spec(other, tmp_path), store, HERE)
    assert (later.sampled_runs, later.audit != first.audit) == (0, True)
    assert later.statistics == run_audit(open_spec(other, tmp_path), tmp_path / "fresh", HERE).statistics


def test_who_knows_the_pool_is_measured_beside_who_does_not(tables: dict[str, Any], tmp_path: Path) -> None:
    rows = np.random.default_rng(2).normal(size=(60, 12))
    pd.DataFrame(rows, columns=[f"c{at}" for at in range(12)]).to_parquet(tmp_path / "x.parquet")
    tables |= {"statistics": {"families": [], "names": ["row-space-energy"]}}
    design = {"party_size": 12, "with_runs": 12, "fresh_runs": 0}
    asked, store = tables | {"design": design | {"pool": 24}}, tmp_path / "pools"
    knows = run_audit(open_spec(parse_spec(asked), tmp_path), store, HERE)
    assert "The same spec without" in Path(knows.report).read_text(encoding="utf-8")
    assert read_audit_model(audit_result(knows)).without_pool is None
    run_audit(open_spec(parse_spec(tables | {"design": design, "seed": 9}), tmp_path), store, HERE)
    assert read_audit_model(audit_result(knows)).without_pool is None, "of another seed"
    less = run_audit(open_spec(parse_spec(tables | {"design": design}), tmp_path), store, HERE)
    documents, here, there = read_audit_model(audit_result(knows)).without_pool
    assert (knows.documents, less.documents, documents) == (24, 60, 24)
    verdicts = [read_verdicts(store / "audits" / one.audit).to_pandas() for one in (knows, less)]
    both = verdicts[0].merge(verdicts[1], on="document")
    assert (here, there) == (both.distance_x.median(), both.distance_y.median())
    assert there < here
    assert "knows the pool" in render_report(audit_result(knows))
