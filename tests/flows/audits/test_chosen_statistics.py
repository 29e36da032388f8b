"""`ksdp test` may name statistics because of what was seen in the same runs: all that were tested there count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.spec.models import parse_spec
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit, run_test


def test_statistics_have_their_part_of_the_level_of_the_audit_that_they_are_added_to(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "x.npz", sp.csr_array(np.random.default_rng(1).poisson(2.0, (40, 9)).astype(float)))
    tables = {
        "corpus": {"path": "x.npz"},
        "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
        "design": {"party_size": 0.5, "with_runs": 20, "fresh_runs": 0},
        "decision": {"level": 0.06, "clear_level": 0.03},
        "statistics": {"families": [], "names": ["w-max", "d-sum", "row-space-energy"]},
    }
    first = run_audit(parse_spec(tables), tmp_path, tmp_path / "store", HERE)
    for names, part in ((("d-sum",), 1 / 3), (("w-max", "d-sum"), 2 / 3), (("w-square-sum", "d-sum"), 1 / 2)):
        again = run_test(tmp_path / "store", first.audit, names, HERE)
        assert set(again.statistics) == set(names)
        assert again.sampled_runs == 0
        rule = again.spec.rule
        assert (rule.level, rule.for_clear) == pytest.approx((0.06 * part, 0.03 * part))
    # A part of a part: what is tested after that is one of all.
    last = run_test(tmp_path / "store", again.audit, ("w-max",), HERE)
    assert last.spec.rule.level == pytest.approx(0.06 / 2 / 3)


def test_statistics_that_are_tested_alone_clear_nobody(tmp_path: Path) -> None:
    """What the others prove of V stands in the audit that they were added to, and the test is the newer one."""
    rows = np.random.default_rng(1).normal(size=(60, 12))
    pd.DataFrame(rows, columns=[f"c{at}" for at in range(12)]).to_parquet(tmp_path / "x.parquet")
    tables = {
        "corpus": {"path": "x.parquet"},
        "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
        "design": {"party_size": 0.5, "with_runs": 150, "fresh_runs": 0},
        "decision": {"margin": 0.35},
    }
    whole = run_audit(parse_spec(tables), tmp_path, tmp_path / "store", HERE)
    assert whole.verdicts.sensitive > 10
    alone = run_test(tmp_path / "store", whole.audit, ("d-max",), HERE)
    assert alone.verdicts.clear == 0
    assert "default columns" in alone.unread[-1]
