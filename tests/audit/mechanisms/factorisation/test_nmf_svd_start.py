"""The start by secure sums, against the centralised one, and what must refuse it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.nmf_starts import nnsvd
from ksdp.audit.mechanisms.factorisation.nmf_svd_start import SvdStart, part_squares, topics_from_parts
from ksdp.audit.mechanisms.privacy.noisy import Noisy


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
