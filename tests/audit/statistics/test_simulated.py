"""The statistic learnt from simulated runs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp, norm
from sklearn.linear_model import Ridge

from ksdp.audit.contract import Alignment, Database, Observables, Release
from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.further import LinearRule, further_runs
from ksdp.audit.statistics.simulated import (
    Alignments,
    Entries,
    Likeness,
    SimulatedStatistic,
    SumRules,
    aligned,
    few_terms,
    learn,
    ridge_rules,
    simulated_runs,
)
from ksdp.audit.verdicts.laws import ks_table

pytestmark = pytest.mark.learns
MARKED = 3
RUNS = 400


def pool_of(announced: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Pool:
    rows = np.random.default_rng(5).normal(size=(20, 3))
    rows[MARKED, 0] = 9.0
    matrix = sp.csr_array(rows)
    mechanism = function_mechanism("own", lambda x, rng: announced(x.toarray(), rng), matrix[:10])
    return Pool(matrix, 0.5, None, mechanism)


def inside(rows: np.ndarray) -> int:
    return int((rows[:, 0] == 9.0).any())


def exclusive(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    bit = int(rng.integers(2))
    return np.array([bit, bit ^ inside(rows)], float)


def of_many(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=3000)
    noise[1234] += 3.0 * inside(rows)
    return noise


def position(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.random(8)
    noise[2 + inside(rows)] += 1.0
    return rng.normal() * 10.0 + noise


def order(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    pair = np.sort(rng.normal(size=2))
    return pair if inside(rows) else pair[::-1].copy()


def nothing(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=30)


def levels(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    few = rng.integers(0, 4, size=6).astype(float)
    few[2] = rng.choice([1.0, 2.0] if inside(rows) else [0.0, 3.0])
    return few


def agreement(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of 200 numbers two agree in sign, or differ; each by itself says nothing."""
    noise = rng.normal(size=200)
    noise[170] = abs(noise[170]) * np.sign(noise[90]) * (1 if inside(rows) else -1)
    return noise


