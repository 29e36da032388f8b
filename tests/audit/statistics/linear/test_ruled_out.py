"""Who cannot have been in a run: against plain loops, and what the filters say of the others."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS, random_topics
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear import system as module_of_rules
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.statistics.linear.system import RULED_OUT, FirstRatingsFeasible, FirstSumFeasible, WithinColumns

COINS = np.random.default_rng(0)
RULED = {"gamma": 0.4, "delta": 1.5}


def rows(n: int = 60, d: int = 50, seed: int = 1) -> sp.csr_array:
    """Few entries, so that a small party leaves columns out."""
    rng = np.random.default_rng(seed)
    matrix = rng.integers(1, 5, (n, d)) * (rng.random((n, d)) < 0.1)
    matrix[:, 0] = 1  # nobody is empty
    return sp.csr_array(matrix, dtype=np.float64)


def held(n: int = 60, count: int = 6) -> np.ndarray:
    return np.isin(np.arange(n), np.random.default_rng(2).choice(n, count, replace=False))


def stored(observables: object) -> dict[str, np.ndarray]:
    """As the store keeps them."""
    return {name: array.astype(np.float32).astype(np.float64) for name, array in dict(observables).items()}


def plainly(matrix: sp.csr_array, topic: np.ndarray, total: np.ndarray, gamma: float, delta: float) -> list[bool]:
    found = []
    for x in matrix.toarray():
        w = max(float(x @ topic) - gamma * 1.0001, 0.0) / (float(topic @ topic) + delta)
        found.append(all(w * a <= s * 1.0001 for a, s in zip(x, total, strict=True)))
    return found


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("ruled", [{}, RULED])
def test_who_is_in_is_never_ruled_out_and_others_by_what_they_would_have_added(
    start: str, ruled: dict[str, float]
) -> None:
    matrix, mine = rows(), held()
    mechanism = PDNMF(rank=2, sweeps=3, tolerance=0.0, start=start, **ruled)
    seen = stored(mechanism.run(Database((sp.csr_array(matrix[mine]), sp.csr_array(matrix[:2]))), COINS))
    gamma, delta = ruled.get("gamma", 0.0), ruled.get("delta", 0.0)
    given = seen["topics"][0, 0], seen["sums"][0, 0], gamma, delta
    may = FirstSumFeasible(*given, public=False)(matrix, lambda key, of: of(matrix))
    assert may[mine].all()
    assert may.tolist() == plainly(matrix, *given)
    assert not may.all()


def plainly_rated(
    matrix: sp.csr_array, topic: np.ndarray, total: np.ndarray, squares: np.ndarray, gamma: float, delta: float
) -> list[bool]:
    found = []
    for i in range(matrix.shape[0]):
        row = matrix[[i]]
        x, seen = row.data, row.indices
        w = max(float(x @ topic[seen]) - gamma * 1.0001, 0.0) / (float(topic[seen] @ topic[seen]) + delta)
        found.append(bool(((w * x <= total[seen] * 1.0001) & (w * w <= squares[seen] * 1.0001)).all()))
    return found


def rated(seed: int = 1) -> sp.csr_array:
    """Of every user's entries some are a rating of 0, which only the sum of weights holds."""
    matrix = rows(seed=seed)
    matrix.data -= 1.0
    matrix.data[matrix.indices == 0] = 1.0
    return matrix


@pytest.mark.parametrize("ruled", [{}, RULED])
def test_whose_ratings_are_in_is_never_ruled_out_and_others_by_sums_or_by_weights(ruled: dict[str, float]) -> None:
    matrix, mine = rated(), held()
    assert (matrix.data == 0.0).any()
    mechanism = PDNMF(rank=2, sweeps=3, tolerance=0.0, weighted=True, **ruled)
    seen = stored(mechanism.run(Database((sp.csr_array(matrix[mine]), sp.csr_array(matrix[:2]))), COINS))
    rules = ruled.get("gamma", 0.0), ruled.get("delta", 0.0)
    topic, total, squares = seen["topics"][0, 0], seen["sums"][0, 0], seen["weights"][0, 0]
    nothing = np.full(50, np.inf)
    found = []
    for given in ((total, squares), (total, nothing), (nothing, squares)):
        may = FirstRatingsFeasible(topic, *given, *rules)(matrix, lambda key, of: of(matrix))
        assert may[mine].all()
        assert may.tolist() == plainly_rated(matrix, topic, *given, *rules)
        found.append(may.sum())
    assert found[0] <= min(found[1:])
    assert max(found[1:]) < 60


