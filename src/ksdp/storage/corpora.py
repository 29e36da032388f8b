"""From a person's files to a corpus: the file that a spec names, its format, and what reads it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.levers import finished, narrowed
from ksdp.audit.corpus.matrix import Corpus, canonical, require_nonnegative, weighed
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.files import Refused, contents, extension, shown
from ksdp.storage.readers.columns import Columns, open_columns
from ksdp.storage.readers.counts import is_sparse, read_counts, read_docword, read_vocabulary
from ksdp.storage.readers.demo import docstrings
from ksdp.storage.readers.levers import levered_names, read_levers
from ksdp.storage.readers.spec_files import COLUMN_FILES, LEVER_FILES, Copy, fetched
from ksdp.storage.readers.tables import (
    Labels,
    chosen_columns,
    named_columns,
    read_labels,
    read_ratings,
    read_table,
    row_numbers,
)
from ksdp.storage.readers.text import read_texts, term_counts

DEMO = "demo"
WEIGHTING = {
    "counts": "tf-idf",
    "demo": "tf-idf",
    "docword": "tf-idf",
    "ratings": "counts",
    "table": "counts",
    "text": "tf-idf",
}
"""By format, where the spec does not say."""


@dataclass(frozen=True, eq=False)
class SourceFile:
    """The file of a corpus, found and opened once."""

    spec: CorpusSpec
    """How it is read; its files are paths of this machine."""
    path: Path
    kind: str
    """The format, never `auto`."""
    opened: Columns | None = None
    """Its columns, where they are open already: they decided the format, or no file holds them."""
    copies: tuple[Copy, ...] = ()
    """Copies of files at URLs: removed with this object."""

    @cached_property
    def columns(self) -> Columns:
        """Its named columns."""
        opened, spec = self.opened or open_columns(self.path, self.spec.encoding), self.spec
        return replace(opened, na_values=spec.na_values, decimal=spec.decimal, thousands=spec.thousands)

    @cached_property
    def labels(self) -> Columns | None:
        """The columns that label the rows of a matrix; None if the spec names no file of labels."""
        name = self.spec.labels
        return None if name is None else open_columns(Path(name), self.spec.encoding)

    @property
    def weighting(self) -> str:
        """How its entries are weighed: `corpus.weighting`, or the default of the format."""
        return self.spec.weighting or WEIGHTING[self.kind]

    @property
    def rows(self) -> str:
        """How long its rows are made: `corpus.rows`, or the default of the weighting."""
        return self.spec.rows or ("l2" if self.weighting == "tf-idf" else "none")

    @property
    def from_rows(self) -> str:
        """What the corpus' own rows decide of every row; empty if nothing."""
        spec, levers = self.spec, self.spec.levers
        listed = self.kind in ("text", "ratings") and spec.vocabulary is None and levers.terms is None
        decided = {
            "which columns there are": (listed or levers.most_frequent is not None) and levers.reference is None,
            "the mean and scale of each column": self.weighting == "standardised",
            "the median that stands for a missing number": self.kind == "table" and spec.missing == "median",
            "the weight of each term": self.weighting == "tf-idf" and spec.idf != "public",
        }
        return " and ".join(words for words, here in decided.items() if here)


def find_source(spec: CorpusSpec, base: Path) -> SourceFile:
    """The file, and its format; what is at URLs is copied here first."""
    here, copies = fetched(spec, base)
    path = Path(here.path)
    kind, columns = _kind(spec, path)
    _check_keys(spec, kind, path)
    return SourceFile(here, path, kind, columns, copies)


def _kind(spec: CorpusSpec, path: Path) -> tuple[str, Columns | None]:
    """The format, and the file's columns where they had to be looked at to know it."""
    if spec.format != "auto":
        return spec.format, None
    if spec.path == DEMO:
        return DEMO, None
    if extension(path) == ".mtx" or is_sparse(path):
        return "counts", None
    if path.name.startswith("docword") and extension(path) == ".txt":
        return "docword", None
    if spec.text is not None:
        return "text", None
    if spec.columns is not None:
        return "table", None
    columns = open_columns(path, spec.encoding)
    return ("ratings" if set(spec.triplet) <= set(columns.names) else "table"), columns


