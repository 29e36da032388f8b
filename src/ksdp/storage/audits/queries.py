"""Queries of an audit's tables and their answers, as values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.screening.clearance import Attempt
from ksdp.audit.verdicts.verdict import VERDICTS as VERDICTS
from ksdp.audit.verdicts.verdict import Proof, Verdict
from ksdp.storage.audits.duckdb_query import ask
from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import (
    EFFECTS,
    STATISTICS,
    EffectRow,
    StatisticTestRow,
    VerdictRow,
    read_verdicts,
    verdict_ids,
)
from ksdp.storage.findings import VERDICTS as VERDICTS_TABLE
from ksdp.storage.store import Store

SORTS: Mapping[str, tuple[str, ...]] = {
    "evidence": ("log10_p", "-if(isnan(distance), -1, distance)"),
    "advantage": ("-if(isnan(distance), -1, distance)",),
    "bound": ("-if(certified_bound is null, -1, certified_bound)",),
    "band": ("-if(isnan(largest_band_high), 2, largest_band_high)",),
    "id": ("document",),
    "file": (),
}
"""Orders of documents; `file` is that of the table (`Row.place`), and so are ties."""


@dataclass(frozen=True)
class Row(VerdictRow):
    """One document of an audit, under its strongest statistic."""

    place: int
    """Row in `verdicts.parquet`, from 0: those that were measured in the order of the corpus, then the others."""


@dataclass(frozen=True)
class Filter:
    """Which documents, in which order."""

    verdict: str | None = None
    search: str = ""
    """Part of an id, capital or small."""
    sort: str = "evidence"
    descending: bool = False
    only: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    but: str | None = None
    even: tuple[str, ...] = ()
    """These documents in spite of it."""
    statistic: str | None = None
    """Their strongest one."""
    first: tuple[str, ...] = ()
    """These documents come before all others, whatever the order."""

    def __post_init__(self) -> None:
        if self.verdict is not None and self.verdict not in VERDICTS:
            raise ValueError(f"`verdict` must be one of {', '.join(VERDICTS)}; got {self.verdict!r}.")
        if self.sort not in SORTS:
            raise ValueError(f"`sort` must be one of {', '.join(SORTS)}; got {self.sort!r}.")


@dataclass(frozen=True)
class Page:
    """Some rows of a filter's, and how many there are."""

    rows: tuple[Row, ...]
    total: int


@dataclass(frozen=True)
class Totals:
    """Advantages of the sensitive documents, and what would decide the undecided ones."""

    median: float
    """Advantage D of the sensitive documents, each under its strongest statistic; NaN where there are none."""
    tenth: float
    """One sensitive document in ten has at least this."""
    largest: float
    largest_low: float
    """Lower end of the band of the largest."""
    untested: int
    """Undecided documents with an empty arm."""
    hopeless: int
    """Undecided, tested, and no number of runs would decide."""
    runs_to_decide: float | None
    """Median over the other undecided ones."""


@dataclass(frozen=True, eq=False)
class Overview:
    """All documents under one statistic."""

    quantiles: tuple[float, ...]
    """5, 25, 50, 75 and 95 % of D, to a thousandth."""
    p_counts: NDArray[np.int64]
    """Documents in each twentieth of the p-values' range."""
    below: int
    """p at or below 0.05."""


@dataclass(frozen=True)
class Comparison:
    """Two audits, document by document."""

    moves: Mapping[tuple[str | None, str | None], int]
    """How many documents went from one verdict to another; None where an audit does not have them."""


_ROW = ", ".join((*VERDICTS_TABLE.columns, "place"))