def test_first_coefficients_are_worked_out_once_where_the_start_is_public() -> None:
    matrix, asked = rows(), []
    given = np.ones(50), matrix.toarray().max(axis=0), 0.0, 0.0

    def once(key, compute):
        asked.append(key)
        return compute(matrix)

    found = [FirstSumFeasible(*given, public=public)(matrix, once).tolist() for public in (True, False)]
    assert found[0] == found[1]
    assert [key[0] for key in asked if key[0] == "first coefficient"] == ["first coefficient"]


def test_entries_in_the_rarest_columns_are_asked_first_and_change_no_answer() -> None:
    matrix = sp.csr_array(sp.vstack([rows(), sp.csr_array((2, 50)), rows(8, seed=5)[:, :], sp.csr_array((1, 50))]))
    having = (matrix.toarray() > 0).sum(axis=0)
    topic, total = COINS.random(50), COINS.random(50) * 0.5
    first = module_of_rules._rarest_entries(matrix)
    columns, entries = first["column"], first["entry"]
    for x, mine, there in zip(matrix.toarray(), columns, entries, strict=True):
        assert (x[mine][there > 0] == there[there > 0]).all()
        seen = np.sort(having[x > 0])
        assert len(seen) < 4 or sorted(having[mine]) == seen[:4].tolist()
        assert x.any() == there.any()
    may = FirstSumFeasible(topic, total, 0.0, 0.0, public=True)(matrix, lambda key, of: of(matrix))
    assert may.tolist() == plainly(matrix, topic, total, 0.0, 0.0)
    assert 2 < may.sum() < len(may)


def test_a_document_stands_in_columns_or_not() -> None:
    matrix = rows()
    columns = np.random.default_rng(3).random(50) < 0.9
    wanted = [not (x[~columns] != 0).any() for x in matrix.toarray()]
    assert 0 < sum(wanted) < 60
    assert WithinColumns(columns)(matrix, lambda key, of: of(matrix)).tolist() == wanted


@pytest.mark.parametrize("weighted", [False, True])
def test_who_is_hardly_beyond_the_regulariser_is_not_ruled_out_by_rounding(weighted: bool) -> None:
    """The first coefficient is then what is left of a difference, and all that the run holds of a column."""
    gamma, found = 0.01, []
    for seed in range(20):
        topic = random_topics(50, 2, seed)[0]
        matrix = rows(seed=seed).toarray()
        matrix[:, 49] = 0.0
        matrix[0] = 0.0
        matrix[0, 49] = gamma / topic[49] * (1 + 1e-7 * np.random.default_rng(seed).uniform(-2, 2))
        mechanism = PDNMF(rank=2, sweeps=3, gamma=gamma, start_seed=seed, weighted=weighted)
        documents = Documents(sp.csr_array(matrix), pool=Pool(sp.csr_array(matrix), 0.1, mechanism=mechanism))
        seen = stored(mechanism.run(Database((sp.csr_array(matrix[:6]),)), COINS))
        found.append(LinearSums().evaluate(Observables(seen), documents)[0])
    assert RULED_OUT not in found


@pytest.mark.parametrize("mechanism", [PDSVD(rank=3), PDPCA(rank=3), PDSVD(rank=3, reveal_sigma=True)])
def test_a_stored_zero_rules_nobody_out(mechanism) -> None:
    """A rating of 0, or what two columns became that cancel: nothing that a sum would show."""
    matrix = rows()
    matrix.data[(matrix.indices == 49) | (matrix.indices == 48)] = 0.0
    zeros = np.flatnonzero(np.diff(matrix.indptr) > (matrix.toarray() != 0).sum(axis=1))
    mine = np.isin(np.arange(60), zeros[:6])
    assert mine.sum() == 6
    seen = Observables(stored(mechanism.run(Database((take_rows(matrix, np.flatnonzero(mine)),)), COINS)))
    found = LinearBlocks().evaluate(seen, Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism)))
    assert (found[mine] != RULED_OUT).all()
    assert (found == RULED_OUT).any()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_group_is_ruled_out_with_one_of_its_documents_and_not_by_their_sum(weighted: bool) -> None:
    matrix, mine = rows(), np.arange(60) < 9
    mechanism = PDNMF(rank=2, weighted=weighted)
    seen = Observables(stored(mechanism.run(Database((sp.csr_array(matrix[mine]),)), COINS)))
    pool = Pool(matrix, 0.15, mechanism=mechanism)
    each, starts = Documents(matrix, pool=pool), np.arange(0, 61, 3)
    sums = sp.csr_array(sp.csr_array(np.kron(np.eye(20), np.ones(3))) @ matrix)
    sums.sort_indices()
    groups = Documents(sums, rows=each, starts=starts, pool=pool)
    out, alone = (LinearSums().evaluate(seen, some) == RULED_OUT for some in (groups, each))
    assert out.tolist() == np.logical_or.reduceat(alone, starts[:-1]).tolist()
    assert not out[:3].any()
    assert out.sum() > 10


