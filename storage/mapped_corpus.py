"""A corpus on disk as memory-mapped arrays, opened once a worker and shared between workers."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import StoreError
from ksdp.storage.store import write_json, write_whole

__all__ = ["open_corpus", "store_corpus"]

_PARTS = ("data", "indices", "indptr")


def store_corpus(corpus: Corpus, folder: Path) -> None:
    """Write a corpus, unless it is there; `corpus.json` comes last and says that it is whole."""
    if (folder / "corpus.json").is_file():
        return
    for part in _PARTS:
        array = getattr(corpus.matrix, part)

        def write(path: Path, array: np.ndarray = array) -> None:
            with path.open("wb") as file:
                np.save(file, array)

        write_whole(folder / f"{part}.npy", write)
    columns = {"id": [str(name) for name in corpus.ids]}
    for name in ("party", "group"):
        column = getattr(corpus, name)
        if column is not None:
            columns[name] = [str(entry) for entry in column]
    write_whole(folder / "ids.parquet", lambda path: pq.write_table(pa.table(columns), path, compression="zstd"))
    write_json(
        folder / "corpus.json",
        {"hash": corpus.hash, "shape": list(corpus.matrix.shape), "left_out": list(corpus.left_out)},
    )


@lru_cache(maxsize=2)
def open_corpus(folder: Path) -> Corpus:
    """Open a stored corpus without reading its numbers.

    Raises
    ------
    StoreError
        If it is not there or not whole.
    """
    try:
        about = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))
        data, indices, indptr = (np.load(folder / f"{part}.npy", mmap_mode="r") for part in _PARTS)
        labels = pq.read_table(folder / "ids.parquet")
    except (OSError, ValueError) as error:
        raise StoreError(f"the corpus {folder.name} cannot be opened: {type(error).__name__}.") from error
    matrix = sp.csr_array((data, indices, indptr), shape=tuple(about["shape"]), copy=False)
    columns = {
        name: np.array(labels.column(name).to_pylist(), dtype=np.str_) if name in labels.column_names else None
        for name in ("party", "group")
    }
    ids = np.array(labels.column("id").to_pylist(), dtype=np.str_)
    corpus = Corpus(matrix, ids, columns["party"], columns["group"], tuple(about["left_out"]))
    # Hashing would read everything in every worker; the store wrote it once.
    corpus.__dict__["hash"] = about["hash"]
    return corpus
