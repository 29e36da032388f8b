"""From a person's files to a corpus."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.levers import finished, narrowed
from ksdp.audit.spec import CorpusSpec
from ksdp.audit.weighting import weighed
from ksdp.storage.readers.columns import Columns, open_columns
from ksdp.storage.readers.counts import check_labels, check_vocabulary, read_counts, read_docword, read_vocabulary
from ksdp.storage.readers.demo import docstrings
from ksdp.storage.readers.files import Refused, extension
from ksdp.storage.readers.labels import Labels, named_columns, read_labels
from ksdp.storage.readers.levers import levered_names, read_levers
from ksdp.storage.readers.ratings import read_ratings
from ksdp.storage.readers.tables import read_table
from ksdp.storage.readers.text import read_texts, term_counts

__all__ = [
    "MEMORY",
    "RawCorpus",
    "column_names",
    "corpus_columns",
    "corpus_features",
    "find_source",
    "lent_corpus",
    "load_corpus",
    "read_columns",
    "read_source",
    "weighed_corpus",
]

DEMO = "demo"
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


WEIGHTING = {
    "counts": "tf-idf",
    "demo": "tf-idf",
    "docword": "tf-idf",
    "ratings": "counts",
    "table": "counts",
    "text": "tf-idf",
}
"""By format, where the spec does not say."""


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
    if nonnegative and spec.weighting == "standardised":
        raise SpecError("`corpus.weighting` standardised gives negative entries, which the mechanism refuses.")
    source = read_source(spec, base, nonnegative=nonnegative)
    return weighed_corpus(source, spec, base, nonnegative=nonnegative)


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
    levers = read_levers(spec, base, column_names(spec, base), raw.shape[1], raw)
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
    return Corpus(
        matrix[kept], documents.ids, documents.party, documents.group, tuple(labels.ids[absent].tolist())
    )


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


def column_names(spec: CorpusSpec, base: Path) -> tuple[str, ...] | None:
    """Names of the columns before any lever."""
    if spec.vocabulary is not None:
        return read_vocabulary(_path(base, spec.vocabulary), spec.encoding)
    return spec.columns


@dataclass(frozen=True, eq=False)
class RawCorpus:
    """What a reader found."""

    path: Path
    matrix: sp.csr_array
    labels: Labels
    kind: str
    """The format, never `auto`."""


def _path(base: Path, name: str) -> Path:
    """A path of the spec: relative to its folder, `$NAME` filled in from the environment."""
    return base / os.path.expandvars(name)


def find_source(spec: CorpusSpec, base: Path) -> tuple[Path, str, Columns | None]:
    """The file, its format (never `auto`), and its columns where they had to be looked at to know it.

    Raises
    ------
    InputError
        If keys of the spec do not go with the format.
    """
    path = _path(base, spec.path)
    kind, columns = _kind(spec, path)
    _check_keys(spec, kind, path)
    return path, kind, columns


def read_source(spec: CorpusSpec, base: Path, *, nonnegative: bool) -> RawCorpus:
    """What the file holds, before weighting; rows in its order.

    Raises
    ------
    InputError
        As for `load_corpus`.
    """
    path, kind, columns = find_source(spec, base)
    if kind == DEMO:
        matrix, labels = _demo(spec)
    elif kind in ("counts", "docword"):
        matrix = read_counts(path) if kind == "counts" else read_docword(path, spec.encoding)
        if spec.vocabulary is not None:
            check_vocabulary(_path(base, spec.vocabulary), spec.encoding, matrix.shape[1])
        labelled = None if spec.labels is None else open_columns(_path(base, spec.labels), spec.encoding)
        if labelled is not None:
            check_labels(labelled, matrix.shape[0])
        labels = read_labels(spec, labelled, matrix.shape[0])
    else:
        columns = columns or open_columns(path, spec.encoding)
        agreed = spec.vocabulary and read_vocabulary(_path(base, spec.vocabulary), spec.encoding)
        matrix, labels = read_columns(spec, kind, columns, agreed or None, nonnegative=nonnegative)
    return RawCorpus(path, canonical(matrix, keep_zeros=kind == "ratings"), labels, kind)


def read_columns(
    spec: CorpusSpec, kind: str, columns: Columns, agreed: Sequence[str] | None = None, *, nonnegative: bool
) -> tuple[sp.csr_array, Labels]:
    """What named columns hold, as text, ratings or a table, before weighting.

    Parameters
    ----------
    agreed : sequence of str, optional
        The only terms of a text that are counted, or items whose ratings are read.
    """
    nonnegative = nonnegative or spec.weighting == "tf-idf"  # weights of negative counts mean nothing
    if kind == "ratings":
        return read_ratings(spec, columns, agreed, nonnegative=nonnegative)
    labels = read_labels(spec, columns, len(columns))
    if kind == "text":
        return read_texts(spec, columns, agreed), labels
    return read_table(spec, columns, nonnegative=nonnegative), labels


def _kind(spec: CorpusSpec, path: Path) -> tuple[str, Columns | None]:
    """The format, and the file's columns where they had to be looked at to know it."""
    if spec.format != "auto":
        return spec.format, None
    if spec.path == DEMO:
        return DEMO, None
    if extension(path) in (".npz", ".mtx"):
        return "counts", None
    if path.name.startswith("docword") and extension(path) == ".txt":
        return "docword", None
    if spec.text is not None:
        return "text", None
    if spec.columns is not None:
        return "table", None
    columns = open_columns(path, spec.encoding)
    triplet = {spec.user, spec.item, spec.rating}
    return ("ratings" if triplet <= set(columns.names) else "table"), columns


def _check_keys(spec: CorpusSpec, kind: str, path: Path) -> None:
    """Refuse keys that would be passed over in silence."""
    named = named_columns(spec)
    if kind == DEMO and spec.path != DEMO:
        raise SpecError(f"`corpus.path` must be {DEMO!r} for the demo corpus; got {path.name!r}.")
    if kind == DEMO and named:
        raise SpecError("`corpus.id`, `party` and `group` must be left out: the demo corpus has its own.")
    matrix = kind in ("counts", "docword")
    if matrix and named and spec.labels is None:
        columns = ", ".join(f"`{name}`" for name in named)
        raise CorpusError(f"{path.name}: a count matrix has no columns {columns}; set `corpus.labels`.")
    for key, applies in (
        ("labels", matrix),
        ("vocabulary", matrix or kind in ("text", "ratings")),
        ("text", kind == "text"),
        ("columns", kind == "table"),
    ):
        if not applies and getattr(spec, key) is not None:
            raise SpecError(f"`corpus.{key}` does not apply to the format {kind!r} of {path.name}.")
    weighting = spec.weighting or WEIGHTING[kind]
    if weighting == "standardised" and kind != "table":
        raise SpecError(f"`corpus.weighting` standardised is for tables; {path.name} is read as {kind}.")
    if weighting == "tf-idf" and spec.idf == "party" and spec.party is None and kind != DEMO:
        raise CorpusError(f"{path.name}: `idf` is 'party' and no party column is named; set `corpus.party`.")


def _demo(spec: CorpusSpec) -> tuple[sp.csr_array, Labels]:
    path = Path(DEMO)
    if sys.flags.optimize > 1:
        raise Refused(path, "most docstrings are stripped, because Python runs with -OO.")
    documents = docstrings()
    ids = np.array([document.id for document in documents], dtype=np.str_)
    party = np.array([document.party for document in documents], dtype=np.str_)
    matrix = term_counts([document.text for document in documents], spec, path)
    return matrix, Labels(ids, party)
