"""The values behind a few documents' tests: what the report draws. And how an audit's tables are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ksdp.audit.errors import StoreError
from ksdp.audit.results.gap import Gap, widest_gap
from ksdp.storage.checksums import check_sealed, whole_table, write_sealed_table
from ksdp.storage.finding_tables import CURVES


@dataclass(frozen=True, eq=False)
class Curve:
    """The values behind one document's test of one statistic."""

    document: str
    statistic: str
    with_values: NDArray[np.float64]
    """Ascending."""
    without_values: NDArray[np.float64]
    gap: Gap | None
    """Where the two are farthest apart; None where an arm is empty."""

    @classmethod
    def of(
        cls, document: str, statistic: str, values: NDArray[np.floating], inclusion: NDArray[np.bool_]
    ) -> Curve:
        """Of the values of one document's runs, and which of them held it."""
        held, free = np.sort(values[inclusion]), np.sort(values[~inclusion])
        return cls(document, statistic, held, free, widest_gap(held, free))


def read_table(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    """A table of an audit."""
    try:
        path = check_sealed(folder / name, f"audit {folder.name!r}") if (folder / name).exists() else folder / name
        table = whole_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"audit {folder.name!r} has no readable {name}; run it again.") from error
    missing = [column for column in schema.names if column not in table.schema.names]
    if missing:
        raise StoreError(f"{name} of audit {folder.name!r} has no column {missing[0]!r}; run it again.")
    return table


def write_curves(folder: Path, curves: Sequence[Curve]) -> None:
    """Write the values of a few documents: what the report draws."""
    gaps = [curve.gap for curve in curves]
    columns = {
        "document": [curve.document for curve in curves],
        "statistic": [curve.statistic for curve in curves],
        "with": [curve.with_values for curve in curves],
        "without": [curve.without_values for curve in curves],
        "gap_place": [gap and gap.place for gap in gaps],
        "gap_with": [gap and gap.share_with for gap in gaps],
        "gap_without": [gap and gap.share_without for gap in gaps],
    }
    write_sealed_table(folder / "curves.parquet", pa.table(columns, schema=CURVES))


def read_curves(folder: Path) -> list[Curve]:
    """The curves that the report draws."""
    return [
        Curve(
            row["document"],
            row["statistic"],
            np.asarray(row["with"]),
            np.asarray(row["without"]),
            None if row["gap_place"] is None else Gap(row["gap_place"], row["gap_with"], row["gap_without"]),
        )
        for row in read_table(folder, "curves.parquet", CURVES).to_pylist()
    ]
