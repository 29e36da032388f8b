"""Verdicts on documents whose truth is known."""

import numpy as np
import pytest

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests, ks_table


def runs_of(shifts, runs: int, share: float = 0.5, statistics: int = 2, seed: int = 0):
    rng = np.random.default_rng(seed)
    inclusion = rng.random((len(shifts), runs)) < share
    tables = []
    for s in range(statistics):
        shift = np.asarray(shifts)[:, None] * inclusion * (s == 0)
        tables.append(ks_table(rng.normal(size=inclusion.shape) + shift, inclusion))
    return ArmTests(
        *(np.stack([getattr(t, name) for t in tables], axis=1) for name in ("n_with", "n_without", "distance")),
        np.stack([t.log10_p for t in tables], axis=1),
        np.zeros((len(shifts), statistics)),
    )


def test_runs_to_decide_decide() -> None:
    """With the runs it asks for, a document without a leak is cleared."""
    rule = DecisionSpec(margin=0.15)
    before = decide(runs_of([0.0], 300, seed=4), rule)
    needed = int(before.runs_to_decide[0])
    assert before.verdict[0] == "undecided"
    assert 300 < needed < 5_000
    after = [decide(runs_of([0.0], needed, seed=seed), rule) for seed in range(5, 15)]
    cleared = [a for a in after if a.verdict[0] == "clear"]
    assert len(cleared) >= 7
    assert np.isnan(cleared[0].runs_to_decide[0])


@pytest.mark.parametrize("error", ["fdr", "fwer"])
def test_decisions_do_not_depend_on_the_order_of_documents(error: str) -> None:
    tests = runs_of([0.0, 0.5, 1.0, 0.2, 0.8], 400)
    rule = DecisionSpec(error=error)
    order = np.array([3, 1, 4, 0, 2])
    straight = decide(tests, rule)
    shuffled = decide(tests[order], rule)
    assert (straight.verdict[order] == shuffled.verdict).all()
    assert straight.log10_adjusted[order] == pytest.approx(shuffled.log10_adjusted)
