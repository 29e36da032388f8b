"""How good a model is: error, coherence, diversity, prediction; and how near two models are."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ksdp.audit.learning.learners import Learnt, Predictor
from ksdp.audit.numeric.array_types import Floats

_TOP = 10
"""Terms that stand for a topic."""
_HIDDEN = 0.2
"""Part of a user's ratings that is hidden, to be predicted."""
_RIDGE = 1.0
_USERS_AT_ONCE = 1000


def energy(learnt: Learnt, documents: sp.csr_array) -> float:
    """Share of the documents' energy that lies inside the row space of what was learnt.

    With Q an orthonormal basis of the row space and X_c = X - 1 mean^T, this is |X_c Q|^2 / |X_c|^2: what the best
    linear reconstruction keeps. A nonnegative factorisation, whose coefficients must not be negative, keeps less.
    """
    total, mean = float((documents.data**2).sum()), learnt.mean
    if mean is not None:
        sums = np.asarray(documents.sum(axis=0)).ravel()
        total += documents.shape[0] * float(mean @ mean) - 2 * float(sums @ mean)
    inside = float((projected(learnt, documents) ** 2).sum())
    return min(inside / total, 1.0) if total > 0 else 1.0


def projected(learnt: Learnt, documents: sp.csr_array) -> Floats:
    """Coordinates of the documents, shape (n_documents, k)."""
    directions = learnt.directions
    coordinates = np.asarray(documents @ directions)
    return coordinates if learnt.mean is None else coordinates - learnt.mean @ directions


def regression(learnt: Learnt, train: tuple[sp.csr_array, Floats], test: tuple[sp.csr_array, Floats]) -> float:
    """Minus the root mean square error of a linear regression on the coordinates (PCR)."""
    from sklearn.linear_model import LinearRegression

    model = LinearRegression().fit(projected(learnt, train[0]), train[1])
    errors = model.predict(projected(learnt, test[0])) - test[1]
    return -float(np.sqrt(np.mean(errors**2)))


def _top_terms(learnt: Learnt) -> NDArray[np.intp]:
    """Columns with the largest entries of every topic, shape (k, at most 10)."""
    return np.argsort(-learnt.rows, axis=1, kind="stable")[:, :_TOP]


def coherence(learnt: Learnt, documents: sp.csr_array) -> float:
    """Mean NPMI of the top terms' pairs, by document (tomotopy).

    Aletras & Stevenson (2013), https://aclanthology.org/W13-0102; contested as a measure of what people see
    (https://arxiv.org/abs/2107.02173): read it beside the others.
    """
    import tomotopy
    from tomotopy.coherence import Coherence, ConfirmMeasure, ProbEstimation, Segmentation

    top = _top_terms(learnt)
    wanted = np.zeros(documents.shape[1], dtype=bool)
    wanted[top.ravel()] = True
    corpus = tomotopy.utils.Corpus()
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        terms = documents.indices[start:stop]
        corpus.add_doc([str(term) for term in terms[wanted[terms]]] or ["-"])
    targets = [str(term) for term in np.unique(top)]
    how = (ProbEstimation.DOCUMENT, Segmentation.ONE_ONE, ConfirmMeasure.NPMI)
    measure = Coherence(corpus, coherence=how, targets=targets)
    return float(np.mean([measure.get_score(words=[str(term) for term in topic]) for topic in top]))


def diversity(learnt: Learnt) -> float:
    """Share of different terms among the topics' top terms (Dieng et al. 2020, arXiv:1907.04907)."""
    top = _top_terms(learnt)
    return len(np.unique(top)) / top.size


def topic_match(learnt: Learnt, exact: Learnt) -> float:
    """Mean cosine of topics with those of the exact run, matched one to one (Hungarian method)."""
    units = [
        rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        for rows in (learnt.rows, exact.rows)
    ]
    cosines = units[0] @ units[1].T
    return float(cosines[linear_sum_assignment(-cosines)].mean())


def rated(learnt: Learnt, documents: sp.csr_array, rng: np.random.Generator) -> tuple[float, float]:
    """Minus the error of predicted ratings, and NDCG@10 of their order, of users who were not learnt from."""
    hidden = np.zeros(documents.nnz, dtype=bool)
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        if stop - start >= _TOP:
            hidden[start:stop] = rng.random(stop - start) < _HIDDEN
    return foretold(learnt, kept(documents, ~hidden), kept(documents, hidden))


def foretold(learnt: Learnt, given: sp.csr_array, later: sp.csr_array) -> tuple[float, float]:
    """The same of ratings that came later than those given: of users with ten in all, and two of each kind."""
    before, after = np.diff(given.indptr), np.diff(later.indptr)
    users = np.flatnonzero((before + after >= _TOP) & (before >= 2) & (after >= 2))
    if not len(users):
        return float("nan"), float("nan")
    given, later = given[users], later[users]
    low, high = min(given.data.min(), later.data.min()), max(given.data.max(), later.data.max())
    if learnt.of_ratings is not None:
        said = Predictor(learnt.rows, low, high, learnt.of_ratings).predicted(given, later).data
    else:
        said = np.clip(_by_ridge(learnt.directions, given, later), low, high)
    return -float(np.sqrt(np.mean((said - later.data) ** 2))), _ordered(said, later)


def _ordered(said: Floats, later: sp.csr_array) -> float:
    """Mean NDCG@10, by few calls: users have as many columns, the last of which are worth nothing."""
    from sklearn.metrics import ndcg_score

    counts, gains = np.diff(later.indptr), []
    for first in range(0, len(counts), _USERS_AT_ONCE):
        rows = counts[first : first + _USERS_AT_ONCE]
        part = slice(later.indptr[first], later.indptr[first + len(rows)])
        mask = np.arange(rows.max()) < rows[:, None]
        worth, score = np.zeros(mask.shape), np.full(mask.shape, said.min() - 1)
        worth[mask], score[mask] = later.data[part], said[part]
        gains.append(len(rows) * float(ndcg_score(worth, score, k=_TOP)))
    return sum(gains) / len(counts)


def kept(ratings: sp.csr_array, which: NDArray[np.bool_]) -> sp.csr_array:
    """The ratings that are marked; zeros among them stay."""
    indptr = np.concatenate([[0], np.cumsum(which)])[ratings.indptr]
    return sp.csr_array((ratings.data[which], ratings.indices[which], indptr), shape=ratings.shape)


def _by_ridge(directions: Floats, given: sp.csr_array, later: sp.csr_array) -> Floats:
    said = np.empty(later.nnz)
    for user in range(given.shape[0]):
        given_entries = slice(given.indptr[user], given.indptr[user + 1])
        later_entries = slice(later.indptr[user], later.indptr[user + 1])
        mean = float(given.data[given_entries].mean())
        rows = directions[given.indices[given_entries]]
        gram = rows.T @ rows + _RIDGE / len(directions) * np.eye(rows.shape[1])
        coefficients = np.linalg.solve(gram, rows.T @ (given.data[given_entries] - mean))
        said[later_entries] = mean + directions[later.indices[later_entries]] @ coefficients
    return said
