"""What is gained: against plain loops, and where joining is worth nothing."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls
from scipy.stats import t as student
from sklearn.decomposition import TruncatedSVD

from ksdp.audit.learning.gain import (
    ALL,
    OTHERS,
    GainRows,
    _entering,
    _split,
    gain_scores,
    interval,
    summarise_gain,
)
from ksdp.audit.learning.learners import Learnt, exact_of
from ksdp.audit.learning.measures import coherence, diversity, foretold, kept, topic_match
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.specs.models import GainSpec


def unlike(n: int = 240, seed: int = 0) -> GainRows:
    rng = np.random.default_rng(seed)
    party = np.arange(n) % 3
    matrix = 0.05 * rng.standard_normal((n, 9))
    matrix[np.arange(n), party] += 1
    found = sp.csr_array(matrix)
    return GainRows(found, found, None, np.array(["ada", "bob", "cy"])[party])


def table(mechanism, rows: GainRows, asked: GainSpec) -> dict:
    scores = list(gain_scores(mechanism, rows, asked, 1))
    return {(s.split, s.learner, s.party, s.judged, s.measure): s.value for s in scores}


def test_unlike_parties_gain_and_one_that_is_alone_knows_its_own() -> None:
    rows, asked = unlike(), GainSpec(splits=2)
    found = table(PDSVD(rank=3), rows, asked)
    assert found[0, "exact", "", ALL, "energy"] > 0.95
    # Its other two directions are noise: they hold what chance gives of the others' (a quarter).
    assert found[0, "alone", "ada", ALL, "energy"] < 0.75
    assert found[0, "alone", "ada", "ada", "energy"] > 0.95
    summary = summarise_gain(list(gain_scores(PDSVD(rank=3), rows, asked, 1)), "pd-svd", asked, True)
    assert summary.measures[0].gains
    assert summary.measures[0].kept.mean == pytest.approx(1.0)
    # What a party asks first is about its own documents, of which it knows as much alone.
    assert summary.sentences[0].startswith("On its own documents ")
    assert summary.sentences[1].startswith("Joining gains +")
    own, others = summary.measures[0].own, summary.measures[0].others
    assert own.high < others.low


def test_a_gain_is_of_the_documents_that_may_enter() -> None:
    rows, asked = unlike(), GainSpec(splits=2)
    mine = dataclasses.replace(rows, listed=rows.party != "bob")
    found, every = table(PDSVD(rank=3), mine, asked), table(PDSVD(rank=3), rows, asked)
    judged = OTHERS + "bob"
    assert found[0, "run", "", "bob", "energy"] < 0.5 < 0.95 < every[0, "run", "", "bob", "energy"]
    assert found[0, "run", "", judged, "energy"] == pytest.approx(every[0, "run", "", judged, "energy"], abs=0.02)
    same = [key for key in found if key[1] in ("alone", "exact")]
    assert [found[key] for key in same] == [every[key] for key in same]


def test_scores_are_those_of_a_plain_svd() -> None:
    rows, asked = unlike(), GainSpec(splits=2)
    found = table(PDSVD(rank=2), rows, asked)
    values = {key: value for key, value in found.items() if key[1] == "exact" and key[3] == ALL}
    from ksdp.audit.learning.gain import _split  # the same documents, learnt from by scikit-learn

    for split in (0, 1):
        drawn = _split(rows, asked, 1, split)
        model = TruncatedSVD(2, random_state=0).fit(rows.judge.toarray()[drawn.train])
        test = rows.judge.toarray()[drawn.test]
        share = ((test @ model.components_.T) ** 2).sum() / (test**2).sum()
        assert values[split, "exact", "", ALL, "energy"] == pytest.approx(share, abs=1e-4)


def test_alike_parties_with_many_documents_gain_nothing_and_that_is_said_first() -> None:
    rng = np.random.default_rng(0)
    matrix = sp.csr_array(rng.standard_normal((900, 4)) * [3.0, 2.0, 0.1, 0.1])
    rows, asked = GainRows(matrix, matrix, None), GainSpec(splits=4, parties=3, public=100)
    summary = summarise_gain(list(gain_scores(PDSVD(rank=2), rows, asked, 1)), "pd-svd", asked, False)
    assert summary.alike
    assert summary.sentences[0].startswith("Joining gains nothing here, for parties drawn alike")
    assert summary.sentences[1].startswith("On its own documents a party gains nothing for sure: ")
    assert summary.sentences[2].startswith("Public data alone are as good")


def test_noise_costs_gain_and_only_the_run_is_learnt_again_without_baselines() -> None:
    rows, asked = unlike(), GainSpec(splits=2)
    noisy = Noisy("pd-svd", noise=0.5, scale=1.0, parameters={"rank": 3})
    found = table(noisy, rows, asked)
    assert found[0, "run", "", ALL, "energy"] < found[0, "exact", "", ALL, "energy"]
    again = list(gain_scores(noisy, rows, asked, 1, baselines=False))
    assert {score.learner for score in again} == {"run"}


def test_the_exact_run_has_no_noise() -> None:
    exact = exact_of(Moments(rank=4))
    assert isinstance(exact, PDSVD)
    assert (exact.name, exact.rank) == ("pd-svd", 4)
    assert exact_of(Noisy("pd-svd", noise=0.1, scale=1.0)).name == "pd-svd"


def test_levers_are_judged_in_the_columns_of_the_corpus() -> None:
    rows, lift = unlike(), sp.csr_array(np.eye(9)[:, :2])
    levered = GainRows(sp.csr_array(rows.judge @ lift), rows.judge, lift, rows.party)
    found = table(PDSVD(rank=1), levered, GainSpec(splits=2))
    # The third party's direction is no column any more: two of three directions, one of them learnt.
    assert 0.15 < found[0, "run", "", ALL, "energy"] < 0.5


def test_intervals_are_students_with_the_overlap_of_splits() -> None:
    values = [0.1, 0.3, 0.2, 0.4]
    half = student.ppf(0.975, 3) * np.std(values, ddof=1) * np.sqrt(1 / 4 + 0.25)
    assert interval(values, 0.25).high == pytest.approx(np.mean(values) + half)


def test_topics_are_judged_by_what_they_say() -> None:
    rng = np.random.default_rng(0)
    first = rng.random((200, 1)) < 0.5
    counts = np.hstack([first & (rng.random((200, 12)) < 0.8), ~first & (rng.random((200, 12)) < 0.8)]).astype(
        float
    )
    good = Learnt(np.kron(np.eye(2), np.ones(12)), None, True)
    bad = Learnt(np.tile([1.0, 0.5], (2, 12)), None, True)
    assert coherence(good, sp.csr_array(counts)) > coherence(bad, sp.csr_array(counts))
    assert diversity(good) == 1
    assert diversity(bad) == 0.5
    assert topic_match(Learnt(good.rows[::-1], None, True), good) == pytest.approx(1)


def tastes(users: int = 240, items: int = 30) -> GainRows:
    rng = np.random.default_rng(2)
    stars = rng.random((users, 2)) @ (rng.random((2, items)) * 4) + 1
    seen = rng.random(stars.shape) < 0.5
    whole = sp.csr_array(np.where(seen, np.clip(np.rint(stars), 1, 5), 0.0))
    late = rng.random(whole.nnz) < 0.2
    given, later = kept(whole, ~late), kept(whole, late)
    return GainRows(given, given, None, ratings=True, later=later)


def test_later_ratings_are_predicted_by_what_parties_learn_together() -> None:
    rows, asked = tastes(), GainSpec(splits=3, parties=12)
    mechanism = PDNMF(rank=2, weighted=True, beta=0.1, delta=0.1, sweeps=30)
    found = summarise_gain(tuple(gain_scores(mechanism, rows, asked, 5)), "pd-nmf", asked, named=False)
    main = found.measures[0]
    assert main.measure == "later ratings (minus RMSE)"
    assert "NDCG@10" in {each.measure for each in found.measures}
    assert main.run.mean == main.exact.mean > main.alone.mean
    assert -0.6 < main.run.mean < 0, "rounding alone makes 0.3"


def test_what_is_foretold_is_judged_as_by_hand() -> None:
    rows = tastes(40)
    assert rows.later is not None
    T = np.random.default_rng(0).random((2, 30)) * 3
    rmse, gained = foretold(Learnt(T, None, True, Penalties(delta=0.5)), rows.judge, rows.later)
    squares, orders = [], []
    for given, later in zip(rows.judge.toarray(), rows.later.toarray(), strict=True):
        known, asked = given > 0, later > 0
        if known.sum() < 2 or asked.sum() < 2 or known.sum() + asked.sum() < 10:
            continue
        design = np.vstack([T[:, known].T, np.sqrt(0.5) * np.eye(2)])
        said = np.clip(nnls(design, np.append(given[known], [0, 0]))[0] @ T[:, asked], 1, 5)
        squares += ((said - later[asked]) ** 2).tolist()
        discounts = 1 / np.log2(np.arange(2, 12))
        best = np.sort(later[asked])[::-1][:10]
        order = later[asked][np.argsort(-said, kind="stable")][:10]
        orders.append((order @ discounts[: len(order)]) / (best @ discounts[: len(best)]))
    assert len(orders) > 30
    np.testing.assert_allclose([-rmse, gained], [np.sqrt(np.mean(squares)), np.mean(orders)], atol=2e-3)


def test_a_run_of_a_draw_learns_from_fewer_and_nobody_else_does() -> None:
    rows, asked = unlike(), GainSpec(splits=2)
    drawn = dataclasses.replace(rows, drawn=0.2)
    whole, part = (table(PDSVD(rank=3), each, asked) for each in (rows, drawn))
    for key, value in whole.items():
        assert (part[key] == value) == (key[1] != "run"), key
    for split in (0, 1):
        train = _split(drawn, asked, 1, split).train & _entering(drawn, 1, split)
        assert 20 < train.sum() < 60
        basis = np.linalg.svd(rows.learn.toarray()[train])[2][:3]
        test = rows.judge.toarray()[_split(drawn, asked, 1, split).test]
        energy = ((test @ basis.T) ** 2).sum() / (test**2).sum()
        assert part[split, "run", "", ALL, "energy"] == pytest.approx(energy)


def test_groups_are_held_out_drawn_and_dealt_whole() -> None:
    rows = dataclasses.replace(unlike(), party=None, group=np.arange(240) // 6, drawn=0.5)
    split = _split(rows, GainSpec(splits=2, public=5), 1, 0)
    for mask in (split.test, split.public, _entering(rows, 1, 0), split.labels == "alike 1"):
        of_group = mask.reshape(40, 6)
        assert (of_group.all(axis=1) == of_group.any(axis=1)).all()
        assert 0 < mask.sum() < 240
