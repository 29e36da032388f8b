"""The start by secure sums, against the centralised one, and what must refuse it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition._nmf import _initialize_nmf
from threadpoolctl import threadpool_limits

from ksdp.audit.contract import Database
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.nmf_starts import (
    STARTS,
    LocalFit,
    SvdStart,
    best_of_parties,
    initial_topics,
    local_models,
    merged_topics,
    nnsvd,
    part_squares,
    random_topics,
    topics_from_parts,
)
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients, pd_nmf_iter
from ksdp.audit.mechanisms.privacy.noisy import Noisy


def corpus(n, d, seed, topics=5):
    """Documents that mix a few topics of unequal weight, so that the singular values are apart."""
    rng = np.random.default_rng(seed)
    words = rng.dirichlet(np.full(d, 0.1), size=topics)
    mixtures = rng.dirichlet(0.5 / np.arange(1, topics + 1), size=n) @ words
    return sp.csr_array(rng.poisson(200 * mixtures).astype(float))


@pytest.fixture(scope="module")
def parties():
    # The second party has topics of its own: the local models differ.
    return [corpus(40, 80, 1), corpus(60, 80, 2), corpus(25, 80, 1)]


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_start_is_non_negative_and_the_same_twice(parties, name, weighted):
    starts = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            starts.append(initial_topics(name, parties, 4, LocalFit(weighted=weighted), seed=5))
    assert starts[0].shape == (4, 80)
    assert (starts[0] >= 0).all()
    assert (starts[0].sum(axis=1) > 0).all()
    assert starts[0].tobytes() == starts[1].tobytes()


def test_random_topics_are_agreed_and_on_the_simplex():
    T = random_topics(50, 3, seed=1)
    np.testing.assert_allclose(T.sum(axis=1), 1)
    assert not np.array_equal(T, random_topics(50, 3, seed=2))
    U = np.random.default_rng(1).random((3, 50))
    np.testing.assert_allclose(T, U / U.sum(axis=1)[:, None])
    with pytest.raises(ValueError, match="read-only"):
        T[0, 0] = 1.0


def test_nnsvd_is_scikit_learns_up_to_the_scale_of_rows():
    X = corpus(60, 40, 3)
    # Its randomised SVD is only nearly exact.
    _, theirs = _initialize_nmf(X.toarray(), 6, init="nndsvd", eps=0, random_state=0)
    ours = nnsvd(X, 6)
    similarity = (ours * theirs).sum(axis=1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    np.testing.assert_allclose(similarity, 1, atol=1e-3)
    np.testing.assert_allclose(ours.sum(axis=1), 1)


@pytest.mark.parametrize("rank", [1, 5, 19, 20])
def test_nnsvd_from_the_dense_svd(rank):
    """Boutsidis and Gallopoulos, figure 1, on LAPACK's vectors; also at full rank."""
    X = corpus(20, 50, 4)
    U, s, VT = np.linalg.svd(X.toarray())
    for t, topic in enumerate(nnsvd(X, rank)):
        rank_one = s[t] * np.outer(U[:, t], VT[t])
        # u_+ v_+^T and u_- v_-^T make up the positive part of u v^T: take the larger block.
        blocks = [np.outer(np.maximum(q * U[:, t], 0), np.maximum(q * VT[t], 0)) for q in (1, -1)]
        np.testing.assert_allclose(s[t] * sum(blocks), np.maximum(rank_one, 0), atol=1e-10)
        largest = max(blocks, key=np.linalg.norm).sum(axis=0)
        np.testing.assert_allclose(topic, largest / largest.sum(), atol=1e-7)


def test_best_of_m_is_the_best(parties):
    models = local_models(parties, 4)
    fits = [[(X.toarray(), fit_coefficients(X, m.T) @ m.T) for X in parties] for m in models]
    errors = [sum(((dense - fit) ** 2).sum() for dense, fit in fitted) for fitted in fits]
    best = best_of_parties(parties, 4)
    assert len(set(errors)) == 3
    np.testing.assert_array_equal(best, models[int(np.argmin(errors))].T)


