"""A corpus on disk as memory-mapped arrays, opened once a worker and shared between workers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import StoreError
from ksdp.storage.codec import (
    check_checksum,
    checksums_hold,
    whole_table,
    write_json_with_checksum,
    write_table_with_checksum,
    write_with_checksum,
)
from ksdp.storage.files import read_stored

_PARTS = ("data", "indices", "indptr")
CORPUS_FILES = (*(f"{part}.npy" for part in _PARTS), "ids.parquet", "corpus.json")


def store_corpus(corpus: Corpus, folder: Path) -> None:
    """Write a corpus, unless it is there, whole and as it was written; `corpus.json` comes last.

    Of two corpora with equal numbers, what is said of either is stored of both.
    """
    said = {"from_rows": corpus.from_rows, "numbered": corpus.numbered}
    if checksums_hold(folder / name for name in CORPUS_FILES):
        there = json.loads(read_stored(folder / "corpus.json"))
        said = {name: there.get(name) or value for name, value in said.items()}
        if said.items() <= there.items():
            return
    for part in _PARTS:
        array = getattr(corpus.matrix, part)

        def write(path: Path, array: np.ndarray = array) -> None:
            with path.open("wb") as file:
                np.save(file, array)

        write_with_checksum(folder / f"{part}.npy", write)
    columns = {"id": [str(name) for name in corpus.ids]}
    for name in ("party", "group"):
        column = getattr(corpus, name)
        if column is not None:
            columns[name] = [str(entry) for entry in column]
    write_table_with_checksum(folder / "ids.parquet", pa.table(columns))
    header = {"hash": corpus.hash, "shape": list(corpus.matrix.shape), "left_out": list(corpus.left_out)} | said
    write_json_with_checksum(folder / "corpus.json", header)


def check_corpus(folder: Path) -> None:
    """Read a stored corpus once and compare it with what was written."""
    for name in CORPUS_FILES:
        check_checksum(folder / name, f"the corpus {folder.name}")


def read_mapped(folder: Path) -> tuple[sp.csr_array, pa.Table, Mapping[str, Any]]:
    """The matrix of a stored corpus, mapped; its ids, parties and groups; and its header."""
    if not (folder / "corpus.json").is_file():
        raise StoreError(f"the corpus {folder.name} cannot be opened: it is not there.")
    check_corpus(folder)
    try:
        read = json.loads(read_stored(folder / "corpus.json"))
        header = {key: read[key] for key in ("hash", "shape", "left_out", "from_rows", "numbered")}
        data, indices, indptr = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in _PARTS)
        labels = whole_table(folder / "ids.parquet")
    except (KeyError, OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"the corpus {folder.name} cannot be opened: {type(error).__name__}.") from error
    return sp.csr_array((data, indices, indptr), shape=tuple(header["shape"]), copy=False), labels, header


def open_corpus(folder: Path) -> Corpus:
    """Open a stored corpus; its numbers are read once, to be compared with what was written, and then mapped."""
    return _opened(folder, corpus_written(folder))


def corpus_written(folder: Path) -> tuple[int, ...]:
    """Return numbers that change once a corpus is written anew: a mapping still holds the data from before."""
    paths = [folder / name for name in CORPUS_FILES]
    return tuple(path.stat().st_ino if path.exists() else 0 for path in paths)


@lru_cache(maxsize=2)
def _opened(folder: Path, written: tuple[int, ...]) -> Corpus:
    matrix, labels, header = read_mapped(folder)
    columns = {
        name: np.array(labels.column(name).to_pylist(), dtype=np.str_) if name in labels.column_names else None
        for name in ("party", "group")
    }
    ids = np.array(labels.column("id").to_pylist(), dtype=np.str_)
    about = {name: header[name] for name in ("from_rows", "numbered")}
    corpus = Corpus(matrix, ids, columns["party"], columns["group"], tuple(header["left_out"]), **about)
    # The files are what was written, and what was written had this hash.
    corpus.__dict__["hash"] = header["hash"]
    return corpus
