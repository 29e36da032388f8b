"""Pairs of runs through a real mechanism with noise of public size."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from ksdp.audit.certifying import paired_advantages
from ksdp.audit.corpus import Corpus
from ksdp.audit.design import Block
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.guarantee import guarantee_of
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.spec import parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.bands import distance_band
from ksdp.audit.verdicts.certificate import certified_bound


def plan_of(corpus: Corpus, scale: float | None, **design) -> Plan:
    noisy = {"name": "noisy", "mechanism": "pd-pca", "noise": 1.0, "parameters": {"rank": 2}}
    noisy |= {} if scale is None else {"scale": scale}
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": noisy}
    return make_plan(parse_spec(tables | {"design": {"party_size": 30, "with_runs": 150} | design}), corpus)


def test_the_certified_bound_is_above_every_measured_lower_bound(corpus: Corpus) -> None:
    plan = plan_of(corpus, 0.3)
    block = Block(0, 0, plan.design.runs)
    measured = measure(plan, block, sample(plan, block), plan.tested)
    tests = compare_arms(measured.values, measured.inclusion)
    rows = [3, 40, 71]
    pairs = np.stack([paired_advantages(plan, row, 60) for row in rows])
    bound = certified_bound(pairs, 0.05, len(rows))
    flat = tests.distance[rows].ravel()
    low = distance_band(flat, tests.n_with[rows].ravel(), tests.n_without[rows].ravel(), 0.05 / flat.size)[0]
    assert (bound[:, None] >= low.reshape(len(rows), -1)).all()
    assert (bound > pairs.mean(axis=1)).all()


def test_a_pair_differs_in_one_document_and_is_what_the_normals_say(corpus: Corpus) -> None:
    """By hand, on the mechanism's own exact output."""
    narrow, wide = (paired_advantages(plan_of(corpus, scale), 5, 4) for scale in (0.2, 0.4))
    distance = 2 * norm.ppf((narrow + 1) / 2)
    assert wide == pytest.approx(2 * norm.cdf(distance / 4) - 1)
    assert (narrow > 0).all()
    np.testing.assert_array_equal(narrow, paired_advantages(plan_of(corpus, 0.2), 5, 4))


def test_noise_whose_size_depends_on_the_data_is_flagged_and_certifies_nothing(corpus: Corpus) -> None:
    plan = plan_of(corpus, None)
    assert not guarantee_of(plan.mechanism).sound
    assert "channel" in guarantee_of(plan.mechanism).notes
    with pytest.raises(SpecError, match="public and fixed"):
        paired_advantages(plan, 5, 4)
    assert guarantee_of(plan_of(corpus, 0.2).mechanism).sound
    with pytest.raises(SpecError, match="fixed size"):
        paired_advantages(plan_of(corpus, 0.2, sampling="poisson"), 5, 4)


def test_the_scale_is_the_deviation_whatever_the_data() -> None:
    import scipy.sparse as sp

    from ksdp.audit.mechanisms.contract import Database

    mechanism = Noisy("pd-pca", noise=0.5, parameters={"rank": 2}, scale=3.0)
    for factor in (1.0, 100.0):
        database = Database((sp.csr_array(factor * np.random.default_rng(0).random((40, 30))),))
        seen = mechanism.run(database, np.random.default_rng(1))["V"]
        exact = mechanism.without_noise(database, np.random.default_rng(1))["V"]
        assert (seen - exact).std() == pytest.approx(1.5, rel=0.3)
    for scale in (0.0, -1.0, True, {"V": 0.0}):
        with pytest.raises(SpecError, match="`scale`"):
            Noisy("pd-pca", parameters={"rank": 2}, scale=scale)
    with pytest.raises(SpecError, match="every array"):
        Noisy("pd-pca", parameters={"rank": 2}, scale={"W": 1.0}).deviation("V")