def _check_keys(spec: CorpusSpec, kind: str, path: Path) -> None:
    named = named_columns(spec)
    if kind == DEMO and spec.path != DEMO:
        raise SpecError(f"`corpus.path` must be {DEMO!r} for the demo corpus; got {shown(path)!r}.")
    if kind == DEMO and named:
        raise SpecError("`corpus.id`, `party` and `group` must be left out: the demo corpus has its own.")
    matrix = kind in ("counts", "docword")
    if matrix and named and spec.labels is None:
        columns = ", ".join(f"`{name}`" for name in named)
        raise CorpusError(f"{shown(path)}: a count matrix has no columns {columns}; set `corpus.labels`.")
    for key, applies in (
        ("labels", matrix),
        ("vocabulary", matrix or kind in ("text", "ratings")),
        ("text", kind == "text"),
        ("columns", kind in ("table", "ratings")),
        ("categories", kind == "table"),
    ):
        if not applies and getattr(spec, key):
            raise SpecError(f"`corpus.{key}` does not apply to the format {kind!r} of {shown(path)}.")
    weighting = spec.weighting or WEIGHTING[kind]
    if weighting == "standardised" and kind != "table":
        raise SpecError(f"`corpus.weighting` standardised is for tables; {shown(path)} is read as {kind}.")
    if weighting == "tf-idf" and spec.idf == "party" and spec.party is None and kind != DEMO:
        raise CorpusError(f"{shown(path)}: `idf` is 'party' and no party column is named; set `corpus.party`.")


def column_names(spec: CorpusSpec, features: int | None = None) -> tuple[str, ...] | None:
    """Names of the columns before any lever, if the spec gives them; `features` of them, if that is known."""
    if spec.vocabulary is not None:
        return read_vocabulary(Path(spec.vocabulary), spec.encoding, features)
    return None if spec.columns is None or spec.format == "ratings" else (*spec.columns, *category_names(spec))


def category_names(spec: CorpusSpec) -> tuple[str, ...]:
    """Names of the columns of 0 and 1 that categories become."""
    return tuple(f"{name}_{value}" for name, values in spec.categories.items() for value in values)


def load_corpus(spec: CorpusSpec, base: Path, *, nonnegative: bool) -> Corpus:
    """Read, check and weigh a corpus."""
    if spec.in_memory:
        raise SpecError("the corpus of this spec was handed over by a Python program; it is in no file.")
    return corpus_of(find_source(spec, base), nonnegative=nonnegative)


def corpus_of(file: SourceFile, *, nonnegative: bool) -> Corpus:
    """The same of a file that is open."""
    return weighed_corpus(read_source(file, nonnegative=nonnegative), nonnegative=nonnegative)


def load_drawn(
    spec: CorpusSpec, base: Path, enters: Callable[[Labels], NDArray[np.bool_]], *, nonnegative: bool
) -> tuple[Corpus, Corpus]:
    """As `load_corpus`, and also a corpus of some of the rows, weighed without the others."""
    if spec.missing == "median":
        raise SpecError("`corpus.missing` median is of rows that are not drawn, too: fill the numbers beforehand.")
    source = read_source(find_source(spec, base), nonnegative=nonnegative)
    rows = np.flatnonzero(enters(source.labels))
    part = replace(source, matrix=sp.csr_array(source.matrix[rows]), labels=source.labels.take(rows))
    return weighed_corpus(source, nonnegative=nonnegative), weighed_corpus(part, nonnegative=nonnegative)


def weighed_corpus(source: RawCorpus, *, nonnegative: bool, edited: EditedRows | None = None) -> Corpus:
    """The corpus of the rows that were read: weighed, those without features kept out.

    Where some are `edited`, the edited versions stand in the place of these, weighed by what the corpus holds.
    """
    file, raw, labels = source.file, source.matrix, source.labels
    if nonnegative:
        require_nonnegative(raw)
    levers = read_levers(file.spec, source.names, raw.shape[1], raw)
    if nonnegative and (levers.basis is not None or levers.centre is not None):
        raise SpecError(
            "`corpus.levers` with `basis` or `units` gives negative entries, which this mechanism refuses: take "
            "the lever away, or another mechanism."
        )
    counted, party = raw.shape[0], labels.party
    if edited is not None:
        raw = canonical(sp.csr_array(sp.vstack([raw, edited.matrix])), keep_zeros=True)
        party = None if party is None else np.concatenate([party, party[edited.places]])
    weighted = weighed(narrowed(raw, levers), party, file.weighting, file.spec.idf, file.rows, levers.idf, counted)
    matrix = finished(weighted, levers)
    if edited is not None:
        if (empty := np.flatnonzero(np.diff(matrix.indptr[counted:]) == 0)).size:
            raise Refused(edited.path, "nothing of it is left as the corpus is read.", row=int(empty[0]) + 1)
        order = np.arange(counted)
        order[edited.places] = counted + np.arange(len(edited.places))
        matrix = sp.csr_array(matrix[order])
    kept = np.flatnonzero(np.diff(matrix.indptr))
    if not len(kept):
        no_word = " No line of `corpus.vocabulary` is a word: 3 to 20 letters in lower case."
        why = no_word if file.kind == "text" and not raw.nnz else ""
        raise Refused(file.path, f"no feature is left in any of {matrix.shape[0]} rows.{why}")
    absent = np.setdiff1d(np.arange(matrix.shape[0]), kept)
    documents = labels.take(kept)
    left_out = (*source.dropped, *labels.ids[absent].tolist())
    columns = (documents.ids, documents.party, documents.group)
    numbered = file.spec.id is None and file.kind != "ratings" and bool((labels.ids == row_numbers(counted)).all())
    return Corpus(matrix[kept], *columns, left_out, source.taken, file.from_rows, numbered)


