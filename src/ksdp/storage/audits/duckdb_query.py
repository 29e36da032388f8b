"""Questions to an audit's Parquet files by DuckDB; what `ksdp show` asks needs neither NumPy nor Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb

from ksdp.audit.errors import StoreError
from ksdp.storage.codec import check_checksum


@lru_cache(maxsize=1)
def _database() -> duckdb.DuckDBPyConnection:
    """One database in memory for the process; each question has a cursor of its own. It never loads anything."""
    settings: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
    return duckdb.connect(config=settings)


def ask(question: str, values: Mapping[str, Any], whose: str) -> list[Any]:
    """The rows that answer a question; of its values, paths are tables of the audit."""
    named = {name: _whole_file(value) if isinstance(value, Path) else value for name, value in values.items()}
    with _told(whose), _database().cursor() as cursor:
        return list(cursor.execute(question, named).fetchall())


@contextmanager
def _told(whose: str) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise StoreError(f"the findings of audit {whose!r} cannot be read: {type(error).__name__}.") from error


def _whole_file(path: Path) -> str:
    """A table's name for DuckDB, which checks nothing itself: the file is what was written."""
    return str(check_checksum(path, f"audit {path.parent.name!r}"))


def strongest(folder: Path, count: int) -> tuple[list[Any], int]:
    """The documents of the strongest evidence, and how many there are in all."""
    path = _whole_file(folder / "verdicts.parquet")
    with _told(folder.name):  # no values: DuckDB imports Pandas to see whether one of them is a table
        table = _database().from_parquet(path, file_row_number=True)
        first = table.order("log10_adjusted_p, distance desc, file_row_number").limit(count)
        shown = first.project("document, verdict, distance, log10_adjusted_p, statistic")
        return shown.fetchall(), int(table.count("*").fetchall()[0][0])
