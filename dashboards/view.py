"""What the report shows, as values: the stored tables in, frozen view models out. No prose and no layout here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup
from numpy.typing import NDArray

from ksdp.dashboards.charts import ecdf_svg, histogram_svg, strip_svg
from ksdp.storage.findings import Curve, read_curves, read_statistics, read_summary, read_verdicts
from ksdp.storage.store import Store

__all__ = [
    "LISTED",
    "Advantage",
    "AuditView",
    "Listed",
    "PValues",
    "Picture",
    "StatisticRow",
    "Undecided",
    "Worst",
    "read_audit_view",
]

Floats = NDArray[np.float64]

LISTED = 400
"""Sensitive documents listed at most; `verdicts.parquet` has all."""

# Quantiles of Kolmogorov's law: a document that leaks nothing measures D * sqrt(n m / (n + m)) below these.
_KOLMOGOROV_50, _KOLMOGOROV_95 = 0.8276, 1.3581


@dataclass(frozen=True)
class Advantage:
    """Advantages D of the sensitive documents, each under its strongest statistic."""

    median: float
    tenth: float
    """One document in ten has at least this."""
    largest: float
    largest_low: float
    """Lower end of the band of the largest."""


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
class Listed:
    """One row of `verdicts.parquet`."""

    document: str
    verdict: str
    log10_adjusted: float
    statistic: str
    distance: float
    low: float
    high: float
    n_with: int
    n_without: int


@dataclass(frozen=True)
class Worst:
    """A document of the strongest evidence, with its pictures."""

    row: Listed
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Undecided:
    """What could not be decided."""

    documents: int
    untested: int
    """Those that no run, or every run, held."""
    hopeless: int
    """Those that no number of runs would decide, were the measured D the true one."""
    runs_to_decide: float | None
    """Median over the others."""


@dataclass(frozen=True, eq=False)
class AuditView:
    """Everything the report shows."""

    summary: Mapping[str, Any]
    advantage: Advantage | None
    """None where nothing is sensitive."""
    statistics: tuple[StatisticRow, ...]
    """By median D, largest first."""
    p_values: tuple[PValues, ...]
    """Of the paper's statistic, where there is one, and of the strongest, where it is another."""
    worst: tuple[Worst, ...]
    listed: tuple[Listed, ...]
    undecided: Undecided
    noise_median: float
    """D that half of the documents would measure if nothing leaked."""
    noise_most: float
    """D that 19 in 20 documents would stay below if nothing leaked."""


def _column(table: pa.Table, name: str) -> NDArray[Any]:
    return np.asarray(table[name].to_numpy())


def _by_statistic(table: pa.Table, name: str) -> dict[str, Floats]:
    """A column of `statistics.parquet`, split by statistic, documents in order."""
    codes = table["statistic"].cast(pa.string()).combine_chunks().dictionary_encode()
    indices, values = codes.indices.to_numpy(), _column(table, name)
    return {str(word): values[indices == at] for at, word in enumerate(codes.dictionary.to_pylist())}


def _advantage(verdicts: pa.Table) -> Advantage | None:
    chosen = verdicts.filter(pc.equal(verdicts["verdict"], "sensitive"))
    if not chosen.num_rows:
        return None
    distance, low = _column(chosen, "distance"), _column(chosen, "band_low")
    top = int(np.argmax(distance))
    return Advantage(
        float(np.median(distance)), float(np.quantile(distance, 0.9)), float(distance[top]), float(low[top])
    )


def _statistics(summary: Mapping[str, Any], distances: Mapping[str, Floats], noise: float) -> list[StatisticRow]:
    rows = []
    for name, about in summary["statistics"].items():
        quantiles = np.quantile(np.nan_to_num(distances[name]), (0.05, 0.25, 0.5, 0.75, 0.95))
        rows.append(
            StatisticRow(
                name=name,
                family=about["family"],
                version=about["version"],
                median=about["median_D"],
                largest=about["max_D"],
                sensitive=about["sensitive"],
                strongest_for=about["strongest_for"],
                strip=strip_svg(quantiles.tolist(), noise=noise, statistic=name),
            )
        )
    return sorted(rows, key=lambda row: (-row.median, -row.largest, row.name))


