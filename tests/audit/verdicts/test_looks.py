"""Looks in whole blocks, levels that add up, and a seed of their own for fresh runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.specs.design import Design, make_design
from ksdp.audit.specs.models import DecisionSpec, Spec, parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import (
    LOOKS,
    Look,
    LookScope,
    after_certificate,
    after_fresh,
    after_look,
    for_fresh_runs,
    fresh_seed,
    open_documents,
    planned_looks,
)
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni
from ksdp.audit.verdicts.power import likely_distance


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


RULE = DecisionSpec(margin=0.3, error="fwer")


@pytest.fixture(scope="module")
def looks() -> tuple[np.ndarray, list[np.ndarray]]:
    """A document that shouts, two that whisper, three that are silent."""
    rng = np.random.default_rng(4)
    inclusion = rng.random((6, 3000)) < 0.4
    shift = np.array([3.0, 0.25, 0.3, 0, 0, 0])[:, None] * inclusion
    return inclusion, [rng.normal(size=(6, 3000)) + shift, rng.normal(size=(6, 3000))]


def arms_at(looks: tuple[np.ndarray, list[np.ndarray]], runs: int, rows: np.ndarray) -> ArmTests:
    inclusion, values = looks
    some = {str(n): np.ascontiguousarray(v[rows, :runs]) for n, v in enumerate(values)}
    return compare_arms(some, np.ascontiguousarray(inclusion[rows, :runs]))


def test_each_look_tests_what_is_open_and_keeps_the_rest(looks: tuple) -> None:
    everybody = np.arange(6)
    first = after_look(None, arms_at(looks, 150, everybody), 0, Look(150, 0.001), RULE, [1])
    assert first.decisions.verdict[0] == "sensitive"
    rest = open_documents(first)
    assert rest.tolist() == [1, 2, 3, 4, 5]
    second = after_look(first, arms_at(looks, 3000, rest), 1, Look(3000, 0.049), RULE, [1])
    assert second.look.tolist() == [0, 1, 1, 1, 1, 1]
    assert second.tests.n_with[0, 0] == first.tests.n_with[0, 0]
    assert second.decisions.verdict.tolist() == ["sensitive", *["clear"] * 5]
    assert second.decisions.detected.tolist() == [True, True, True, False, False, False]
    assert second.alone[:, 0].tolist() == [True, False, False, False, False, False]
    assert not second.paper.any()


def test_a_later_look_counts_the_documents_that_are_decided(looks: tuple) -> None:
    """By hand: those decided before stand in the correction with p = 1."""
    rows = np.array([1, 2])
    tests = arms_at(looks, 1000, rows)
    got = decide(tests, RULE, level=0.02, among=6).log10_adjusted
    padded = np.concatenate([bonferroni(tests.log10_p), np.zeros(4)])
    assert got == pytest.approx(adjust(padded, "fwer")[:2])


def test_adjusted_p_is_on_the_scale_of_the_whole_audit(looks: tuple) -> None:
    interim = after_look(None, arms_at(looks, 400, np.arange(6)), 0, Look(400, 0.005), RULE, [])
    said, bar = interim.decisions, math.log10(RULE.level)
    assert said.detected.any()
    assert not said.detected.all()
    assert ((said.log10_adjusted <= bar) == said.detected).all()
    assert ((said.log10_adjusted_above <= bar) == (said.verdict == "sensitive")).all()
    assert ((said.log10_adjusted_below <= bar) == (said.verdict == "clear")).all()


def test_what_was_detected_stays_detected(looks: tuple) -> None:
    """Shown at the first look, open at the second: the smallest over looks counts, at the looks' own levels."""
    rule = RULE.model_copy(update={"margin": 0.12})
    first = after_look(None, arms_at(looks, 1200, np.arange(6)), 0, Look(1200, 0.04), rule, [])
    assert first.decisions.detected[2]
    assert first.decisions.verdict[2] == "undecided"
    rest = open_documents(first)
    silent = arms_at((looks[0], [np.roll(v, 1, axis=1) for v in looks[1]]), 1200, rest)
    second = after_look(first, silent, 1, Look(1200, 0.01), rule, [])
    assert second.decisions.detected[2]
    assert second.decisions.log10_adjusted[2] == first.decisions.log10_adjusted[2]


