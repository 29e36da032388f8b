"""Two audits side by side: what was asked differently, how verdicts moved, and which documents moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ksdp.dashboards.addresses import PAGE_ROWS, page_number
from ksdp.dashboards.audits.audit_model import written
from ksdp.dashboards.audits.audit_page import require_audit
from ksdp.storage.audits.history import Brief, read_history, read_summary
from ksdp.storage.audits.queries import VERDICTS, Findings
from ksdp.storage.errors import InputError
from ksdp.storage.findings import StatisticSummary, Summary
from ksdp.storage.store import Store


@dataclass(frozen=True)
class Difference:
    """A key of the spec that is not the same."""

    key: str
    before: str
    after: str


@dataclass(frozen=True)
class StatisticPair:
    """One statistic in both; None where an audit did not try it."""

    name: str
    before: StatisticSummary | None
    after: StatisticSummary | None

    @property
    def comparable(self) -> bool:
        """Numbers of different versions are never compared."""
        return self.before is not None and self.after is not None and self.before.version == self.after.version


@dataclass(frozen=True)
class Moved:
    """A document whose verdict is another one."""

    document: str
    before: float
    after: float


@dataclass(frozen=True, eq=False)
class ComparePage:
    """What the page shows; without two audits, only the choice."""

    audits: tuple[Brief, ...]
    before: Summary | None
    after: Summary | None
    differences: tuple[Difference, ...]
    same_corpus: bool
    moves: Mapping[tuple[str | None, str | None], int]
    statistics: tuple[StatisticPair, ...]
    shown: tuple[str, str] | None
    """Verdicts before and after of the documents that are listed."""
    rows: tuple[Moved, ...]
    total: int
    page: int
    pages: int


def _flat(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tables.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            text = "none" if value is None else str(value)
            yield prefix + key, text if len(text) <= 80 else text[:77] + "…"


def _differences(before: Summary, after: Summary) -> tuple[Difference, ...]:
    one, other = (dict(_flat(summary.spec.model_dump(mode="json"))) for summary in (before, after))
    keys = [*one, *(key for key in other if key not in one)]
    return tuple(
        Difference(key, one.get(key, "–"), other.get(key, "–")) for key in keys if one.get(key) != other.get(key)
    )


@lru_cache(maxsize=64)
def _moves(
    before: Path, after: Path, _one: tuple[int, ...], _other: tuple[int, ...]
) -> Mapping[tuple[str | None, str | None], int]:
    """A join over all documents of both, once for each version of the files."""
    return Findings(before).compare(Findings(after)).moves


def _shown(query: Mapping[str, str], moves: Mapping[tuple[str | None, str | None], int]) -> tuple[str, str] | None:
    """The move asked for, or the one that matters most of those that there are."""
    one, other = query.get("from"), query.get("to")
    if one or other:
        if one not in VERDICTS or other not in VERDICTS:
            raise InputError(f"`from` and `to` must be of {', '.join(VERDICTS)}.")
        return one, other
    order = [(a, b) for b in VERDICTS for a in VERDICTS if a != b]
    return next((move for move in order if moves.get(move)), None)


def read_compare_page(store: Store, query: Mapping[str, str]) -> ComparePage:
    """Read the page.

    Parameters
    ----------
    query : mapping
        `a` and `b`, two audits; `from` and `to`, verdicts; `page`.
    """
    audits, page = tuple(read_history(store)[:500]), page_number(query)
    a, b = query.get("a"), query.get("b")
    if not a or not b:
        return ComparePage(audits, None, None, (), True, {}, (), None, (), 0, 1, 1)
    folders = [store.audit(require_audit(store, audit)) for audit in (a, b)]
    before, after = (read_summary(folder) for folder in folders)
    one, other = (Findings(folder) for folder in folders)
    moves = _moves(*folders, *(written(folder) for folder in folders))
    shown = _shown(query, moves)
    total = moves.get(shown, 0) if shown else 0
    changed = one.moved(other, *shown, offset=(page - 1) * PAGE_ROWS) if shown and total else []
    names = [*before.statistics, *(name for name in after.statistics if name not in before.statistics)]
    return ComparePage(
        audits=audits,
        before=before,
        after=after,
        differences=_differences(before, after),
        same_corpus=before.corpus == after.corpus,
        moves=moves,
        statistics=tuple(
            StatisticPair(name, before.statistics.get(name), after.statistics.get(name)) for name in names
        ),
        shown=shown,
        rows=tuple(Moved(*row) for row in changed),
        total=total,
        page=page,
        pages=max(1, -(-total // PAGE_ROWS)),
    )
