"""A corpus comes back from disk as it was, without being read."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import StoreError
from ksdp.storage.mapped_corpus import open_corpus, store_corpus


def test_comes_back_memory_mapped(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrix = canonical(sp.csr_array(rng.poisson(0.3, size=(30, 12)).astype(float)))
    ids, party = np.array([f"ü{i}" for i in range(30)]), np.array(["a", "b"] * 15)
    corpus = Corpus(matrix, ids, party, left_out=("x",))
    store_corpus(corpus, tmp_path / "c")
    back = open_corpus(tmp_path / "c")
    assert (back.matrix != matrix).nnz == 0
    assert (back.ids == ids).all()
    assert (back.party == party).all()
    assert back.group is None
    assert back.left_out == ("x",)
    assert back.hash == corpus.hash
    assert Corpus(back.matrix, back.ids, back.party).hash == corpus.hash
    base = back.matrix.data
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_equal_numbers_of_which_some_were_weighed_by_their_rows_stay_so(tmp_path: Path) -> None:
    matrix, ids = canonical(sp.csr_array(np.eye(3))), np.array(["a", "b", "c"])
    stored = []
    for from_rows in ("", "the weight of each term", ""):
        store_corpus(Corpus(matrix, ids, from_rows=from_rows), tmp_path / "c")
        stored.append(open_corpus(tmp_path / "c").from_rows)
    assert stored == ["", "the weight of each term", "the weight of each term"]


def test_a_corpus_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened"):
        open_corpus(tmp_path / "nothing")