def _p_values(rows: list[StatisticRow], log10_p: Mapping[str, Floats]) -> list[PValues]:
    """The strongest by median D, of the paper's own and of all: one statistic, so uniform if nothing leaks."""
    own = [row for row in rows if row.family == "paper"][:1]
    shown = []
    for row in {r.name: r for r in (*own, rows[0])}.values():
        p = 10.0 ** log10_p[row.name]
        shown.append(
            PValues(
                statistic=row.name,
                paper=row.family == "paper",
                strongest=row.name == rows[0].name,
                below=int((p <= 0.05).sum()),
                documents=len(p),
                chart=histogram_svg(p, statistic=row.name),
            )
        )
    return shown


def _listed(verdicts: pa.Table) -> list[Listed]:
    stored = {"log10_adjusted_p": "log10_adjusted", "band_low": "low", "band_high": "high"}
    same = ("document", "verdict", "statistic", "distance", "n_with", "n_without")
    rows = verdicts.select([*stored, *same]).rename_columns([*stored.values(), *same]).to_pylist()
    return [Listed(**row) for row in rows]


def _most_sensitive(verdicts: pa.Table) -> list[Listed]:
    chosen = verdicts.filter(pc.equal(verdicts["verdict"], "sensitive"))
    order = np.lexsort((-_column(chosen, "distance"), _column(chosen, "log10_p")))[:LISTED]
    return _listed(chosen.take(pa.array(order)))


def _worst(summary: Mapping[str, Any], curves: list[Curve], verdicts: pa.Table, tests: pa.Table) -> list[Worst]:
    ids = list(dict.fromkeys(curve.document for curve in curves))
    wanted = pa.array(ids, pa.string())
    rows = {row.document: row for row in _listed(verdicts.filter(pc.is_in(verdicts["document"], wanted)))}
    mine = tests.filter(pc.is_in(tests["document"].cast(pa.string()), wanted))
    found = {(test["document"], test["statistic"]): test for test in mine.to_pylist()}
    pictures: dict[str, list[Picture]] = {name: [] for name in ids}
    for curve in curves:
        test = found[curve.document, curve.statistic]
        if not len(curve.with_values) or not len(curve.without_values):
            continue
        pictures[curve.document].append(
            Picture(
                statistic=curve.statistic,
                paper=summary["statistics"][curve.statistic]["family"] == "paper",
                distance=test["distance"],
                low=test["band_low"],
                high=test["band_high"],
                log10_p=test["log10_p"],
                chart=ecdf_svg(
                    curve.with_values, curve.without_values, document=curve.document, statistic=curve.statistic
                ),
            )
        )
    return [Worst(rows[name], tuple(pictures[name])) for name in ids if pictures[name]]


def _undecided(verdicts: pa.Table) -> Undecided:
    chosen = verdicts.filter(pc.equal(verdicts["verdict"], "undecided"))
    needed = _column(chosen, "runs_to_decide")
    finite = needed[np.isfinite(needed)]
    arms = np.minimum(_column(chosen, "n_with"), _column(chosen, "n_without"))
    untested = int((arms == 0).sum())
    return Undecided(
        documents=chosen.num_rows,
        untested=untested,
        hopeless=int(np.isinf(needed[arms > 0]).sum()),
        runs_to_decide=float(np.median(finite)) if len(finite) else None,
    )


def read_audit_view(store: Store, audit: str) -> AuditView:
    """Read a finished audit and compute what its report shows.

    Parameters
    ----------
    store : Store
    audit : str
        Id of the audit.

    Raises
    ------
    StoreError
        If the audit is not there, not finished, or cannot be read.
    """
    folder = store.audit(audit)
    summary, verdicts, tests = read_summary(folder), read_verdicts(folder), read_statistics(folder)
    n = max(float(np.median(_column(verdicts, "n_with"))), 1.0)
    m = max(float(np.median(_column(verdicts, "n_without"))), 1.0)
    spread = math.sqrt((n + m) / (n * m))
    most = min(_KOLMOGOROV_95 * spread, 1.0)
    rows = _statistics(summary, _by_statistic(tests, "distance"), most)
    return AuditView(
        summary=summary,
        advantage=_advantage(verdicts),
        statistics=tuple(rows),
        p_values=tuple(_p_values(rows, _by_statistic(tests, "log10_p"))),
        worst=tuple(_worst(summary, read_curves(folder), verdicts, tests)),
        listed=tuple(_most_sensitive(verdicts)),
        undecided=_undecided(verdicts),
        noise_median=min(_KOLMOGOROV_50 * spread, 1.0),
        noise_most=most,
    )
