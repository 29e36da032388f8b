"""The corpus value: what it refuses, and what its hash depends on."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import CorpusError


def made(matrix=None, ids=("a", "b"), **more) -> Corpus:
    matrix = canonical(sp.csr_array(np.array([[1.0, 0], [2, 3]]))) if matrix is None else matrix
    return Corpus(matrix, np.array(ids), **more)


def test_canonical_sums_duplicates_sorts_and_drops_zeros_or_keeps_them() -> None:
    messy = sp.csr_array((np.array([1.0, 2, 0, 4]), np.array([2, 0, 1, 2]), np.array([0, 4])), shape=(1, 3))
    assert canonical(messy).toarray().tolist() == [[2, 0, 5]]
    assert canonical(messy).nnz == 2
    assert canonical(messy, keep_zeros=True).nnz == 3
    assert canonical(messy).indices.dtype == np.int32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": sp.csr_array((0, 3)), "ids": ()}, "the corpus is empty"),
        ({"ids": ("a", "a")}, "`ids` must be unique"),
        ({"ids": ("a",)}, "one entry a document"),
        ({"party": np.array(["x"])}, "`party` must have one entry a document"),
        ({"matrix": sp.csr_array(np.array([[np.inf], [1.0]]))}, "must be finite"),
    ],
)
def test_refuses(arguments: dict, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        made(**arguments)


def test_the_hash_depends_on_numbers_ids_and_parties_and_on_nothing_else() -> None:
    one = made()
    assert one.hash == made().hash
    others = [
        made(matrix=canonical(sp.csr_array(np.array([[1.0, 0], [2, 3.0000001]])))),
        made(ids=("a", "c")),
        made(ids=("ab", "")),
        made(party=np.array(["x", "y"])),
        made(group=np.array(["x", "y"])),
    ]
    assert len({one.hash, *(o.hash for o in others)}) == 6
    assert made(left_out=("z",)).hash == one.hash
