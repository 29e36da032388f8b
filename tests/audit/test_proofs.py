"""Pairs of runs through a real mechanism with noise of public size."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from ksdp.audit.contract import guarantee_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.proofs import certify, known_bounds, knows_all, paired_advantages
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import make_mechanism
from ksdp.audit.runs import measure, sample, stacked
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.certificates import certified_bound
from ksdp.audit.verdicts.margins import distance_band
from ksdp.audit.verdicts.verdict import ProvedBy


def plan_of(corpus: Corpus, scale: float | None, opens: str = "every round", **changes) -> Plan:
    parameters = {"rank": 2, "opens": opens}
    noisy = {"name": "noisy", "mechanism": "pd-pca", "noise": 1.0, "parameters": parameters}
    noisy |= {} if scale is None else {"scale": scale}
    design = {"party_size": 30, "with_runs": 150, "sampling": changes.pop("sampling", "fixed")}
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": noisy, "design": design}
    return make_plan(Opened.of(parse_spec(tables | changes), corpus))


def test_a_proof_by_noise_says_what_it_takes_as_known(corpus: Corpus) -> None:
    noisy = {"name": "moments", "rank": 2, "advantage": 0.2}
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": noisy, "design": {"party_size": 30}}
    trusts = []
    for from_rows in ("", "the weight of each term"):
        plan = make_plan(Opened.of(parse_spec(tables), replace(corpus, from_rows=from_rows)))
        trusts += [bound.trust for bound in known_bounds(plan) if bound.by is ProvedBy.NOISE]
    assert trusts[1] == f"{trusts[0]}; taken as known: the weight of each term, from the party's own rows"


@pytest.mark.validity
def test_the_certified_bound_is_above_every_measured_lower_bound(corpus: Corpus) -> None:
    plan = plan_of(corpus, 0.3, design={"party_size": 30, "with_runs": 60})
    block = Block(0, 0, plan.design.runs)
    measured = measure(plan, block, sample(plan, block), plan.statistics)
    tests = compare_arms(measured.values, measured.inclusion)[: len(plan.audited)]
    pairs = paired_advantages(plan, 0, 6)
    found = certify(pairs, len(tests), 0.05)
    flat = tests.distance.ravel()
    low = distance_band(flat, tests.n_with.ravel(), tests.n_without.ravel(), 0.05 / flat.size)[0]
    assert (found.advantage[:, None] >= low.reshape(len(tests), -1)).all()
    assert not found.contradicted(tests, len(tests), 1).any()
    np.testing.assert_array_equal(found.advantage, certified_bound(pairs, 0.05, len(tests)))
    # Noise of a hundredth of what it says: the measured distances stay, and the bound does not hold.
    many = np.tile(pairs / 100, 40)
    far = replace(tests, distance=np.full_like(tests.distance, 0.9))
    assert certify(many, len(tests), 0.05).contradicted(far, len(tests), 1).all()


def test_a_pair_is_two_databases_that_differ_in_one_unit_whichever_it_is_in(corpus: Corpus) -> None:
    """By hand: the base and the exchange from their streams, distances from the mechanism's own exact output."""
    plan = plan_of(corpus, 0.2, "final")
    inner, pool = plan.mechanism.inner, plan.design.pool
    found = paired_advantages(plan, 2, 4)
    for at, pair in enumerate((2, 3)):
        base = set(generator(1, Purpose.CERTIFICATE, pair).choice(pool, plan.design.size, replace=False).tolist())
        here = inner.run(stacked(plan, np.array(sorted(base))), np.random.default_rng(0))
        held = sorted(base)
        for unit in (5, 17, held[0]):
            own = generator(1, Purpose.CERTIFICATE, pair, unit)
            if unit in base:
                left = sorted(set(pool.tolist()) - base)
                other = (base - {unit}) | {left[own.integers(len(left))]}
            else:
                other = (base - {held[own.integers(len(held))]}) | {unit}
            assert len(other) == len(base)
            there = inner.run(stacked(plan, np.array(sorted(other))), np.random.default_rng(0))
            gap = np.sqrt(sum(((here[name] - there[name]) ** 2).sum() for name in here))
            assert found[unit, at] == pytest.approx(2 * norm.cdf(gap / 0.2 / 2) - 1)
    assert (paired_advantages(plan_of(corpus, 0.2), 2, 4) >= found).all(), "every round tells more than the last"
    # Any pairs, computed in any parts, are the same numbers.
    np.testing.assert_array_equal(paired_advantages(plan, 3, 4)[:, 0], found[:, 1])


