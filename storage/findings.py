"""What an audit found: one row a document, one row a (document, statistic), a few curves, one summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ksdp.audit.errors import StoreError
from ksdp.audit.spec import Spec, parse_spec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.decide import Decisions
from ksdp.audit.verdicts.fresh_effects import Effect
from ksdp.storage.store import write_json, write_whole

__all__ = [
    "Curve",
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


@dataclass(frozen=True, eq=False)
class Curve:
    """The values behind one document's test of one statistic."""

    document: str
    statistic: str
    with_values: NDArray[np.float64]
    without_values: NDArray[np.float64]


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


def _write(path: Path, columns: Mapping[str, Any]) -> None:
    table = pa.table(dict(columns))
    write_whole(path, lambda part: pq.write_table(table, part, compression="zstd"))


def write_findings(
    folder: Path,
    ids: NDArray[np.str_],
    statistics: Sequence[tuple[str, int]],
    tested: ArmTests,
    decisions: Decisions,
    detectable: NDArray[np.float64],
) -> None:
    """Write `verdicts.parquet` and `statistics.parquet`.

    Parameters
    ----------
    ids : shape (n_documents,)
    statistics : name and version of each column of `tested`
    detectable : shape (n_documents,)
        The measured D at which a leak of the document would surely have been detected.
    """
    documents, count = tested.distance.shape
    names = np.array([name for name, _ in statistics], dtype=object)
    row = np.arange(documents)
    best = decisions.strongest
    _write(
        folder / "verdicts.parquet",
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
        },
    )
    _write(
        folder / "statistics.parquet",
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
        },
    )


def write_effects(folder: Path, ids: NDArray[np.str_], effects: Sequence[Effect]) -> None:
    """Write `effects.parquet`: what flagged documents give away on fresh runs, one row each.

    Parameters
    ----------
    ids : of the whole corpus
    """
    types = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}
    columns = {"document": pa.array([str(ids[e.row]) for e in effects], pa.string())}
    for f in fields(Effect):
        if f.name != "row":
            name = "statistic" if f.name == "column" else f.name
            columns[name] = pa.array([getattr(e, f.name) for e in effects], types[str(f.type)])
    _write(folder / "effects.parquet", columns)


def write_curves(folder: Path, curves: Sequence[Curve]) -> None:
    """Write the values of a few documents: what the report draws."""
    _write(
        folder / "curves.parquet",
        {
            "document": pa.array([c.document for c in curves], pa.string()),
            "statistic": pa.array([c.statistic for c in curves], pa.string()),
            "with": pa.array([c.with_values for c in curves], pa.list_(pa.float64())),
            "without": pa.array([c.without_values for c in curves], pa.list_(pa.float64())),
        },
    )


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write `audit.json`, last: an audit with a summary is finished."""
    write_json(folder / "audit.json", dict(summary))


def _read(folder: Path, name: str) -> pa.Table:
    try:
        return pq.read_table(folder / name)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"audit {folder.name!r} has no readable {name}; run it again.") from error


def read_summary(folder: Path) -> dict[str, Any]:
    """Read `audit.json`.

    Raises
    ------
    StoreError
        If the audit is not there or not finished.
    """
    try:
        return dict(json.loads((folder / "audit.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"there is no finished audit {folder.name!r} in this store.") from error


def read_verdicts(folder: Path) -> pa.Table:
    """One row a document."""
    return _read(folder, "verdicts.parquet")


def read_statistics(folder: Path) -> pa.Table:
    """One row a (document, statistic)."""
    return _read(folder, "statistics.parquet")


def read_effects(folder: Path) -> pa.Table:
    """One row a flagged document, measured on fresh runs."""
    return _read(folder, "effects.parquet")


def read_document(folder: Path, document: str) -> dict[str, Any]:
    """One document's verdict and, under `statistics`, its tests.

    Raises
    ------
    StoreError
        If the audit did not audit it.
    """
    rows = read_verdicts(folder)
    mine = rows.filter(pc.equal(rows["document"], document)).to_pylist()
    if not mine:
        raise StoreError(f"audit {folder.name!r} has no document {document!r}.")
    tests = read_statistics(folder)
    tests = tests.filter(pc.equal(tests["document"].cast(pa.string()), document))
    effects = read_effects(folder)
    fresh = effects.filter(pc.equal(effects["document"], document)).drop_columns(["document"]).to_pylist()
    return dict(mine[0]) | {
        "statistics": tests.drop_columns(["document"]).to_pylist(),
        "fresh": fresh[0] if fresh else None,
    }


def read_curves(folder: Path) -> list[Curve]:
    """The curves that the report draws."""
    table = _read(folder, "curves.parquet").to_pydict()
    return [
        Curve(d, s, np.asarray(w), np.asarray(o))
        for d, s, w, o in zip(table["document"], table["statistic"], table["with"], table["without"], strict=True)
    ]
