"""Findings of an audit as tables: a row is a frozen value, and the Arrow schema follows from it.

A column is a field of the row (`ksdp.storage.codec.Table`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedFile, NotFound, StoreError
from ksdp.audit.results.parts import StatisticSummary as StatisticSummary
from ksdp.audit.results.strength import AttackStrength as AttackStrength
from ksdp.audit.results.summary import Summary as Summary
from ksdp.audit.specs.models import DeclaredSpec as DeclaredSpec
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.audit.verdicts.effects import EffectMeasures
from ksdp.audit.verdicts.laws import Gap as Gap
from ksdp.audit.verdicts.laws import widest_gap
from ksdp.audit.verdicts.multiplicity import CLEARING, adjust
from ksdp.audit.verdicts.verdict import Proof, Verdict
from ksdp.storage.codec import (
    Table,
    checksums_hold,
    drop_checksum,
    read_object,
    read_table,
    write_json_with_checksum,
    write_table_with_checksum,
    write_text_with_checksum,
)
from ksdp.storage.files import read_stored
from ksdp.storage.store import json_text

if TYPE_CHECKING:
    from ksdp.audit.verdicts.decide import Decisions
    from ksdp.audit.verdicts.effects import Effect
    from ksdp.audit.verdicts.laws import ArmTests

_REPEATED = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True)
class VerdictRow:
    """`verdicts.parquet`: one document, under its strongest statistic."""

    document: str
    """Id of the document; the name of the group, where groups are audited."""
    verdict: str
    """`sensitive`, `clear` or `undecided`."""
    proof: str | None
    """Attacks that a clear document is proved against: the `statistics` tried, or `every attack`. A sensitive
    one has `absence` where its rarest feature gives it away: it was not measured, and p is 0."""
    log10_p: float
    """Log10 p of "it gives nothing away", times the number of statistics. It does not decide the verdict."""
    log10_adjusted_p: float
    """`log10_p`, corrected over documents, too; a leak is detected if 10 to this power is at most the level."""
    detected: bool
    """Whether any leak is proved, however small."""
    log10_p_above: float
    """Log10 p of "its D is at most the margin": the smallest over statistics, times their number."""
    log10_adjusted_p_above: float
    """`log10_p_above`, corrected for documents and, doubled, for fresh runs, whose p counts where it is smaller.
    The document is sensitive if 10 to this power is at most the level."""
    log10_p_below: float
    """Log10 p of "its D is at least the margin": the largest over statistics; 0 where nobody may be clear."""
    log10_adjusted_p_below: float
    """`log10_p_below`, corrected over documents; clear if 10 to this power is at most the level."""
    statistic: str
    """The statistic with the strongest evidence."""
    distance: float
    """Measured D under this statistic; for `absence` the exact lower bound of D."""
    band_low: float
    """Lower end of the band of the true D. All bands of the audit hold together, so that a clear document's may
    end above the margin."""
    band_high: float
    """Upper end of the band."""
    largest_band_high: float
    """Largest upper end over all statistics."""
    n_with: int
    """Runs with the document."""
    n_without: int
    """Runs without it that its tests read."""
    detectable_distance: float
    """The measured D at which a leak of it would surely have been detected, whatever its margin."""
    runs_to_decide: float
    """Estimated runs to a verdict; infinite if more runs would not help."""
    certified_bound: float | None
    """Upper bound on every attack; none without proof, paired runs or copies."""
    knows_all: float | None
    """Advantage of whoever knows all other documents, on average over databases; None where it is not known."""


@dataclass(frozen=True)
class StatisticTestRow:
    """`statistics.parquet`: one document under one statistic."""

    document: Annotated[str, _REPEATED]
    """Its id."""
    statistic: Annotated[str, _REPEATED]
    """Its name."""
    version: Annotated[int, pa.int32()]
    """Version of the statistic; another version gives other numbers."""
    n_with: int
    """Runs with the document."""
    n_without: int
    """Runs without it that the test read."""
    distance: float
    """Measured D."""
    band_low: float
    """Lower end of the band of the true D; all bands hold together."""
    band_high: float
    """Upper end of the band."""
    log10_p: float
    """Log10 p of no leak: the smaller of Kolmogorov-Smirnov p / 0.8 (exact given ties) and p / 0.2 of tails."""
    log10_p_tail: float
    """Log10 p of the test of the tails alone, not divided."""
    log10_p_above: float
    """Log10 p of "its D is at most the margin" by this statistic alone, uncorrected."""
    log10_p_below: float
    """Log10 p of "its D is at least the margin" by this statistic alone, uncorrected."""


@dataclass(frozen=True)
class _DocumentStatistic:
    document: str
    """Its id."""
    statistic: str
    """The statistic that the first runs chose, with its threshold."""


@dataclass(frozen=True)
class EffectRow(EffectMeasures, _DocumentStatistic):
    """`effects.parquet`: one detected leak on fresh runs; rates are null where the runs cannot measure them."""


VERDICTS = Table(VerdictRow)
STATISTICS = Table(StatisticTestRow)
EFFECTS = Table(EffectRow)

CURVES = pa.schema(
    [
        ("document", pa.string()),
        ("statistic", pa.string()),
        ("with", pa.list_(pa.float64())),
        ("without", pa.list_(pa.float64())),
        ("gap_place", pa.float64()),
        ("gap_with", pa.float64()),
        ("gap_without", pa.float64()),
    ]
)
"""`curves.parquet`: the values behind a few tests, and where the two curves are farthest apart (null: nowhere)."""


def row_json(row: Any, *without: str) -> dict[str, Any]:
    """A row's fields by name, for machines."""
    return {name: value for name, value in asdict(row).items() if name not in without}


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
        """Make the curve from the values of one document's runs, and from which of them held it."""
        included, excluded = np.sort(values[inclusion]), np.sort(values[~inclusion])
        return cls(document, statistic, included, excluded, widest_gap(included, excluded))


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
    write_table_with_checksum(folder / "curves.parquet", pa.table(columns, schema=CURVES))


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
        for row in _read(folder, "curves", CURVES.names).to_pylist()
    ]