def test_merged_topics_are_the_nmf_of_the_weighted_local_topics(parties):
    """Algorithm 2, with the centralised NMF of the stacked pseudo-documents."""
    pseudo = [np.linalg.norm(m.W, axis=0)[:, None] * m.T for m in local_models(parties, 4)]
    start = random_topics(80, 4, seed=9)
    expected = pd_nmf_iter([sp.csr_array(np.vstack(pseudo))], start).T
    np.testing.assert_allclose(merged_topics(parties, 4, seed=9), expected, atol=1e-9)


@pytest.mark.parametrize("name", ["best-of-m", "pd-nmf-init"])
def test_a_party_with_too_few_rows_is_refused(name):
    with pytest.raises(SpecError, match=r"`rank` must be at most the rows of the smallest party \(3\).* got 4"):
        initial_topics(name, [corpus(10, 20, 0), corpus(3, 20, 0)], 4)


def test_other_refusals():
    with pytest.raises(SpecError, match=r"`rank` must be at most .* got 11"):
        initial_topics("nnsvd", [corpus(10, 20, 0)], 11)
    with pytest.raises(SpecError, match=r"`start` must be one of random, .* got 'svd'"):
        initial_topics("svd", [corpus(10, 20, 0)], 4)
    with pytest.raises(CorpusError, match="at least one entry"):
        nnsvd(sp.csr_array((5, 5)), 2)


def rows() -> sp.csr_array:
    """Four kinds of rows over sets of columns that overlap a little, of unlike weight: a clear spectrum."""
    rng = np.random.default_rng(1)
    kinds = np.kron(np.eye(4), np.ones(6)) + 0.1 * rng.random((4, 24))
    weights = np.repeat([27.0, 9.0, 3.0, 1.0], 15)
    return sp.csr_array(weights[:, None] * np.repeat(kinds, 15, axis=0) * (0.9 + 0.2 * rng.random((60, 24))))


def test_it_is_the_centralised_start_once_the_iteration_has_settled() -> None:
    matrix = rows()
    parties = tuple(sp.csr_array(matrix[a:b]) for a, b in ((0, 7), (7, 40), (40, 60)))
    start, seen = SvdStart(4, 0).run(Database(parties))
    np.testing.assert_allclose(start, nnsvd(matrix, 4), atol=1e-3)
    image = matrix.toarray() @ seen["V"].T
    wanted = [[(x[x > 0] ** 2).sum() for x in (sign * image).T] for sign in (1, -1)]
    np.testing.assert_allclose(seen["part_squares"], wanted, rtol=1e-10)
    assert min(start.sum(axis=1)) == pytest.approx(1.0)


def test_the_longer_side_is_taken_whatever_the_sign_of_a_direction() -> None:
    V = np.array([[-0.6, -0.8, 0.0], [0.8, -0.6, 0.0], [0.0, 0.0, 1.0]])
    squares = np.array([[0.0, 1.0, 5.0], [9.0, 4.0, 0.0]])
    wanted = [[3 / 7, 4 / 7, 0.0], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    for signs in ([1, 1, 1], [-1, -1, 1]):
        turned = [squares[:, t] if sign > 0 else squares[::-1, t] for t, sign in enumerate(signs)]
        found = topics_from_parts(V * np.array(signs)[:, None], np.array([3.0, 2.0, 1e-4]), np.array(turned).T)
        np.testing.assert_allclose(found, wanted)
    # 3 x 0.64 is above 5 x 0.36, and 1 x 0.64 below 2 x 0.36.
    for sides, longer in (([3.0, 5.0], [1.0, 0.0, 0.0]), ([1.0, 2.0], [0.0, 1.0, 0.0])):
        squares[:, 1] = sides
        np.testing.assert_allclose(topics_from_parts(V, np.array([3.0, 2.0, 1e-4]), squares)[1], longer)


def test_nothing_and_noise_are_refused() -> None:
    V = np.eye(2, 5)
    squares = part_squares(sp.csr_array((3, 5)), V)
    with pytest.raises(CorpusError, match="at least one entry"):
        topics_from_parts(V, np.zeros(2), squares)
    with pytest.raises(SpecError, match="nnsvd"):
        Noisy("pd-nmf", 1.0, {"rank": 2, "start": "nnsvd"}, scale=1.0)
