"""LORD++ against the published recursion written out, spending against its sum."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.verdicts.online import OnlineState, advance, level_now, spent_level, start


def reference_levels(p: list[float], level: float, wealth: float) -> list[float]:
    """Forward: every rejection adds its whole future to the levels to come."""
    gamma = np.arange(1, 200_001) ** -1.6
    gamma /= gamma.sum() + 200_000**-0.6 / 0.6  # the integral of what is cut off
    levels = wealth * gamma[: len(p)]
    rejected = 0
    for t, value in enumerate(p):
        if value <= levels[t]:
            levels[t + 1 :] += (level - wealth if rejected == 0 else level) * gamma[: len(p) - t - 1]
            rejected += 1
    return list(levels)


@given(st.lists(st.sampled_from([0.0, 1e-4, 0.003, 0.02, 0.6]), min_size=1, max_size=60), st.floats(0.1, 1.0))
@settings(deadline=None)
def test_levels_follow_the_recursion(p: list[float], part: float) -> None:
    state = start(0.1, 0.1 * part)
    levels = []
    for value in p:
        levels.append(level_now(state))
        state = advance(state, value)
    assert levels == pytest.approx(reference_levels(p, 0.1, 0.1 * part), rel=1e-4)
    assert state.tests == len(p)
    assert len(state.rejections) == sum(v <= a for v, a in zip(p, levels, strict=True))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
@settings(deadline=None)
def test_levels_never_promise_more_than_the_rejections_allow(p: list[float]) -> None:
    """What proves LORD++: the sum of all levels so far is at most level * max(1, rejections)."""
    state, total = start(0.05), 0.0
    for value in p:
        total += level_now(state)
        state = advance(state, value * 0.02)
        assert total <= 0.05 * max(1, len(state.rejections)) + 1e-12


def test_spending_adds_up_to_the_level() -> None:
    total = sum(spent_level(0.05, t) for t in range(1, 20_001))
    assert total < 0.05
    assert total + 0.05 * 20_000**-0.6 / 0.6 / 2.2857657 == pytest.approx(0.05, rel=1e-4)


def test_a_state_is_a_value() -> None:
    state = start()
    assert advance(state, 0.0).rejections == (1,)
    assert state == OnlineState(0.05, 0.025)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: start(1.0), "`level` must be in (0, 1); got 1.0."),
        (lambda: start(0.05, 0.06), "`wealth` must be in (0, `level`]; got 0.06."),
        (lambda: OnlineState(0.05, 0.02, 3, (4,)), "`rejections` must ascend from 1"),
        (lambda: OnlineState(0.05, 0.02, 3, (2, 2)), "`rejections` must ascend from 1"),
        (lambda: advance(start(), 1.5), "`p` must be in [0, 1]; got 1.5."),
        (lambda: spent_level(0.05, 0), "`audit` must be at least 1; got 0."),
        (lambda: spent_level(0.0, 1), "`level` must be in (0, 1); got 0.0."),
    ],
)
def test_refusals(call, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
