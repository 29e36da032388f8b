"""Stages of an audit after its first look, and pairs of runs that differ in one document: one row a document."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ksdp.audit.errors import DamagedBlock
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.verdicts.looks import Stage
from ksdp.storage.codec import drop_checksum, read_table, whole_table, write_table_with_checksum
from ksdp.storage.remote import Place, source_of
from ksdp.storage.store import write_whole


def _file(folder: Path, name: str) -> Path:
    return folder / "stages" / f"{name}.parquet"


def write_stage(folder: Path, stage: Stage) -> None:
    """Write a stage; the same audit resumed writes the same one again."""
    names = ("seed", "runs", "statistics", "before")
    header = {name: getattr(stage, name) for name in names}
    columns = {"row": np.asarray(stage.rows, dtype=np.int64)}
    if stage.strongest is not None:
        columns["strongest"] = np.asarray(stage.strongest, dtype=np.int64)
    table = pa.table(columns).replace_schema_metadata({"ksdp.stage": json.dumps(header)})
    write_table_with_checksum(_file(folder, stage.name), table)


def read_stage(folder: Path, name: str) -> Stage:
    """Read a stage."""
    table = read_table(_file(folder, name), ["row"], f"audit {folder.name!r}")
    header = json.loads(table.schema.metadata[b"ksdp.stage"])
    rows = table["row"].to_numpy()
    strongest = table["strongest"].to_numpy() if "strongest" in table.column_names else None
    header["statistics"] = tuple(header["statistics"])
    return Stage(name, rows=rows, strongest=strongest, **header)


def stage_names(folder: Path) -> list[str]:
    """Names of the stages that an audit has reached, beside its first look."""
    return sorted(file.stem for file in folder.glob("stages/*.parquet"))


def drop_stages(folder: Path, prefix: str, but: Collection[str]) -> None:
    """Remove the stages whose names begin so, but for some: an earlier version reached them, this one did not."""
    for name in stage_names(folder):
        if name.startswith(prefix) and name not in but:
            drop_checksum(_file(folder, name))
            _file(folder, name).unlink()


@dataclass(frozen=True, slots=True)
class PairsPart:
    """Pairs `first` to `stop` (exclusive): the unit of scheduling and of storage."""

    first: int
    stop: int

    @property
    def name(self) -> str:
        """Name of the file."""
        return f"{self.first:07d}-{self.stop:07d}.parquet"


def write_pairs(folder: Place, part: PairsPart, key: str, advantages: Floats) -> None:
    """Write the advantages of some pairs, shape (n_documents, n_pairs)."""
    flat = pa.array(np.ascontiguousarray(advantages).ravel())
    cells = pa.FixedSizeListArray.from_arrays(flat, advantages.shape[1])
    table = pa.table({"advantages": cells}).replace_schema_metadata({"ksdp.key": key})
    write_whole(
        folder / part.name, lambda path: pq.write_table(table, path, compression="zstd", write_page_checksum=True)
    )


def read_pairs(folder: Place, part: PairsPart, key: str) -> Floats | None:
    """Read the pairs of `write_pairs`; None if there are none."""
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
