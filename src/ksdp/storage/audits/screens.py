"""Screenings in the store.

`screens/<id>.json` is the result for the list that audit <id> proposed, `<id>-left-out.parquet` names what was
left out of the list and when, `<id>.html` is the page.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ksdp.audit.errors import NotFound
from ksdp.audit.screening.screen_summary import RoundSummary as RoundSummary
from ksdp.audit.screening.screen_summary import ScreenSummary as ScreenSummary
from ksdp.audit.verdicts.verdict import Proof
from ksdp.storage.codec import (
    read_object,
    read_table,
    write_json_with_checksum,
    write_table_with_checksum,
    write_text_with_checksum,
)
from ksdp.storage.findings import verdict_ids
from ksdp.storage.store import Store

_COLUMNS = ("document", "verdict", "statistic", "distance", "log10_adjusted_p")


def _file(store: Store, name: str) -> Path:
    return store.root / "screens" / name


@dataclass(frozen=True, eq=False)
class RoundVerdicts:
    """The verdicts of one round."""

    number: int
    verdicts: pa.Table
    """One row a document, as `ksdp.storage.findings.check_verdicts` returns them."""

    def ids(self, kinds: Sequence[str]) -> list[str]:
        """Ids of the documents with one of these verdicts, in the order of the audit."""
        return verdict_ids(self.verdicts, kinds)

    @property
    def every_attack(self) -> frozenset[str]:
        """Ids of the documents that are clear against every attack."""
        chosen = self.verdicts.filter(pc.equal(self.verdicts["proof"], Proof.EVERY_ATTACK))
        return frozenset(chosen["document"].to_pylist())

    def weakest(self, among: Collection[str], count: int) -> list[str]:
        """Ids of so many clear documents with the weakest evidence; those with a bound on every attack stay."""
        proved = self.verdicts.filter(pc.equal(self.verdicts["proof"], Proof.STATISTICS))
        ordered = proved.sort_by([("log10_p_below", "descending"), ("document", "ascending")])
        return [name for name in ordered["document"].to_pylist() if name in among][:count]

    @property
    def median_distance(self) -> float:
        """Median over documents of D under their strongest statistic; 0 where an arm was empty."""
        return float(np.median(np.nan_to_num(self.verdicts["distance"].to_numpy())))

    @property
    def largest_distance(self) -> float:
        """The largest D of any document."""
        return float(np.nan_to_num(self.verdicts["distance"].to_numpy()).max())


def write_screen(store: Store, summary: ScreenSummary) -> Path:
    """Write `screens/<id>.json`."""
    path = _file(store, f"{summary.screen}.json")
    write_json_with_checksum(path, summary.to_json())
    return path


def page_path(store: Store, screen: str) -> Path:
    """Where the page of a screen is, or will be."""
    return _file(store, f"{screen}.html")


def write_page(store: Store, screen: str, page: str) -> Path:
    """Write `screens/<id>.html`."""
    path = page_path(store, screen)
    write_text_with_checksum(path, page)
    return path


def read_screen(store: Store, screen: str) -> ScreenSummary:
    """Read `screens/<id>.json`."""
    path = _file(store, f"{screen}.json")
    if not path.is_file():
        raise NotFound(f"there is no screen {screen!r} in this store.")
    return read_object(path, ScreenSummary.from_json, f"screen {screen!r}", "clear again")


def _rows_of(verdicts: RoundVerdicts, out: Sequence[str]) -> pa.Table:
    rows = verdicts.verdicts.filter(pc.is_in(verdicts.verdicts["document"], pa.array(out, pa.string())))
    rows = rows.select(_COLUMNS)
    return rows.add_column(0, "round", pa.array([verdicts.number] * len(rows), pa.int32()))


def write_left_out(
    store: Store,
    screen: str,
    rounds: Sequence[tuple[RoundVerdicts, Sequence[str]]],
    members: tuple[NDArray[np.str_], NDArray[np.str_]] | None = None,
) -> Path:
    """Write the documents that each round left out of the list; all documents of a group, with its name."""
    path = _file(store, f"{screen}-left-out.parquet")
    table = pa.concat_tables([_rows_of(*screen_round) for screen_round in rounds])
    if members is not None:
        ids, units = members
        named = np.array(table["document"].to_pylist(), dtype=np.str_)
        order = np.argsort(named)
        place = order[np.minimum(np.searchsorted(named, units, sorter=order), len(named) - 1)]
        listed_rows = np.flatnonzero(named[place] == units)
        listed_rows = listed_rows[np.argsort(place[listed_rows], kind="stable")]
        table = table.take(place[listed_rows]).append_column(
            "group", pa.array(units[listed_rows].tolist(), pa.string())
        )
        table = table.set_column(1, "document", pa.array(ids[listed_rows].tolist(), pa.string()))
    write_table_with_checksum(path, table)
    return path


def read_left_out(store: Store, screen: str) -> pa.Table:
    """One row a document: `round`, `_COLUMNS`, and `group` where groups were audited."""
    path = _file(store, f"{screen}-left-out.parquet")
    return read_table(path, _COLUMNS, f"screen {screen!r}", "clear again")
