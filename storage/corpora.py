"""From a person's files to a corpus."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.levers import finished, narrowed
from ksdp.audit.spec import CorpusSpec
from ksdp.audit.weighting import weighed
from ksdp.storage.readers.columns import Columns, open_columns
from ksdp.storage.readers.counts import read_counts, read_docword, read_vocabulary
from ksdp.storage.readers.demo import docstrings
from ksdp.storage.readers.files import Refused, spec_path
from ksdp.storage.readers.labels import Labels, read_labels
from ksdp.storage.readers.levers import levered_names, read_levers
from ksdp.storage.readers.ratings import read_ratings
from ksdp.storage.readers.tables import chosen_columns, read_table
from ksdp.storage.readers.text import read_texts, term_counts
from ksdp.storage.source_file import DEMO, WEIGHTING, find_source

__all__ = [
    "MEMORY",
    "RawCorpus",
    "column_names",
    "corpus_columns",
    "corpus_features",
    "lent_corpus",
    "load_corpus",
    "load_drawn",
    "read_columns",
    "read_source",
    "weighed_corpus",
]

MEMORY = "memory"
"""In place of a path: what a Python program handed over (`lent_corpus`)."""

_lent: ContextVar[Corpus | None] = ContextVar("ksdp-corpus", default=None)


@contextmanager
def lent_corpus(corpus: Corpus) -> Iterator[None]:
    """Let specs whose `corpus.path` is `MEMORY` mean this corpus, inside."""
    token = _lent.set(corpus)
    try:
        yield
    finally:
        _lent.reset(token)


def load_corpus(spec: CorpusSpec, base: Path, *, nonnegative: bool) -> Corpus:
    """Read, check and weigh a corpus.

    `format = "auto"` goes by the name of the file (`demo`; `.npz`, `.mtx`: counts; `docword*.txt`: docword), then
    by the keys given (`text`: text; `columns`: table), then by the columns there are (user, item and rating:
    ratings; else table). Columns keep the file's order; rows that end without features are kept out and listed in
    `Corpus.left_out`. Inverse document frequencies count all rows of the file.

    Parameters
    ----------
    base : Path
        Folder that relative paths of the spec start from.
    nonnegative : bool
        Refuse negative entries (the mechanism is a non-negative factorisation).

    Raises
    ------
    CorpusError
        Naming the file, the row (counted from 1, the header aside) and the column at fault.
    SpecError
        Keys of the spec that do not go together.

    Examples
    --------
    >>> corpus = load_corpus(CorpusSpec(path="demo"), Path(), nonnegative=True)
    >>> sorted(set(corpus.party.tolist()))
    ['numpy', 'pandas', 'scipy']
    """
    if spec.path == MEMORY:
        return _handed_over(nonnegative)
    source = read_source(spec, base, nonnegative=nonnegative)
    return weighed_corpus(source, spec, base, nonnegative=nonnegative)


def load_drawn(
    spec: CorpusSpec, base: Path, enters: Callable[[Labels], NDArray[np.bool_]], *, nonnegative: bool
) -> tuple[Corpus, Corpus]:
    """As `load_corpus`, and besides some rows of the file alone: their weights do not count the others either."""
    source = read_source(spec, base, nonnegative=nonnegative)
    rows = np.flatnonzero(enters(source.labels))
    part = replace(source, matrix=sp.csr_array(source.matrix[rows]), labels=source.labels.take(rows))
    whole, some = (weighed_corpus(each, spec, base, nonnegative=nonnegative) for each in (source, part))
    return whole, some


def _handed_over(nonnegative: bool) -> Corpus:
    corpus = _lent.get()
    if corpus is None:
        raise SpecError("the corpus of this spec was handed over by a Python program; it is in no file.")
    if nonnegative and corpus.matrix.nnz and corpus.matrix.data.min() < 0:
        raise CorpusError("the corpus holds negative entries, which this mechanism does not take.")
    return corpus


def weighed_corpus(source: RawCorpus, spec: CorpusSpec, base: Path, *, nonnegative: bool) -> Corpus:
    """The corpus of what a reader found: weighed, its rows without features kept out."""
    labels = source.labels
    weighting = spec.weighting or WEIGHTING[source.kind]
    rows = spec.rows or ("l2" if weighting == "tf-idf" else "none")
    raw = source.matrix
    levers = read_levers(spec, base, source.names, raw.shape[1], raw)
    if nonnegative and (levers.basis is not None or levers.centre is not None):
        raise SpecError(
            "`corpus.levers` with `basis` or `units` gives negative entries, which the mechanism refuses."
        )
    weighted = weighed(narrowed(raw, levers), labels.party, weighting, spec.idf, rows, levers.idf)
    matrix = finished(weighted, levers)
    kept = np.flatnonzero(np.diff(matrix.indptr))
    if not len(kept):
        why = "" if raw.nnz else " No line of `corpus.vocabulary` is a word as `corpus.token_pattern` makes them."
        raise Refused(source.path, f"no feature is left in any of the {matrix.shape[0]} documents.{why}")
    absent = np.setdiff1d(np.arange(matrix.shape[0]), kept)
    documents = labels.take(kept)
    left_out = tuple(labels.ids[absent].tolist())
    return Corpus(matrix[kept], documents.ids, documents.party, documents.group, left_out, source.taken)


def corpus_features(spec: CorpusSpec, base: Path) -> tuple[str, ...]:
    """Names of a corpus's columns in their order, as far as its spec says them; those that its levers leave.

    Raises
    ------
    SpecError
        If it does not: neither `corpus.vocabulary` nor `corpus.columns` is given, or the documents decide.
    CorpusError
        If the vocabulary cannot be read, or holds a term twice.
    """
    names = column_names(spec, base)
    if names is None:
        raise SpecError("`corpus.vocabulary` or `corpus.columns` must say what the columns of the corpus are.")
    return levered_names(spec, base, names) if spec.levers.any else names


def corpus_columns(spec: CorpusSpec, base: Path) -> int:
    """How many columns there are before any lever."""
    return int(read_source(spec, base, nonnegative=False).matrix.shape[1])


def column_names(spec: CorpusSpec, base: Path, features: int | None = None) -> tuple[str, ...] | None:
    """Names of the columns before any lever, where the spec says them; so many, where that is known."""
    if spec.vocabulary is not None:
        return read_vocabulary(spec_path(base, spec.vocabulary), spec.encoding, features)
    return spec.columns


@dataclass(frozen=True, eq=False)
class RawCorpus:
    """What a reader found."""

    path: Path
    matrix: sp.csr_array
    """Canonical; a stored zero is a rating, and nothing elsewhere."""
    labels: Labels
    kind: str
    """The format, never `auto`."""
    names: tuple[str, ...] | None = None
    """Of the columns before any lever, where the spec says them."""
    taken: tuple[str, ...] = ()
    """The same of a table whose spec does not."""

    @classmethod
    def of(
        cls, path: Path, matrix: sp.csr_array, labels: Labels, kind: str, names: Sequence[str] | None = None
    ) -> RawCorpus:
        """The same of a matrix in any form."""
        known = None if names is None else tuple(names)
        return cls(path, canonical(matrix, keep_zeros=kind == "ratings"), labels, kind, known)


def read_source(spec: CorpusSpec, base: Path, *, nonnegative: bool) -> RawCorpus:
    """What the file holds, before weighting; rows in its order.

    Raises
    ------
    InputError
        As for `load_corpus`.
    """
    if nonnegative and spec.weighting == "standardised":
        raise SpecError("`corpus.weighting` standardised gives negative entries, which the mechanism refuses.")
    file = find_source(spec, base)
    path, kind = file.path, file.kind
    if kind == DEMO:
        matrix, labels = _demo(spec)
        return RawCorpus.of(path, matrix, labels, kind)
    if kind not in ("counts", "docword"):
        return read_columns(spec, kind, file.columns, column_names(spec, base), nonnegative=nonnegative)
    matrix = read_counts(path) if kind == "counts" else read_docword(path, spec.encoding)
    rows, features = matrix.shape
    names = column_names(spec, base, features)
    labelled = None if spec.labels is None else open_columns(spec_path(base, spec.labels), spec.encoding)
    return RawCorpus.of(path, matrix, read_labels(spec, labelled, rows), kind, names)


def read_columns(
    spec: CorpusSpec, kind: str, columns: Columns, names: Sequence[str] | None = None, *, nonnegative: bool
) -> RawCorpus:
    """What named columns hold, as text, ratings or a table, before weighting.

    Parameters
    ----------
    names : sequence of str, optional
        The only terms of a text that are counted, or items whose ratings are read.
    """
    nonnegative = nonnegative or spec.weighting == "tf-idf"  # weights of negative counts mean nothing
    if kind == "ratings":
        matrix, labels = read_ratings(spec, columns, names, nonnegative=nonnegative)
        return RawCorpus.of(columns.path, matrix, labels, kind, names)
    labels = read_labels(spec, columns, len(columns))
    if kind == "text":
        return RawCorpus.of(columns.path, read_texts(spec, columns, names), labels, kind, names)
    chosen = chosen_columns(spec, columns)
    read = RawCorpus.of(columns.path, read_table(columns, chosen, nonnegative=nonnegative), labels, kind, names)
    return read if spec.columns is not None else replace(read, taken=chosen)


def _demo(spec: CorpusSpec) -> tuple[sp.csr_array, Labels]:
    path = Path(DEMO)
    if sys.flags.optimize > 1:
        raise Refused(path, "most docstrings are stripped, because Python runs with -OO.")
    documents = docstrings()
    ids = np.array([document.id for document in documents], dtype=np.str_)
    party = np.array([document.party for document in documents], dtype=np.str_)
    matrix = term_counts([document.text for document in documents], spec, path)
    return matrix, Labels(ids, party)
