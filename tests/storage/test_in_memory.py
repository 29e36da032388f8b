"""A vocabulary that names the columns of what a program holds is what is counted, as in a file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import CorpusError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.audit.specs.urls import MEMORY
from ksdp.storage.corpora import load_corpus
from ksdp.storage.in_memory import corpus_in_memory

TEXTS = ["ants and bees", "bees eat ants", "cats eat"]
KEYS = {"weighting": "counts", "stop_words": "none", "min_documents": 1}


@pytest.fixture
def agreed(tmp_path: Path) -> str:
    (tmp_path / "terms.txt").write_text("eat\nbees\nzebra\n")
    return str(tmp_path / "terms.txt")


def test_texts_are_counted_in_the_vocabulary_as_those_of_a_file(agreed: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("body\n" + "\n".join(TEXTS))
    keys = {**KEYS, "vocabulary": agreed}
    wanted = load_corpus(CorpusSpec(path="a.csv", text="body", **keys), tmp_path, nonnegative=False)
    assert wanted.matrix.toarray().tolist() == [[0, 1, 0], [1, 1, 0], [1, 0, 0]]
    spec = CorpusSpec(path=MEMORY, **keys)
    assert (corpus_in_memory(TEXTS, spec).matrix != wanted.matrix).nnz == 0
    table = pa.table({"body": TEXTS})
    spec = spec.model_copy(update={"text": "body"})
    assert (corpus_in_memory(table, spec).matrix != wanted.matrix).nnz == 0


def test_zeros_that_a_sparse_matrix_stores_are_kept() -> None:
    rated = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 3))
    assert corpus_in_memory(rated, CorpusSpec(path=MEMORY)).matrix.nnz == 3
    assert corpus_in_memory(rated.toarray(), CorpusSpec(path=MEMORY)).matrix.nnz == 2


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_document_of_nobody_is_in_no_group(missing: object) -> None:
    with pytest.raises(CorpusError, match="`group` must name every document"):
        corpus_in_memory(np.eye(3), CorpusSpec(path=MEMORY), group=["ann", missing, "ann"])  # type: ignore[list-item]
