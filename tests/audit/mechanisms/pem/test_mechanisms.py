"""PEM as mechanisms that the audit accepts, and the epsilon that they claim, measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic, PemMechanism
from ksdp.audit.mechanisms.pem.noise import log_law
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism, select_statistics
from ksdp.audit.runs import measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistic import Documents

RNG = np.random.default_rng(0)
ROWS = sp.csr_array((RNG.random((90, 8)) < 0.4).astype(float))
DATABASE = Database((ROWS[:30], ROWS[30:60], ROWS[60:]))
ALL = [
    PEMKMeans(clusters=3, iterations=4, bound=8.0),
    PEMLogistic(iterations=5, bound=7.0),
    PEMApriori(longest=8, support=0.1),
]
NAMES = [m.name for m in ALL]


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
def test_announces_its_schema_and_repeats_itself(mechanism: Mechanism) -> None:
    seen = mechanism.run(DATABASE, np.random.default_rng(1))
    assert {a.name: a.shape for a in recorded(mechanism, 8)} == {n: seen[n].shape for n in seen}
    assert all(np.isfinite(seen[n]).all() for n in seen)
    again = mechanism.run(DATABASE, np.random.default_rng(1))
    other = mechanism.run(DATABASE, np.random.default_rng(2))
    for name in seen:
        np.testing.assert_array_equal(seen[name], again[name])
    assert any((seen[n] != other[n]).any() for n in seen)


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
def test_the_audits_statistics_can_be_computed(mechanism: Mechanism) -> None:
    chosen, _ = select_statistics(["geometry"], [], [a.name for a in recorded(mechanism, 8)])
    seen = mechanism.run(DATABASE, np.random.default_rng(1))
    for statistic in chosen:
        assert np.isfinite(statistic.evaluate(seen, Documents(ROWS))).all()


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
def test_the_registry_makes_it_by_path(mechanism: Mechanism) -> None:
    kind = type(mechanism)
    made = make_mechanism(f"{kind.__module__}:{kind.__name__}", {"epsilon": 2.0})
    assert made.name == mechanism.name
    with pytest.raises(SpecError, match="not a parameter"):
        make_mechanism(f"{kind.__module__}:{kind.__name__}", {"epsilons": 2.0})


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
def test_a_coalition_sees_the_others_records_only(mechanism: Mechanism) -> None:
    """Almost without noise: what is left after subtraction is what the other parties' rows give."""
    exact = replace(mechanism, epsilon=1e9)  # type: ignore[type-var]
    database = Database(DATABASE.parties, frozenset({1, 2}))
    seen = exact.run(database, np.random.default_rng(1))
    if "items" in seen:
        np.testing.assert_allclose(seen["items"], ROWS[:30].sum(axis=0), atol=1e-3)
    elif "counts" in seen:
        assert seen["counts"][0].sum() == pytest.approx(30, abs=1e-3)
    else:
        y = ROWS[:30].toarray()[:, -1]
        first = ((0.5 - y)[:, None] * ROWS[:30].toarray())[:, :-1].sum(axis=0)
        np.testing.assert_allclose(seen["gradients"][0][:-1], first, atol=1e-2)


def item_gap(epsilon: float, colluding: int, runs: int = 400) -> tuple[float, np.ndarray]:
    """KS distance of the noisy count of one item, with and without the record that holds it."""
    mechanism = PEMApriori(longest=2, support=1.0, epsilon=epsilon, servers=3, colluding=colluding)
    base = np.zeros((20, 3))
    base[:, 0] = 1
    other = base.copy()
    other[0] = [0, 0, 1]
    values = []
    for rows in (base, other):
        database = Database((sp.csr_array(rows),))
        seen = [mechanism.run(database, np.random.default_rng([r, len(values)]))["items"] for r in range(runs)]
        values.append(np.array(seen) @ [1.0, 0.0, -1.0])
    return float(ks_2samp(values[0], values[1]).statistic), values[0]


