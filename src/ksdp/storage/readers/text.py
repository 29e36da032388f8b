"""Texts as counts of terms."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import snowballstemmer

from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.readers.columns import Columns
from ksdp.storage.readers.files import Refused

_TRY = """
import json, re, sys
pattern, *texts = json.load(sys.stdin)
find = re.compile(pattern).findall
for text in texts:
    find(text.lower())
"""
_SECONDS, _LETTERS_A_SECOND = 10.0, 200_000
"""A sensible pattern reads twenty million."""


def check_pattern(spec: CorpusSpec, texts: Sequence[str]) -> None:
    """Refuse a pattern that takes too long on these texts."""
    if spec.token_pattern == CorpusSpec.model_fields["token_pattern"].default:
        return
    limit = _SECONDS + sum(map(len, texts)) / _LETTERS_A_SECOND
    request = json.dumps([spec.token_pattern, *texts]).encode("ascii")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _TRY], input=request, capture_output=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        raise SpecError(
            f"`corpus.token_pattern` takes more than {limit:.0f} s for these texts; does it repeat what repeats?"
        ) from None
    if done.returncode:
        raise SpecError("`corpus.token_pattern` cannot be used on these texts.")


def read_texts(spec: CorpusSpec, columns: Columns, vocabulary: Sequence[str] | None = None) -> sp.csr_array:
    """Read a text column and count terms: those of an agreed vocabulary, where there is one."""
    if spec.text is None:
        raise SpecError("`corpus.text` must name the column that holds the text.")
    analyse = _analyser(spec)  # a wrong pattern or language is found before the file is read
    columns.require([spec.text])
    texts = columns.text(spec.text)
    check_pattern(spec, texts)
    return term_counts(texts, spec, columns.path, vocabulary, analyse=analyse)


def _vectoriser(**options: Any) -> Any:
    from sklearn.feature_extraction.text import CountVectorizer  # half a second that count matrices need not pay

    return CountVectorizer(**options)


def term_counts(
    texts: Sequence[str],
    spec: CorpusSpec,
    path: Path,
    vocabulary: Sequence[str] | None = None,
    *,
    analyse: Callable[[str], list[str]] | None = None,
) -> sp.csr_array:
    """Count terms: lower case, the spec's pattern, stop words dropped, stemmed; columns in alphabetical order."""
    if vocabulary is not None:
        agreed = _vectoriser(analyzer=analyse or _analyser(spec), vocabulary=list(vocabulary))
        return sp.csr_array(agreed.transform(texts), dtype=np.float64)
    vectoriser = _vectoriser(analyzer=analyse or _analyser(spec))
    try:
        counts = sp.csr_array(vectoriser.fit_transform(texts), dtype=np.float64)
    except ValueError:  # scikit-learn's only complaint here: an empty vocabulary
        raise Refused(path, "no term is left: check `corpus.token_pattern`, `corpus.stop_words`.") from None
    documents = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = np.flatnonzero(documents >= spec.min_documents)
    if not len(kept):
        raise Refused(path, f"no term is in {spec.min_documents} documents or more (`corpus.min_documents`).")
    if spec.max_features is not None and len(kept) > spec.max_features:
        total = np.asarray(counts.sum(axis=0)).ravel()[kept]
        kept = np.sort(kept[np.argsort(-total, kind="stable")[: spec.max_features]])
    return sp.csr_array(counts[:, kept])


def _analyser(spec: CorpusSpec) -> Callable[[str], list[str]]:
    stem = None if spec.stemming is None else _stemmer(spec.stemming)
    try:
        pattern = re.compile(spec.token_pattern)
    except re.error as error:
        raise SpecError(f"`corpus.token_pattern` must be a regular expression; {error}.") from None
    if pattern.groups > 1:
        raise SpecError(f"`corpus.token_pattern` must have at most one group; got {pattern.groups}.")
    words: Callable[[str], list[str]] = _vectoriser(
        token_pattern=spec.token_pattern, stop_words=None if spec.stop_words == "none" else spec.stop_words
    ).build_analyzer()
    if stem is None:
        return words
    return lambda text: [stem(word) for word in words(text)]


def _stemmer(language: str) -> Callable[[str], str]:
    try:
        stemmer = snowballstemmer.stemmer(language)
    except KeyError:
        languages = ", ".join(sorted(snowballstemmer.algorithms()))
        raise SpecError(f"`corpus.stemming` must be one of {languages}; got {language!r}.") from None
    return cache(stemmer.stemWord)  # a corpus repeats its words hundreds of times
