"""Documents that are most like one document: the stored corpus, mapped into memory, times one of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import StoreError
from ksdp.storage.mapped_corpus import read_mapped


@dataclass(frozen=True)
class Neighbour:
    """A document that is like another."""

    document: str
    cosine: float
    """In [-1, 1]; of rows without negative entries in [0, 1]."""


@dataclass(frozen=True, eq=False)
class _Opened:
    matrix: sp.csr_array
    norms: NDArray[np.float64]
    ids: pa.ChunkedArray


@lru_cache(maxsize=2)
def _open(folder: Path) -> _Opened:
    """The matrix stays on disk; lengths of its rows and ids are kept."""
    matrix, labels, _ = read_mapped(folder)
    squares = sp.csr_array((np.square(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)
    return _Opened(matrix, np.sqrt(squares @ np.ones(matrix.shape[1])), labels["id"])


def corpus_entries(folder: Path) -> int:
    """Entries of a stored corpus: what one question costs."""
    try:
        return int(np.load(folder / "data.npy", mmap_mode="r").size)
    except (OSError, ValueError) as error:
        raise StoreError(f"the corpus {folder.name} cannot be opened: {type(error).__name__}.") from error


def neighbours(folder: Path, document: str, count: int = 10) -> list[Neighbour]:
    """The documents whose rows have the largest cosine with a document's, the document itself left out.

    Parameters
    ----------
    folder : Path
        Of the stored corpus.
    count : int
        At most so many; documents that share nothing with it are left out.

    Raises
    ------
    StoreError
        If the corpus is not there or does not hold the document.
    """
    opened = _open(folder)
    row = pc.index(opened.ids, pa.scalar(document, opened.ids.type)).as_py()
    if row < 0:
        raise StoreError(f"the corpus {folder.name} does not hold document {document!r}.")
    own = opened.matrix[[row]].toarray().ravel()
    products = opened.matrix @ own
    lengths = opened.norms * opened.norms[row]
    cosine = np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)
    cosine[row] = -np.inf
    best = np.argpartition(-cosine, min(count, len(cosine) - 1))[:count]
    best = best[np.lexsort((best, -cosine[best]))]
    return [Neighbour(opened.ids[int(at)].as_py(), float(min(cosine[at], 1.0))) for at in best if cosine[at] > 0]
