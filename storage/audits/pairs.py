"""Advantages on pairs of runs as Parquet, one row a document, the pairs of a file side by side.

A file is whole or absent; its key, the content of everything that it depends on, stands in its footer. The number
of pairs is no part of it: more of them continue where these stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import DamagedBlock
from ksdp.storage.checksums import whole_table
from ksdp.storage.places import Place, source_of
from ksdp.storage.store import write_whole


@dataclass(frozen=True, slots=True)
class PairsPart:
    """Pairs `first` to `stop` (exclusive): the unit of scheduling and of storage."""

    first: int
    stop: int

    @property
    def name(self) -> str:
        """Of the file."""
        return f"{self.first:07d}-{self.stop:07d}.parquet"


def write_pairs(folder: Place, part: PairsPart, key: str, advantages: Floats) -> None:
    """Write the advantages of some pairs, shape (n_documents, n_pairs)."""
    flat = pa.array(np.ascontiguousarray(advantages).ravel())
    cells = pa.FixedSizeListArray.from_arrays(flat, advantages.shape[1])
    table = pa.table({"advantages": cells}).replace_schema_metadata({"ksdp.key": key})
    write_whole(
        folder / part.name,
        lambda path: pq.write_table(table, path, compression="zstd", write_page_checksum=True),
    )


def read_pairs(folder: Place, part: PairsPart, key: str) -> Floats | None:
    """What `write_pairs` wrote; None where it did not.

    Raises
    ------
    DamagedBlock
        If the file is there and is something else.
    """
    path = folder / part.name
    if not path.is_file():
        return None
    try:
        table = whole_table(source_of(path))
        stored = (table.schema.metadata or {}).get(b"ksdp.key", b"").decode()
        flat = table["advantages"].combine_chunks().flatten().to_numpy()
        advantages = flat.reshape(table.num_rows, part.stop - part.first)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise DamagedBlock(f"pairs {path.name} cannot be read: {type(error).__name__}.") from error
    if stored != key:
        raise DamagedBlock(f"pairs {path.name} are not what their key promises.")
    return np.asarray(advantages, dtype=np.float64)
