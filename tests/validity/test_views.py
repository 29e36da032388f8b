"""Several views at parts of the level: over all of them the level is held, and a leak in one of them is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.views import Combined, ViewVerdicts, combine

from .null_audits import shared_inclusion

pytestmark = pytest.mark.validity

AUDITS = 1000
VIEWS, DOCUMENTS = 3, 50


def inclusion_of(rng: np.random.Generator, documents: int = DOCUMENTS, runs: int = 240) -> np.ndarray:
    """Fixed-size random subsets, the same in every view: views are of the same runs."""
    return shared_inclusion(rng, documents, runs, 0.25)


def views_of(
    rng: np.random.Generator, rule: DecisionSpec, shift: np.ndarray, inclusion: np.ndarray, shared: float
) -> Combined:
    """Two statistics in each of the views, which share a part of their noise; `shift` by view and document."""
    shape, run = (2, *inclusion.shape), (1, 1, inclusion.shape[1])
    common = rng.normal(size=shape) + rng.normal(size=run)
    part = DecisionSpec(**rule.model_dump() | {"level": rule.level / VIEWS})
    said = []
    for view in range(VIEWS):
        own = rng.normal(size=shape) + rng.normal(size=run)
        values = np.sqrt(shared) * common + np.sqrt(1 - shared) * own
        values += shift[view][:, None] * inclusion
        t = compare_arms({str(s): v.astype(np.float32) for s, v in enumerate(values)}, inclusion)
        d = decide(t, part)
        said.append(ViewVerdicts(d.verdict, d.log10_adjusted, d.log10_p_below))
    return combine(said, rule)


@pytest.mark.parametrize("shared", [0.0, 0.9], ids=["independent views", "nearly the same views"])
def test_where_no_view_leaks_one_audit_in_twenty_flags_anything(shared: float) -> None:
    rng = np.random.default_rng(11)
    rules = {"by": DecisionSpec(margin=0), "holm": DecisionSpec(error="fwer", margin=0)}
    nothing, flagged = np.zeros((VIEWS, DOCUMENTS)), dict.fromkeys(rules, 0)
    for _ in range(AUDITS // len(rules)):
        inclusion = inclusion_of(rng)
        for name, rule in rules.items():
            flagged[name] += bool((views_of(rng, rule, nothing, inclusion, shared).verdict == "sensitive").any())
    rates = {name: count / (AUDITS // len(rules)) for name, count in flagged.items()}
    print("false-flag rate over three views at level 0.05:", rates)
    bound = 0.05 + 3 * np.sqrt(0.05 * 0.95 / (AUDITS // len(rules)))
    assert all(rate <= bound for rate in rates.values())


def test_false_alarms_among_what_any_view_flags_stay_below_the_level() -> None:
    """Other documents leak in each view; a claim (document, view) about a view that hides it is a false alarm."""
    rng = np.random.default_rng(12)
    rule = DecisionSpec(level=0.2, margin=0)
    shift = np.zeros((VIEWS, DOCUMENTS))
    for view in range(VIEWS):
        shift[view, 8 * view : 8 * view + 8] = 1.5
    shares, found = [], []
    for _ in range(AUDITS // 2):
        combined = views_of(rng, rule, shift, inclusion_of(rng), 0.5)
        wrong = (combined.sensitive_in & (shift == 0)).any(axis=0)
        sensitive = combined.verdict == "sensitive"
        shares.append(wrong.sum() / max(sensitive.sum(), 1))
        found.append(sensitive[:24].mean())
    print(
        "false discovery rate over views at level 0.2:", np.mean(shares), "found of the leaking:", np.mean(found)
    )
    assert np.mean(shares) <= 0.2 + 3 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(found) > 0.9


def test_a_leak_in_one_view_only_is_found_and_the_view_is_named() -> None:
    rng = np.random.default_rng(13)
    shift = np.zeros((VIEWS, DOCUMENTS))
    shift[1, 7] = 2.0
    hits = []
    for _ in range(50):
        combined = views_of(rng, DecisionSpec(margin=0), shift, inclusion_of(rng), 0.9)
        hits.append(combined.verdict[7] == "sensitive" and combined.view[7] == 1)
    print("one leak in one of three views, found:", np.mean(hits))
    assert np.mean(hits) > 0.95


def test_a_document_is_cleared_wrongly_in_few_audits() -> None:
    """Half of the documents lie at the margin in one view and leak nothing in the others: never clear over all."""
    rng = np.random.default_rng(14)
    audits, documents = 100, 20
    rule = DecisionSpec(level=0.2, margin=0.3, error="fwer")
    shift = np.zeros((VIEWS, documents))
    shift[2, : documents // 2] = 2 * np.sqrt(2) * norm.ppf(0.65)  # D = 0.3 under noise of variance 2
    wrong = right = 0.0
    for _ in range(audits):
        clear = views_of(rng, rule, shift, inclusion_of(rng, documents, 2400), 0.5).verdict == "clear"
        wrong += clear[: documents // 2].any() / audits
        right += clear[documents // 2 :].mean() / audits
    print("audits with a wrong clear over views at level 0.2:", wrong, "cleared of those without a leak:", right)
    assert wrong <= 0.2 + 3 * np.sqrt(0.16 / audits)
    assert right > 0.9
