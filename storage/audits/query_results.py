"""What is asked of an audit's tables and what is answered, as values; `storage.queries` asks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.storage.finding_tables import VerdictRow

VERDICTS = ("sensitive", "clear", "certified clear", "undecided")

SORTS: Mapping[str, tuple[str, ...]] = {
    "evidence": ("log10_p", "-if(isnan(distance), -1, distance)"),
    "advantage": ("-if(isnan(distance), -1, distance)",),
    "bound": ("-if(certified_bound is null, -1, certified_bound)",),
    "band": ("-if(isnan(largest_band_high), 2, largest_band_high)",),
    "id": ("document",),
    "file": (),
}
"""Orders of documents; `file` is the order of the corpus. Ties are in the order of the corpus."""


@dataclass(frozen=True)
class Row(VerdictRow):
    """One document of an audit, under its strongest statistic."""

    place: int
    """Row in `verdicts.parquet`, from 0: the order of the corpus."""


@dataclass(frozen=True)
class Filter:
    """Which documents, in which order."""

    verdict: str | None = None
    search: str = ""
    """Part of an id, capital or small."""
    sort: str = "evidence"
    descending: bool = False
    """Turns the order round."""
    only: tuple[str, ...] | None = None
    """Among these documents only."""
    without: tuple[str, ...] = ()
    """None of these documents."""

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
    """Verdicts of some documents and the advantages of the sensitive ones."""

    verdicts: Mapping[str, int]
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

    @property
    def any_sensitive(self) -> bool:
        """Whether there are advantages to speak of."""
        return not math.isnan(self.largest)


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
