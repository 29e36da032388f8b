"""The three algorithms: without noise they are the plain ones, with noise they come near as epsilon grows."""

from collections.abc import Callable
from itertools import combinations
from math import inf

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemRun, PemState, run_ideal
from ksdp.audit.mechanisms.pem.functions import PemApriori, PemKMeans, PemLogistic, candidates, supports
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated, Sparse, VectorBlock

from ....extras.pem.parties_here import one_hot

ROWS = one_hot(3000, 5, attributes=4)
CLIENTS = [ROWS[i::50] for i in range(50)]
SIGNAL = np.asarray(ROWS @ np.tile([-1.0, 0.0, 1.0], 4)) + np.random.default_rng(6).normal(size=3000)
LABELS = (SIGNAL > 0.5).astype(float)
LABELLED = sp.csr_array(sp.hstack((ROWS, LABELS[:, None]), format="csr"))
LOGISTIC = PemLogistic(13, bound=4.0, cap=1.0)
KMEANS = PemKMeans(3, 12, bound=4.0, fraction_bits=0, start_seed=1)
APRIORI = PemApriori(12, 4, 0.05, length=3)


def run(algorithm: object, epsilon: float, iterations: int, seed: int, noises: int = 2, **more: object) -> PemRun:
    rows = LABELLED if algorithm is LOGISTIC else ROWS
    return run_ideal(
        algorithm, [rows], Budget(epsilon, iterations, **more),  # type: ignore[arg-type]
        Simulated(np.random.default_rng(seed)), noises=noises, random=np.random.default_rng(seed).bytes,
    )  # fmt: skip


# Without noise


def test_logistic_regression_without_noise_is_scikit_learns() -> None:
    penalty = 0.05
    algorithm = PemLogistic(13, bound=4.0, rate=3.0, penalty=penalty, fraction_bits=30)
    final = run_ideal(algorithm, [LABELLED], Budget(inf, 800), Simulated(np.random.default_rng(0))).final
    plain = LogisticRegression(C=1 / (penalty * 3000), fit_intercept=False, tol=1e-10, max_iter=1000)
    plain.fit(ROWS, LABELS)
    np.testing.assert_allclose(final.arrays["w"][:-1], plain.coef_[0], atol=1e-4)
    assert algorithm.accuracy(final, LABELLED) == pytest.approx(plain.score(ROWS, LABELS), abs=0.002)


def test_kmeans_without_noise_is_scikit_learns() -> None:
    result = run(KMEANS, inf, 20, 0)
    start = result.states[0].arrays["centres"]
    plain = KMeans(3, init=start, n_init=1, max_iter=20, tol=0, algorithm="lloyd").fit(ROWS.toarray())
    np.testing.assert_allclose(result.final.arrays["centres"], plain.cluster_centers_, atol=1e-12)


def test_apriori_without_noise_is_counting() -> None:
    result = run(APRIORI, inf, 3, 0)
    dense = ROWS.toarray() > 0
    for length in (1, 2, 3):
        for itemset in combinations(range(12), length):
            count = int(dense[:, itemset].all(axis=1).sum())
            kept = APRIORI.found(result.final).get(itemset)
            assert kept == (count if count >= 0.05 * 3000 else None), itemset


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 4), st.data())
def test_candidates_are_those_whose_subsets_are_all_frequent(length: int, data: st.DataObject) -> None:
    every = list(combinations(range(7), length - 1))
    frequent = sorted(data.draw(st.sets(st.sampled_from(every))))
    rows = np.array(frequent, dtype=np.int16).reshape(-1, length - 1)
    expected = [c for c in combinations(range(7), length) if set(combinations(c, length - 1)) <= set(frequent)]
    assert [tuple(row) for row in candidates(rows, 7).tolist()] == expected


def test_supports_count_records_of_any_number() -> None:
    for rows in (0, 1, 63, 64, 65, 200):
        dense = np.random.default_rng(rows).random((rows, 5)) < 0.6
        itemsets = np.array(list(combinations(range(5), 2)), dtype=np.int16)
        expected = [int(dense[:, pair].all(axis=1).sum()) for pair in itemsets]
        assert supports(sp.csr_array(dense.astype(float)), itemsets).tolist() == expected


def test_a_record_of_too_many_items_counts_with_its_first() -> None:
    algorithm = PemApriori(6, 2, 0.5, length=2)
    rows = sp.csr_array(np.array([[1.0, 1, 1, 1, 0, 0], [0, 1, 1, 0, 0, 0]]))
    assert algorithm.map_in_client(rows, algorithm.init()).tolist() == [1, 2, 1, 0, 0, 0]


# With noise


