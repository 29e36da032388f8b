"""Filters of rounds where `noisy` adds noise: both noises are reckoned with; the first round stands alone too."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistic import Documents, Pool, Statistic
from ksdp.audit.statistics.linear.releases import (
    LinearBasis,
    LinearBlocks,
    LinearReleases,
    LinearSums,
    OfFirstRound,
)

N, D = 60, 50


@pytest.fixture(scope="module")
def rows() -> sp.csr_array:
    rng = np.random.default_rng(3)
    found = rng.poisson(0.4, (N, D)).astype(float)
    found[:, 0] += 1.0
    return canonical(sp.csr_array(found / np.linalg.norm(found, axis=1)[:, None]))


FEDPOWER = {"rank": 2, "iterations": 3, "period": 1, "noise": 1e-3, "central_noise": 1e-3}
NOISY: list[tuple[str, dict[str, Any], set[str]]] = [
    ("fedpower", FEDPOWER, {"linear-releases", "linear-releases-first-round"}),
    ("hardt-roth", {"rank": 2, "iterations": 3}, {"linear-releases", "linear-releases-first-round"}),
    ("dp-nmf", {"rank": 2, "sweeps": 2}, {"linear-releases", "linear-releases-first-round"}),
    ("pem-kmeans", {"clusters": 2}, {"linear-releases", "linear-releases-first-round"}),
    ("pem-logistic", {}, {"linear-releases", "linear-releases-first-round"}),
    ("pem-apriori", {}, {"linear-releases"}),
    ("pd-nmf", {"rank": 2}, {"linear-sums-first-round"}),
    ("pd-svd", {"rank": 2, "solver": "power"}, {"linear-blocks-first-round"}),
    ("pd-nmf", {"rank": 2, "opens": "final"}, set()),
]


@pytest.mark.parametrize(("name", "parameters", "brought"), NOISY)
def test_noise_around_a_mechanism_hides_none_of_its_filters(
    name: str, parameters: dict[str, Any], brought: set[str]
) -> None:
    assert {s.name for s in Noisy(name, 0.1, parameters).statistics} == brought
    own = {s.name for s in getattr(make_mechanism(name, parameters), "statistics", ())}
    assert {s.name for s in Noisy(name, 0.0, parameters).statistics} == own


@pytest.mark.parametrize(
    ("name", "parameters", "named"),
    [
        ("fedpower", FEDPOWER, ("uploads",)),
        ("hardt-roth", {"rank": 2, "iterations": 3, "epsilon": 30.0}, ("sums",)),
        ("dp-nmf", {"rank": 2, "sweeps": 2, "epsilon": 30.0}, ("sums", "weights")),
        ("pem-kmeans", {"clusters": 2, "iterations": 2, "epsilon": 30.0}, ("sums", "counts")),
        ("pem-logistic", {"iterations": 2, "epsilon": 30.0}, ("gradients",)),
        ("pem-apriori", {"epsilon": 30.0}, ("items", "pairs", "longer")),
    ],
)
def test_the_variance_of_an_entry_is_that_of_both_noises(
    name: str, parameters: dict[str, Any], named: tuple[str, ...], rows: sp.csr_array
) -> None:
    """What is added to one array is added to the variance of its entries, in units of these, and to no other's."""
    inner: Any = make_mechanism(name, parameters)
    seen = inner.run(Database((sp.csr_array(rows[: N // 2]),)), np.random.default_rng(0))
    pool = Pool(rows, 0.5, mechanism=inner)
    alone = np.broadcast_to(inner.as_equations(seen, pool)[1].noise, inner.as_equations(seen, pool)[1].sums.shape)
    unit = N // 2 if name == "fedpower" else 1.0
    more = np.zeros_like(alone)
    for number, array in enumerate(named, start=1):
        _, known = inner.as_equations(seen, pool, lambda other, _, a=array: 2.0 if other == a else 0.0)
        extra = known.noise - alone
        np.testing.assert_allclose(extra[extra > 0.5], 2.0 * unit**2, rtol=1e-6)
        more += number * (extra > 0.5)
    assert set(np.unique(more)) == set(range(1, len(named) + 1)), "every entry has one array's noise"


WEIGHTED = {"rank": 2, "weighted": True, "beta": 1.0, "delta": 1.0}


@pytest.mark.parametrize(
    ("statistic", "name", "parameters"),
    [
        (LinearSums(), "pd-nmf", {"rank": 2, "sweeps": 5}),
        (LinearSums(), "pd-nmf", {**WEIGHTED, "sweeps": 4}),
        (LinearBlocks(), "sigma-svd", {"rank": 2, "solver": "power", "iterations": 4}),
        (LinearBlocks(), "pd-svd", {"rank": 2, "solver": "power", "iterations": 4}),
        (LinearBlocks(), "pd-pca", {"rank": 2, "solver": "power", "iterations": 4}),
        (LinearBasis(), "pd-svd", {"rank": 2}),
        (make_mechanism("fedpower", FEDPOWER).statistics[0], "fedpower", FEDPOWER),  # type: ignore[attr-defined]
        *(
            (OfFirstRound(of), name, {"rank": 2})
            for of, name in ((LinearSums(), "pd-nmf"), (LinearBlocks(), "pd-svd"))
        ),
    ],
    ids=lambda value: getattr(value, "name", value if isinstance(value, str) else ""),
)
@pytest.mark.parametrize("noise", [1e-4, 1e-2])
def test_what_equations_miss_is_as_large_as_the_noise_that_is_stated(
    statistic: Any, name: str, parameters: dict[str, Any], noise: float
) -> None:
    """In every row of every round: terms follow from blocks and topics that carry noise themselves."""
    rows = canonical(sp.csr_array(np.random.default_rng(3).poisson(1.0, (300, D)).astype(float)))
    noisy, squares, rng = Noisy(name, noise, parameters), [], np.random.default_rng(1)
    pool = Pool(rows, 0.5, mechanism=noisy)
    for _ in range(12):
        (taken,) = pool.one_draw(rng)
        found = statistic.linear_model(noisy.run(Database((taken,)), rng), pool)
        if found is None:  # V tells nothing with so much noise
            assert (statistic.name, noise) == ("linear-basis", 1e-2)
            return
        terms, known = found
        made = terms(taken)
        off = np.square(known.sums - made.rmatvec(np.ones(taken.shape[0]))) / known.noise
        wide, _ = made.split(off)
        squares.append(wide.mean(axis=1))
    rounds = np.sqrt(np.mean(squares, axis=0))
    assert np.all((rounds > 0.5) & (rounds < 2.0)), rounds
    assert 0.75 < np.sqrt(np.mean(squares)) < 1.4


@pytest.mark.parametrize(
    ("statistic", "name", "cut"),
    [
        (LinearBlocks(), "pd-svd", {"first_blocks": 2}),
        (LinearSums(), "pd-nmf", {"topics": 2, "sums": 1, "weights": 1}),
        (LinearBlocks(), "sigma-svd", {"first_blocks": 2, "block_sums": 1}),
        (LinearReleases(), "hardt-roth", {"sums": 1}),
    ],
)
def test_what_is_there_before_the_first_round_belongs_to_it(
    statistic: Statistic, name: str, cut: dict[str, int], rows: sp.csr_array
) -> None:
    mechanism = make_mechanism(name, {"rank": 2})
    seen = mechanism.run(Database((sp.csr_array(rows[: N // 2]),)), np.random.default_rng(0))
    documents = Documents(rows, pool=Pool(rows, 0.5, mechanism=mechanism))
    wanted = statistic.evaluate(
        Observables({**seen, **{key: seen[key][:rounds] for key, rounds in cut.items()}}), documents
    )
    found = OfFirstRound(statistic).evaluate(seen, documents)
    np.testing.assert_array_equal(found, wanted)
    assert np.ptp(found) > 0.0
    assert (found != statistic.evaluate(seen, documents)).any()


def test_the_filter_is_told_how_much_was_added(rows: sp.csr_array) -> None:
    """Much noise on the sums, and none of the mechanism's own to speak of: terms times sums over that noise."""
    parameters = {"rank": 2, "iterations": 2, "epsilon": 1e9}
    noisy = Noisy("hardt-roth", 1.0, parameters, scale={"sums": 200.0, "V": 1.0})
    seen = noisy.run(Database((sp.csr_array(rows[: N // 2]),)), np.random.default_rng(0))
    found = LinearReleases().evaluate(seen, Documents(rows, pool=Pool(rows, 0.5, mechanism=noisy)))
    adds, known = noisy.inner.as_equations(seen, Pool(rows))  # type: ignore[attr-defined]
    terms = adds(rows).written()
    plain = (terms - terms.mean(axis=0)) @ (known.sums - 0.5 * terms.sum(axis=0))
    assert np.corrcoef(found, plain)[0, 1] > 0.9999


def told(statistic: Statistic, mechanism: Noisy, rows: sp.csr_array) -> float:
    """The chance that a document that is in is above one that is not, over some runs."""
    documents, chances = Documents(rows, pool=Pool(rows, 0.5, mechanism=mechanism)), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        held = np.isin(np.arange(N), rng.choice(N, N // 2, replace=False))
        found = statistic.evaluate(mechanism.run(Database((sp.csr_array(rows[held]),)), rng), documents)
        chances.append((found[held][:, None] > found[~held]).mean())
    return float(np.mean(chances))


def test_later_rounds_that_noise_blurs_take_nothing_from_the_first(rows: sp.csr_array) -> None:
    """FedPower's uploads with little noise, of blocks that follow from means with much."""
    noisy = Noisy("fedpower", 1.0, FEDPOWER, scale={"uploads": 1e-3, "means": 1.0, "scales": 1.0, "V": 1.0})
    every, first = (told(one, noisy, rows) for one in (noisy.statistics[0], noisy.statistics[1]))
    assert every > first - 0.01 > 0.97


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("pem-kmeans", {"clusters": 2, "iterations": 2}), ("pem-logistic", {"iterations": 2}), ("pem-apriori", {})],
)
def test_coins_of_who_enters_a_round_shrink_what_its_sums_tell(
    name: str, parameters: dict[str, Any], rows: sp.csr_array
) -> None:
    """The variance of coins is (1 - r) / r of what documents in add, those out by chance 1 - share added none."""
    mechanism: Any = make_mechanism(name, parameters | {"sampling": 0.4, "epsilon": 30.0})
    seen = mechanism.run(Database((sp.csr_array(rows[: N // 2]),)), np.random.default_rng(0))
    _, known = mechanism.as_equations(seen, Pool(rows, 0.25, mechanism=mechanism))
    assert known.shrink == pytest.approx(0.6 / 0.4 / 0.75)
