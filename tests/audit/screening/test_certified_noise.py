"""Noise that certifies: against a search by hand over the grid, and what the certificate says of new pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from ksdp.audit.certifying import paired_advantages
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.planning import make_plan
from ksdp.audit.screening.advice import CERTIFIED, at_setting, certifying, lever_space, paired_plan
from ksdp.audit.screening.certified_noise import GRID, certified_noise, check_pairs
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.audit.verdicts.certificates import certified_bound
from ksdp.audit.verdicts.multiplicity import share_upper_limit

PAIRS = 40


def spec(mechanism: dict | None = None, **changes) -> Spec:
    inner = mechanism or {"name": "pd-svd", "rank": 2}
    design = {"party_size": 45, "with_runs": 40} | changes.pop("design", {})
    tables = {"corpus": {"path": "x"}, "mechanism": inner, "design": design, "decision": {"margin": 0.4}}
    return parse_spec(tables | {"certificate": {"pairs": PAIRS}} | changes)


def at_noise(asked: Spec, corpus: Corpus, noise: float) -> Spec:
    return at_setting(asked, certifying(asked, {}, noise), corpus.features)


def test_it_is_the_least_of_the_grid_at_which_the_mechanism_s_own_certificate_covers_enough(
    corpus: Corpus,
) -> None:
    asked, drawn, quota = spec(), 20, 0.3
    plan = paired_plan(at_noise(asked, corpus, GRID[-1]), corpus, drawn)
    pairs = paired_advantages(plan, 0, PAIRS)
    found = certified_noise(plan, pairs, documents=90, level=0.05, population=90, quota=quota)

    def by_hand(noise: float) -> tuple[int, float]:
        """Run with that noise in the spec, as an audit does."""
        again = paired_plan(at_noise(asked, corpus, noise), corpus, drawn)
        bound = certified_bound(paired_advantages(again, 0, PAIRS), asked.certificate_level, 90)
        left = int((bound > 0.4).sum())
        return drawn - left, share_upper_limit(left, drawn, 0.05, 90)

    place = GRID.index(found.noise)
    assert by_hand(found.noise) == (found.certified, found.limit)
    assert found.limit <= quota < by_hand(GRID[place - 1])[1]
    assert (found.pairs, found.documents) == (PAIRS, drawn)
    # What was not drawn is certified as well, by pairs that nobody has looked at.
    fresh = paired_plan(parse_spec(at_noise(asked, corpus, found.noise).tables() | {"seed": 11}), corpus, drawn)
    bound = certified_bound(paired_advantages(fresh, 0, PAIRS), asked.certificate_level, 90)
    assert (bound <= 0.4).mean() >= 1 - quota


def test_one_distance_for_all_pairs_is_a_matter_of_arithmetic(corpus: Corpus) -> None:
    """Every pair 0.1 apart: the bound of equal advantages is the m at which one bet on all of them wins."""
    asked = spec(certificate={"pairs": 400})
    plan = paired_plan(at_noise(asked, corpus, GRID[-1]), corpus, 20)
    told = 2 * norm.cdf(0.1 / plan.mechanism.deviation("V") / 2) - 1
    found = certified_noise(plan, np.full((20, 400), told), documents=20, level=0.05, population=90, quota=0.3)
    step = math.sqrt(1 / corpus.features)

    def bound(noise: float) -> float:
        return float(certified_bound(np.full((1, 400), 2 * norm.cdf(0.1 / (noise * step) / 2) - 1), 0.005, 20)[0])

    assert found.noise == min(noise for noise in GRID if bound(noise) <= 0.4)
    assert found.certified == 20


def test_what_cannot_be_certified_says_why(corpus: Corpus) -> None:
    asked = spec()
    plan = paired_plan(at_noise(asked, corpus, GRID[-1]), corpus, 20)
    with pytest.raises(
        InputError, match="no noise up to 64 times `scale` certifies 70.0% of the documents within 0.4"
    ):
        certified_noise(plan, np.ones((20, PAIRS)), documents=90, level=0.05, population=90, quota=0.3)
    with pytest.raises(
        InputError, match="`certificate.pairs` must be more than 10: of 90 documents they prove no"
    ):
        check_pairs(asked, 10, 90)
    check_pairs(asked, PAIRS, 90)
    with pytest.raises(InputError, match="`design.kind` shared or literal"):
        make_plan(at_noise(spec(design={"kind": "balanced", "documents": 15}), corpus, 1.0), corpus)


@pytest.mark.parametrize(
    ("mechanism", "offered"),
    [
        ({"name": "pd-svd", "rank": 2}, True),
        ({"name": "pd-nmf", "rank": 2}, True),
        ({"name": "noisy", "mechanism": "pd-svd", "noise": 0.5, "scale": 1.0, "parameters": {"rank": 2}}, True),
        ({"name": "sigma-svd", "rank": 2}, False),
        ({"name": "pd-pca", "rank": 2}, False),
        ({"name": "moments", "rank": 2}, False),
    ],
)
def test_it_is_offered_where_it_is_asked_for_and_the_final_output_is_one_array(mechanism, offered) -> None:
    levers = {lever.name: lever.values for lever in lever_space(spec(mechanism), 40, ("noise",))}
    assert (CERTIFIED in levers.get("noise", ())) == offered
    assert CERTIFIED not in {value for lever in lever_space(spec(mechanism), 40) for value in lever.values}
    if offered:
        found = at_setting(spec(mechanism), certifying(spec(mechanism), {}, 0.5), 64).mechanism.parameters
        assert (found["noise"], found["scale"], found["parameters"]["opens"]) == (0.5, 0.125, "final")