def test_kmeans_survives_counts_of_nothing_but_noise() -> None:
    """Known error 30: noisy counts are zero or negative; centres stay finite and inside the box."""
    for seed in range(20):
        result = run(KMEANS, 1e-3, 5, seed)
        assert any((t.values[1] <= 0).any() for t in result.totals)
        for state in result.states:
            assert ((state.arrays["centres"] >= 0) & (state.arrays["centres"] <= 1)).all()


def test_apriori_keeps_no_more_than_it_may() -> None:
    few = PemApriori(12, 4, 0.05, length=3, keep=5)
    state = run(few, 0.02, 3, 0).final
    assert all(len(state.arrays[f"items{k}"]) <= 5 for k in range(2, state.iteration + 1))
    exact, every = run(few, inf, 3, 0).final, run(APRIORI, inf, 3, 0).final
    kept, pairs = exact.arrays["counts2"], every.arrays["counts2"]
    assert sorted(kept) == sorted(pairs)[-len(kept) :], "the most frequent ones"
    best = every.arrays["items2"][np.sort(np.argsort(-pairs, kind="stable")[: len(kept) + 1])]
    assert len(few.candidates_of(exact)) <= 5, "and as many as make so many candidates"
    assert len(kept) == 5 or len(candidates(best, 12)) > 5


def test_a_run_says_what_it_cost_and_what_drew_the_noise() -> None:
    assert run(KMEANS, 2.0, 8, 0).epsilon == 2.0
    assert "simulation" in run(KMEANS, 2.0, 8, 0).sampler
    assert run(KMEANS, 2.0, 8, 0, noises=0).epsilon == inf


def test_a_coalition_sees_less_noise_and_not_its_own_records() -> None:
    budget = Budget(1.0, 1)
    arguments = (KMEANS, CLIENTS[:5], budget)
    seen = run_ideal(
        *arguments, Simulated(np.random.default_rng(1)), noises=3, known_noises=2, known_parts=CLIENTS[5:]
    )
    alone = run_ideal(*arguments, Simulated(np.random.default_rng(1)), noises=1)
    assert seen.seen[0].values[1].tolist() == alone.totals[0].values[1].tolist()
    assert seen.totals[0].rows == 3000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PemLogistic(1, 1.0), "features"),
        (lambda: PemLogistic(3, 1.0, label=3), "label"),
        (lambda: PemLogistic(3, 1.0, rate=0.0), "rate"),
        (lambda: PemLogistic(3, 0.0), "bound"),
        (lambda: PemKMeans(0, 3, 1.0), "clusters"),
        (lambda: PemKMeans(2, 3, 1.0, share=1.0), "share"),
        (lambda: PemKMeans(2, 3, 1.0, start_seed=-1), "start_seed"),
        (lambda: PemApriori(5, 6, 0.1), "longest"),
        (lambda: PemApriori(5, 5, 0.0), "support"),
        (lambda: PemApriori(2**15, 5, 0.1), "items"),
        (lambda: run(KMEANS, 1.0, 2, 0, stream=True), "`stream`"),
        (lambda: run(KMEANS, 1.0, 2, 0, sparse=Sparse(1.0, 1)), "one block"),
        (
            lambda: run_ideal(
                KMEANS, [ROWS], Budget(1.0, 1), Simulated(np.random.default_rng(0)), noises=2, known_noises=2
            ),
            "known_noises",
        ),
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.deviation(
    "PEM, Apriori: as aggregator: have an itemset counted twice, or with less noise than all itemsets need"
)
@pytest.mark.parametrize("fault", ["repeats", "falls", "outside", "bound", "longer"])
def test_apriori_counts_no_itemset_twice_and_with_no_other_bound(fault: str) -> None:
    """An aggregator that shows such a state would read a record that all clients sent with noise for less."""
    records = sp.csr_array(np.eye(12, dtype=np.float64))
    items = {"repeats": [[7], [7]], "falls": [[7], [3]], "outside": [[3], [12]], "bound": [[3], [7]]}
    items["longer"] = [*map(list, combinations(range(7), 6))]  # one itemset of seven, with the noise of pairs
    blocks = (APRIORI.block(2, 1),)
    honest = PemState(1, {"items1": np.array([[3], [7]], dtype=np.int16)}, blocks)
    assert APRIORI.map_in_client(records, honest).tolist() == [0]
    if fault == "bound":
        blocks = (VectorBlock(1, 1.0, cap=1.0, nonnegative=True),)
    with pytest.raises(InputError, match="the aggregator is not to be trusted"):
        APRIORI.map_in_client(records, PemState(1, {"items1": np.array(items[fault], dtype=np.int16)}, blocks))
