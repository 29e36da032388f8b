import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.readers.columns import open_columns
from ksdp.storage.readers.text import WORD, read_texts, term_counts

TEXTS = [
    "The running dogs run; a dog RUNS 42 times, the_dog.",
    "Straße und Größe: the größe of a dog's bowl",
    "cats cats cats, and nothing else but a cat",
    "",
]


def spec(**keys):
    return CorpusSpec(path="a.csv", **{"min_documents": 1, "text": "t"} | keys)


def by_hand(texts, spec):
    """Terms in plain Python, as sorted (term, counts) pairs."""
    stop = ENGLISH_STOP_WORDS if spec.stop_words == "english" else ()
    rows = []
    for text in texts:
        words = [match[0] for match in re.finditer(WORD, text.lower())]
        rows.append(Counter(word for word in words if word not in stop))
    held = {term: sum(term in row for row in rows) for row in rows for term in row}
    terms = sorted(term for term in held if held[term] >= spec.min_documents)
    total = {term: sum(row[term] for row in rows) for term in terms}
    if spec.max_features is not None:
        terms = sorted(sorted(terms, key=lambda term: -total[term])[: spec.max_features])
    return np.array([[row[term] for term in terms] for row in rows], dtype=float)


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"stop_words": "none"},
        {"min_documents": 2},
        {"max_features": 3},
        {"max_features": 100},
        {"min_documents": 2, "max_features": 1},
    ],
)
def test_terms_are_counted_as_by_hand(keys):
    counts = term_counts(TEXTS, spec(**keys), Path("a.csv"))
    np.testing.assert_array_equal(counts.toarray(), by_hand(TEXTS, spec(**keys)))
    assert counts.dtype == np.float64


@given(st.lists(st.text("abc ", max_size=24), min_size=1, max_size=6), st.integers(1, 3), st.integers(1, 4))
def test_pruning_is_as_by_hand(texts, least, most):
    keys = spec(stop_words="none", min_documents=least, max_features=most)
    expected = by_hand(texts, keys)
    assume(expected.size)
    np.testing.assert_array_equal(term_counts(texts, keys, Path("a.csv")).toarray(), expected)


def test_the_default_pattern_takes_letters_only():
    counts = term_counts(["abc ab1cd x_yz abcdefghijklmnopqrstu größe"], spec(), Path("a"))
    assert counts.shape == (1, 2)  # abc and größe: no digits, no underscores, 3 to 20 letters


@pytest.mark.parametrize(
    ("texts", "keys", "problem"),
    [
        (["secret", "the and"], {"min_documents": 2}, "no term is in 2 documents or more"),
        (["the and", "1 2"], {}, "no term is left"),
        (["", ""], {}, "no term is left"),
    ],
)
def test_no_term_left(texts, keys, problem):
    with pytest.raises(CorpusError, match=rf"^a.csv: {problem}"):
        term_counts(texts, spec(**keys), Path("/x/a.csv"))


def test_a_text_column_must_be_named(tmp_path):
    (tmp_path / "a.csv").write_text("t\nhello\n", encoding="utf-8")
    with pytest.raises(SpecError, match=r"`corpus.text` must name the column"):
        read_texts(spec(text=None), open_columns(tmp_path / "a.csv", "utf-8"))
