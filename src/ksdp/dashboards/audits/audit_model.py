"""View models of the report and of an audit's page: answers of the store in, frozen values out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from markupsafe import Markup

from ksdp.dashboards.audits.result import AuditResult
from ksdp.dashboards.charts import counts_svg, ecdf_svg, strip_svg
from ksdp.storage.audits.history import ProvedBy, newest_first, read_summary
from ksdp.storage.audits.queries import Filter, Findings, Overview, Row, Totals
from ksdp.storage.findings import AttackStrength, Curve, StatisticTestRow, Summary, read_curves, read_strength
from ksdp.storage.store import Store

_BOUNDED = 12
LISTED = 400
"""Sensitive documents listed at most; `verdicts.parquet` has all."""


@dataclass(frozen=True)
class PValues:
    """The documents' uncorrected p-values under one fixed statistic."""

    statistic: str
    paper: bool
    strongest: bool
    below: int
    """p at or below 0.05."""
    documents: int
    chart: Markup


@dataclass(frozen=True)
class StatisticRow:
    """One statistic over all documents."""

    name: str
    family: str
    sentence: str
    version: int
    median: float
    largest: float
    sensitive: int
    strongest_for: int
    strip: Markup


@dataclass(frozen=True)
class Picture:
    """One document under one statistic."""

    statistic: str
    paper: bool
    distance: float
    low: float
    high: float
    log10_p: float
    chart: Markup


@dataclass(frozen=True)
class Worst:
    """A document of the strongest evidence, with its pictures."""

    row: Row
    pictures: tuple[Picture, ...]


@dataclass(frozen=True, eq=False)
class AuditModel:
    """Everything the report shows."""

    result: AuditResult
    totals: Totals
    """Over all documents: the advantages of the sensitive ones, and what would decide the others."""
    statistics: tuple[StatisticRow, ...]
    """By median D, largest first."""
    p_values: tuple[PValues, ...]
    """p-values of the paper's statistic, if there is one, and of the strongest, if it is another."""
    worst: tuple[Worst, ...]
    listed: tuple[Row, ...]
    bounded: tuple[Row, ...]
    """Documents with the largest bounds on every attack; none without a certificate."""
    strength: AttackStrength | None
    """Verdicts of an audit like it on planted leaks, if somebody asked for them."""
    without_pool: tuple[int, float, float] | None
    """Where whoever looks knows the pool: documents, their median D, and that of the audit of who does not."""


def _statistics(summary: Summary, overviews: Mapping[str, Overview]) -> list[StatisticRow]:
    rows = [
        StatisticRow(
            name=name,
            family=statistic.family,
            sentence=statistic.sentence,
            version=statistic.version,
            median=statistic.median_D,
            largest=statistic.max_D,
            sensitive=statistic.sensitive,
            strongest_for=statistic.strongest_for,
            strip=strip_svg(overviews[name].quantiles, noise=summary.chance.most_D, statistic=name),
        )
        for name, statistic in summary.statistics.items()
    ]
    return sorted(rows, key=lambda row: (-row.median, -row.largest, row.name))


def _p_values(rows: list[StatisticRow], overviews: Mapping[str, Overview]) -> list[PValues]:
    """The strongest by median D, of the paper's own and of all: one statistic, so uniform if nothing leaks."""
    own = [row for row in rows if row.family == "paper"][:1]
    return [
        PValues(
            statistic=row.name,
            paper=row.family == "paper",
            strongest=row.name == rows[0].name,
            below=overviews[row.name].below,
            documents=int(overviews[row.name].p_counts.sum()),
            chart=counts_svg(overviews[row.name].p_counts, statistic=row.name),
        )
        for row in {r.name: r for r in (*own, rows[0])}.values()
    ]


def picture(summary: Summary, curve: Curve, test: StatisticTestRow) -> Picture | None:
    """Draw one document under one statistic; None where an arm is empty."""
    if curve.gap is None:
        return None
    return Picture(
        statistic=curve.statistic,
        paper=summary.statistics[curve.statistic].family == "paper",
        distance=test.distance,
        low=test.band_low,
        high=test.band_high,
        log10_p=test.log10_p,
        chart=ecdf_svg(
            curve.with_values, curve.without_values, curve.gap, document=curve.document, statistic=curve.statistic
        ),
    )


def _worst(summary: Summary, curves: list[Curve], findings: Findings) -> list[Worst]:
    worst = []
    rows = findings.documents(curve.document for curve in curves)
    for name in dict.fromkeys(curve.document for curve in curves if curve.document in rows):
        row = rows[name]
        tests = {test.statistic: test for test in findings.tests(row)}
        drawn = [picture(summary, c, tests[c.statistic]) for c in curves if c.document == name]
        if pictures := tuple(graph for graph in drawn if graph is not None):
            worst.append(Worst(row, pictures))
    return worst


@lru_cache(maxsize=32)
def _numbers(folder: Path, _stamp: tuple[int, ...]) -> tuple[Totals, dict[str, Overview]]:
    findings = Findings(folder)
    return findings.totals(), findings.overviews()


def written(folder: Path) -> tuple[int, ...]:
    """When an audit's tables were written: what a cache of their numbers is good for."""
    files = [folder / name for name in ("verdicts.parquet", "statistics.parquet")]
    return tuple(file.stat().st_mtime_ns if file.is_file() else 0 for file in files)


def _without_pool(store: Store, summary: Summary, findings: Findings) -> tuple[int, float, float] | None:
    """Beside the audit of the same spec without a pool, where the store has one."""
    if summary.spec.design.pool is None:
        return None
    unpooled = summary.spec.model_copy(update={"design": summary.spec.design.model_copy(update={"pool": None})})
    for name in newest_first(store):
        other = read_summary(store.audit(name))
        if other.valid and (other.spec, other.corpus) == (unpooled, summary.corpus):
            return findings.medians(Findings(store.audit(name)))
    return None


def read_audit_model(result: AuditResult, *, documents: bool = True) -> AuditModel:
    """Compute what the report of a finished audit shows."""
    summary, findings, store = result.summary, result.findings, result.store
    folder = store.audit(summary.audit)
    totals, overviews = _numbers(folder, written(folder))
    rows = _statistics(summary, overviews)
    sensitive = Filter(verdict="sensitive")
    return AuditModel(
        result=result,
        totals=totals,
        statistics=tuple(rows),
        p_values=tuple(_p_values(rows, overviews)),
        worst=tuple(_worst(summary, read_curves(folder), findings)) if documents else (),
        listed=findings.page(sensitive, limit=LISTED).rows if documents else (),
        bounded=findings.page(Filter(sort="bound"), limit=_BOUNDED).rows if summary.bound(ProvedBy.PAIRS) else (),
        strength=read_strength(folder),
        without_pool=_without_pool(store, summary, findings),
    )