class Findings:
    """The tables of one audit."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._verdicts, self._statistics = folder / "verdicts.parquet", folder / "statistics.parquet"

    def _run(self, question: str, **values: Any) -> list[Any]:
        tables = {"verdicts": self._verdicts, "statistics": self._statistics}
        parameters = {name: value for name, value in (tables | values).items() if f"${name}" in question}
        return ask(question, parameters, self._folder.name)

    @property
    def _from(self) -> str:
        return "(select *, file_row_number as place from read_parquet($verdicts, file_row_number = true))"

    def page(self, chosen: Filter, *, offset: int = 0, limit: int = 25) -> Page:
        """Some documents, in order, and how many the filter lets through."""
        where, values = _where(chosen)
        order = nearer = _order(chosen)
        total = self._run(f"select count(*) from read_parquet($verdicts) where {where}", **values)[0][0]
        if offset >= total:
            return Page((), total)
        limit, behind = min(limit, total - offset), max(total - offset - limit, 0)
        if behind < offset:  # a page near the end is found from there: what is passed over has to be sorted
            nearer = _order(chosen, backwards=True)
        part = f"limit {int(limit)} offset {int(min(offset, behind))}"
        places = f"select place from {self._from} where {where} order by {nearer} {part}"
        rows = self._run(f"select {_ROW} from {self._from} where place in ({places}) order by {order}", **values)
        return Page(tuple(Row(*row) for row in rows), total)

    def reasons(self, chosen: Filter) -> list[tuple[str, str, int, float, float]]:
        """Documents of one verdict and one strongest statistic: how many, and from which D to which."""
        where, values = _where(chosen)
        return self._run(
            "select verdict, statistic, count(*), min(distance), max(distance) from read_parquet($verdicts) "
            f"where {where} group by 1, 2 order by verdict = 'sensitive' desc, 1, 3 desc, 2",
            **values,
        )

    def document(self, document: str) -> Row | None:
        """One document's row; None where the audit does not have it."""
        return self.documents([document]).get(document)

    def documents(self, some: Iterable[str]) -> dict[str, Row]:
        """Rows of some documents by their ids, without those that the audit does not have."""
        where = "document in (select unnest(cast($some as varchar[])))"
        rows = self._run(f"select {_ROW} from {self._from} where {where}", some=list(some))
        return {row.document: row for row in (Row(*values) for values in rows)}

    def held(self, documents: Sequence[str]) -> set[str]:
        """Return which of some documents the audit has."""
        return set(self.documents(documents)) if documents else set()

    def tests(self, row: Row) -> tuple[StatisticTestRow, ...]:
        """A document's tests, the strongest evidence first."""
        if row.proof == Proof.ABSENCE:
            return ()
        count = self._statistics_each
        rows = self._run(
            f"select {', '.join(STATISTICS.columns)} from read_parquet($statistics, file_row_number = true) "
            "where file_row_number between $first and $last and document = $document order by log10_p, -distance",
            first=row.place * count,
            last=row.place * count + count - 1,
            document=row.document,
        )
        return tuple(StatisticTestRow(*test) for test in rows)

    @cached_property
    def _statistics_each(self) -> int:
        rows = self._run(
            "select (select count(*) from read_parquet($statistics)), "
            "(select count(*) from read_parquet($verdicts) where proof is distinct from 'absence')"
        )[0]
        return int(rows[0]) // max(int(rows[1]), 1)

    def totals(self) -> Totals:
        """Advantages over all documents."""
        sensitive = self._run(
            "select quantile_cont(distance, [0.5, 0.9]), max(distance), arg_max(band_low, distance) "
            "from read_parquet($verdicts) where verdict = 'sensitive'"
        )[0]
        middle, tenth = sensitive[0] or (math.nan, math.nan)
        undecided = self._run(
            "select count(*) filter (least(n_with, n_without) = 0), "
            "count(*) filter (isinf(runs_to_decide) and least(n_with, n_without) > 0), "
            "median(runs_to_decide) filter (isfinite(runs_to_decide)) "
            "from read_parquet($verdicts) where verdict = 'undecided'"
        )[0]
        return Totals(
            middle,
            tenth,
            math.nan if sensitive[1] is None else sensitive[1],
            math.nan if sensitive[2] is None else sensitive[2],
            *undecided,
        )

    def overviews(self) -> dict[str, Overview]:
        """Each statistic over all documents."""
        spread: dict[str, NDArray[np.int64]] = {}
        for name, place, count in self._run(
            "select statistic, cast(floor(if(isnan(distance), 0, distance) * 1000) as int), count(*) "
            "from read_parquet($statistics) group by 1, 2"
        ):
            spread.setdefault(name, np.zeros(1001, np.int64))[min(place, 1000)] += count
        bars = {name: np.zeros(21, np.int64) for name in spread}
        for name, bar, count, below in self._run(
            "select statistic, least(cast(floor(pow(10, log10_p) * 20) as int), 19), count(*), "
            "count(*) filter (pow(10, log10_p) <= 0.05) from read_parquet($statistics) group by 1, 2"
        ):
            bars[name][bar] += count
            bars[name][20] += below
        return {
            name: Overview(_quantiles(counts), bars[name][:20], int(bars[name][20]))
            for name, counts in spread.items()
        }

    def effects(self, document: str) -> tuple[EffectRow, ...]:
        """Return the effects that fresh runs measured of a document; empty if there were none."""
        path = self._folder / "effects.parquet"
        if not path.is_file():
            return ()
        question = f"select {', '.join(EFFECTS.columns)} from read_parquet($effects) where document = $document"
        return tuple(EffectRow(*row) for row in self._run(question, effects=path, document=document))

    def compare(self, other: Findings) -> Comparison:
        """Count how verdicts moved from this audit to another."""
        rows = self._run(
            "select a.verdict, b.verdict, count(*) from read_parquet($verdicts) a "
            "full join read_parquet($others) b using (document) group by 1, 2",
            others=other._verdicts,
        )
        return Comparison({(before, after): int(count) for before, after, count in rows})

    def medians(self, other: Findings) -> tuple[int, float, float]:
        """Documents that both audits measured, and the median D of these in this one and in the other."""
        row: tuple[int, float, float] = self._run(
            "select count(*), coalesce(median(a.distance), 0), coalesce(median(b.distance), 0) "
            "from read_parquet($verdicts) a join read_parquet($others) b using (document) "
            "where not isnan(a.distance) and not isnan(b.distance)",
            others=other._verdicts,
        )[0]
        return row

    def moved(
        self, other: Findings, before: str, after: str, *, offset: int = 0, limit: int = 25
    ) -> list[tuple[str, float, float]]:
        """Documents that went from one verdict to another: (id, D before, D after), the largest change first."""
        return self._run(
            "select document, a.distance, b.distance from read_parquet($verdicts) a "
            "join read_parquet($others) b using (document) where a.verdict = $before and b.verdict = $after "
            f"order by abs(a.distance - b.distance) desc, document limit {int(limit)} offset {int(offset)}",
            others=other._verdicts,
            before=before,
            after=after,
        )