def load_edited(
    spec: CorpusSpec, base: Path, path: Path, *, nonnegative: bool
) -> tuple[Corpus, Corpus, tuple[str, ...]]:
    """As `load_corpus`; the same with edited versions in the place of some documents; and the ids of these."""
    source = read_source(find_source(spec, base), nonnegative=nonnegative)
    edited = _read_edited(path, source, nonnegative=nonnegative)
    corpus = weighed_corpus(source, nonnegative=nonnegative)
    if absent := sorted({*edited.ids} & {*corpus.left_out}):
        raise Refused(
            path, f"{absent[0]!r} is left out of the corpus, as nothing of it is left or a number missing."
        )
    return corpus, weighed_corpus(source, nonnegative=nonnegative, edited=edited), edited.ids


def corpus_features(spec: CorpusSpec, base: Path) -> tuple[str, ...]:
    """Names of the columns that a corpus's levers leave, in order, if its spec determines them."""
    here, _copies = fetched(spec, base, COLUMN_FILES)
    return left_names(here)


def left_names(here: CorpusSpec) -> tuple[str, ...]:
    """The same of a spec whose files are on this machine."""
    names = column_names(here)
    if names is None:
        raise SpecError("`corpus.vocabulary` or `corpus.columns` must say what the columns of the corpus are.")
    return levered_names(here, names) if here.levers.any else names


def rows_hash(spec: CorpusSpec, base: Path) -> str:
    """`sha256:` of how rows are made from a party's file: what parties must do alike beside their columns."""
    file = find_source(spec, base)
    if file.spec.missing == "median":
        raise SpecError("`corpus.missing` median is of one file: fill the numbers before a run among parties.")
    settings = file.spec.model_dump(mode="json", include={"idf", "stop_words", "levers"})
    settings |= {"weighting": file.weighting, "rows": file.rows}
    for key in LEVER_FILES:
        name = settings["levers"][key]
        if name is not None:
            settings["levers"][key] = hashlib.sha256(contents(Path(name))).hexdigest()
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


class EditedRows(NamedTuple):
    """Edited versions of some documents, before they are weighed."""

    path: Path
    matrix: sp.csr_array
    places: NDArray[np.int64]
    """Rows of the documents in the corpus's file."""
    ids: tuple[str, ...]


def _read_edited(path: Path, source: RawCorpus, *, nonnegative: bool) -> EditedRows:
    """Read edited versions: a column that names the document of each, and the columns of the corpus."""
    file, spec = source.file, source.file.spec.model_copy(update={"missing": "refuse"})
    columns = replace(file, path=path, opened=open_columns(path, spec.encoding)).columns
    if file.kind == "text":
        matrix, _ = read_texts(spec, columns, source.terms)
    elif file.kind == "table" or (file.kind != "ratings" and source.names is not None):
        chosen = chosen_columns(spec, file.columns) if file.kind == "table" else source.names or ()
        matrix, _ = read_table(spec, columns, chosen, nonnegative=nonnegative or spec.weighting == "tf-idf")
    else:
        raise Refused(path, "versions are read of texts, tables, and counts with `corpus.vocabulary`.")
    ids, place = (
        columns.labels(name := spec.id or "id", unique=True),
        {document: row for row, document in enumerate(source.labels.ids.tolist())},
    )
    for row, document in enumerate(ids):
        if document not in place:
            raise Refused(path, f"{str(document)!r} is no document of the corpus.", row=row + 1, column=name)
    places = np.array([place[document] for document in ids], dtype=np.int64)
    return EditedRows(path, canonical(matrix, keep_zeros=True), places, tuple(ids.tolist()))


