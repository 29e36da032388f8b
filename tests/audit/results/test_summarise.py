"""From tests to a summary, against readings made document by document."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstwobign

from ksdp.audit.certifying import certify
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.plan import CONTROLS, NULL_CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summarise import AuditLocation, Cost, Tested, chance, detectable, summarise
from ksdp.audit.results.summary import Summary
from ksdp.audit.results.views_summary import ViewsProvenance, ViewsSummary, summarise_views
from ksdp.audit.specs.models import DecisionSpec, parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.controls import CANARY, SHIFT
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import after_certificate, after_look
from ksdp.audit.verdicts.verdict import Verdict
from ksdp.audit.views import View, ViewVerdicts, combine

from ...summaries import example

RULE = DecisionSpec()
COST = Cost(900, 40, ("one block",), 3.14159, {"sample": 2.71828})
FILED = AuditLocation("one", "sha256:0f", "store", "report.html", example().provenance)


def plan_of(corpus: Corpus) -> Plan:
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}}
    return make_plan(parse_spec(tables | {"design": {"party_size": 20, "with_runs": 80}}), corpus)


def drawn(plan: Plan, rng: np.random.Generator, documents: int, shift: np.ndarray) -> ArmTests:
    """Tests of seeded values under the plan's columns; `shift` a document."""
    inclusion = rng.random((documents, plan.design.runs)) < plan.design.share
    values = {c.name: rng.normal(size=inclusion.shape) + shift[:, None] * inclusion for c in plan.columns}
    return compare_arms(values, inclusion)


@pytest.fixture(scope="module")
def tested(corpus: Corpus) -> Tested:
    plan, rng = plan_of(corpus), np.random.default_rng(4)
    paper = [n for n, column in enumerate(plan.columns) if column.family.startswith("paper")]
    tests = drawn(plan, rng, 90, 3.0 * (np.arange(90) % 3 == 0))
    interim = after_look(None, tests, 0, plan.looks[0], plan.spec.decision, paper)
    controls = drawn(plan, rng, CONTROLS, 5.0 * (np.arange(CONTROLS) >= NULL_CONTROLS))
    bits = rng.random((90, plan.design.runs)) < plan.design.share
    canaries = compare_arms({CANARY: rng.normal(size=bits.shape) + SHIFT * bits}, bits)
    return Tested(plan, 1, interim, [controls], [rng.uniform(-2, 0, (5, 3))], [canaries])


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


def test_views_share_runs_and_are_void_together(summary: Summary) -> None:
    other = replace(summary, audit="two", valid=False, controls=replace(summary.controls, reason="a null control"))
    views = [View("outsider", summary.spec), View("final output", summary.spec)]
    verdicts = (np.array(["sensitive", "clear", "clear"]), np.array(["sensitive", "sensitive", "clear"]))
    below = np.log10([1.0, 1.0, 1e-6])
    combined = combine([ViewVerdicts(v, np.log10([1e-4, 0.1, 1.0]), below) for v in verdicts], RULE)
    finished = ViewsProvenance("2026-02-01T00:00:00+00:00", {}, summary.spec.hash, 1)
    found = summarise_views(summary.spec, views, [summary, other], combined, finished, ("v", "s", "r"), 1.23456)
    assert (found.runs, found.valid, found.controls.reason) == (360, False, "final output: a null control")
    assert [view.sensitive_here_alone for view in found.views] == [0, 1]
    assert found.verdicts.as_dict() == {"sensitive": 2, "clear": 1, "undecided": 0}
    assert {name: about.max_D for name, about in found.statistics.items()} == {
        name: about.max_D for name, about in summary.statistics.items()
    }
    assert ViewsSummary.from_json(found.to_json()) == found
    assert found.seconds == 1.235


def test_what_nobody_looked_at_is_said_once_for_all_views(summary: Summary) -> None:
    assert [said[:32] for said in summary.unread] == ["who was in, by lattice reduction"]  # 90 documents
    assert summary.opens == "every round"
    announced = {"V", "span", "span_sigma", "first_blocks", "block_sums"}
    assert set(summary.coverage) == {a.name for a in summary.announced} == announced
    views = [View("outsider", summary.spec), View("a tenth", summary.spec)]
    others = [replace(summary, unread=("sums", "start")), replace(summary, unread=("start", "weights"))]
    none = ViewVerdicts(np.array(["undecided"]), np.zeros(1), np.zeros(1))
    finished = ViewsProvenance("2026-02-01T00:00:00+00:00", {}, summary.spec.hash, 1)
    combined = combine([none, none], RULE)
    found = summarise_views(summary.spec, views, others, combined, finished, ("v", "s", "r"), 1.0)
    assert found.unread == ("sums", "start", "weights")


def test_a_certificate_is_told_and_voids_what_contradicts_it(tested: Tested, summary: Summary) -> None:
    """Every third document leaks: a certificate that says so stands, one that says nearly nothing does not."""
    leaks = np.arange(90) % 3 == 0
    assert (summary.certificate, summary.knows_all) == (None, 1.0)

    def with_pairs(advantages: np.ndarray) -> Summary:
        tests, rule = tested.interim.tests, tested.plan.spec.decision
        found = certify(advantages, tests, 90, tested.plan.spec.certificate_level)
        decided = after_certificate(tested.interim, found.bound, rule)
        return summarise(replace(tested, interim=decided, certificate=found), [], COST, FILED)

    pairs = np.repeat(np.where(leaks, 0.95, 0.01)[:, None], 400, axis=1)
    sound = with_pairs(pairs)
    assert sound.valid
    assert sound.certificate is not None
    assert (sound.certificate.pairs, sound.certificate.runs) == (400, 400 * 91)
    assert (sound.certificate.certified, sound.certificate.contradicted) == (60, 0)
    assert sound.verdicts.every_attack == 60 - sound.certificate.sensitive
    assert sound.verdicts.sensitive == summary.verdicts.sensitive
    assert sound.certificate.largest_knows_all == pytest.approx(0.95)
    assert sound.certificate.largest_bound < 1

    wrong = with_pairs(np.full((90, 400), 0.01))
    assert not wrong.valid
    assert wrong.certificate is not None
    assert wrong.certificate.contradicted == 30
    assert "if the noise were what the mechanism says" in (wrong.controls.reason or "")
    assert wrong.verdicts.sensitive == summary.verdicts.sensitive
