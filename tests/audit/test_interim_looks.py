"""Looks in whole blocks, levels that add up, and a seed of their own for fresh runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.interim_looks import fresh_seed, plan_looks
from ksdp.audit.spec import Spec, parse_spec


def spec_of(looks: object, **decision: object) -> Spec:
    tables = {"corpus": {"path": "x"}, "mechanism": {"name": "null"}}
    return parse_spec(tables | {"design": {"looks": looks}, "decision": decision})


@given(st.integers(1, 20), st.integers(40, 5000), st.sampled_from([16, 64, 256]))
def test_looks_end_at_whole_blocks_and_spend_the_level(looks: int, runs: int, block: int) -> None:
    planned = plan_looks(spec_of(looks), runs, block)
    ends = [look.runs for look in planned]
    assert ends == sorted(set(ends))
    assert ends[-1] == runs
    assert all(end % block == 0 for end in ends[:-1])
    assert len(ends) <= looks
    assert sum(look.level for look in planned) == pytest.approx(0.05)
    assert all(look.level >= 0 for look in planned)


def test_shares_name_the_looks() -> None:
    planned = plan_looks(spec_of([0.1, 0.5, 1.0], spending="pocock"), 1000, 100)
    assert [look.runs for look in planned] == [100, 500, 1000]
    one = plan_looks(spec_of(1), 1000, 100)
    assert [(look.runs, look.level) for look in one] == [(1000, pytest.approx(0.05))]


def test_at_any_moment_each_look_has_the_whole_level() -> None:
    assert [look.level for look in plan_looks(spec_of(4, stopping="anytime"), 1000, 50)] == [0.05] * 4


def test_looks_that_do_not_ascend_are_refused() -> None:
    with pytest.raises(ValueError, match="`looks` must ascend"):
        spec_of([0.5, 0.2])


def test_fresh_runs_have_a_seed_of_their_own() -> None:
    seeds = [fresh_seed(seed) for seed in range(50)]
    assert len(set(seeds) | set(range(50))) == 100
    assert max(seeds) < 2**53
    assert fresh_seed(7) == fresh_seed(7)
    assert np.unique(seeds).size == 50
