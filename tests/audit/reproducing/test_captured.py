"""DPdisPCA's curves on a small synthetic set."""

from __future__ import annotations

import numpy as np

from ksdp.audit.reproducing.captured import SITES, CurvePoints, captured, captured_outcome, synthetic


def test_synthetic_rows_have_norm_one_at_most_and_the_stated_spectrum() -> None:
    rows = synthetic(4000, 0, features=50)
    assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-12
    values = np.linalg.eigvalsh(rows.T @ rows)[::-1]
    assert 0.8 < np.log(values[0] / values[25]) < 1.2


def test_more_epsilon_and_more_rows_capture_more() -> None:
    rows = synthetic(20_000, 1, features=20)
    found = captured(rows, 3, CurvePoints((0.2, 50.0), (100, 2000), epsilon=1.0, size=500))
    by = {(axis, epsilon, size): shares for axis, epsilon, size, shares in found}
    assert by["epsilon", 50.0, 500]["DPdisPCA"] > by["epsilon", 0.2, 500]["DPdisPCA"]
    assert by["site size", 1.0, 2000]["DPdisPCA"] > by["site size", 1.0, 100]["DPdisPCA"]
    assert by["epsilon", 50.0, 500]["full"] > 0.99
    assert all(0 < share <= 1 + 1e-12 for shares in by.values() for share in shares.values())
    outcome = captured_outcome({"small": found})
    assert len(outcome.lines) == 8
    assert len(outcome.rows) == 4


def test_site_sizes_that_there_are_no_rows_for_are_left_out() -> None:
    rows = synthetic(SITES * 100, 1, features=10)
    found = captured(rows, 2, CurvePoints((1.0,), (100, 101), size=100))
    assert [size for axis, _, size, _ in found if axis == "site size"] == [100]
