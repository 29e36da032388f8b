"""One document of an audit: the values behind its tests, from stored blocks, and the documents most like it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedBlock, DamagedFile, StoreError
from ksdp.audit.results.parts import StoredValues
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.effects import held_out_advantage
from ksdp.storage.audits.stages import read_stage
from ksdp.storage.blocks import ROW_GROUP, block_name, read_values, stack_blocks
from ksdp.storage.codec import REPAIR, read_table
from ksdp.storage.findings import Curve
from ksdp.storage.mapped_corpus import read_mapped
from ksdp.storage.remote import Place, source_of
from ksdp.storage.store import Store


def stored_statistics(summary: Summary) -> list[str]:
    """Tested statistics whose values are stored; learners' scores are not."""
    return [name for name in summary.provenance.stages[0].statistics if name in summary.statistics]


def values_bytes(summary: Summary, statistics: int) -> int:
    """Bytes that `read_arms` reads, about: what a row group of every block holds of these statistics."""
    each = 4 if summary.spec.store.precision == "float32" else 8
    stage = summary.provenance.stages[-1]
    rows = 32 if _literal(summary) else min(ROW_GROUP, stage.documents + 32)
    return int(rows * stage.runs * each * statistics)


def _literal(summary: Summary) -> bool:
    return summary.design.kind == "literal"


def _row(store: Store, summary: Summary, document: str) -> int:
    folder = store.corpus(summary.corpus)
    ids = read_table(folder / "ids.parquet", ["id"], f"the corpus {folder.name}")["id"]
    return int(pc.index(ids, pa.scalar(document, ids.type)).as_py())


def keeps_values(summary: Summary) -> bool:
    """Whether the store keeps the values that the tests of an audit read (`store.values`)."""
    return all(stage.kept for stage in summary.provenance.stages)


def stored_place(store: Store, summary: Summary, document: str, place: int) -> tuple[StoredValues, int]:
    """The last look that the document took part in, and its place there."""
    first, *later = summary.provenance.stages
    row = _row(store, summary, document) if later else -1
    for stage in reversed(later):
        rows = read_stage(store.audit(summary.audit), stage.stage).rows
        at = int(np.searchsorted(rows, row))
        if at < len(rows) and rows[at] == row:
            # In some designs nobody can leave: their blocks still hold every document.
            return stage, place if stage.documents == summary.documents else at
    return first, place


@contextmanager
def whole_values(audit: str, folder: Place, block: Block) -> Iterator[None]:
    """Read a block of values; absent (they may be dropped for their space) is `StoreError` alone."""
    if not (folder / block_name(block)).is_file():
        raise StoreError(f"the values of audit {audit!r} are not all in the store; run the audit again.")
    try:
        yield
    except DamagedBlock as error:
        raise DamagedFile(f"the values of audit {audit!r} are damaged: {str(error)[:-1]}; {REPAIR}.") from error


def read_values_by_run(
    store: Store, summary: Summary, document: str, place: int, statistics: Sequence[str]
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return what a document's last look read: which runs held it, and the values, run by run."""
    if not keeps_values(summary):
        raise StoreError(
            f"audit {summary.audit!r} keeps no values of single runs (`store.values`); Python's "
            f"`ksdp.load(store, {summary.audit!r}).plot(document)` computes those of one document again."
        )
    stage, at = stored_place(store, summary, document, place)
    if at >= stage.documents:
        raise StoreError(f"{document!r} is sensitive before any run, by its rarest feature: no run measured it.")
    lane, row = (at, 0) if _literal(summary) else (0, at)
    precision = summary.spec.store.precision
    folder, cells = store.blocks / stage.values, []
    for start in range(0, stage.runs, stage.runs_a_block):
        block = Block(lane, start, min(start + stage.runs_a_block, stage.runs))
        with whole_values(summary.audit, folder, block):
            cells.append(read_values(folder, block, stage.key, row // ROW_GROUP, statistics, precision))
    row_slice = slice(row % ROW_GROUP, row % ROW_GROUP + 1)
    (inclusion,), columns = stack_blocks(cells, row_slice, summary.design.reading.runs(stage.runs))
    return inclusion, np.array([values[0] for values in columns], dtype=np.float64)


def read_arms(store: Store, summary: Summary, document: str, place: int, statistics: Sequence[str]) -> list[Curve]:
    """The values of a document's statistics over the runs with it and without it, ascending."""
    if not statistics:
        return []
    inclusion, values = read_values_by_run(store, summary, document, place, statistics)
    return [Curve.of(document, name, row, inclusion) for name, row in zip(statistics, values, strict=True)]


def held_out_distance(store: Store, summary: Summary, document: str, place: int) -> float | None:
    """D of a document without the bias of choosing (`audit.verdicts.learned`), over all stored statistics."""
    names = stored_statistics(summary)
    if not names:
        return None
    try:
        inclusion, values = read_values_by_run(store, summary, document, place, names)
    except DamagedFile:
        raise
    except StoreError:
        return None
    advantage = held_out_advantage(values, inclusion)
    return None if np.isnan(advantage) else advantage


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
    matrix, labels, _ = read_mapped(folder)
    squares = sp.csr_array((np.square(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape, copy=False)
    return _Opened(matrix, np.sqrt(squares @ np.ones(matrix.shape[1])), labels["id"])


def corpus_entries(folder: Path) -> int:
    """Entries of a stored corpus: what one question costs."""
    try:
        return int(np.load(source_of(folder / "data.npy"), mmap_mode="r").size)
    except (OSError, ValueError) as error:
        raise StoreError(f"the corpus {folder.name} cannot be opened: {type(error).__name__}.") from error


def neighbours(folder: Path, document: str, count: int = 10) -> list[Neighbour]:
    """The documents whose rows have the largest cosine with a document's, the document itself left out."""
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
