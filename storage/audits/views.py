"""Audits of several views in the store.

`views/<id>.json` is the summary, `<id>.parquet` has one row a document, `<id>.html` is the page; the audits of the
views are in `audits/` like any other.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from ksdp.audit.errors import StoreError
from ksdp.audit.results.views_summary import ViewsSummary as ViewsSummary
from ksdp.storage.checksums import check_sealed, write_sealed_json
from ksdp.storage.store import Store
from ksdp.storage.summaries import parsed


def _file(store: Store, name: str) -> Path:
    return store.root / "views" / name


def views_page(store: Store, name: str) -> Path:
    """Path of the page."""
    return _file(store, f"{name}.html")


def views_table(store: Store, name: str) -> Path:
    """Path of the table (`ksdp.storage.audits.view_tables`)."""
    return _file(store, f"{name}.parquet")


def write_views(store: Store, name: str, summary: ViewsSummary) -> None:
    """Write `views/<id>.json`, last: views with a summary are finished."""
    write_sealed_json(_file(store, f"{name}.json"), summary.to_json())


def read_views(store: Store, name: str) -> ViewsSummary:
    """Read `views/<id>.json`; its paths are where it lies now."""
    try:
        fields = dict(json.loads(_file(store, f"{name}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"there are no finished views {name!r} in this store.") from error
    summary = parsed(ViewsSummary.from_json, fields, f"views {name!r}")
    check_sealed(_file(store, f"{name}.json"), f"views {name!r}")
    return replace(summary, store=str(store.root), report=str(views_page(store, name)))


def finished_views(store: Store) -> list[str]:
    """Ids of the finished ones, newest first."""
    files = sorted(store.root.glob("views/*.json"), key=lambda file: file.stat().st_mtime, reverse=True)
    return [file.stem for file in files]


def views_of(store: Store, audit: str) -> str | None:
    """The newest finished set of views that contains an audit; None if it is in none."""
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
