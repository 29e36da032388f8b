"""Rows that are taken, and rows with the same content, against every pair compared."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.numeric import sparse_rows as module
from ksdp.audit.numeric.sparse_rows import contents, contents_of, same_rows, take_rows, unlike_rows

from .statistics.linear.who_is_in import some_rows


def test_the_same_rows_are_found_by_their_content() -> None:
    among, rng = some_rows(50, 9, share=0.3), np.random.default_rng(4)
    some = sp.csr_array(sp.vstack([among[rng.permutation(50)], some_rows(20, 9, seed=8, share=0.3), -among[:3]]))
    wanted = []
    for x in some.toarray():
        same = [j for j, y in enumerate(among.toarray()) if (x == y).all()]
        wanted.append(min(same, default=-1))
    assert -1 in wanted
    assert same_rows(some, among).tolist() == wanted


def test_rows_that_share_a_mark_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_mark", lambda *of: of[-1].fill(7))
    among = some_rows(9, 20, share=0.4)
    assert same_rows(among, among).tolist() == list(range(9))
    assert same_rows(sp.csr_array(np.full((1, 20), 7.0)), among).tolist() == [-1]


def test_a_corpus_says_which_of_its_documents_is_the_first_of_its_content() -> None:
    rows = sp.csr_array(np.array([[1.0, 2.0], [0.0, 3.0], [1.0, 2.0], [4.0, 0.0], [0.0, 3.0], [1.0, 2.0]]))
    assert Corpus(rows, np.array(list("abcdef"))).first_alike.tolist() == [0, 1, 0, 3, 1, 0]


def test_contents_are_told_by_any_number_that_the_same_rows_share() -> None:
    """Also of some of the rows, without those that stood first."""
    rows = some_rows(12, 9, share=0.3)[np.random.default_rng(5).integers(0, 12, 40)]
    numbers = 100 - same_rows(rows, rows)
    for some in (np.arange(40), np.arange(7, 40), np.arange(39, 2, -3)):
        for found, wanted in zip(contents_of(numbers[some]), contents(rows[some]), strict=True):
            assert found.tolist() == wanted.tolist()


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_rows_are_those_that_scipy_takes(index: Any) -> None:
    matrix = sp.csr_array(sp.random_array((30, 12), density=0.2, rng=np.random.default_rng(0)))
    matrix.indptr, matrix.indices = matrix.indptr.astype(index), matrix.indices.astype(index)
    for rows in ([], [3], [29, 0, 0, 7], list(range(30))):
        found = take_rows(matrix, np.array(rows, dtype=np.int64))
        wanted = matrix[np.array(rows, dtype=np.int64)]
        assert (found.toarray() == wanted.toarray()).all()
        assert found.shape == wanted.shape
        assert found.data.dtype == matrix.data.dtype
        assert found.has_canonical_format


@pytest.mark.parametrize("row", [-1, 30])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    matrix = sp.csr_array(np.eye(30))
    with pytest.raises(IndexError, match="rows must be from 0 to 29"):
        take_rows(matrix, np.array([0, row]))


def test_a_rating_of_0_is_not_a_missing_one() -> None:
    rated = sp.csr_array(([0.0, 4.0, 2.0], ([0, 1, 2], [1, 0, 2])), shape=(3, 3))
    missing = sp.csr_array(([4.0, 2.5], ([1, 2], [0, 2])), shape=(3, 3))
    assert unlike_rows(rated, missing).tolist() == [0, 2]
    assert unlike_rows(rated, rated).tolist() == []
