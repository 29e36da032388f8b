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
