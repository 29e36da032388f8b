"""A whole audit of a leak that is certain in some runs and absent in others, with the second limit and without."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ksdp

from ..functions import sometimes

RUNS = {"party_size": 0.5, "with_runs": 1600, "fresh_runs": 0, "seed": 3, "margin": 0.2}


@pytest.fixture(scope="module")
def data() -> NDArray[np.float64]:
    rows = np.zeros((24, 2))
    rows[0, 0] = 1000.0
    rows[:, 1] = np.arange(24)
    return rows


def test_a_leak_of_some_runs_is_clear_by_the_margin_and_sensitive_at_low_rates(
    data: NDArray[np.float64], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function's chance is no noise that could be declared: what is tested here are the limits alone."""
    monkeypatch.setattr("ksdp.audit.coverage.undeclared", lambda mechanism, databases: {})
    made = {"store": tmp_path / "store", "version": 1} | RUNS
    alone = ksdp.audit(data, sometimes, **made)
    assert alone.verdicts["verdict"].tolist() == ["clear"] * 24
    assert "(margin 0.2)" in alone._repr_html_()

    both = ksdp.audit(data, sometimes, **made, margin_at_low_fpr=0.05)
    assert both.id != alone.id
    assert both.verdicts["verdict"].tolist() == ["sensitive"] + ["clear"] * 23
    np.testing.assert_array_equal(both.verdicts["distance"], alone.verdicts["distance"])
    assert (both.verdicts["log10_p_below"] >= alone.verdicts["log10_p_below"]).all()
    assert "(margin 0.2 (true positives at 1 % false ones: 0.05))" in both._repr_html_()
    page = " ".join(Path(both.summary.report).read_text(encoding="utf-8").split())
    assert "0.2 (true positives at 1 % false ones: 0.05)" in page


def test_a_plan_says_whether_the_runs_are_enough(data: NDArray[np.float64]) -> None:
    limited = {**RUNS, "margin_at_low_fpr": 0.05}
    for runs, said in ((40, "so few runs cannot prove it, even if nothing leaks"), (500, "these runs prove 0.0")):
        told = ksdp.plan(data, sometimes, **limited | {"with_runs": runs})
        assert f"          0.05 true positives at 1 % false ones: {said}" in repr(told)
        assert told["runs_for_margin"] > 2 * runs