def test_fresh_runs_prove_what_the_first_could_not(looks: tuple) -> None:
    """At half of the level, corrected over those chosen; nothing else changes."""
    counted = LookScope(6, fresh=True)
    rule = RULE.model_copy(update={"margin": 0.08})
    before = after_look(None, arms_at(looks, 1200, np.arange(6)), 0, Look(1200, 0.05), rule, [], counted)
    chosen = for_fresh_runs(before, rule)
    assert {1, 2} <= set(chosen.tolist())
    assert not {0, 3, 4, 5} & set(chosen.tolist())
    bar = math.log10(rule.level / 2 / len(chosen))
    p = np.where(chosen == 1, bar - 0.01, math.log10(0.04))
    after = after_fresh(before, p, rule)
    assert after.decisions.verdict[1] == "sensitive"
    assert after.decisions.verdict[2] == "undecided"
    assert after.decisions.log10_adjusted_above[1] == pytest.approx(math.log10(rule.level) - 0.01)
    same = np.arange(6) != 1
    assert (after.decisions.verdict[same] == before.decisions.verdict[same]).all()
    assert len(for_fresh_runs(before, rule.model_copy(update={"margin": 0.0}))) == 0


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


def test_nothing_is_clear_where_an_announced_array_was_looked_at_by_nobody(looks: tuple) -> None:
    """What would be clear is undecided for good, and who might be sensitive is looked at again."""
    every = np.arange(6)
    first = arms_at(looks, 1200, every)
    would = after_look(None, first, 0, Look(1200, 0.04), RULE, [])
    found = after_look(None, first, 0, Look(1200, 0.04), RULE, [], LookScope(6, may_clear=False))
    clear, sensitive = would.decisions.verdict == "clear", would.decisions.verdict == "sensitive"
    assert clear.any()
    assert sensitive.any()
    assert (found.settled == clear).all()
    assert (found.decisions.verdict == np.where(sensitive, "sensitive", "undecided")).all()
    assert (found.decisions.detected == would.decisions.detected).all()
    assert (found.decisions.log10_adjusted_above == would.decisions.log10_adjusted_above).all()
    assert (found.decisions.log10_p_below == 0).all()
    assert (found.decisions.log10_adjusted_below == 0).all()
    assert np.isposinf(found.decisions.runs_to_decide[clear]).all()
    assert np.isnan(found.decisions.runs_to_decide[sensitive]).all()
    assert open_documents(found).tolist() == np.flatnonzero(~clear & ~sensitive).tolist()


def test_a_later_look_keeps_what_is_settled(looks: tuple) -> None:
    rule = RULE.model_copy(update={"margin": 0.16})
    first = after_look(
        None, arms_at(looks, 600, np.arange(6)), 0, Look(600, 0.01), rule, [], LookScope(6, may_clear=False)
    )
    rest = open_documents(first)
    assert len(rest)
    second = after_look(first, arms_at(looks, 3000, rest), 1, Look(3000, 0.04), rule, [])
    assert second.settled[rest].any()
    assert not (second.decisions.verdict == "clear").any()
    assert (second.settled | ~first.settled).all()
    assert (second.look[np.setdiff1d(np.arange(6), rest)] == 0).all()


def test_runs_that_would_only_clear_are_not_asked_for(looks: tuple) -> None:
    """Not yet below the margin for certain, and not above it: no number of runs says more of what nobody reads."""
    few = arms_at(looks, 150, np.arange(6))
    open_ = after_look(None, few, 0, Look(150, 0.05), RULE, [])
    closed = after_look(None, few, 0, Look(150, 0.05), RULE, [], LookScope(6, may_clear=False))
    finite = np.isfinite(open_.decisions.runs_to_decide)
    below = finite & (likely_distance(few) <= RULE.margin)
    assert below.any()
    assert np.isposinf(closed.decisions.runs_to_decide[below]).all()
    kept = finite & ~below
    assert (closed.decisions.runs_to_decide[kept] == open_.decisions.runs_to_decide[kept]).all()


def test_a_certificate_clears_what_is_not_proved_to_leak(looks: tuple) -> None:
    first = after_look(None, arms_at(looks, 150, np.arange(6)), 0, Look(150, 0.05), RULE, [1])
    assert first.decisions.verdict[0] == "sensitive"
    bound = np.array([0.1, 0.3, 0.30001, 0.0, 1.0, 0.2])
    found = after_certificate(first, bound, RULE)
    assert found.decisions.verdict[0] == "sensitive", "a proof of a leak is never overruled"
    certified = found.decisions.proof == "every attack"
    assert (found.decisions.verdict[certified] == "clear").all()
    assert certified.tolist() == [False, True, False, True, False, True]
    assert np.isnan(found.decisions.runs_to_decide[certified]).all()
    rest = ~certified
    assert (found.decisions.verdict[rest] == first.decisions.verdict[rest]).all()
    nothing = after_certificate(first, np.zeros(6), RULE.model_copy(update={"margin": 0.0}))
    assert "every attack" not in nothing.decisions.proof
