"""Audits of several views in the store.

`views/<id>.json` is the summary, `<id>.parquet` has one row a document, `<id>.html` is the page; the audits of the
views are in `audits/` like any other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ksdp.audit.errors import StoreError
from ksdp.audit.results.views_summary import ViewsSummary
from ksdp.storage.checksums import check_sealed, whole_table, write_sealed_json, write_sealed_table
from ksdp.storage.finding_tables import VIEWS, ViewsRow
from ksdp.storage.findings import parsed
from ksdp.storage.store import Store

if TYPE_CHECKING:
    from ksdp.audit.views import Combined, ViewVerdicts

__all__ = [
    "ViewsSummary",
    "finished_views",
    "read_strongest",
    "read_view_document",
    "read_view_verdicts",
    "read_views",
    "view_verdicts",
    "views_of",
    "views_page",
    "write_view_verdicts",
    "write_views",
]

_OF_THE_VIEW = ("statistic", "distance", "band_low", "band_high", "n_with", "n_without")


def _file(store: Store, name: str) -> Path:
    return store.root / "views" / name


def view_verdicts(table: pa.Table) -> ViewVerdicts:
    """The verdicts of a view's audit, as `combine` takes them."""
    from ksdp.audit.views import ViewVerdicts

    verdict = np.array(table["verdict"].to_pylist(), dtype=np.str_)
    adjusted, below = (table[name].to_numpy() for name in ("log10_adjusted_p", "log10_p_below"))
    return ViewVerdicts(verdict, adjusted, below)


def views_page(store: Store, name: str) -> Path:
    """Path of the page."""
    return _file(store, f"{name}.html")


def write_views(store: Store, name: str, summary: ViewsSummary) -> None:
    """Write `views/<id>.json`, last: views with a summary are finished."""
    write_sealed_json(_file(store, f"{name}.json"), summary.to_json())


def read_views(store: Store, name: str) -> ViewsSummary:
    """Read `views/<id>.json`.

    Raises
    ------
    StoreError
        If it is not there or not finished, or its summary is damaged or of another version.
    """
    try:
        fields = dict(json.loads(_file(store, f"{name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"there are no finished views {name!r} in this store.") from error
    summary = parsed(ViewsSummary.from_json, fields, f"views {name!r}")
    check_sealed(_file(store, f"{name}.json"), f"views {name!r}")
    return summary


def finished_views(store: Store) -> list[str]:
    """Ids of the finished ones, newest first."""
    files = sorted(store.root.glob("views/*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    return [file.stem for file in files]


def write_view_verdicts(
    store: Store, name: str, names: Sequence[str], verdicts: Sequence[pa.Table], combined: Combined
) -> None:
    """Write one row a document: what all views say together, and the strongest evidence.

    Parameters
    ----------
    names : names of the views
    verdicts : the verdicts of each view's audit, same documents in the same order
    combined : over all views
    """
    rows, best = np.arange(len(combined.verdict)), combined.view
    labels = np.array(names, dtype=object)

    def of_best(column: str) -> Any:
        values = [np.asarray(table[column].to_numpy(zero_copy_only=False)) for table in verdicts]
        return np.stack(values)[best, rows]

    def listed(chosen: np.ndarray) -> pa.Array:
        return pa.array([labels[column].tolist() for column in chosen.T], pa.list_(pa.string()))

    def largest(column: str) -> Any:
        return np.fmax.reduce([table[column].to_numpy() for table in verdicts])

    columns = {
        "document": verdicts[0]["document"].combine_chunks(),
        "verdict": combined.verdict.astype(object),
        "log10_adjusted_p": combined.log10_adjusted,
        "log10_adjusted_p_below": combined.log10_adjusted_below,
        "detected": np.any([table["detected"].to_numpy(zero_copy_only=False) for table in verdicts], axis=0),
        "view": labels[best],
        **{column: of_best(column) for column in _OF_THE_VIEW},
        "largest_band_high": largest("largest_band_high"),
        "runs_to_decide": np.where(combined.verdict == "undecided", largest("runs_to_decide"), np.nan),
        "sensitive_in": listed(combined.sensitive_in),
        "clear_in": listed(combined.clear_in),
    }
    table = VIEWS.of(columns)
    write_sealed_table(_file(store, f"{name}.parquet"), table)


def _finished_table(store: Store, name: str) -> Path:
    """Path of the table, which is what was written."""
    path = _file(store, f"{name}.parquet")
    if not path.is_file():
        raise StoreError(f"there are no finished views {name!r} in this store.")
    return check_sealed(path, f"views {name!r}")


def read_view_verdicts(store: Store, name: str) -> pa.Table:
    """One row a document, as `write_view_verdicts` says."""
    path = _finished_table(store, name)
    try:
        table = whole_table(path)
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"there are no finished views {name!r} in this store.") from error
    if missing := [column for column in VIEWS.columns if column not in table.schema.names]:
        raise StoreError(f"the table of the views {name!r} has no column {missing[0]!r}; run them again.")
    return table


def read_strongest(store: Store, name: str, count: int) -> list[ViewsRow]:
    """The sensitive ones of the smallest adjusted p, `count` at most; the rest of the table is not read."""
    path = _finished_table(store, name)
    try:
        import pyarrow.compute as pc
        from pyarrow import dataset  # half a second of imports, which lists need not

        table = dataset.dataset(path, format="parquet")
        few = table.to_table(columns=["verdict", "log10_adjusted_p"])
        sensitive = np.flatnonzero(pc.equal(few["verdict"], "sensitive").to_numpy())
        order = np.argsort(few["log10_adjusted_p"].to_numpy()[sensitive], kind="stable")[:count]
        return VIEWS.rows(table.take(sensitive[order]))
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"there are no finished views {name!r} in this store.") from error


def views_of(store: Store, audit: str) -> str | None:
    """The newest finished views that an audit is one of; None where it stands for itself."""
    return next((name for name in finished_views(store) if audit in _audits(_file(store, f"{name}.json"))), None)


def _audits(file: Path) -> frozenset[str]:
    return _audits_at(file, file.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _audits_at(file: Path, _written: int) -> frozenset[str]:
    try:
        audits = json.loads(file.read_text(encoding="utf-8"))
        return frozenset(view["audit"] for view in audits["views"])
    except (OSError, ValueError, TypeError, KeyError):
        return frozenset()


def read_view_document(store: Store, name: str, document: str) -> ViewsRow:
    """One row of `read_view_verdicts`.

    Raises
    ------
    StoreError
        If the views did not audit it.
    """
    import pyarrow.compute as pc

    rows = read_view_verdicts(store, name)
    mine = VIEWS.rows(rows.filter(pc.equal(rows["document"], document)))
    if not mine:
        raise StoreError(f"the views {name!r} have no document {document!r}.")
    return mine[0]
