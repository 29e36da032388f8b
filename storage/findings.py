"""What an audit found: one row a document, one row a (document, statistic), a few curves, one summary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ksdp.audit.errors import StoreError
from ksdp.audit.results.gap import Gap as Gap
from ksdp.audit.results.parts import StatisticSummary as StatisticSummary
from ksdp.audit.results.summary import Summary as Summary
from ksdp.audit.spec.models import Spec, parse_spec
from ksdp.storage.checksums import (
    is_sealed,
    read_sealed,
    unseal,
    write_sealed_json,
    write_sealed_table,
    write_sealed_text,
)
from ksdp.storage.curves import read_table
from ksdp.storage.finding_tables import (
    EFFECTS,
    STATISTICS,
    VERDICTS,
    EffectRow,
    StatisticTestRow,
    VerdictRow,
    row_json,
)
from ksdp.storage.store import json_text

if TYPE_CHECKING:
    from ksdp.audit.verdicts.arms import ArmTests
    from ksdp.audit.verdicts.decide import Decisions
    from ksdp.audit.verdicts.effect_measures import Effect


FINDINGS = ("verdicts.parquet", "statistics.parquet", "effects.parquet", "curves.parquet")
_REPORT = "report.html"
_KNOWN = ("certified_bound", "knows_all")


def write_spec(folder: Path, spec: Spec) -> None:
    """Write the complete spec, defaults included, unless it is there."""
    path = folder / "spec.json"
    text = json_text(spec.model_dump(mode="json"))
    if not is_sealed([path]) or path.read_text(encoding="utf-8") != text:
        write_sealed_text(path, text)


def read_spec(folder: Path) -> Spec:
    """Read a stored spec."""
    try:
        content = read_sealed(folder / "spec.json", f"audit {folder.name!r}")
        return parse_spec(json.loads(content))
    except OSError as error:
        raise StoreError(f"there is no audit {folder.name!r} in this store.") from error


def write_findings(
    folder: Path,
    ids: NDArray[np.str_],
    statistics: Sequence[tuple[str, int]],
    tested: ArmTests,
    decisions: Decisions,
    detectable: NDArray[np.float64],
    known: Mapping[str, NDArray[np.float64]],
) -> None:
    """Write `verdicts.parquet` and `statistics.parquet`; a summary that is there is not theirs.

    Parameters
    ----------
    ids : shape (n_documents,)
    statistics : name and version of each column of `tested`
    detectable : shape (n_documents,)
        The measured D at which a leak of the document would surely have been detected.
    known : columns `certified_bound` and `knows_all` of the verdicts, those that are known; NaN where one is not
    """
    documents, count = tested.distance.shape
    names = np.array([name for name, _ in statistics], dtype=object)
    row = np.arange(documents)
    best = decisions.strongest
    verdicts = VERDICTS.of(
        {
            "document": ids.astype(object),
            "verdict": decisions.verdict.astype(object),
            "proof": [proof or None for proof in decisions.proof.tolist()],
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
        | {name: _or_none(known.get(name, np.full(documents, np.nan))) for name in _KNOWN}
    )
    unseal(folder / "audit.json")  # of an earlier version of the tables, until it is written again
    write_sealed_table(folder / "verdicts.parquet", verdicts)
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
    write_sealed_table(folder / "statistics.parquet", rows)


def _or_none(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def write_effects(folder: Path, ids: NDArray[np.str_], effects: Sequence[Effect]) -> None:
    """Write `effects.parquet`: one row a flagged document on fresh runs; `ids` are those of the whole corpus."""
    renamed = {"document": [str(ids[e.row]) for e in effects], "statistic": [e.column for e in effects]}
    measured = {name: [getattr(e, name) for e in effects] for name in EFFECTS.columns if name not in renamed}
    write_sealed_table(folder / "effects.parquet", EFFECTS.of(renamed | measured))


def write_summary(folder: Path, summary: Summary) -> None:
    """Write `audit.json`, after everything that it sums up; a report that was made of another one is void."""
    unseal(folder / _REPORT)
    write_sealed_json(folder / "audit.json", summary.to_json())


def write_report(folder: Path, page: str) -> Path:
    """Write `report.html`, last of all: an audit whose report holds is finished. Where it is."""
    write_sealed_text(folder / _REPORT, page)
    return folder / _REPORT


def findings_whole(folder: Path) -> bool:
    """Whether all that an audit found is there and is what was written, its report aside."""
    return is_sealed(folder / name for name in ("spec.json", *FINDINGS, "audit.json"))


def report_whole(folder: Path) -> bool:
    """Whether the report is there, is what was written, and is that of this summary."""
    return is_sealed([folder / _REPORT])


def read_verdicts(folder: Path) -> pa.Table:
    """One row a document."""
    return read_table(folder, "verdicts.parquet", VERDICTS.schema)


def read_statistics(folder: Path) -> pa.Table:
    """One row a (document, statistic)."""
    return read_table(folder, "statistics.parquet", STATISTICS.schema)


def read_effects(folder: Path) -> pa.Table:
    """One row a flagged document, measured on fresh runs."""
    return read_table(folder, "effects.parquet", EFFECTS.schema)


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
    """One document's verdict and its tests."""
    import pyarrow.compute as pc

    rows = read_verdicts(folder)
    mine = VERDICTS.rows(rows.filter(pc.equal(rows["document"], document)))
    if not mine:
        raise StoreError(f"audit {folder.name!r} has no document {document!r}.")
    tests = read_statistics(folder)
    tests = tests.filter(pc.equal(tests["document"].cast(pa.string()), document))
    effects = read_effects(folder)
    fresh = EFFECTS.rows(effects.filter(pc.equal(effects["document"], document)))
    return DocumentFindings(mine[0], tuple(STATISTICS.rows(tests)), fresh[0] if fresh else None)


def place_of(folder: Path, document: str) -> int:
    """The row of a document in `verdicts.parquet`, from 0; -1 where it was not audited."""
    import pyarrow.compute as pc

    names = read_verdicts(folder)["document"]
    return int(pc.index(names, pa.scalar(document, names.type)).as_py())
