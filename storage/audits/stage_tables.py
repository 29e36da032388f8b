"""Stages of an audit beside its first look: `audits/<id>/stages/<name>.parquet`, one row a document."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa

from ksdp.audit.errors import StoreError
from ksdp.audit.interim_looks import Stage
from ksdp.storage.checksums import check_sealed, unseal, whole_table, write_sealed_table


def _file(folder: Path, name: str) -> Path:
    return folder / "stages" / f"{name}.parquet"


def write_stage(folder: Path, stage: Stage) -> None:
    """Write a stage; the same audit resumed writes the same one again."""
    header = {"seed": stage.seed, "runs": stage.runs, "statistics": stage.statistics, "before": stage.before}
    columns = {"row": np.asarray(stage.rows, dtype=np.int64)}
    if stage.strongest is not None:
        columns["strongest"] = np.asarray(stage.strongest, dtype=np.int64)
    table = pa.table(columns).replace_schema_metadata({"ksdp.stage": json.dumps(header)})
    write_sealed_table(_file(folder, stage.name), table)


def read_stage(folder: Path, name: str) -> Stage:
    """Read a stage."""
    path = _file(folder, name)
    try:
        table = whole_table(check_sealed(path, f"audit {folder.name!r}") if path.exists() else path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"audit {folder.name!r} has no stage {name!r}; run it again.") from error
    header = json.loads(table.schema.metadata[b"ksdp.stage"])
    rows = table["row"].to_numpy()
    strongest = table["strongest"].to_numpy() if "strongest" in table.column_names else None
    names = tuple(header["statistics"])
    return Stage(name, header["seed"], header["runs"], rows, names, header["before"], strongest)


def stage_names(folder: Path) -> list[str]:
    """Names of the stages that an audit has reached, beside its first look."""
    return sorted(file.stem for file in folder.glob("stages/*.parquet"))


def drop_stages(folder: Path, prefix: str, but: Collection[str]) -> None:
    """Remove the stages whose names begin so, but for some: what an earlier version reached, and this one did not.

    An audit is finished where the runs of all its stages are whole, and those of such a stage are made by nobody.
    """
    for name in stage_names(folder):
        if name.startswith(prefix) and name not in but:
            unseal(_file(folder, name))
            _file(folder, name).unlink()
