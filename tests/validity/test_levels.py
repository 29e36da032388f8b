"""Levels, coverage and power over many seeds: what a verdict promises, replayed.

Slow on purpose (`make validity`). Each test prints the figure that it checks.
"""

import numpy as np
import pytest

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests

from .null_audits import dependent_values, shared_inclusion

pytestmark = pytest.mark.validity

AUDITS = 1000


def null_audit(rng: np.random.Generator, rounding: int | None) -> ArmTests:
    values = dependent_values(rng, 60, 240)
    if rounding is not None:
        values = values.round(rounding)
    inclusion = shared_inclusion(rng, 60, 240, 0.2)
    return compare_arms({str(s): v.astype(np.float32) for s, v in enumerate(values)}, inclusion)


@pytest.mark.parametrize("rounding", [None, 0], ids=["continuous", "tied"])
def test_a_corpus_that_leaks_nothing_is_flagged_in_at_most_one_audit_in_twenty(rounding: int | None) -> None:
    rng = np.random.default_rng(2026)
    rules = {"by": DecisionSpec(), "holm": DecisionSpec(error="fwer")}
    flagged = dict.fromkeys(rules, 0)
    for _ in range(AUDITS):
        t = null_audit(rng, rounding)
        for name, rule in rules.items():
            verdicts = decide(t, rule).verdict
            flagged[name] += bool((verdicts == "sensitive").any())
    rates = {name: count / AUDITS for name, count in flagged.items()}
    print("false-flag rate of an audit at level 0.05:", rates)
    bound = 0.05 + 3 * np.sqrt(0.05 * 0.95 / AUDITS)
    assert all(rate <= bound for rate in rates.values())
    # Not vacuous: the uncorrected practice flags nearly every audit.
    naive = np.mean([(null_audit(rng, rounding).log10_p.min(axis=1) <= np.log10(0.05)).any() for _ in range(100)])
    print("the same by an uncorrected minimum p:", naive)
    assert naive > 0.7


def test_bands_hold_together() -> None:
    """All bands of an audit cover at once, for documents of every true D."""
    rng = np.random.default_rng(7)
    rule = DecisionSpec(level=0.2)
    shift = rng.uniform(0, 0.8, size=(40, 1))
    held = 0
    for _ in range(AUDITS):
        inclusion = shared_inclusion(rng, 40, 300, 0.25)
        values = rng.random((40, 300)) + shift * inclusion  # uniform against shifted uniform: D = shift
        t = compare_arms({"one": values}, inclusion)
        d = decide(t, rule)
        held += bool(((d.band_low <= shift) & (shift <= d.band_high)).all())
    print("simultaneous coverage at level 0.2:", held / AUDITS)
    assert held / AUDITS >= 0.8 - 3 * np.sqrt(0.2 * 0.8 / AUDITS)


def test_a_document_at_the_margin_is_hardly_ever_called_clear() -> None:
    rng = np.random.default_rng(8)
    rule = DecisionSpec(margin=0.3)
    wrong = 0
    for _ in range(AUDITS):
        inclusion = rng.random((20, 900)) < 0.5
        values = rng.random((20, 900)) + 0.3 * inclusion
        t = compare_arms({"one": values}, inclusion)
        wrong += bool((decide(t, rule).verdict == "clear").any())
    print("audits that cleared a document at the margin:", wrong / AUDITS)
    assert wrong / AUDITS <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / AUDITS)


def test_false_discoveries_among_the_flagged_stay_at_their_rate() -> None:
    """Half of the documents leak; of those flagged, at most one in twenty on average does not."""
    rng = np.random.default_rng(9)
    shares = []
    found = []
    for _ in range(AUDITS // 2):
        inclusion = shared_inclusion(rng, 60, 300, 0.3)
        values = dependent_values(rng, 60, 300)
        values[0, :30] += 1.6 * inclusion[:30]
        t = compare_arms({str(s): v for s, v in enumerate(values)}, inclusion)
        sensitive = decide(t, DecisionSpec()).detected
        shares.append(sensitive[30:].sum() / max(sensitive.sum(), 1))
        found.append(sensitive[:30].mean())
    print("false discovery rate:", np.mean(shares), "power:", np.mean(found))
    assert np.mean(shares) <= 0.05
    assert np.mean(found) > 0.5