def proved_sensitive(store: Store, attempts: Iterable[Attempt], *, margin: float, unit: str) -> dict[str, str]:
    """Documents (or groups) that an audit proved to be above the margin, each with the newest that did."""
    proved: dict[str, str] = {}
    for audit in dict.fromkeys(attempt.audit for attempt in attempts if attempt.margin >= margin):
        folder = store.audit(audit)
        if not (folder / "audit.json").is_file():
            continue
        summary = read_summary(folder)
        if summary.valid and summary.design.unit == unit:
            proved |= dict.fromkeys(verdict_ids(read_verdicts(folder), [Verdict.SENSITIVE]), audit)
    return proved


def _order(chosen: Filter, *, backwards: bool = False) -> str:
    way = "desc" if chosen.descending != backwards else "asc"
    terms = [f"{term} {way}" for term in (*SORTS[chosen.sort], "place")]
    first = "document in (select unnest(cast($first as varchar[])))"
    return ", ".join([f"{first} {'asc' if backwards else 'desc'}"] * bool(chosen.first) + terms)


def _where(chosen: Filter) -> tuple[str, dict[str, Any]]:
    terms: list[str] = ["true"]
    values: dict[str, Any] = {"first": list(chosen.first)}
    if chosen.verdict is not None:
        terms.append("verdict = $verdict")
        values["verdict"] = chosen.verdict
    if chosen.but is not None:
        terms.append("(verdict <> $but or document in (select unnest(cast($even as varchar[]))))")
        values |= {"but": chosen.but, "even": list(chosen.even)}
    if chosen.statistic is not None:
        terms.append("statistic = $statistic")
        values["statistic"] = chosen.statistic
    if chosen.search:
        terms.append("contains(lower(document), lower($search))")
        values["search"] = chosen.search
    if chosen.only is not None:
        terms.append("document in (select unnest(cast($only as varchar[])))")
        values["only"] = list(chosen.only)
    if chosen.without:
        terms.append("document not in (select unnest(cast($without as varchar[])))")
        values["without"] = list(chosen.without)
    return " and ".join(terms), values


def _quantiles(counts: NDArray[np.int64]) -> tuple[float, ...]:
    """Quantiles from counts of thousandths: the middle of the thousandth that holds each."""
    below = np.cumsum(counts)
    places = np.searchsorted(below, np.array([0.05, 0.25, 0.5, 0.75, 0.95]) * below[-1])
    return tuple(min(1.0, (int(place) + 0.5) / 1000) for place in places)