CASES = [
    (LinearSums(), PDNMF(rank=2)),
    (LinearSums(), PDNMF(rank=2, weighted=True, delta=1.0)),
    (LinearBlocks(), PDSVD(rank=3)),
    (LinearBlocks(), PDPCA(rank=3)),
    (LinearBlocks(), PDSVD(rank=3, reveal_sigma=True)),
    (LinearBlocks(), PDPCA(rank=3, reveal_sigma=True)),
]


@pytest.mark.parametrize(("statistic", "mechanism"), CASES)
def test_who_is_in_is_above_who_may_be_in_above_who_cannot_be(statistic, mechanism) -> None:
    matrix, mine = rows(), held()
    seen = Observables(stored(mechanism.run(Database((sp.csr_array(matrix[mine]),)), COINS)))
    documents = Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism))
    found = statistic.evaluate(seen, documents)
    out = found == RULED_OUT
    assert out.any()
    assert not out[mine].any()
    assert found[~out].min() > RULED_OUT
    assert np.median(found[mine]) > np.max(found[~mine & ~out], initial=RULED_OUT)
    # Beside others, and by itself, a document has the same bits.
    for places in ([7], [3, 59, 12]):
        np.testing.assert_array_equal(statistic.evaluate(seen, documents.at(np.array(places))), found[places])


@pytest.mark.parametrize(
    ("statistic", "runs", "recorded"),
    [
        (LinearSums(), Noisy("pd-nmf", 1.0, {"rank": 2}, scale=1e-9), False),
        (LinearSums(), Noisy("pd-nmf", 1.0, {"rank": 2, "weighted": True}, scale=1e-9), False),
        (LinearSums(), PDNMF(rank=2), True),
        (LinearBlocks(), PDSVD(rank=3, reveal_sigma=True), True),
    ],
)
def test_nobody_is_ruled_out_where_sums_are_not_known_to_be_exact(statistic, runs, recorded: bool) -> None:
    """Noise, and runs that somebody else recorded."""
    matrix, mine = rows(), held()
    seen = Observables(runs.run(Database((sp.csr_array(matrix[mine]),)), COINS))
    pool = Pool(matrix, 0.1, mechanism=None if recorded else runs)
    assert (statistic.evaluate(seen, Documents(matrix, pool=pool)) != RULED_OUT).all()


def test_where_nobody_fits_everybody_is_reckoned_with() -> None:
    """Announced zeros rule all out; the filter is still finite."""
    mechanism, matrix = PDNMF(rank=2), rows()
    seen = {name: array.copy() for name, array in mechanism.run(Database((matrix,)), COINS).items()}
    seen["sums"][0, 0] = 0.0
    pool = Pool(matrix, 0.1, mechanism=mechanism)
    documents = Documents(matrix, pool=pool)
    assert (LinearSums().evaluate(Observables(seen), documents) == RULED_OUT).all()
    other = replace(documents, matrix=sp.csr_array((1, 50)))
    assert np.isfinite(LinearSums().evaluate(Observables(seen), other)).all()


@pytest.mark.parametrize("left", [0, 1])
def test_where_hardly_anybody_fits_the_others_are_ruled_out_all_the_same(left: int) -> None:
    """Too few to be fitted by themselves, of sums that outnumber documents: all are, and not all are told."""
    mechanism, matrix = PDNMF(rank=2), sp.csr_array(rows()[:12])
    seen = dict(mechanism.run(Database((matrix,)), COINS))
    first = matrix[[4]].toarray()[0] > 0
    assert (matrix.toarray()[:, ~first].sum(axis=1) > 0).sum() == 11
    seen["sums"] = seen["sums"].copy()
    seen["sums"][0, 0] = np.where(first, seen["sums"][0, 0], 0.0) * left
    found = LinearSums().evaluate(
        Observables(seen), Documents(matrix, pool=Pool(matrix, 0.1, mechanism=mechanism))
    )
    assert np.flatnonzero(found != RULED_OUT).tolist() == [4] * left


def test_who_adds_what_single_precision_hardly_holds_is_not_ruled_out() -> None:
    """A start by nnsvd is so small in columns that no large document shares: rounded, it is off by a lot."""
    for tiny, size in itertools.product(np.geomspace(1e-46, 1e-37, 100), (1.66e-4, 16.6, 1.66e7)):
        x = sp.csr_array(np.array([[0.0, size], [3.0, 0.0]]))
        topic = np.array([1.0, tiny])
        total = (x @ topic / (topic @ topic)) @ x
        kept, sums = (a.astype(np.float32).astype(np.float64) for a in (topic, total))
        assert FirstSumFeasible(kept, sums, 0.0, 0.0, False)(x, lambda key, of, x=x: of(x)).all()