def spread(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    noise = rng.normal(size=5000)
    noise[4100] *= 20.0 if inside(rows) else 1.0
    return noise


def turned(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of a matrix whose sign says who was in, where nothing but the sign does."""
    return rng.normal(5.0, 1.0, size=(2, 6)) * (1.0 if inside(rows) else -1.0)


def heavy(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Of 2,000 numbers one is of another kind than the others: its mean is anywhere, and its median moves."""
    noise = rng.normal(size=2000)
    noise[1500] = rng.standard_cauchy() ** 3 + 400.0 * inside(rows)
    return noise + 1e9 * (np.arange(2000) % 2)  # neighbours, far apart, say nothing


def unlike(count: int) -> Likeness:
    """Documents of which each is learnt by itself."""
    return Likeness(np.zeros(0), np.zeros((count, 0)))


def over(seen: Observables, runs: int, alignment: Alignment = "none") -> SimulatedStatistic:
    announced = [Release(name, np.shape(array), alignment=alignment) for name, array in seen.items()]
    return SimulatedStatistic().over(announced, runs)


def distances(pool: Pool, runs: int = 300, alignment: Alignment = "none") -> np.ndarray:
    """D of each document, on runs with a seed of their own."""
    documents, rng = Documents(pool.drawn, pool=pool), np.random.default_rng(77)
    bits, values = np.zeros((runs, pool.drawn.shape[0]), bool), []
    for run in range(runs):
        places, parts = pool.one_choice(rng)
        bits[run, places] = True
        seen = pool.mechanism.run(Database(parts), rng)
        values.append(over(seen, RUNS, alignment).evaluate(seen, documents))
    found = np.array(values)
    return np.array([ks_2samp(found[b, i], found[~b, i]).statistic for i, b in enumerate(bits.T)])


RARE = [pytest.param(leak, marks=pytest.mark.validity) for leak in (of_many, agreement, spread, heavy)]


@pytest.mark.parametrize("leak", [exclusive, position, order, levels, *RARE])
def test_a_leak_that_is_no_shift_of_a_sum_is_found_and_laid_on_nobody_else(leak: Callable) -> None:
    found = distances(pool_of(leak))
    assert found[MARKED] > 0.75
    assert np.delete(found, MARKED).max() < 0.3


def test_what_an_array_is_turned_by_may_be_the_leak() -> None:
    assert distances(pool_of(turned), alignment="signs")[MARKED] > 0.9


def test_a_group_is_learnt_as_one_and_copies_of_its_documents_in_others_are_no_matter() -> None:
    """Persons of one row or some, of whom a sum is announced that is not linear in their rows."""
    rng = np.random.default_rng(3)
    group = np.sort(np.concatenate([np.arange(20), rng.integers(0, 20, 15)]))
    rows = sp.csr_array(rng.integers(1, 4, (35, 3)).astype(float))
    mechanism = function_mechanism(
        "own", lambda some, _: np.array([np.square(some.toarray()[:, :2].prod(axis=1)).sum()]), rows[:10]
    )
    pool = Pool(rows, 0.5, mechanism=mechanism, group=group)
    starts = np.append(np.searchsorted(group, np.arange(20)), 35)
    sums = sp.csr_array(sp.csr_array((np.ones(35), (group, np.arange(35)))) @ rows)
    groups = Documents(sums, rows=Documents(rows, pool=pool), starts=starts, pool=pool)
    bits, values, rng = [], [], np.random.default_rng(4)
    for _ in range(500):
        places, parts = pool.one_choice(rng)
        held = np.unique(group[places])
        assert len(held) == 10
        assert (np.bincount(group[places], minlength=20)[held] == np.diff(starts)[held]).all(), "whole groups"
        seen = mechanism.run(Database(parts), rng)
        bits.append(np.isin(np.arange(20), held))
        values.append(over(seen, RUNS).evaluate(seen, groups))
    found = ks_table(np.array(values, np.float32).T, np.array(bits).T).distance
    adds = np.bincount(group, np.square(rows.toarray()[:, :2].prod(axis=1)))
    spread = np.abs(adds - adds.mean())
    assert found[spread.argmax()] > 0.5
    assert np.corrcoef(found, spread)[0, 1] > 0.8


def test_of_recorded_runs_a_party_learns_of_its_own_rows() -> None:
    rng = np.random.default_rng(2)
    bits = rng.random((500, 20)) < 0.5
    recorded = RecordedRuns({"sum": rng.normal(size=(500, 1))}, bits, 3)
    rows = np.array([3, 8, 9, 19])
    pool = Pool(sp.csr_array(np.eye(4)), 0.5, mechanism=recorded, corpus_rows=rows)
    learnt = list(simulated_runs(pool, {"sum": (1,)}, 10, rng))
    assert len(learnt) == 250
    for (places, _), held in zip(learnt, bits, strict=False):
        assert np.isin(np.arange(4), places).tolist() == held[rows].tolist()


def test_of_pure_noise_nothing_is_learnt() -> None:
    assert distances(pool_of(nothing), 600).max() < 0.18  # 600 runs: 20 documents in noise reach 0.15


def test_a_value_is_the_same_whoever_is_measured_beside() -> None:
    pool = pool_of(lambda rows, rng: np.cov(rows.T))
    every = Documents(pool.drawn, pool=pool)
    _, parts = pool.one_choice(np.random.default_rng(1))
    arrays = pool.mechanism.run(Database(parts), np.random.default_rng(1))
    one = over(arrays, 50)
    whole = one.evaluate(Observables(dict(arrays)), every)
    for some in ([4], [17, 4, 2], range(0, 20, 3)):
        chosen = np.array(list(some), np.int64)
        np.testing.assert_array_equal(one.evaluate(Observables(dict(arrays)), every.at(chosen)), whole[chosen])
        apart = Documents(pool.drawn[chosen], pool=pool)
        np.testing.assert_array_equal(one.evaluate(Observables(dict(arrays)), apart), whole[chosen])


def test_documents_are_learnt_of_a_part_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    z, bits = rng.normal(size=(60, 9)), (rng.random((60, 7)) < 0.5).astype(float)
    for alike, rtol, atol in (
        (unlike(7), 0.0, 1e-12),
        (Likeness.of(sp.csr_array(rng.normal(size=(7, 2)))), 1e-4, 1e-6),
    ):
        whole = learn(Alignments(()), z, np.zeros((60, 0)), bits, alike)
        with monkeypatch.context() as patch:
            patch.setattr("ksdp.audit.statistics.simulated._LEARNT_AT_ONCE", 3)
            parts = learn(Alignments(()), z, np.zeros((60, 0)), bits, alike)
        assert len(whole.ridges) == len(parts.ridges)
        for one, other in zip(whole.ridges, parts.ridges, strict=True):
            np.testing.assert_array_equal(one.documents, other.documents)
            np.testing.assert_allclose(one.weights, other.weights, rtol, atol)


def test_weights_are_those_of_ridge_regression_and_each_run_is_left_out() -> None:
    """Of each document by itself, then as kernel ridge regression over documents smooths its rule."""
    rng = np.random.default_rng(0)
    z, bits = rng.normal(size=(60, 9)), (rng.random((60, 4)) < 0.5).astype(float)
    bits[:, 1] = z[:, 2] > 0
    gram, centred = (z @ z.T) / 9, bits - bits.mean(axis=0)
    rows, people = (z - z.mean(axis=0)) / 3, rng.normal(size=(4, 2)) * [1.0, 50.0]
    apart = (((people[:, None] - people) / people.std(axis=0)) ** 2).sum(axis=2)
    alike = np.exp(-apart / (4.0 * np.median(apart)))
    found = ridge_rules(gram, centred, Likeness.of(sp.csr_array(people)))
    ridges = (0.03, 0.3, 3.0)
    for smooth, ridge in (*((None, ridge) for ridge in ridges), *((s, ridge) for ridge in ridges for s in ridges)):
        penalty = ridge * np.trace(rows @ rows.T) / 60
        alone = Ridge(penalty).fit(rows, bits).coef_
        guessed = np.zeros_like(centred)
        for run in range(60):
            others = np.delete(np.arange(60), run)
            guessed[run] = Ridge(penalty).fit(rows[others], bits[others]).predict(rows[run : run + 1])[0]
        guessed -= bits.mean(axis=0)
        over_documents = np.eye(4) if smooth is None else alike @ np.linalg.inv(alike + smooth * np.eye(4))
        rtol, atol = (0.0, 1e-10) if smooth is None else (1e-4, 1e-5)  # in single precision, smoothed
        _, correlation, weigh = next(found)
        np.testing.assert_allclose(rows.T @ weigh(np.arange(4)), alone.T @ over_documents, rtol, atol)
        np.testing.assert_allclose(weigh(np.array([2])), weigh(np.arange(4))[:, [2]], rtol=1e-5)
        for document, guess in enumerate((guessed @ over_documents).T):
            literal = np.corrcoef(guess, centred[:, document])[0, 1]
            assert correlation[document] == pytest.approx(literal, abs=atol)
    assert next(found, None) is None


def test_likeness_of_many_documents_is_nearly_that_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 6))
    rows = np.column_stack([rows, np.full(300, 7.0)])  # a column that does not vary says nothing
    whole = Likeness.of(sp.csr_array(rows))
    monkeypatch.setattr("ksdp.audit.statistics.simulated._LANDMARKS", 120)
    some = Likeness.of(sp.csr_array(rows))
    assert len(some.values) <= 120 < len(whole.values)
    for one in (some, whole):
        np.testing.assert_allclose(one.vectors.T @ one.vectors, np.eye(len(one.values)), atol=1e-6)
    kept = [(one.vectors * one.kept(0.3)) @ one.vectors.T for one in (some, whole)]
    assert np.abs(kept[0] - kept[1]).max() < 0.05