def test_measured_advantage_keeps_to_epsilon_and_the_colluding_servers_raise_it() -> None:
    epsilon = 4.0  # two iterations of which one sees the items: 2 for them
    claimed = np.tanh(epsilon / 2 / 2)
    near, _ = item_gap(epsilon, colluding=2)
    far, _ = item_gap(epsilon, colluding=0)
    assert far + 0.05 < near <= claimed + 0.05


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("PEMKMeans", {"bound": 8.0, "clusters": 2, "iterations": 3}),
        ("PEMLogistic", {"bound": 7.0, "iterations": 5}),
        ("PEMApriori", {"longest": 8}),
    ],
)
def test_an_audit_finds_more_where_epsilon_is_larger(name: str, parameters: dict) -> None:
    corpus = Corpus(canonical(ROWS), np.array([f"r{i}" for i in range(90)]))

    def median_distances(epsilon: float) -> NDArray[np.float64]:
        spec = {
            "seed": 1,
            "corpus": {"path": "x", "weighting": "counts", "rows": "none"},
            "mechanism": {"name": f"ksdp.audit.mechanisms.pem.mechanisms:{name}", "epsilon": epsilon} | parameters,
            "design": {"party_size": 20, "with_runs": 25},
            "statistics": {"families": []},
        }
        plan = make_plan(Opened.of(parse_spec(spec), corpus))
        block = Block(0, 0, plan.design.runs)
        measured = measure(plan, block, sample(plan, block), plan.statistics)
        bits = measured.inclusion[:90]
        return np.array([
            np.median([ks_2samp(v[b], v[~b]).statistic for v, b in zip(values[:90], bits, strict=True)])
            for values in (measured.values[one.name] for one in plan.statistics)
        ])  # fmt: skip

    matched, learnt = median_distances(1e4) - median_distances(0.05)
    assert matched > 0.1
    assert learnt > 0.1


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
def test_it_says_what_it_promises_and_which_sampler_protects(mechanism: PemMechanism) -> None:
    said = replace(mechanism, servers=4, sampling=0.5).guarantee
    assert (said.kind, said.epsilon, said.delta, said.sound) == ("(epsilon, delta)", 1.0, 0.0, True)
    assert "all but one of the 4 servers" in said.trust
    assert "samples that only the record's own client knows" in said.unit
    assert not said.as_json()["protects"]
    assert replace(mechanism, sampler="discrete").guarantee.as_json()["protects"]


@pytest.mark.parametrize("mechanism", ALL, ids=NAMES)
def test_the_worst_pair_reaches_the_claim_and_never_passes_it(mechanism: PemMechanism) -> None:
    """Every value of the likelihood ratio is bounded by epsilon; the largest possible one is epsilon itself."""
    smallest = {"pem-kmeans": {"bound": 1.0}, "pem-logistic": {"bound": 1.0}, "pem-apriori": {}}
    exact = replace(mechanism, epsilon=2.0, **smallest[mechanism.name])
    pair = exact.neighbours()
    ratios = np.array(
        [[exact.log_likelihood_ratio(exact.transcript(d, np.random.default_rng(r)), pair) for r in range(60)]
         for d in pair]
    )  # fmt: skip
    assert np.abs(ratios).max() <= 2.0 + 1e-9
    assert ratios[0].mean() > 0 > ratios[1].mean()
    few: Any = {"length": 2} if isinstance(exact, PEMApriori) else {"iterations": 1}
    one_round = replace(exact, **few)
    pair = one_round.neighbours()
    runs = [one_round.transcript(pair[0], np.random.default_rng(r)) for r in range(200)]
    assert max(one_round.log_likelihood_ratio(run, pair) for run in runs) == pytest.approx(2.0)


def test_the_likelihood_ratio_is_that_of_the_law_by_slow_convolution() -> None:
    """Two servers' noise is hidden and records are drawn by coins; by hand, from the announced counts alone."""
    mechanism = PEMApriori(longest=2, support=0.2, epsilon=2.0, servers=3, colluding=1, sampling=0.3)
    pair = mechanism.neighbours()
    each = np.log1p((np.e - 1) / 0.3)  # an iteration costs 1; on a sample more may be spent
    wide = np.arange(-400, 401)

    def chance(seen: np.ndarray, scale: float, held: int) -> float:
        """Of an iteration's counts, if the record adds `held` to each where the coin draws it."""
        alone = np.exp(log_law(scale, wide))
        both = np.convolve(alone, alone)
        drawn, not_drawn = (np.prod(both[seen.astype(int) - h + 800]) for h in (held, 0))
        return float(0.3 * drawn + 0.7 * not_drawn)

    pairs_seen = 0
    for seed in range(25):
        run = mechanism.transcript(pair[seed % 2], np.random.default_rng(seed))
        scales = (2 / each, 1 / each)  # two counts may change by one each; then one
        by_hand = sum(
            np.log(chance(total.values[0], scale, 1)) - np.log(chance(total.values[0], scale, 0))
            for total, scale in zip(run.seen, scales, strict=False)
        )
        pairs_seen += len(run.seen) == 2
        assert mechanism.log_likelihood_ratio(run, pair) == pytest.approx(by_hand, abs=1e-9)
    assert pairs_seen > 10


def test_two_hidden_records_have_no_exact_ratio() -> None:
    mechanism = PEMLogistic(iterations=1)
    pair = tuple(Database((sp.csr_array(np.eye(2) + bit),)) for bit in (0.0, 1.0))
    with pytest.raises(SpecError, match="all records but one"):
        mechanism.log_likelihood_ratio(mechanism.transcript(pair[0], np.random.default_rng(0)), pair)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PEMKMeans(servers=1), "servers"),
        (lambda: PEMKMeans(colluding=2), "colluding"),
        (lambda: PEMKMeans(epsilon=0.0), "epsilon"),
        (lambda: PEMLogistic(epsilon=np.inf), "finite"),
        (lambda: PEMKMeans(sampler="numpy"), "sampler"),
        (lambda: PEMKMeans(clusters=0), "clusters"),
        (lambda: PEMLogistic(bound=-1.0), "bound"),
        (lambda: recorded(PEMLogistic(label=9), 5), "label"),
        (lambda: PEMApriori(support=2.0), "support"),
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        call()
