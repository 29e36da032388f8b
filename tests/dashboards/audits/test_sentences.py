"""What a report says of a mechanism's own claim."""

from dataclasses import replace
from typing import Any

from ksdp.audit.mechanisms.claims import ClaimFinding
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.privacy.fedpower import FedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.results.parts import BoundSummary, FreshSummary, GuaranteeSummary, ShareSummary, VerdictCounts
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import CertificateSpec, DesignSpec
from ksdp.dashboards.audits.report import words_of
from ksdp.dashboards.audits.sentences import (
    adversary,
    correction,
    drawn_share,
    fresh,
    how_sure,
    meaning,
    pool_known,
    promised,
    proved,
)
from ksdp.storage.audits.claims import ClaimInputs, StoredClaim
from ksdp.storage.audits.history import ProvedBy

from ...summaries import example

FRESH = FreshSummary(50, 1, 20, 1, 0.5, 0.5, 0.25, 1.25, 0.5, 0.25)


def claiming(mechanism: Any) -> Summary:
    return example(guarantee=GuaranteeSummary.from_json(mechanism.guarantee.as_json()))


def test_the_level_of_clear_counts_the_certificate() -> None:
    spec = example().spec.model_copy(update={"certificate": CertificateSpec()})
    assert "of those called clear at most 5.5 %" in correction(example(spec=spec))


def test_a_claim_stands_beside_what_was_proved() -> None:
    summary = replace(claiming(HardtRoth(epsilon=0.5)), fresh=FRESH)
    told = promised(summary)
    assert "claims epsilon 0.5 at delta 1e-05" in told
    assert "at least 1.25" in told
    assert "fast sampler" in told


def test_fresh_runs_break_no_promise_that_nobody_can_give() -> None:
    broken = replace(claiming(PDSVD()), fresh=FRESH)
    assert "epsilon below 1.25 (delta 0) would be false" in " ".join(fresh(broken))
    none = replace(broken, fresh=replace(FRESH, epsilon_low=0.0))
    assert "epsilon" not in " ".join(fresh(none))


def test_what_the_worst_case_proved_is_said_and_a_refutation_loudly() -> None:
    guarantee = HardtRoth(epsilon=1.0).guarantee
    finding = ClaimFinding(
        "hardt-roth", guarantee, claimed_epsilon=1.0, claimed_delta=0.0, counted=(), measured_low=0.773,
        gaussian_low=None, runs=2000, confidence=0.95, rows=2, features=2,
    )  # fmt: skip
    inputs = ClaimInputs("hardt-roth", 1, {}, 3, 2000, 0.95)
    claim = StoredClaim(inputs, finding, "2026-11-21T00:00:00+00:00", {"code": "c1"})
    summary = claiming(HardtRoth(epsilon=1.0))
    kept = promised(summary, claim)
    assert "Claimed epsilon 1 at delta 0; proved on its worst case: at least 0.773 (2,000 runs" in kept
    assert "That does not refute it." in kept
    assert "not tried" not in kept
    refuted = replace(claim, finding=replace(finding, measured_low=3.0))
    loud = promised(summary, refuted)
    assert f"REFUTED: it does not keep its claim. {proved(refuted)}" in loud
    assert "not refute" not in loud
    assert "Nobody tried in this store to refute" in str(promised(summary))


def test_unsound_claims_are_said_to_be() -> None:
    told = promised(claiming(FedPower()))
    assert "does not hold" in told
    assert "different observers" in told


def test_who_looks_depends_on_what_a_run_opens() -> None:
    assert "subtract everything that is theirs" in adversary(example())
    assert "do not know which other documents" in adversary(example())
    half = replace(example(), design=replace(example().design, kind="shared", share=0.5))
    averages = "attacks by averages would have an advantage smaller by a factor of up to 1.41"
    assert averages in adversary(half)
    assert pool_known(half, None) == ""
    asked = replace(half, spec=half.spec.model_copy(update={"design": DesignSpec(pool=0.5)}))
    assert "The same spec without `design.pool`, audited in this store, measures" in pool_known(asked, None)
    told = pool_known(asked, (7, 0.512, 0.25))
    assert "median D of 7 documents in both audits: 0.51 for who knows the pool, 0.25 for who" in told
    assert "drawn from" not in adversary(replace(half, design=replace(half.design, kind="literal")))
    final = adversary(replace(example(), opens="final"))
    assert "no two of the three parties that compute put together what they hold" in final
    assert "subtract" not in final


def test_documents_that_were_drawn_speak_for_all() -> None:
    told = drawn_share(example(share=ShareSummary(300, 17706, 0.05, 0.125, 0.75)))
    assert "300 documents are drawn at random from 17,706" in told
    assert "at least 2,213 and at most 13,280 (75 %) have" in told
    none = drawn_share(example(share=ShareSummary(300, 17706, 0.05, 0.0, 0.0042)))
    assert "at most 74 (1 %) have" in none
    assert "wrong in at most one of 20 audits" in told
    assert drawn_share(example()) is None


def test_limits_of_tests_are_not_those_of_a_proof() -> None:
    noise = BoundSummary(ProvedBy.NOISE, "the others", True, True, 0.0, 5, 0, 0, 0.25, 0.25, 0.25)
    every = replace(example(), verdicts=VerdictCounts(0, 5, 0, every_attack=5), bounds=(noise,))
    pairs = replace(noise, by=ProvedBy.PAIRS, any_knowledge=False, every_size=False, level=0.005, pairs=60)
    some = replace(every, verdicts=VerdictCounts(0, 5, 0, every_attack=4), bounds=(replace(noise, certified=4),))
    limits = ("another statistic might", "random here", "audit of their own", "at most 5 %")
    pages = [
        words_of("_limits.html.j2", summary=summary)
        for summary in (example(), some, every, replace(every, bounds=(pairs,)))
    ]
    assert [limit in page for page in pages for limit in limits] == [True] * 8 + [False] * 5 + [True, True, False]
    assert "a party of any size" in pages[2]
    assert adversary(every).startswith("Whoever sees what is announced, and does not do what the proof trusts")
    assert meaning(every, "clear").startswith("No attack of any kind has an advantage above 0.2, if ")
    assert meaning(some, "clear").endswith("by every statistic tried.")
    draw = replace(noise, by=ProvedBy.DRAW, certified=5)
    drawn = words_of("_limits.html.j2", summary=replace(every, bounds=(draw,)))
    assert ["weights are taken as known" in page for page in (*pages, drawn)] == [True] * 4 + [False]
    assert "99.5 % sure" in how_sure(replace(every, bounds=(pairs,)))
