"""`ksdp test` may name statistics because of what was seen in the same runs: it has no verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.spec.models import parse_spec
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit, run_test
from ksdp.storage.findings import read_verdicts


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, Any]:
    rows = np.random.default_rng(1).normal(size=(60, 12))
    pd.DataFrame(rows, columns=[f"c{at}" for at in range(12)]).to_parquet(tmp_path / "x.parquet")
    return {
        "corpus": {"path": "x.parquet"},
        "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
        "design": {"party_size": 0.5, "with_runs": 100, "fresh_runs": 0},
        "statistics": {"families": [], "names": ["d-sum", "row-space-energy"]},
        "decision": {"margin": 0.3},
    }


def test_what_is_named_after_looking_decides_nothing(tables: dict[str, Any], tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = run_audit(parse_spec(tables), tmp_path, store, HERE)
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


def test_a_verdict_by_an_explored_statistic_takes_fresh_runs(tables: dict[str, Any], tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = run_audit(parse_spec(tables), tmp_path, store, HERE)
    run_test(store, first.audit, ("d-sum", "w-max"), HERE)
    named = {**tables, "statistics": {"families": [], "names": ["w-max", "row-space-energy"]}}
    with pytest.raises(SpecError, match=r"explored with w-max .*another `seed`"):
        run_audit(parse_spec(named), tmp_path, store, HERE)
    assert run_audit(parse_spec({**named, "seed": 5}), tmp_path, store, HERE).sampled_runs > 0
    assert run_audit(parse_spec(tables), tmp_path, store, HERE).audit == first.audit, "it was asked before"


def test_what_is_always_measured_was_not_chosen_by_looking(tables: dict[str, Any], tmp_path: Path) -> None:
    """The learnt statistic is: a test of another one takes no default audit of these runs away."""
    store = tmp_path / "store"
    first = run_audit(parse_spec(tables), tmp_path, store, HERE)
    assert "simulated" in run_test(store, first.audit, ("w-max",), HERE).statistics
    other = parse_spec({**tables, "decision": {"margin": 0.29}})
    assert run_audit(other, tmp_path, store, HERE).audit != first.audit
