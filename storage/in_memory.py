"""What a Python program holds already, as a corpus: arrays, sparse matrices, tables, lists of texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import CorpusError
from ksdp.audit.spec import CorpusSpec
from ksdp.storage.corpora import RawCorpus, read_source, weighed_corpus
from ksdp.storage.fetched import Copy, fetched
from ksdp.storage.readers.columns import Columns
from ksdp.storage.readers.labels import Labels
from ksdp.storage.readers.source import Source
from ksdp.storage.readers.spec_files import COLUMN_FILES
from ksdp.storage.readers.text import term_counts
from ksdp.storage.source_file import SourceFile, column_names

_WHERE = Path("the data")


def corpus_in_memory(
    data: Any,
    spec: CorpusSpec,
    *,
    ids: Sequence[str] | None = None,
    party: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
) -> Corpus:
    """Make a corpus of a matrix, a table with named columns, or texts.

    A matrix is taken as it is: nothing is weighed unless the spec says so. Texts are counted and weighed as those
    of a file, and a table's columns are read as those of a Parquet file.

    Parameters
    ----------
    data : 2-D array, sparse matrix, pandas DataFrame, Arrow table, or sequence of str
    spec : CorpusSpec
        Its path is not read.
    ids, party, group : sequence of str, shape (n_documents,), optional
        For matrices and texts; a table names its columns in the spec.

    Raises
    ------
    CorpusError
        If the data are of another kind, or are refused.
    """
    spec, copies = fetched(spec, Path(), COLUMN_FILES)
    if isinstance(data, pa.Table) or hasattr(data, "columns"):
        if ids is not None or party is not None or group is not None:
            raise CorpusError("`id`, `party` and `group` of a table must be names of columns.")
        read = read_source(_table(data, spec, copies), nonnegative=False)
        return weighed_corpus(replace(read, taken=()), nonnegative=False)  # a program knows what it handed over
    agreed = column_names(spec)
    if not sp.issparse(data) and _texts(data):
        matrix, kind = term_counts(list(data), spec, _WHERE, agreed), "text"
    else:
        matrix, kind = _matrix(data), "table"
        if agreed is not None and len(agreed) != matrix.shape[1]:
            raise CorpusError(
                f"`vocabulary` or `columns` must name every column of the data ({matrix.shape[1]}); "
                f"got {len(agreed)} names."
            )
    rows = matrix.shape[0]
    columns = [_labels(column, rows, name) for name, column in (("id", ids), ("party", party), ("group", group))]
    names = columns[0] if columns[0] is not None else np.arange(1, rows + 1).astype(np.str_)
    labels = Labels(names, columns[1], columns[2])
    source = RawCorpus.of(SourceFile(spec, _WHERE, kind, copies=copies), matrix, labels, agreed)
    return weighed_corpus(source, nonnegative=False)


def _texts(data: Any) -> bool:
    return len(data) > 0 and all(isinstance(text, str) for text in data)


def _matrix(data: Any) -> sp.csr_array:
    if sp.issparse(data):
        matrix = sp.csr_array(data)
    else:
        array = np.asarray(data)
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise CorpusError(
                f"the data must be a matrix of numbers, a table or texts; got {type(data).__name__} "
                f"of {array.ndim} dimensions and type {array.dtype}."
            )
        matrix = sp.csr_array(array)
    if not np.isfinite(matrix.data.astype(np.float64)).all():
        raise CorpusError("the data must be finite; they hold NaN or infinity.")
    return matrix


def _labels(column: Sequence[str] | None, rows: int, name: str) -> NDArray[np.str_] | None:
    if column is None:
        return None
    if len(column) != rows:
        raise CorpusError(f"`{name}` must have one entry a document ({rows}); got {len(column)}.")
    return np.array([str(entry) for entry in column], dtype=np.str_)


def _table(data: Any, spec: CorpusSpec, copies: tuple[Copy, ...]) -> SourceFile:
    table = data if isinstance(data, pa.Table) else pa.Table.from_pandas(data, preserve_index=False)
    if not table.num_rows:
        raise CorpusError("the table has no rows.")

    def read(name: str) -> pa.Array:
        column = table.column(name).combine_chunks()
        column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        return column.cast(pa.large_string()) if pa.types.is_string(column.type) else column

    types = dict(zip(table.column_names, table.schema.types, strict=True))
    columns = Columns(Source(_WHERE, "utf-8", tuple(table.column_names), table.num_rows, True, read, types))
    triplet = {spec.user, spec.item, spec.rating} <= set(columns.names)
    kind = "text" if spec.text else "ratings" if triplet and spec.columns is None else "table"
    return SourceFile(spec, _WHERE, kind, columns, copies)
