"""What an audit found: one row a document, one row a (document, statistic), a few curves, one summary."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import ValidationError

from ksdp.audit.errors import StoreError
from ksdp.audit.results.gap import Gap, widest_gap
from ksdp.audit.results.parts import StatisticSummary
from ksdp.audit.results.summary import Summary
from ksdp.audit.spec import Spec, parse_spec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.decide import Decisions
from ksdp.audit.verdicts.fresh_effects import Effect
from ksdp.storage.finding_tables import (
    CURVES,
    EFFECTS,
    STATISTICS,
    VERDICTS,
    EffectRow,
    StatisticTestRow,
    VerdictRow,
    row_json,
)
from ksdp.storage.store import write_json, write_whole

__all__ = [
    "Curve",
    "DocumentFindings",
    "Gap",
    "StatisticSummary",
    "Summary",
    "parsed",
    "read_curves",
    "read_document",
    "read_effects",
    "read_spec",
    "read_statistics",
    "read_summary",
    "read_verdicts",
    "write_curves",
    "write_effects",
    "write_findings",
    "write_spec",
    "write_summary",
]


Read = TypeVar("Read")


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


def write_spec(folder: Path, spec: Spec) -> None:
    """Write the complete spec, defaults included."""
    write_json(folder / "spec.json", spec.model_dump(mode="json"))


def read_spec(folder: Path) -> Spec:
    """Read a stored spec.

    Raises
    ------
    StoreError
        If there is none.
    """
    try:
        return parse_spec(json.loads((folder / "spec.json").read_text(encoding="utf-8")))
    except OSError as error:
        raise StoreError(f"there is no audit {folder.name!r} in this store.") from error


def _write(path: Path, table: pa.Table) -> None:
    write_whole(path, lambda part: pq.write_table(table, part, compression="zstd"))


def write_findings(
    folder: Path,
    ids: NDArray[np.str_],
    statistics: Sequence[tuple[str, int]],
    tested: ArmTests,
    decisions: Decisions,
    detectable: NDArray[np.float64],
    known: Mapping[str, NDArray[np.float64]],
) -> None:
    """Write `verdicts.parquet` and `statistics.parquet`.

    Parameters
    ----------
    ids : shape (n_documents,)
    statistics : name and version of each column of `tested`
    detectable : shape (n_documents,)
        The measured D at which a leak of the document would surely have been detected.
    known : columns `certified_bound` and `knows_all` of the verdicts, those that are known
    """
    documents, count = tested.distance.shape
    names = np.array([name for name, _ in statistics], dtype=object)
    row = np.arange(documents)
    best = decisions.strongest
    verdicts = VERDICTS.of(
        {
            "document": ids.astype(object),
            "verdict": decisions.verdict.astype(object),
            "log10_p": decisions.log10_p,
            "log10_adjusted_p": decisions.log10_adjusted,
            "detected": decisions.detected,
            "log10_p_above": decisions.log10_p_above,
            "log10_adjusted_p_above": decisions.log10_adjusted_above,
            "log10_p_below": decisions.log10_p_below,
            "log10_adjusted_p_below": decisions.log10_adjusted_below,
            "statistic": names[best],
            "distance": tested.distance[row, best],
            "band_low": decisions.band_low[row, best],
            "band_high": decisions.band_high[row, best],
            "largest_band_high": decisions.band_high.max(axis=1),
            "n_with": tested.n_with[:, 0],
            "n_without": tested.n_without[:, 0],
            "detectable_distance": detectable,
            "runs_to_decide": decisions.runs_to_decide,
        }
        | {name: known.get(name, [None] * documents) for name in ("certified_bound", "knows_all")}
    )
    _write(folder / "verdicts.parquet", verdicts)
    rows = STATISTICS.of(
        {
            "document": pa.array(np.repeat(ids.astype(object), count)).dictionary_encode(),
            "statistic": pa.array(np.tile(names, documents)).dictionary_encode(),
            "version": np.tile(np.array([version for _, version in statistics], dtype=np.int32), documents),
            "n_with": tested.n_with.ravel(),
            "n_without": tested.n_without.ravel(),
            "distance": tested.distance.ravel(),
            "band_low": decisions.band_low.ravel(),
            "band_high": decisions.band_high.ravel(),
            "log10_p": tested.log10_p.ravel(),
            "log10_p_tail": tested.log10_tail.ravel(),
            "log10_p_above": decisions.log10_above.ravel(),
            "log10_p_below": decisions.log10_below.ravel(),
        }
    )
    _write(folder / "statistics.parquet", rows)


def write_effects(folder: Path, ids: NDArray[np.str_], effects: Sequence[Effect]) -> None:
    """Write `effects.parquet`: one row a flagged document on fresh runs; `ids` are those of the whole corpus."""
    renamed = {"document": [str(ids[e.row]) for e in effects], "statistic": [e.column for e in effects]}
    measured = {name: [getattr(e, name) for e in effects] for name in EFFECTS.columns if name not in renamed}
    _write(folder / "effects.parquet", EFFECTS.of(renamed | measured))


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
    _write(folder / "curves.parquet", pa.table(columns, schema=CURVES))


def write_summary(folder: Path, summary: Summary) -> None:
    """Write `audit.json`, last: an audit with a summary is finished."""
    write_json(folder / "audit.json", summary.to_json())


def _read(folder: Path, name: str, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(folder / name)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"audit {folder.name!r} has no readable {name}; run it again.") from error
    missing = [column for column in schema.names if column not in table.schema.names]
    if missing:
        raise StoreError(f"{name} of audit {folder.name!r} has no column {missing[0]!r}; run it again.")
    return table


def read_summary(folder: Path) -> Summary:
    """Read `audit.json`.

    Raises
    ------
    StoreError
        If the audit is not there or not finished, or its summary is damaged or of another version.
    """
    try:
        told = dict(json.loads((folder / "audit.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"there is no finished audit {folder.name!r} in this store.") from error
    return parsed(Summary.from_json, told, f"audit {folder.name!r}")


def parsed(parse: Callable[[Mapping[str, Any]], Read], told: Mapping[str, Any], what: str) -> Read:
    """Parse a stored summary; a `StoreError` says what is wrong with it."""
    try:
        return parse(told)
    except ValidationError as error:
        where = ", ".join(f"`{'.'.join(map(str, problem['loc']))}`" for problem in error.errors()[:3])
        raise StoreError(f"the summary of {what} is damaged at {where}; run it again.") from None
    except ValueError as error:
        raise StoreError(f"{what} cannot be read: {error}; run it again.") from error


def read_verdicts(folder: Path) -> pa.Table:
    """One row a document."""
    return _read(folder, "verdicts.parquet", VERDICTS.schema)


def read_statistics(folder: Path) -> pa.Table:
    """One row a (document, statistic)."""
    return _read(folder, "statistics.parquet", STATISTICS.schema)


def read_effects(folder: Path) -> pa.Table:
    """One row a flagged document, measured on fresh runs."""
    return _read(folder, "effects.parquet", EFFECTS.schema)


@dataclass(frozen=True)
class DocumentFindings:
    """Everything that an audit found of one document."""

    verdict: VerdictRow
    tests: tuple[StatisticTestRow, ...]
    """In the order of the tables' columns."""
    fresh: EffectRow | None
    """None where it was not measured on fresh runs."""

    def to_json(self) -> dict[str, Any]:
        """The verdict's columns and, under `statistics` and `fresh`, those of the others."""
        return row_json(self.verdict) | {
            "statistics": [row_json(test, "document") for test in self.tests],
            "fresh": row_json(self.fresh, "document") if self.fresh else None,
        }


def read_document(folder: Path, document: str) -> DocumentFindings:
    """One document's verdict and its tests.

    Raises
    ------
    StoreError
        If it was not audited.
    """
    rows = read_verdicts(folder)
    mine = VERDICTS.rows(rows.filter(pc.equal(rows["document"], document)))
    if not mine:
        raise StoreError(f"audit {folder.name!r} has no document {document!r}.")
    tests = read_statistics(folder)
    tests = tests.filter(pc.equal(tests["document"].cast(pa.string()), document))
    effects = read_effects(folder)
    fresh = EFFECTS.rows(effects.filter(pc.equal(effects["document"], document)))
    return DocumentFindings(mine[0], tuple(STATISTICS.rows(tests)), fresh[0] if fresh else None)


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
        for row in _read(folder, "curves.parquet", CURVES).to_pylist()
    ]
