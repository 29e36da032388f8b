"""Looks in whole blocks, levels that add up, and a seed of their own for fresh runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.specs.design import Design, make_design
from ksdp.audit.specs.models import DecisionSpec, Spec, parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.looks import LOOKS, Look, LookScope, after_look, fresh_seed, planned_looks


def design_of(spec: Spec, documents: int) -> Design:
    return make_design(spec.design, np.arange(documents), 1, documents=documents)


def spec_of(with_runs: int = 200, **sections: dict) -> Spec:
    design = {"party_size": 0.03, "with_runs": with_runs} | sections.pop("design", {})
    return parse_spec({"corpus": {"path": "x"}, "mechanism": {"name": "null"}, "design": design} | sections)


@given(st.integers(100, 5000), st.integers(200, 3000), st.sampled_from([16, 64, 256, 4096]))
def test_looks_end_at_whole_blocks_and_spend_the_level(with_runs: int, documents: int, block: int) -> None:
    spec = spec_of(with_runs)
    planned, design = planned_looks(spec, design_of(spec, documents), block), design_of(spec, documents)
    ends = [look.runs for look in planned]
    assert ends == sorted(set(ends))
    assert ends[-1] == design.runs
    assert all(end % block == 0 for end in ends[:-1])
    assert sum(look.level for look in planned) == pytest.approx(0.05)
    assert all(look.level > 0 for look in planned)


def test_the_table_of_looks_spends_the_whole_level() -> None:
    assert sum(LOOKS.values()) == pytest.approx(1)
    assert max(LOOKS) == 1


def test_looks_spend_little_of_the_level_early() -> None:
    spec = spec_of(210)
    design = design_of(spec, 1000)
    assert design.runs == 7000
    planned = planned_looks(spec, design, 100)
    assert [look.runs for look in planned] == [700, 1200, 2100, 7000]
    assert [look.level for look in planned] == pytest.approx([0.005, 0.0025, 0.0025, 0.04])
    few = planned_looks(spec, design, 3500)  # looks that fall together
    assert [look.runs for look in few] == [3500, 7000]
    assert [look.level for look in few] == pytest.approx([0.01, 0.04])


def test_a_look_that_comes_too_early_leaves_its_part_of_the_level_to_the_next() -> None:
    planned = planned_looks(spec_of(70), design_of(spec_of(70), 1000), 16)
    assert [look.runs for look in planned] == [400, 704, 2334]
    assert [look.level for look in planned] == pytest.approx([0.0075, 0.0025, 0.04])


@pytest.mark.parametrize(
    ("spec", "documents", "looks"),
    [
        (spec_of(), 3000, 4),
        (spec_of(decision={"margin": 0.0}), 3000, 4),
        (spec_of(certificate={}), 3000, 4),
        (spec_of(design={"looks": "end"}), 3000, 1),
        (spec_of(70), 3000, 3),  # a tenth of the runs holds a document seven times
        (spec_of(20), 3000, 1),
        (spec_of(), 100, 1),
    ],
)
def test_small_audits_look_at_the_end_alone(spec: Spec, documents: int, looks: int) -> None:
    assert len(planned_looks(spec, design_of(spec, documents), 64)) == looks


def test_fresh_runs_have_a_seed_of_their_own() -> None:
    seeds = [fresh_seed(seed) for seed in range(50)]
    assert len(set(seeds) | set(range(50))) == 100
    assert max(seeds) < 2**53
    assert fresh_seed(7) == fresh_seed(7)
    assert np.unique(seeds).size == 50


def test_looking_again_at_the_smallest_p_of_the_same_runs_proves_nothing() -> None:
    """Nothing leaks; the one of 30 documents with the smallest p is audited by itself, and all 30 are counted."""
    rng = np.random.default_rng(9)
    rule = DecisionSpec(margin=0)
    alone = counting = 0
    for _ in range(200):
        inclusion = rng.random((30, 80)) < 0.5
        tests = compare_arms({"s": rng.normal(size=inclusion.shape)}, inclusion)
        worst = tests[np.array([tests.log10_p[:, 0].argmin()])]
        look = Look(80, rule.level)
        alone += after_look(None, worst, 0, look, rule, []).decisions.verdict[0] == "sensitive"
        said = after_look(None, worst, 0, look, rule, [], LookScope(30)).decisions.verdict[0]
        counting += said == "sensitive"
    assert alone > 60
    assert counting <= 10
