"""Forecasts against decisions made on simulated audits."""

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.power import minimal_detectable, runs_for_margin, smallest_margin

BY, HOLM = DecisionSpec(), DecisionSpec(error="fwer")


def test_the_fewest_runs_are_enough_and_fewer_are_not() -> None:
    for share in (0.1, 0.5):
        runs = runs_for_margin(share, 0.2, 100, 3, BY)
        held = round(share * runs)
        assert smallest_margin(held, runs - held, 100, 3, BY) <= 0.2
        fewer = round(0.97 * runs)
        assert smallest_margin(round(share * fewer), fewer - round(share * fewer), 100, 3, BY) > 0.2


@given(st.integers(30, 300), st.floats(0.1, 0.9), st.integers(30, 5000), st.integers(1, 10))
@settings(max_examples=3, deadline=None)
def test_what_makes_it_harder(n: int, power: float, documents: int, statistics: int) -> None:
    """Shares of documents are rounded, which of fewer than 30 weighs more than what twice as many cost."""
    base = minimal_detectable(n, 2 * n, documents, statistics, BY, power)
    assert minimal_detectable(n, 2 * n, 2 * documents, statistics, BY, power) >= base - 1e-4
    assert minimal_detectable(n, 2 * n, documents, statistics, HOLM, power) <= base + 1e-4
    margin, of_more = (smallest_margin(n, 2 * n, k * documents, statistics, BY, power) for k in (1, 2))
    assert of_more >= margin - 2e-3


def test_hopeless_arms() -> None:
    assert minimal_detectable(4, 4, 100, 1, BY) == math.inf
    assert smallest_margin(4, 4, 100, 1, BY) == math.inf
    assert smallest_margin(0, 40, 100, 1, BY) == math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"share": 0.0}, "`share` must be in (0, 1); got 0.0."),
        ({"power": 1.0}, "`power` must be in (0, 1); got 1.0."),
        ({"documents": 0}, "`documents` must be at least 1; got 0."),
        ({"margin": 1.1}, "`margin` must be in (0, 1]; got 1.1."),
        ({"margin": 1e-6}, "more than 1,000,000,000 runs"),
    ],
)
def test_refusals(arguments: dict, message: str) -> None:
    usual = {"share": 0.5, "margin": 0.2, "documents": 10, "statistics": 2, "rule": BY}
    with pytest.raises(ValueError, match=re.escape(message)):
        runs_for_margin(**(usual | arguments))
