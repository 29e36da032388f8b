"""Neighbours against the obvious way: every cosine by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import StoreError
from ksdp.storage.audits.documents import corpus_entries, neighbours
from ksdp.storage.mapped_corpus import store_corpus


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Corpus]:
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(30, 12)) * (rng.random((30, 12)) < 0.4)
    dense[:, 0] += dense.any(axis=1) == 0
    dense[9] = 3 * dense[4]
    corpus = Corpus(canonical(sp.csr_array(dense)), np.array([f"d{n}" for n in range(30)]))
    store_corpus(corpus, tmp_path / "corpus")
    return tmp_path / "corpus", corpus


def test_neighbours_have_the_largest_cosines(stored: tuple[Path, Corpus]) -> None:
    folder, corpus = stored
    dense = corpus.matrix.toarray()
    for row in range(len(dense)):
        cosine = [
            -9.0
            if other == row
            else dense[row] @ dense[other] / np.linalg.norm(dense[row]) / np.linalg.norm(dense[other])
            for other in range(len(dense))
        ]
        order = [at for at in np.argsort(-np.array(cosine), kind="stable")[:5] if cosine[at] > 0]
        found = neighbours(folder, f"d{row}", 5)
        np.testing.assert_allclose([n.cosine for n in found], [cosine[at] for at in order], atol=1e-12)
    assert neighbours(folder, "d4", 1)[0].document == "d9"
    assert corpus_entries(folder) == corpus.matrix.nnz


def test_more_are_wanted_than_there_are(stored: tuple[Path, Corpus]) -> None:
    assert len(neighbours(stored[0], "d1", 100)) < 30


def test_what_is_not_there_is_named(stored: tuple[Path, Corpus]) -> None:
    with pytest.raises(StoreError, match="does not hold document 'nobody'"):
        neighbours(stored[0], "nobody")
    with pytest.raises(StoreError, match="cannot be opened"):
        neighbours(stored[0].parent / "none", "d1")
    with pytest.raises(StoreError, match="cannot be opened"):
        corpus_entries(stored[0].parent / "none")