FINDINGS = ("verdicts.parquet", "statistics.parquet", "effects.parquet", "curves.parquet")
_REPORT = "report.html"
_STRENGTH = "power.json"
_KNOWN = ("certified_bound", "knows_all")


def write_spec(folder: Path, spec: Spec) -> None:
    """Write the complete spec, defaults included, unless it is there."""
    path = folder / "spec.json"
    text = json_text(spec.model_dump(mode="json"))
    if not checksums_hold([path]) or read_stored(path) != text.encode():
        write_text_with_checksum(path, text)


def read_spec(folder: Path) -> Spec:
    """Read a stored spec."""
    if not folder.is_dir():
        raise StoreError(f"there is no audit {folder.name!r} in this store.")
    return read_object(folder / "spec.json", parse_spec, f"audit {folder.name!r}")


def write_findings(
    folder: Path,
    ids: NDArray[np.str_],
    statistics: Sequence[tuple[str, int]],
    tested: ArmTests,
    decisions: Decisions,
    detectable: NDArray[np.float64],
    advantages: Mapping[str, NDArray[np.float64]],
    absent: tuple[NDArray[np.str_], NDArray[np.float64]] | None = None,
) -> None:
    """Write `verdicts.parquet` and `statistics.parquet`; a summary that is there is not theirs."""
    documents, count = tested.distance.shape
    names = np.array([name for name, _ in statistics], dtype=object)
    row = np.arange(documents)
    best = decisions.strongest
    verdicts = {
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
    } | {name: _or_none(advantages.get(name, np.full(documents, np.nan))) for name in _KNOWN}
    drop_checksum(folder / "audit.json")  # of an earlier version of the tables, until it is written again
    drop_checksum(folder / _STRENGTH)
    (folder / _STRENGTH).unlink(missing_ok=True)
    tables = [VERDICTS.of(verdicts)]
    if absent is not None:
        tables.append(VERDICTS.of(_absent_columns(*absent, verdicts["knows_all"])))
    write_table_with_checksum(folder / "verdicts.parquet", pa.concat_tables(tables))
    STATISTICS.write(
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


def _absent_columns(ids: NDArray[np.str_], bound: NDArray[np.float64], knows_all: pa.Array) -> dict[str, Any]:
    """Verdicts that no run was needed for; where nothing but the database is random, who knows all knows these."""
    same: dict[str, Any] = dict.fromkeys(VERDICTS.columns, math.nan)
    same |= dict.fromkeys(("log10_p", "log10_adjusted_p", "log10_p_above", "log10_adjusted_p_above"), -math.inf)
    same |= {"verdict": Verdict.SENSITIVE.value, "proof": Proof.ABSENCE.value, "statistic": Proof.ABSENCE.value}
    same |= {"detected": True, "log10_p_below": 0.0, "log10_adjusted_p_below": 0.0, "n_with": 0, "n_without": 0}
    same |= {"band_high": 1.0, "largest_band_high": 1.0, "certified_bound": None}
    same |= {"knows_all": knows_all[0].as_py() if len(knows_all) else None}
    columns = {name: [value] * len(ids) for name, value in same.items()}
    return columns | {"document": ids.astype(object), "distance": bound, "band_low": bound}


def _or_none(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


def write_effects(folder: Path, ids: NDArray[np.str_], effects: Sequence[Effect]) -> None:
    """Write `effects.parquet`: one row a flagged document on fresh runs; `ids` are those of the whole corpus."""
    renamed = {"document": [str(ids[e.row]) for e in effects], "statistic": [e.column for e in effects]}
    measured = {name: [getattr(e, name) for e in effects] for name in EFFECTS.columns if name not in renamed}
    EFFECTS.write(folder / "effects.parquet", renamed | measured)


def drop_report(folder: Path) -> None:
    """Let the next audit that finds these findings write their report anew."""
    drop_checksum(folder / _REPORT)


def write_summary(folder: Path, summary: Summary) -> None:
    """Write `audit.json`, after everything that it sums up; a report that was made of another one is void."""
    drop_report(folder)
    write_json_with_checksum(folder / "audit.json", summary.to_json())


def write_report(folder: Path, page: str) -> Path:
    """Write `report.html`, last of all: an audit whose report holds is finished. Where it is."""
    write_text_with_checksum(folder / _REPORT, page)
    return folder / _REPORT


def write_strength(folder: Path, strength: AttackStrength) -> None:
    """Write what an audit like this one found of planted leaks."""
    write_json_with_checksum(folder / _STRENGTH, strength.to_json())


def read_strength(folder: Path) -> AttackStrength | None:
    """Read how many planted leaks an audit like this one found; None if nobody has planted any."""
    path = folder / _STRENGTH
    remedy = "`ksdp power` makes it again"
    whose = f"audit {folder.name!r}"
    return read_object(path, AttackStrength.from_json, whose, remedy) if path.is_file() else None


def findings_whole(folder: Path) -> bool:
    """Whether all that an audit found is there and is what was written, its report aside."""
    return checksums_hold(folder / name for name in ("spec.json", *FINDINGS, "audit.json"))


def report_whole(folder: Path) -> bool:
    """Whether the report is there, is what was written, and is that of this summary."""
    return checksums_hold([folder / _REPORT])


def read_verdicts(folder: Path) -> pa.Table:
    """One row a document."""
    return _read(folder, "verdicts", VERDICTS.columns)


_ROUNDING = 1e-9
"""Tolerance of log10 p: stored numbers were rounded when they were computed."""


def check_verdicts(folder: Path, spec: Spec) -> pa.Table:
    """Read the verdicts of an audit, and derive each anew from the stored p-values and bounds."""
    rows, rule = read_verdicts(folder), spec.decision_in_run
    absent = np.array([proof == Proof.ABSENCE for proof in rows["proof"].to_pylist()], np.bool_)
    below, adjusted = rows["log10_p_below"].to_numpy(), rows["log10_adjusted_p_below"].to_numpy()
    sensitive = rows["log10_adjusted_p_above"].to_numpy() <= math.log10(rule.level) + _ROUNDING
    tested = (adjusted <= math.log10(rule.for_clear) + _ROUNDING) & (rule.margin > 0)
    proved = rule.accepts(rows["certified_bound"].to_numpy(zero_copy_only=False)) | spec.proved_by_draw
    word = np.where(sensitive, Verdict.SENSITIVE, np.where(tested | proved, Verdict.CLEAR, Verdict.UNDECIDED))
    stored = np.array(rows["verdict"].to_pylist())
    wrong = (word != stored) | (absent & (rows["distance"].to_numpy() <= rule.margin))
    wrong[~absent] |= adjusted[~absent] < adjust(below[~absent], rule.error, CLEARING) - _ROUNDING
    each = pa.TableGroupBy(read_statistics(folder), "document").aggregate([("log10_p_below", "max")])
    largest = dict(zip(each["document"].to_pylist(), each["log10_p_below_max"].to_pylist(), strict=True))
    raw = np.array([largest.get(name, 0.0) for name in rows["document"].to_pylist()])
    wrong |= tested & ~proved & ~sensitive & (raw > math.log10(rule.for_clear) + _ROUNDING)
    if spec.decides and (at := np.flatnonzero(wrong)).size:
        name = rows["document"][int(at[0])].as_py()
        raise DamagedFile(
            f"verdicts.parquet of audit {folder.name!r} does not follow from its own p-values: document {name!r} "
            f"is called {stored[at[0]]}, and {at.size} rows are wrong. Restore it, or run `ksdp audit` again."
        )
    return rows


def verdict_ids(verdicts: pa.Table, kinds: Sequence[str]) -> list[str]:
    """Ids of the documents with one of these verdicts, in the order of the audit."""
    import pyarrow.compute as pc

    chosen = verdicts.filter(pc.is_in(verdicts["verdict"], pa.array(kinds, pa.string())))
    return [str(name) for name in chosen["document"].to_pylist()]


def read_statistics(folder: Path) -> pa.Table:
    """One row a (document, statistic)."""
    return _read(folder, "statistics", STATISTICS.columns)


def read_effects(folder: Path) -> pa.Table:
    """One row a flagged document, measured on fresh runs."""
    return _read(folder, "effects", EFFECTS.columns)


def _read(folder: Path, name: str, columns: Iterable[str]) -> pa.Table:
    return read_table(folder / f"{name}.parquet", columns, f"audit {folder.name!r}")


@dataclass(frozen=True)
class DocumentFindings:
    """Everything that an audit found of one document."""

    verdict: VerdictRow
    tests: tuple[StatisticTestRow, ...]
    """In the order of the tables' columns."""
    fresh: EffectRow | None
    """None where it was not measured on fresh runs."""

    def __repr__(self) -> str:
        """A line a test, the strongest first; the fields and `to_json` have everything."""
        row, width = self.verdict, max((len(test.statistic) for test in self.tests), default=0)
        fresh = ", advantage {0.advantage:.3f} on fresh runs ({0.advantage_low:.3f} to {0.advantage_high:.3f})"
        fresh = fresh.format(self.fresh) if self.fresh else ""
        lines = [
            f"{row.document}: {row.verdict}, D {row.distance:.3f} (band {row.band_low:.3f} to "
            f"{row.band_high:.3f}){fresh} under {row.statistic}",
            *(
                f"  {test.statistic:{width}}  D {test.distance:.3f}  log10 p {test.log10_p:.2f}"
                for test in sorted(self.tests, key=lambda test: test.log10_p)
            ),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import pandas as pd

        first, shown = repr(self).partition("\n")[0], ["statistic", "distance", "band_low", "band_high", "log10_p"]
        rows = pd.DataFrame([row_json(test) for test in self.tests], columns=shown).sort_values("log10_p")
        return f"<p>{escape(first)}</p>{rows.to_html(index=False, float_format='{:.3f}'.format)}"

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
        raise NotFound(f"audit {folder.name!r} has no document {document!r}.")
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
