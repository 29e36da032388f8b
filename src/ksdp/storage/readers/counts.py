"""Count matrices: SciPy's npz, Matrix Market, and the UCI bag of words (docword)."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp

from ksdp.storage.files import (
    MOST_COLUMNS,
    MOST_ROWS,
    Refused,
    check_archive,
    contents,
    extension,
    kind_of_file,
    read_text,
    require_file,
)


def read_counts(path: Path, *, weighed: bool = False) -> sp.csr_array:
    """Read a count matrix: `.npz` written by `scipy.sparse.save_npz`, or Matrix Market (`.mtx`, `.mtx.gz`).

    `weighed` ones hold any finite numbers.
    """
    suffix = kind_of_file(path)
    if suffix == ".npz":
        matrix = _read_npz(path)
    elif suffix == ".mtx":
        matrix = _market(path, contents(path))
    else:
        raise Refused(path, f"counts are read from .npz and .mtx files; not from {suffix or 'this one'}.")
    return _checked(path, matrix, weighed)


def is_sparse(path: Path) -> bool:
    """Whether a file is an npz of a sparse matrix, or damaged; one of a dense array is a table."""
    if extension(path) != ".npz":
        return False
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return "shape.npy" in archive.namelist()
    except Exception:  # a damaged archive fails in a dozen ways
        return True


def _check_size(path: Path, rows: int, columns: int) -> None:
    if rows > MOST_ROWS or columns > MOST_COLUMNS:
        raise Refused(
            path,
            f"says that it has {rows} rows, {columns} columns; at most {MOST_ROWS} and {MOST_COLUMNS} are read.",
        )


def _check_archive(path: Path) -> None:
    """Refuse an npz that would be larger than a file may be, by the sizes of its members and of its matrix."""
    check_archive(path)
    with zipfile.ZipFile(path) as archive, archive.open("shape.npy") as file:
        shape = np.lib.format.read_array(io.BytesIO(file.read(4096)), allow_pickle=False)
    if shape.shape == (2,):
        _check_size(path, *(int(side) for side in shape))


def _read_npz(path: Path) -> sp.coo_array:
    try:
        _check_archive(path)
        matrix = sp.load_npz(path)
    except Refused:
        raise
    except MemoryError:
        raise Refused(path, "needs more memory than there is.") from None
    except Exception:  # a damaged archive fails in a dozen ways
        problem = 'is damaged, cut short or not written by scipy.sparse.save_npz (dense: `format = "table"`).'
        raise Refused(path, problem) from None
    if matrix.dtype.kind not in "biuf":
        raise Refused(path, f"holds {matrix.dtype}; counts are needed.")
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # `load_npz` does not look at the indices
        return sp.coo_array(matrix)
    except (ValueError, IndexError):
        raise Refused(path, "is damaged: its indices do not fit its shape.") from None


def _market(path: Path, data: bytes, what: str = "Matrix Market", before: int = 0) -> sp.coo_array:
    """The matrix of a file that SciPy reads; `before` lines more stand in it before those of `data`."""
    try:
        rows, columns, entries, layout, *_ = scipy.io.mminfo(io.BytesIO(data))
        _check_size(path, rows, columns)
        if entries > len(data) or (layout == "array" and rows * columns > len(data)):
            raise Refused(path, f"is cut short: it says that it has {entries} entries.")
        matrix = scipy.io.mmread(io.BytesIO(data))
    except Refused:
        raise
    except Exception as error:  # of many types; its text may hold the file's
        line = re.search(r"\bLine (\d+)\b", str(error))
        place = f" (line {int(line[1]) + before})" if line else ""
        raise Refused(path, f"is damaged, cut short or not {what}{place}.") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        raise Refused(path, f"holds {matrix.dtype}; counts are needed.")
    return sp.coo_array(matrix)


def read_docword(path: Path, encoding: str = "utf-8") -> sp.csr_array:
    """Read a UCI bag of words: D, W, NNZ, a line each, then NNZ lines `document word count`, counted from 1."""
    *head, body = [*read_text(path, encoding).split("\n", 3), ""][:4]
    try:
        documents, words, entries = (int(line) for line in head)
    except ValueError:
        raise Refused(path, "must begin with three lines: documents, words, entries.") from None
    if min(documents, words, entries) < 1:
        raise Refused(path, f"is empty: its header says {documents} documents, {words} words, {entries} entries.")
    # Matrix Market has a line less. As `integer`, SciPy would cut a count to a whole one.
    data = f"%%MatrixMarket matrix coordinate real general\n{documents} {words} {entries}\n{body}".encode()
    matrix = _market(path, data, "a bag of words", 1)
    if sp.csr_array(matrix).nnz < matrix.nnz:
        raise Refused(path, "a document has two lines for a word.")
    return _checked(path, matrix)


def _checked(path: Path, matrix: sp.coo_array, weighed: bool = False) -> sp.csr_array:
    if 0 in matrix.shape:
        raise Refused(path, f"is empty: {matrix.shape[0]} rows, {matrix.shape[1]} columns.")
    values = matrix.data.astype(np.float64)
    finite = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        are_integers = values == np.floor(values)
    for wrong, problem in (
        (~finite, "an entry is not finite."),
        (finite & (values < 0) & (not weighed), "a count is negative."),
        (finite & ~are_integers & (not weighed), "a count is not a whole number."),
    ):
        if wrong.any():
            at = np.flatnonzero(wrong)
            first = at[np.lexsort((matrix.col[at], matrix.row[at]))[0]]
            row, column = int(matrix.row[first]) + 1, int(matrix.col[first]) + 1
            raise Refused(path, problem, row=row, column=str(column))
    return sp.csr_array(sp.coo_array((values, (matrix.row, matrix.col)), shape=matrix.shape))


def read_vocabulary(path: Path, encoding: str, features: int | None = None) -> tuple[str, ...]:
    """Terms, one a line, in column order."""
    terms = tuple(line.rstrip("\r") for line in read_text(path, encoding).rstrip("\r\n").split("\n"))
    if features is not None and len(terms) != features:
        raise Refused(path, f"has {len(terms)} lines; the count matrix has {features} columns.")
    seen: set[str] = set()
    for number, term in enumerate(terms, start=1):
        if not term or term in seen:
            raise Refused(path, f"line {number} is {'a term for the second time' if term else 'empty'}.")
        seen.add(term)
    return terms
