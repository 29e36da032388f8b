"""Bounds of the share that leaks: the law of the draw against SciPy's, and coverage where p-values depend."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from ksdp.audit.absence import ProvedSensitive
from ksdp.audit.results.summarise import share_summary
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.multiplicity import share_bounds, share_lower_limit, share_upper_limit, surely


@given(data=st.data(), population=st.integers(1, 60) | st.integers(61, 400), level=st.floats(1e-4, 0.5))
def test_the_limits_are_those_of_the_hypergeometric_law(
    data: st.DataObject, population: int, level: float
) -> None:
    drawn = data.draw(st.integers(1, population))
    found = data.draw(st.integers(0, drawn))
    upper = round(share_upper_limit(found, drawn, level, population) * population)
    lower = round(share_lower_limit(found, drawn, level, population) * population)
    assert found <= lower <= upper <= population - drawn + found
    if upper < population - drawn + found:
        assert hypergeom.cdf(found, population, upper + 1, drawn) <= level * (1 + 1e-9)
    if lower > found:
        assert hypergeom.sf(found - 1, population, lower - 1, drawn) <= level * (1 + 1e-9)
    if population <= 60:
        every = range(found, population - drawn + found + 1)
        kept = (k for k in every if hypergeom.cdf(found, population, k, drawn) > level * (1 - 1e-9) or k == found)
        assert upper == max(kept)


@pytest.mark.parametrize("count", [60, 100, 101, 400])
def test_false_ones_are_discounted_however_p_values_depend(count: int) -> None:
    """The worst dependence for a count: as many nulls as break the bound are below t together, or none is."""
    rng, error, tries = np.random.default_rng(5), 0.2, 4000
    part = max(1 / count, 0.01)
    broken = int(np.ceil(round(count * part, 9)))  # the least number of false ones that is not allowed for
    threshold = error * part
    wrong = 0
    for _ in range(tries):
        p = rng.uniform(threshold, 1.0, size=count)
        if rng.random() < count * threshold / broken:  # each null is below t with probability t
            p[rng.permutation(count)[:broken]] = threshold / 2
        wrong += surely(np.log10(p), error) > 0
    assert wrong / tries <= error + 4 * np.sqrt(error / tries)


def test_both_bounds_hold_as_often_as_they_say() -> None:
    """Leaks of p near 0, nulls of uniform p that are all the same in one audit."""
    rng, population, level = np.random.default_rng(3), 2000, 0.1
    leaks = np.arange(population) < 300
    missed = 0
    for _ in range(400):
        drawn = rng.choice(population, 150, replace=False)
        above = np.where(leaks[drawn], 1e-12, rng.random())
        below = np.where(leaks[drawn], rng.random(), 1e-12)
        low, high = share_bounds(np.log10(above), np.log10(below), population, level)
        missed += not low <= 0.15 <= high
    assert missed / 400 <= level


def test_everything_drawn_and_proved_is_known() -> None:
    above = np.repeat([-9.0, 0.0], [30, 70])
    assert share_bounds(above, np.repeat([0.0, -9.0], [30, 70]), 100, 0.05) == (pytest.approx(0.3), 0.3)


def _audit(documents: int | None, rule: DecisionSpec) -> tuple[Any, Any]:
    looks = [SimpleNamespace(level=rule.level / 5), SimpleNamespace(level=rule.level)]
    design = SimpleNamespace(documents=documents)
    spec, held = SimpleNamespace(design=design, decision_in_run=rule), SimpleNamespace(victim=range(1000))
    plan = SimpleNamespace(spec=spec, looks=looks, holdings=held, absent=None)
    # Half at the first look, where p is worth a fifth: 0.0001 is 0.0005 there, which is above 0.0125 / 40.
    above, below = np.full(40, -4.0), np.zeros(40)
    decisions = SimpleNamespace(log10_p_above=above, log10_p_below=below)
    return plan, SimpleNamespace(decisions=decisions, look=np.repeat([0, 1], 20))


def test_an_early_look_has_its_own_part_of_the_level() -> None:
    rule = DecisionSpec(level=0.05, margin=0.2)
    found = share_summary(*_audit(40, rule))
    assert (found.drawn, found.population, found.level, found.high) == (40, 1000, 0.05, 1.0)
    assert found.low == share_lower_limit(20, 40, 0.0125, 1000)
    later = _audit(40, rule)[1]
    later.look[:] = 1
    whole = share_summary(_audit(40, rule)[0], later)
    assert replace(whole, low=found.low) == found
    assert whole.low == share_lower_limit(40, 40, 0.0125, 1000)
    plan, tested = _audit(40, rule)
    plan.absent = ProvedSensitive(np.arange(10), np.full(10, 0.5))  # drawn too, and sensitive at any level
    more = share_summary(plan, tested)
    assert (more.drawn, more.low) == (50, share_lower_limit(30, 50, 0.0125, 1000))


def test_nothing_is_said_where_nobody_was_drawn() -> None:
    assert share_summary(*_audit(None, DecisionSpec())) is None


@pytest.mark.parametrize(
    ("found", "drawn", "level", "population"),
    [(-1, 5, 0.05, 9), (6, 5, 0.05, 9), (0, 0, 0.05, 9), (1, 5, 1.0, 9), (1, 5, 0.5, 4)],
)
def test_no_limit(found: int, drawn: int, level: float, population: int) -> None:
    with pytest.raises(ValueError, match="hits <= drawn <= population"):
        share_upper_limit(found, drawn, level, population)