def test_of_documents_that_are_all_the_same_all_are_alike() -> None:
    alike = Likeness.of(sp.csr_array(np.ones((5, 3))))
    np.testing.assert_allclose((alike.vectors * alike.values) @ alike.vectors.T, np.ones((5, 5)), atol=1e-6)


def test_documents_that_are_alike_are_learnt_together() -> None:
    """Means of 20 columns of 400 documents from 200 runs: most of the 20 of 400 that their equations hold."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 20))
    bits = np.argsort(rng.random((1200, 400)), axis=1) < 200
    numbers = bits @ rows / 200
    train, order, held = numbers[:200], np.zeros((200, 0)), bits[200:]
    reading = Alignments(("means",), ("none",), (train[0],))
    train = np.stack([reading(Observables({"means": one}))[0] for one in train])
    told = []
    for alike in (unlike(400), Likeness.of(sp.csr_array(rows))):
        rules = learn(reading, train, order, bits[:200].astype(float), alike)
        scores = np.stack([rules.scores(Observables({"means": one})) for one in numbers[200:]])
        told.append(np.mean([np.corrcoef(one, bit)[0, 1] for one, bit in zip(scores.T, held.T, strict=True)]))
    alone, together = told
    assert alone < 0.1
    assert together > 0.75 * np.sqrt(20 / 400)


def test_each_document_has_the_rule_that_tells_it_apart() -> None:
    rng = np.random.default_rng(0)
    numbers, order = rng.normal(size=(500, 60)), np.zeros((500, 0))
    told = [numbers.sum(axis=1) > 0, numbers[:, 7] > 0, numbers[:, 5] * numbers[:, 59] > 0]
    rules = learn(Alignments(()), numbers, order, np.stack(told, axis=1).astype(float), unlike(3))
    assert [list(rule.documents) for rule in rules.ridges if rule.kernel < 3] == [[0]]
    beyond = numbers.shape[1] * 16  # fifteen levels of each stand between the numbers and their order
    assert terms_of(rules.sums) == [(1, 60 + 7 * 15 + 7, beyond), (2, 5, 59)]  # a median, and a product


def terms_of(rules: SumRules) -> list[tuple[int, int, int]]:
    return sorted(zip(rules.documents.tolist(), rules.first.tolist(), rules.second.tolist(), strict=True))


@pytest.mark.validity
def test_a_leak_that_moves_some_of_many_numbers_a_little_is_the_sum_of_these() -> None:
    """An attacker who knows them has an advantage of 0.49, ridge regression on all numbers of 0.2."""
    rng = np.random.default_rng(0)
    bits = (rng.random((3000, 1)) < 0.5).astype(float)
    numbers = rng.normal(size=(3000, 5000))
    moved = np.arange(0, 5000, 157)
    numbers[:, moved] += 1.3 / np.sqrt(len(moved)) * bits * np.where(moved % 2 == 1, -1.0, 1.0)
    rules = learn(Alignments(()), numbers[:2000], np.zeros((2000, 0)), bits[:2000], unlike(1))
    assert not rules.ridges
    assert np.isin(moved, rules.sums.first).mean() > 0.8
    assert len(set(terms_of(rules.sums))) == len(rules.sums.first)  # the one that moves most is not there twice
    scores = [rules.sums.scores(np.append(z, np.float32(1)), 1)[0] for z in rules.scales[0](numbers[2000:])]
    held = bits[2000:, 0] > 0
    assert ks_2samp(np.array(scores)[held], np.array(scores)[~held]).statistic > 0.4


def test_further_runs_teach_nearly_all_that_a_weighted_sum_can_tell() -> None:
    """Of documents with an advantage of 0.4 in 150 numbers 2,000 runs teach a rule of less than 0.37."""
    rng, wanted = np.random.default_rng(0), further_runs(120, 30, 150, 0.4, 0.4)
    bits, codes = rng.random((wanted, 4)) < 0.4, rng.normal(size=(4, 150))
    codes *= 2.0 * norm.ppf(0.7) / np.linalg.norm(codes, axis=1)[:, None]
    numbers = (rng.normal(size=(wanted, 150)) + bits @ codes).astype(np.float32)
    advantages = []
    for runs in (2000, wanted):
        rule = LinearRule.of(numbers[:runs], bits[:runs].astype(float), np.zeros(4))
        others = codes.T @ codes * 0.24 + np.eye(150)
        for document, weights in zip(rule.documents, (rule.weights.T / rule.scale.deviation), strict=True):
            own = codes[document]
            spread = np.sqrt(weights @ (others - 0.24 * np.outer(own, own)) @ weights)
            advantages.append(2.0 * norm.cdf(weights @ own / spread / 2.0) - 1.0)
    few, many = np.mean(advantages[:4]), np.mean(advantages[4:])
    assert few < 0.37
    assert many > 0.38
    assert LinearRule.of(numbers[:200], bits[:200].astype(float), np.ones(4)).documents.size == 0


def test_a_statistic_learns_from_further_runs_where_it_is_given_some() -> None:
    turns = 50.0 * np.random.default_rng(1).normal(size=(3, 60))
    pool = pool_of(lambda rows, rng: rng.normal(size=60) + 0.3 * np.sin(rows @ turns).sum(axis=0))
    documents, rng = Documents(pool.drawn, pool=pool), np.random.default_rng(78)
    bits, few, many = np.zeros((300, 20), bool), [], []
    for bit in bits:
        places, parts = pool.one_choice(rng)
        bit[places] = True
        seen = pool.mechanism.run(Database(parts), rng)
        few.append(over(seen, 60).evaluate(seen, documents))
        many.append(replace(over(seen, 60), further=1500).evaluate(seen, documents))
    more = [ks_table(np.array(found).T.astype(np.float32), bits.T).distance.mean() for found in (few, many)]
    assert more[1] > more[0] + 0.05


def test_correlations_of_sums_are_of_runs_that_did_not_choose_them() -> None:
    """Entries are chosen and weighed without a fifth of the runs, whose bits are guessed by them, literally."""
    rng = np.random.default_rng(1)
    z = tuple(rng.normal(size=(100, n)).astype(np.float32) for n in (30, 0, 0))
    centred = (rng.random((100, 2)) < 0.5) + 0.3 * z[0][:, :1]
    centred -= centred.mean(axis=0)
    entries = Entries.of(z, 2)
    for bound, (rules, gains) in zip((2.5, 3.5), few_terms(entries, centred), strict=True):
        for document, bits in enumerate((centred / centred.std(axis=0)).T):
            guess = np.zeros(100)
            for fold in range(0, 100, 20):
                out = np.arange(fold, fold + 20)
                others = np.delete(np.arange(100), out)
                found = entries.values[:, others] @ bits[others] / np.sqrt(80)
                found[np.abs(found) <= bound] = 0.0
                guess[out] = found @ entries.values[:, out]
            expected = np.corrcoef(guess, bits)[0, 1] if guess.std() else 0.0
            assert gains[document] == pytest.approx(expected, abs=1e-5)
            whole = entries.values @ bits / 10
            assert (rules.documents == document).sum() == (np.abs(whole) > bound).sum()
        assert 0 in rules.documents


def test_of_constant_numbers_nothing_is_said() -> None:
    assert distances(pool_of(lambda rows, rng: np.ones(4)), 40).max() == 0.0


@pytest.mark.parametrize("alignment", ["signs", "permutation", "rotation"])
def test_what_a_release_leaves_open_is_turned_back(alignment) -> None:
    rng = np.random.default_rng(3)
    reference = np.abs(rng.normal(size=(2, 4, 9)))
    turns = {
        "signs": np.diag([1.0, -1.0, -1.0, 1.0]),
        "permutation": np.eye(4)[[2, 0, 3, 1]],
        "rotation": np.linalg.qr(rng.normal(size=(4, 4)))[0],
    }
    np.testing.assert_allclose(aligned(turns[alignment] @ reference, reference, alignment), reference, atol=1e-12)
    assert (aligned(reference, -reference, "none") == reference).all()
