"""The tables of an audit: a row as a frozen value, and the Arrow schema that follows from it.

A column is a field of the row, of the same name and in the same order. What Arrow cannot tell from the field's
type (a narrower integer, strings stored once) stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

import pyarrow as pa

from ksdp.audit.verdicts.effect_measures import EffectMeasures

_PLAIN: dict[Any, Any] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    float | None: pa.float64(),
    str | None: pa.string(),
}
_REPEATED = pa.dictionary(pa.int32(), pa.string())
_NAMES = pa.list_(pa.string())


@dataclass(frozen=True)
class VerdictRow:
    """`verdicts.parquet`: one document, under its strongest statistic."""

    document: str
    """Its id; the name of a group, where groups are audited."""
    verdict: str
    """`sensitive`, `clear` or `undecided`."""
    proof: str | None
    """What a clear document is proved against: the `statistics` that were tried, or `every attack`."""
    log10_p: float
    """Of no leak at all: the paper's question."""
    log10_adjusted_p: float
    """The same, adjusted for all statistics and documents."""
    detected: bool
    """Whether any leak is proved, however small."""
    log10_p_above: float
    """Of an advantage of at most the margin: small where it is above."""
    log10_adjusted_p_above: float
    """Adjusted; at or below the level: sensitive."""
    log10_p_below: float
    """Of an advantage of at least the margin: small where it is below."""
    log10_adjusted_p_below: float
    """Adjusted, over all statistics; at or below the level: clear."""
    statistic: str
    """The one with the strongest evidence."""
    distance: float
    """Measured D under it."""
    band_low: float
    """Of the true D under it; all bands hold together."""
    band_high: float
    largest_band_high: float
    """Over all statistics."""
    n_with: int
    """Runs that held it."""
    n_without: int
    """Runs without it that its tests read."""
    detectable_distance: float
    """The measured D at which it would surely have been called sensitive."""
    runs_to_decide: float
    """Runs after which it would be decided, were the measured D the true one; infinite where none would do."""
    certified_bound: float | None
    """Of the advantage of every attack; None where nothing bounds it: no paired runs, no copies."""
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
    """Of the statistic: another one gives other numbers."""
    n_with: int
    """Runs that held the document."""
    n_without: int
    """Runs without it that the test read."""
    distance: float
    """Measured D."""
    band_low: float
    """Of the true D; all bands hold together."""
    band_high: float
    log10_p: float
    """Of no leak: Kolmogorov-Smirnov, exact given ties, and the tails beside it."""
    log10_p_tail: float
    """Of the tails alone."""
    log10_p_above: float
    """Of an advantage of at most the margin."""
    log10_p_below: float
    """Of an advantage of at least the margin."""


@dataclass(frozen=True)
class _DocumentStatistic:
    document: str
    """Its id."""
    statistic: str
    """The one that the first runs chose, with its threshold."""


@dataclass(frozen=True)
class EffectRow(EffectMeasures, _DocumentStatistic):
    """`effects.parquet`: one detected leak on fresh runs; rates are null where the runs cannot measure them."""


@dataclass(frozen=True)
class ViewsRow:
    """`views/<id>.parquet`: one document over all views.

    `view` is the view with the smallest adjusted p, which `statistic`, `distance`, the band and the arms are of.
    """

    document: str
    """Its id."""
    verdict: str
    """Over all views."""
    proof: str | None
    """What a clear document is proved against in every view."""
    log10_adjusted_p: float
    """Of no leak at all."""
    log10_adjusted_p_below: float
    """Of an advantage of at least the margin, over all views: small where every view is below it."""
    detected: bool
    """In some view."""
    view: str
    """Its name."""
    statistic: str
    """Of that view."""
    distance: float
    """Measured D."""
    band_low: float
    """Of the true D."""
    band_high: float
    n_with: int
    """Runs that held it."""
    n_without: int
    """Runs without it that its tests read."""
    largest_band_high: float
    """Over statistics and views, as all bands of all views hold together."""
    runs_to_decide: float
    """That of the view that takes the most."""
    sensitive_in: Annotated[tuple[str, ...], _NAMES]
    """Views."""
    clear_in: Annotated[tuple[str, ...], _NAMES]


Row = TypeVar("Row")


@dataclass(frozen=True)
class Table(Generic[Row]):
    """A table of such rows."""

    row: type[Row]

    @property
    def schema(self) -> pa.Schema:
        """Of Arrow, in the order of the row's fields."""
        hints = get_type_hints(self.row, include_extras=True).items()
        return pa.schema([(name, getattr(hint, "__metadata__", (_PLAIN.get(hint),))[0]) for name, hint in hints])

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(get_type_hints(self.row))

    def of(self, columns: Mapping[str, Any]) -> pa.Table:
        """The Arrow table of some columns.

        Raises
        ------
        KeyError, pyarrow.ArrowException
            If a column is missing, unknown, or of another type.
        """
        if unknown := sorted(set(columns) - set(self.columns)):
            raise KeyError(f"{self.row.__name__} has no column {unknown[0]!r}.")
        return pa.table({name: columns[name] for name in self.columns}, schema=self.schema)

    def rows(self, table: pa.Table) -> list[Row]:
        """An Arrow table's rows as values."""
        return [self.row(**dict(row)) for row in table.select(list(self.columns)).to_pylist()]


VERDICTS = Table(VerdictRow)
STATISTICS = Table(StatisticTestRow)
EFFECTS = Table(EffectRow)
VIEWS = Table(ViewsRow)

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
