"""PEM as mechanisms that the audit accepts, and the epsilon that they claim, measured."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic, PemMechanism
from ksdp.audit.mechanisms.pem.noise import log_law

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