@dataclass(frozen=True, eq=False)
class RawCorpus:
    """The rows of a file, before they are weighed."""

    file: SourceFile
    matrix: sp.csr_array
    """Canonical; a stored zero is a rating, or what a sparse matrix in memory means by it."""
    labels: Labels
    names: tuple[str, ...] | None = None
    """Names of the columns before any lever, if the spec has them."""
    taken: tuple[str, ...] = ()
    """The same of a table whose spec does not."""
    terms: tuple[str, ...] = ()
    """Words that the columns of texts count."""
    dropped: tuple[str, ...] = ()
    """Rows of a table that are left out, as a number is missing."""

    @classmethod
    def of(
        cls, file: SourceFile, matrix: sp.csr_array, labels: Labels, names: tuple[str, ...] | None = None
    ) -> RawCorpus:
        """The same of a matrix in any form."""
        keep_zeros = file.kind == "ratings" or file.spec.in_memory
        return cls(file, canonical(matrix, keep_zeros=keep_zeros), labels, names)

    @property
    def features(self) -> int:
        """Columns before any lever."""
        return int(self.matrix.shape[1])

    def under(self, spec: CorpusSpec) -> RawCorpus:
        """The same rows with the weights and levers of another spec; the levers' files are those of this one."""
        located = {
            name: getattr(self.file.spec.levers, name) for name in LEVER_FILES if getattr(spec.levers, name)
        }
        levers = spec.levers.model_copy(update=located)
        changed = {"weighting": spec.weighting, "idf": spec.idf, "rows": spec.rows, "levers": levers}
        return replace(self, file=replace(self.file, spec=self.file.spec.model_copy(update=changed)))


def read_source(file: SourceFile, *, nonnegative: bool) -> RawCorpus:
    """Read the rows of the file, before weighting, in its order."""
    if nonnegative and file.spec.weighting == "standardised":
        raise SpecError(
            "`corpus.weighting` standardised gives negative entries, which this mechanism refuses: set "
            '`weighting = "counts"`, or take another mechanism.'
        )
    # Weights of negative counts mean nothing.
    return _READERS[file.kind](file, nonnegative or file.spec.weighting == "tf-idf")


def _demo(file: SourceFile, nonnegative: bool) -> RawCorpus:
    if sys.flags.optimize > 1:
        raise Refused(file.path, "most docstrings are stripped, because Python runs with -OO.")
    documents = docstrings()
    ids = np.array([document.id for document in documents], dtype=np.str_)
    party = np.array([document.party for document in documents], dtype=np.str_)
    matrix = term_counts([document.text for document in documents], file.spec, file.path)
    return RawCorpus.of(file, matrix, Labels(ids, party))


def _labelled(file: SourceFile, matrix: sp.csr_array) -> RawCorpus:
    names = column_names(file.spec, matrix.shape[1])
    return RawCorpus.of(file, matrix, read_labels(file.spec, file.labels, matrix.shape[0]), names)


def _ratings(file: SourceFile, nonnegative: bool) -> RawCorpus:
    columns, names = file.columns, column_names(file.spec)
    return RawCorpus.of(file, *read_ratings(file.spec, columns, names, nonnegative=nonnegative), names)


def _text(file: SourceFile, nonnegative: bool) -> RawCorpus:
    columns, names = file.columns, column_names(file.spec)
    labels = read_labels(file.spec, columns, len(columns))
    matrix, terms = read_texts(file.spec, columns, names)
    return replace(RawCorpus.of(file, matrix, labels, names), terms=terms)


def _table(file: SourceFile, nonnegative: bool) -> RawCorpus:
    columns, names = file.columns, column_names(file.spec)
    labels = read_labels(file.spec, columns, len(columns))
    chosen = chosen_columns(file.spec, columns)
    matrix, kept = read_table(file.spec, columns, chosen, nonnegative=nonnegative)
    dropped = tuple(labels.ids[~kept].tolist())
    read = replace(RawCorpus.of(file, matrix, labels.take(np.flatnonzero(kept)), names), dropped=dropped)
    return read if names is not None else replace(read, taken=(*chosen, *category_names(file.spec)))


_READERS: dict[str, Callable[[SourceFile, bool], RawCorpus]] = {
    "demo": _demo,
    "counts": lambda file, nonnegative: _labelled(file, read_counts(file.path)),
    "docword": lambda file, nonnegative: _labelled(file, read_docword(file.path, file.spec.encoding)),
    "ratings": _ratings,
    "text": _text,
    "table": _table,
}
"""By format: what reads a file of it, whose entries must not be negative where that is said."""
