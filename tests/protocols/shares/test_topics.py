"""Topics on shares, three parties in one process, beside the sweeps of the mechanism in the clear."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.mechanisms.factorisation.weighted_nmf import weighted_nmf_iter
from ksdp.protocols.shares import topics
from ksdp.protocols.shares.arithmetic import fixed
from ksdp.protocols.shares.field import left_residues
from ksdp.protocols.shares.sizes import ROW_BITS, AnySizes, SimplexSizes, TopicSizes
from ksdp.protocols.shares.topics import NotProjected, SharedRows, Sweeps, topics_of

from ..conftest import seeded
from .test_bounds import check, watched
from .together import compute_together, shared

PENALTIES = Penalties(0.01, 0.1, 0.02, 0.05)


def rows_of(matrix: np.ndarray, largest: float, fraction: int = ROW_BITS) -> list[SharedRows]:
    values = fixed(matrix / np.sqrt(largest), fraction)
    return [SharedRows(left_residues(share)) for share in shared(values, 8)]


def works(
    matrix: np.ndarray,
    largest: float,
    start: np.ndarray,
    wanted: Sweeps,
    models: np.ndarray | None = None,
    pattern: np.ndarray | None = None,
) -> list[Any]:
    rows = rows_of(matrix, largest)
    of_models = rows_of(models, largest) if models is not None else [None] * 3
    seen = rows_of(pattern, 1.0, 0) if pattern is not None else [None] * 3
    return [
        lambda runtime, at=at: topics_of(runtime, rows[at], start, wanted, of_models[at], seen[at])
        for at in range(3)
    ]


def opened(*given: Any) -> np.ndarray:
    results, _, _ = compute_together(works(*given), seeded("topics"))
    assert all((result == results[0]).all() for result in results)
    return np.asarray(results[0])


def documents(rows: int, features: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.random((rows, 3)) @ rng.random((3, features)) * (rng.random((rows, features)) < 0.5))


@pytest.mark.parametrize("penalties", [PENALTIES, Penalties(0.0, 0.02, 0.0, 0.02)])
def test_the_topics_are_those_of_the_sweeps_in_the_clear(penalties: Penalties) -> None:
    matrix = documents(14, 8)
    start = random_topics(8, 3, 5)
    sizes = TopicSizes(3, penalties, 2.0 * float((matrix**2).sum()))
    exact = pd_nmf_iter([sp.csr_array(matrix)], start, sweeps=6, tolerance=0.0, penalties=penalties)
    found = opened(matrix, sizes.largest, start, Sweeps(sizes, 6))
    assert (exact.T == 0).any()
    np.testing.assert_allclose(found, exact.T, atol=1e-7 * exact.T.max())


def test_the_parties_own_topics_can_make_the_start() -> None:
    matrix, models = documents(10, 6), documents(4, 6, seed=2)
    start, largest = random_topics(6, 2, 5), 4.0 * float((documents(10, 6) ** 2).sum())
    penalties = PENALTIES
    first = pd_nmf_iter([sp.csr_array(models)], start, sweeps=3, tolerance=0.0, penalties=penalties)
    exact = pd_nmf_iter([sp.csr_array(matrix)], first.T, sweeps=2, tolerance=0.0, penalties=penalties)
    found = opened(matrix, largest, start, Sweeps(TopicSizes(2, PENALTIES, largest), 2, 3), models)
    np.testing.assert_allclose(found, exact.T, atol=1e-7 * exact.T.max())


@pytest.mark.parametrize("with_models", [False, True])
def test_topics_on_the_simplex_are_those_of_the_sweeps_in_the_clear(with_models: bool) -> None:
    matrix, models, before = documents(14, 9) * (np.random.default_rng(3).random((14, 9)) < 0.5), None, 0
    start = random_topics(9, 3, 5)
    first = start
    if with_models:
        models, before = documents(4, 9, seed=2), 2
        first = pd_nmf_iter([sp.csr_array(models)], start, sweeps=2, tolerance=0.0).T
    exact = pd_nmf_iter([sp.csr_array(matrix)], first, sweeps=2, tolerance=0.0)
    largest = 4.0 * float((matrix**2).sum())
    found = opened(matrix, largest, start, Sweeps(SimplexSizes(3, 9), 2, before), models)
    assert with_models or (exact.T == 0).any()
    np.testing.assert_allclose(found, exact.T, atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-6)


def test_a_topic_on_the_simplex_that_nobody_uses_stays_as_it_was() -> None:
    matrix = np.outer([3.0, 1.0], [0.1, 0.2, 0.0, 0.7])  # of one topic
    start = np.array([matrix[0] / matrix[0].sum(), [0.4, 0.1, 0.4, 0.1]])
    exact = pd_nmf_iter([sp.csr_array(matrix)], start, sweeps=2, tolerance=0.0)
    found = opened(matrix, 2.0 * float((matrix**2).sum()), start, Sweeps(SimplexSizes(2, 4), 2))
    assert (exact.T[1] == start[1]).all()
    np.testing.assert_allclose(found, exact.T, atol=1e-6)


@pytest.mark.parametrize("why", ["too few steps", "far below the bound"])
def test_a_threshold_that_was_not_reached_opens_nothing(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    features, slack = 24, 4.0
    if why == "too few steps":
        monkeypatch.setattr(topics, "PASSES", 1)
    else:
        slack = 2.0**28
    matrix = documents(14, features)
    largest = slack * float((matrix**2).sum())
    with pytest.raises(NotProjected):
        opened(matrix, largest, random_topics(features, 3, 5), Sweeps(SimplexSizes(3, features), 3))


@pytest.mark.parametrize(
    ("penalties", "with_models"), [(PENALTIES, True), (Penalties(0.0, 0.02, 0.0, 0.02), False)]
)
def test_topics_of_ratings_are_those_of_the_weighted_sweeps_in_the_clear(
    penalties: Penalties, with_models: bool
) -> None:
    """With a rating of zero, a row and a column that nobody has rated, and a row with one rating."""
    rng = np.random.default_rng(6)
    pattern = (rng.random((12, 7)) < 0.6).astype(float)
    pattern[3], pattern[:, 2], pattern[5] = 0.0, 0.0, np.eye(7)[4]
    matrix = np.rint(1.0 + 4.0 * rng.random((12, 7))) * pattern
    pattern[0, 0], matrix[0, 0] = 1.0, 0.0
    rows, columns = np.nonzero(pattern)
    ratings = sp.csr_array((matrix[rows, columns], (rows, columns)), shape=matrix.shape)
    start, models, before = random_topics(7, 3, 5), None, 0
    first = start
    if with_models:
        models, before = documents(4, 7, seed=2), 2
        fitted = pd_nmf_iter([sp.csr_array(models)], start, sweeps=2, tolerance=0.0, penalties=penalties)
        first = fitted.T
    exact = weighted_nmf_iter([ratings], first, sweeps=5, tolerance=0.0, penalties=penalties)
    sizes = TopicSizes(3, penalties, 2.0 * float((matrix**2).sum()))
    found = opened(matrix, sizes.largest, start, Sweeps(sizes, 5, before), models, pattern)
    assert (exact.T[:, 2] == 0).all()
    assert (exact.W[3] == 0).all()
    np.testing.assert_allclose(found, exact.T, atol=1e-7 * exact.T.max())


WORST = {
    "nothing": np.zeros((3, 4)),
    "one entry is all": np.eye(3, 4) * [[1.0], [0.0], [0.0]],
    "one row is all": np.outer([1.0, 0, 0], np.ones(4)) / 2.0,
    "one column is all": np.outer(np.ones(3), [1.0, 0, 0, 0]) / np.sqrt(3.0),
    "all alike": np.full((3, 4), 1.0 / np.sqrt(12.0)),
    "tiny": np.full((3, 4), 1e-9),
}


PATTERNS = {
    "simplex": None,
    "all": None,
    "nothing": np.zeros((3, 4)),
    "everything": np.ones((3, 4)),
    "stairs": np.tri(3, 4),
}


PAIRS = [*((name, "simplex") for name in WORST), *zip(WORST, itertools.cycle(list(PATTERNS)[1:]))]


@pytest.mark.parametrize(("name", "observed"), PAIRS)
def test_no_product_is_larger_than_was_said(name: str, observed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    largest = 2.0**10
    sizes: AnySizes = TopicSizes(2, Penalties(0.0, 2.0**-7, 0.0, 2.0**-7), largest)
    assert sizes.rho == 2.0**-12, "the least that is taken"
    if observed == "simplex":
        sizes = SimplexSizes(2, 4)
    pattern, matrix = PATTERNS.get(observed), WORST[name] * np.sqrt(largest)
    if pattern is not None:
        matrix = matrix * pattern
    wanted = Sweeps(sizes, 1 if observed == "simplex" else 2)
    check(watched(monkeypatch, topics, works(matrix, largest, random_topics(4, 2, 3), wanted, None, pattern)))


@pytest.mark.parametrize(
    ("penalties", "message"),
    [
        ((0.0, 1e-6, 0.0, 1e-6), "`beta` times `delta` must be at least"),
        ((0.0, 10.0, 0.0, 10.0), "must be smaller, or `precision.bound` larger"),
        ((0.0, 1e3, 0.0, 1e-4), "the start would be out of reach"),
    ],
)
def test_regularisers_that_do_not_fit_are_refused(penalties: tuple[float, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TopicSizes(3, Penalties(*penalties), 16.0)
