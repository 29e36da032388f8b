"""Looks in whole blocks, levels that add up, and a seed of their own for fresh runs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.design import make_design
from ksdp.audit.interim_looks import early_looks_pay, fresh_seed, plan_looks
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


def test_looks_that_a_spec_leaves_open_spend_the_level_and_little_of_it_early() -> None:
    planned = plan_looks(spec_of("needed"), 7000, 100, early=True)
    assert [look.runs for look in planned] == [700, 1200, 2100, 7000]
    assert [look.level for look in planned] == pytest.approx([0.005, 0.0025, 0.0025, 0.04])
    assert sum(look.level for look in planned) == pytest.approx(0.05)
    assert plan_looks(spec_of("needed"), 7000, 100) == plan_looks(spec_of(1), 7000, 100)
    few = plan_looks(spec_of("needed"), 7000, 3500, early=True)  # looks that fall together
    assert [look.runs for look in few] == [3500, 7000]
    assert [look.level for look in few] == pytest.approx([0.01, 0.04])


ROUNDS = (SimpleNamespace(family="rounds"),)


@pytest.mark.parametrize(
    ("tables", "statistics", "pays"),
    [
        ({}, ROUNDS, True),
        ({"design": {"looks": 1}}, ROUNDS, False),
        ({"decision": {"margin": 0.0}}, ROUNDS, False),
        ({"decision": {"stopping": "anytime"}}, ROUNDS, False),
        ({"decision": {"over_statistics": "max-t"}}, ROUNDS, False),
        ({"certificate": {}}, ROUNDS, False),
        ({"design": {"with_runs": 70}}, ROUNDS, False),
        ({}, (SimpleNamespace(family="geometry"),), False),
    ],
)
def test_early_looks_are_for_large_audits_of_rounds(tables: dict, statistics: tuple, pays: bool) -> None:
    given = {"design": {"party_size": 0.03}, "decision": {"margin": 0.2}}
    for name, table in tables.items():
        given[name] = given.get(name, {}) | table
    spec = parse_spec({"corpus": {"path": "x"}, "mechanism": {"name": "null"}} | given)
    design = make_design(spec.design, np.arange(3000), 1, documents=3000)
    assert early_looks_pay(spec, design, statistics) == pays
    final = (SimpleNamespace(family="geometry"),)
    assert early_looks_pay(spec, design, final, 20.0) == (pays or statistics == final)
    assert not early_looks_pay(spec, design, final, 19.9)
    # Of few documents equations are solved in every run.
    solved = make_design(spec.design, np.arange(300), 1, documents=300)
    assert early_looks_pay(spec, solved, statistics) == pays
    assert early_looks_pay(spec, solved, (SimpleNamespace(family="geometry", asks_for=str),)) == (
        pays or not tables
    )
    small = make_design(spec.design, np.arange(100), 1, documents=100)
    assert not early_looks_pay(spec, small, statistics)
    assert not early_looks_pay(spec, solved, final, 20.0)
