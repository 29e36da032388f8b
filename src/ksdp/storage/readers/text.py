"""Texts as counts of terms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.files import Refused
from ksdp.storage.readers.columns import Columns

WORD = r"(?u)\b[^\W\d_]{3,20}\b"
"""What counts as a word."""


def read_texts(
    spec: CorpusSpec, columns: Columns, vocabulary: Sequence[str] | None = None
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Read a text column and count terms: those of an agreed vocabulary, where there is one; and name them."""
    if spec.text is None:
        raise SpecError("`corpus.text` must name the column that holds the text.")
    columns.require([spec.text])
    return counted_terms(columns.text(spec.text), spec, columns.path, vocabulary)


def term_counts(
    texts: Sequence[str], spec: CorpusSpec, path: Path, vocabulary: Sequence[str] | None = None
) -> sp.csr_array:
    """Count words in lower case, stop words dropped; columns in alphabetical order."""
    return counted_terms(texts, spec, path, vocabulary)[0]


def counted_terms(
    texts: Sequence[str], spec: CorpusSpec, path: Path, vocabulary: Sequence[str] | None = None
) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Count words as `term_counts` does, and name the words that the columns count."""
    from sklearn.feature_extraction.text import CountVectorizer  # half a second that count matrices need not pay

    stop = None if spec.stop_words == "none" else spec.stop_words
    agreed = None if vocabulary is None else list(vocabulary)
    vectoriser = CountVectorizer(token_pattern=WORD, stop_words=stop, vocabulary=agreed)
    if agreed is not None:
        return sp.csr_array(vectoriser.transform(texts), dtype=np.float64), tuple(agreed)
    try:
        counts = sp.csr_array(vectoriser.fit_transform(texts), dtype=np.float64)
    except ValueError:  # scikit-learn's only complaint here: an empty vocabulary
        raise Refused(path, "no term is left: check `corpus.stop_words`.") from None
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = np.flatnonzero(documents >= spec.min_documents)
    if not len(kept):
        raise Refused(path, f"no term is in {spec.min_documents} documents or more (`corpus.min_documents`).")
    if spec.max_features is not None and len(kept) > spec.max_features:
        total = np.asarray(counts.sum(axis=0)).ravel()[kept]
        kept = np.sort(kept[np.argsort(-total, kind="stable")[: spec.max_features]])
    return sp.csr_array(counts[:, kept]), tuple(vectoriser.get_feature_names_out()[kept])