@pytest.mark.parametrize("name", ["hardt-roth", "dp-nmf"])
def test_where_noise_is_announced_round_by_round_the_likelihood_ratio_bounds_every_attack(
    corpus: Corpus, name: str
) -> None:
    """Its mean over noise is the total variation: with one round, that of two normals, in closed form."""
    rounds = {"hardt-roth": {"iterations": 1}, "dp-nmf": {"sweeps": 1}}[name]
    parameters = {"name": name, "rank": 1, "epsilon": 2.0, "delta": 0.01} | rounds
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": parameters, "certificate": {"pairs": 2}}
    plan = make_plan(Opened.of(parse_spec(tables | {"design": {"party_size": 30, "with_runs": 20}}), corpus))
    base, other = (stacked(plan, np.arange(first, first + 30)) for first in (0, 1))
    mechanism = plan.mechanism
    told = mechanism.transcript(base, np.random.default_rng(0))
    (a,), (b,) = (mechanism._replayed(told, d) for d in (base, other))
    truth = 2 * norm.cdf(np.linalg.norm(a.exact - b.exact) / a.deviation / 2) - 1
    found = [mechanism.paired(base, lambda s=s: np.random.default_rng(s))(other) for s in range(400)]
    assert 0 < truth < 1
    assert np.mean(found) == pytest.approx(truth, abs=4 * np.std(found) / 20 + 1e-12)
    assert min(found) >= 0
    assert ((paired_advantages(plan, 0, 2) >= 0) & (paired_advantages(plan, 0, 2) <= 1)).all()


def test_what_cannot_be_certified_is_refused_before_anything_runs(corpus: Corpus) -> None:
    plan = plan_of(corpus, None)
    assert not guarantee_of(plan.mechanism).sound
    assert "channel" in guarantee_of(plan.mechanism).notes
    asked = {"certificate": {"pairs": 4}}
    nmf = {"name": "noisy", "mechanism": "pd-nmf", "scale": 1.0, "parameters": {"rank": 2, "start": "best-of-m"}}
    for changes, message in (
        ({"scale": None}, "public and fixed"),
        ({"scale": 0.2, "sampling": "poisson"}, "fixed size"),
        ({"scale": 0.2, "mechanism": {"name": "pd-svd", "rank": 2}}, "density that is known"),
        ({"scale": 0.2, "mechanism": {"name": "fedpower", "rank": 2}}, "draws more than"),
        ({"scale": 0.2, "mechanism": {"name": "dp-nmf", "rank": 2, "sampler": "discrete"}}, "operating system"),
        ({"scale": 0.2, "mechanism": nmf}, "leaves out"),
    ):
        with pytest.raises(SpecError, match=message):
            plan_of(corpus, **(changes | asked))
    assert guarantee_of(plan_of(corpus, 0.2, **asked).mechanism).sound


def test_who_knows_all_others_has_everything_where_there_is_no_noise() -> None:
    assert knows_all(make_mechanism("pd-svd", {})) == 1.0
    assert knows_all(make_mechanism("pd-nmf", {})) == 1.0
    assert knows_all(make_mechanism("noisy", {"noise": 0.0})) == 1.0
    assert knows_all(make_mechanism("noisy", {"scale": 1.0})) is None
    assert knows_all(make_mechanism("dp-nmf", {})) is None
