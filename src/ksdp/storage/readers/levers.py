"""Levers from their files, for a corpus whose columns have names."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.levers import NONE, Levers, most_frequent
from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.files import Refused, contents, read_text
from ksdp.storage.readers.columns import open_columns, read_matrix
from ksdp.storage.readers.counts import read_vocabulary


def read_levers(
    spec: CorpusSpec, names: Sequence[str] | None, features: int, counts: sp.csr_array | None = None
) -> Levers:
    """Read the levers of a corpus with `features` columns."""
    levers = spec.levers
    if spec.idf == "public" and levers.reference is None:
        raise SpecError('`corpus.idf` "public" needs `corpus.levers.reference`.')
    if not levers.any:
        return NONE
    if levers.directions is not None and levers.basis is None:
        raise SpecError("`corpus.levers.directions` goes with `basis`.")
    named = levers.terms is not None or levers.reference is not None or levers.units is not None
    if named and names is None:
        raise SpecError(
            "`corpus.levers` with `terms`, `reference` or `units` needs the columns' names: set "
            "`corpus.vocabulary` or `corpus.columns`."
        )
    labels = [str(column) for column in range(features)] if names is None else list(names)
    columns, frequency, documents = _chosen(spec, labels, counts)
    if not len(columns):
        raise SpecError("`corpus.levers` leave no column.")
    idf = None
    if spec.idf == "public":
        idf = np.array([math.log(documents / int(count)) for count in frequency])
    basis = None if levers.basis is None else _basis(Path(levers.basis))[:, : levers.directions]
    centre, scale = (
        (None, None) if levers.units is None else _units(Path(levers.units), spec.encoding, labels, columns)
    )
    kept = None if len(columns) == features and (columns == np.arange(features)).all() else columns
    return Levers(kept, idf, centre, scale, basis, levers.clip)


def _chosen(
    spec: CorpusSpec, labels: Sequence[str], counts: sp.csr_array | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    levers = spec.levers
    columns: NDArray[np.int64] = np.arange(len(labels))
    if levers.terms is not None:
        columns = _places(Path(levers.terms), labels, spec.encoding)
    documents, frequency = 0, np.zeros(0, dtype=np.int64)
    if levers.reference is not None:
        documents, reference = _reference(Path(levers.reference), spec.encoding)
        frequency = np.array([reference.get(labels[column], 0) for column in columns])
        columns, frequency = columns[frequency > 0], frequency[frequency > 0]
    if levers.most_frequent is not None:
        if levers.reference is None:
            if counts is None:
                raise SpecError(
                    "`corpus.levers.most_frequent` needs `reference` here: without one the choice is made from "
                    "the documents, and gives them away. A run of the mechanism `term-counts` writes one."
                )
            frequency = np.bincount(counts.indices, minlength=len(labels))[columns]
        chosen = most_frequent(frequency, levers.most_frequent)
        columns, frequency = columns[chosen], frequency[chosen]
    return columns, frequency, documents


def levered_names(spec: CorpusSpec, names: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns that the levers leave, as parties compare them."""
    levers = read_levers(spec, names, len(names))
    if levers.basis is not None:
        assert spec.levers.basis is not None
        digest = hashlib.sha256(contents(Path(spec.levers.basis))).hexdigest()
        return tuple(f"direction-{place}-{digest}" for place in range(levers.basis.shape[1]))
    return tuple(names) if levers.columns is None else tuple(names[column] for column in levers.columns)


def _places(path: Path, labels: Sequence[str], encoding: str) -> NDArray[np.int64]:
    place = {label: column for column, label in enumerate(labels)}
    wanted = read_vocabulary(path, encoding)
    missing = [term for term in wanted if term not in place]
    if missing:
        raise Refused(
            path, f"holds {len(missing)} terms that are no columns of the corpus, {missing[0][:40]!r} among them."
        )
    return np.array([place[term] for term in wanted], dtype=np.int64)


def _reference(path: Path, encoding: str) -> tuple[int, dict[str, int]]:
    frequency: dict[str, int] = {}
    documents = 0
    for number, line in enumerate(read_text(path, encoding).rstrip("\r\n").split("\n"), start=1):
        term, _, count = line.rstrip("\r").partition("\t")
        if not count.isdecimal() or int(count) < 1 or term in frequency:
            raise Refused(path, f"line {number} is not a term, a tab and a positive count, each term once.")
        if number == 1:
            if term != "documents":
                raise Refused(path, "the first line must be `documents`, a tab and their number.")
            documents = int(count)
        elif int(count) > documents:
            raise Refused(path, f"line {number} counts more documents than there are.")
        else:
            frequency[term] = int(count)
    return documents, frequency


def _units(
    path: Path, encoding: str, labels: Sequence[str], columns: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    table = open_columns(path, encoding)
    place = {str(name): row for row, name in enumerate(table.labels("column", unique=True))}
    missing = [labels[column] for column in columns if labels[column] not in place]
    if missing:
        raise Refused(
            path, f"has no row for {len(missing)} columns of the corpus, {missing[0][:40]!r} among them."
        )
    rows = np.array([place[labels[column]] for column in columns])
    scale = table.numbers("scale")[rows]
    if (wrong := np.flatnonzero(~(scale > 0))).size:
        raise Refused(
            path, f"must be above 0; got {scale[wrong[0]]:g}.", row=int(rows[wrong[0]]) + 1, column="scale"
        )
    return table.numbers("centre")[rows], scale


def _basis(path: Path) -> NDArray[np.float64]:
    basis: NDArray[np.float64] = read_matrix(path).astype(np.float64)
    if not basis.size or not np.isfinite(basis).all():
        raise Refused(path, "is empty, or holds NaN or infinity.")
    return basis
