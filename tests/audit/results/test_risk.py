"""Three layers of risk: what is declared never enters what was measured, and the combined one is a bound."""

from dataclasses import replace

import numpy as np
import pytest

from ksdp.audit.results.parts import FreshSummary, VerdictCounts
from ksdp.audit.results.risk import gaussian_mu, least_precision, most_right, precision
from ksdp.audit.specs.models import DeclaredSpec
from ksdp.dashboards.audits.sentences import layers, precise

from ...summaries import SPEC, example

FRESH = FreshSummary(60, 2, 30, 2, 0.4, 0.45, 0.6, 1.2, 0.25, None)
DECLARED = SPEC.model_copy(update={"declared": DeclaredSpec(prior=0.1, people=50)})


@pytest.mark.parametrize("prior", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("advantage", [0.0, 0.2, 0.9, 1.0])
def test_every_pair_of_rates_with_this_difference_is_within_both_bounds(prior: float, advantage: float) -> None:
    least, guesses = least_precision(prior, advantage), []
    for fpr in np.linspace(0, 1 - advantage, 11):
        assert precision(prior, fpr + advantage, fpr) >= least - 1e-12
        guesses.append(prior * (fpr + advantage) + (1 - prior) * (1 - fpr))
    assert max(guesses) == pytest.approx(most_right(prior, advantage))


def test_precision_is_what_a_simulation_counts() -> None:
    rng = np.random.default_rng(5)
    took_part = rng.random(400_000) < 0.1
    claims = rng.random(400_000) < np.where(took_part, 0.25, 0.01)
    assert precision(0.1, 0.25, 0.01) == pytest.approx(took_part[claims].mean(), abs=0.01)


def test_mu_is_that_of_two_gaussians_with_this_distance() -> None:
    rng = np.random.default_rng(6)
    mu = gaussian_mu(0.2)
    assert mu == pytest.approx(0.507, abs=0.001)
    values = rng.standard_normal(400_000)
    assert (values + mu > mu / 2).mean() - (values > mu / 2).mean() == pytest.approx(0.2, abs=0.005)
    assert gaussian_mu(1.0) is None


def test_layers_stay_apart() -> None:
    plain, declared = example(fresh=FRESH), example(fresh=FRESH, spec=DECLARED)
    assert plain.risk.measured == declared.risk.measured
    assert plain.risk.combined is None
    combined = declared.risk.combined
    assert combined.proved == pytest.approx(0.1 / (0.1 + 0.9 * 0.4))
    assert (combined.at_margin, combined.at_margin_fpr_01) == pytest.approx((0.92, 0.1 * 0.21 / (0.021 + 0.009)))
    assert combined.median_at_fpr_01 == pytest.approx(0.025 / (0.025 + 0.009))
    assert (combined.exposed, combined.undecided) == pytest.approx((10.0, 30.0))
    assert declared.risk.to_json()["declared"]["people"] == 50


def test_sentences_say_what_is_known_and_nothing_of_a_void_audit() -> None:
    assert precise(example(fresh=FRESH)) == []
    assert precise(replace(example(fresh=FRESH, spec=DECLARED), valid=False)) == []
    first, second, third = precise(example(fresh=FRESH, spec=DECLARED))
    assert "is right more than 92 % of the time" in first
    assert "right at least 21.7 % for the document that the first runs showed most" in second
    assert "with 1 % false alarms, 73.5 % for half of the detected. That is no upper limit" in second
    assert third.startswith("Of 50 people, about 10 are exposed above the margin, and 30 more may be, if")
    assert len(precise(example(spec=DECLARED))) == 2
    assert layers(replace(example(fresh=FRESH), valid=False)) == []
    told = dict(layers(example(fresh=FRESH)))
    assert list(told) == ["Measured", "Declared", "Combined"]
    assert "The margin is 0.20." in told["Measured"][0]
    assert "with a detected leak have 0.40 or more. At 1 % false alarms" in told["Measured"][1]
    assert told["Declared"] == ["Not declared: prior, people, harm."]
    (combined,) = told["Combined"]
    assert combined.startswith("Not computed: “prior” in “[declared]” of the spec would say")
    proved = replace(example(), verdicts=VerdictCounts(0, 5, 0, every_attack=5))
    assert dict(layers(proved))["Measured"][0].startswith("A proof bounds the advantage of every attack")
    told = dict(layers(example(fresh=FRESH, spec=DECLARED)))
    assert told["Declared"][0].endswith("a chance of 10 % to take part.")
    assert told["Combined"] == [first, second, third]
