"""From tests to a summary, against readings made document by document."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstwobign

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.coverage import coverage_of
from ksdp.audit.opened import Opened
from ksdp.audit.plan import CONTROLS, NULL_CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summarise import AuditLocation, Cost, Tested, chance, detectable, summarise
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.controls import CANARY, SHIFT
from ksdp.audit.verdicts.effects import Attack, measure_effect
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import after_look
from ksdp.audit.verdicts.verdict import Verdict

from ...summaries import example

COST = Cost(900, 40, ("one block",), 3.14159, {"sample": 2.71828})
FILED = AuditLocation("one", "sha256:0f", "store", "report.html", example().provenance)


def drawn(plan: Plan, rng: np.random.Generator, documents: int, shift: np.ndarray) -> ArmTests:
    """Tests of seeded values under the plan's columns; `shift` a document."""
    inclusion = rng.random((documents, plan.design.runs)) < plan.design.share
    values = {c.name: rng.normal(size=inclusion.shape) + shift[:, None] * inclusion for c in plan.columns}
    return compare_arms(values, inclusion)


@pytest.fixture(scope="module")
def tested(corpus: Corpus) -> Tested:
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}}
    spec, rng = parse_spec(tables | {"design": {"party_size": 20, "with_runs": 80}}), np.random.default_rng(4)
    plan = make_plan(Opened.of(spec, corpus))
    paper = [n for n, column in enumerate(plan.columns) if column.family.startswith("paper")]
    tests = drawn(plan, rng, 90, 3.0 * (np.arange(90) % 3 == 0))
    interim = after_look(None, tests, 0, plan.looks[0], plan.spec.decision, paper)
    controls = drawn(plan, rng, CONTROLS, 5.0 * (np.arange(CONTROLS) >= NULL_CONTROLS))
    bits = rng.random((90, plan.design.runs)) < plan.design.share
    canaries = compare_arms({CANARY: rng.normal(size=bits.shape) + SHIFT * bits}, bits)
    return Tested(plan, coverage_of(plan), 1, interim, [controls], [rng.uniform(-2, 0, (5, 3))], [canaries])


@pytest.fixture(scope="module")
def summary(tested: Tested) -> Summary:
    return summarise(tested, [], COST, FILED)


def test_counts_are_those_of_the_decisions(tested: Tested, summary: Summary) -> None:
    words = tested.interim.decisions.verdict.tolist()
    assert summary.verdicts.as_dict() == {w: words.count(w) for w in Verdict}
    assert summary.verdicts.sensitive >= 25
    assert sum(about.strongest_for for about in summary.statistics.values()) == summary.documents == 90
    for at, (name, about) in enumerate(summary.statistics.items()):
        distances = sorted(tested.interim.tests.distance[:, at].tolist())
        assert name == tested.plan.columns[at].name
        assert about.max_D == distances[-1]
        assert about.median_D == pytest.approx((distances[44] + distances[45]) / 2)
    assert summary.valid
    assert summary.fresh is None
    assert summary.looks[0].verdicts == summary.verdicts
    assert len(detectable(tested)) == 90


def test_runs_that_were_counted_twice_are_counted_once(tested: Tested, summary: Summary) -> None:
    assert (summary.runs, summary.sampled_runs, summary.cached_runs) == (360, 360, 0)
    fewer = summarise(tested, [], replace(COST, sampled_runs=100), FILED)
    assert (fewer.sampled_runs, fewer.cached_runs) == (100, 260)
    assert (summary.seconds, summary.seconds_by_stage) == (3.142, {"sample": 2.718})


def test_it_is_stored_and_read(summary: Summary) -> None:
    assert Summary.from_json(summary.to_json()) == summary


@pytest.mark.parametrize(("n", "m"), [(200, 6500), (30, 30), (0, 5)])
def test_chance_is_kolmogorovs_law(n: int, m: int) -> None:
    found = chance(np.array([n, n, n]), np.array([m - 1, m, m + 1]))
    spread = math.sqrt(1 / max(n, 1) + 1 / max(m, 1))
    assert found.median_D == pytest.approx(min(kstwobign.ppf(0.5) * spread, 1), rel=1e-4)
    assert found.most_D == pytest.approx(min(kstwobign.ppf(0.95) * spread, 1), rel=1e-4)


def test_the_document_that_fresh_runs_speak_of_is_chosen_by_the_first_ones(tested: Tested) -> None:
    rows = np.argsort(-tested.interim.tests.distance.max(axis=1))[:3]
    attack, arms = Attack(1.0, above=True), np.random.default_rng(2).normal([[2], [0]], 1, (3, 2, 90))
    measured = zip(tested.plan.audited[rows[::-1]].tolist(), arms, strict=True)
    effects = [measure_effect(row, "one", attack, *pair, 0.05) for row, pair in measured]
    fresh = summarise(tested, effects, COST, FILED).fresh
    assert (fresh.advantage_low, fresh.epsilon_low) == (effects[2].advantage_low, effects[2].epsilon_low)
    assert fresh.advantage_low < max(effect.advantage_low for effect in effects)


def test_canaries_of_the_fresh_runs_void_the_audit_too(tested: Tested, summary: Summary) -> None:
    (looked,) = tested.canaries
    with_fresh = replace(tested, canaries=[looked, looked[:4]])
    sound = summarise(with_fresh, [], COST, FILED)
    assert sound.valid
    assert sound.controls.canaries == summary.controls.canaries + 4
    wrong = replace(looked[:4], distance=np.array([[1.0], [1.0], [0.98], [1.0]]))
    void = summarise(replace(tested, canaries=[looked, wrong]), [], COST, FILED)
    assert not void.valid
    assert "the bits of 1 of 94" in str(void.controls.reason)


def test_what_nobody_looked_at_is_named(summary: Summary) -> None:
    assert [said[:32] for said in summary.unread] == ["who was in, by lattice reduction"]  # 90 documents
    assert summary.opens == "every round"
    announced = {"V", "span", "span_sigma", "first_blocks", "block_sums"}
    assert set(summary.coverage) == {a.name for a in summary.announced} == announced
