"""An audit's tables as DuckDB views: verdicts, tests, effects, and every run's values and inclusion by document.

Views
-----
`verdicts`, `statistics`, `effects`
    The audit's Parquet files.
`unbiased`
    One row a document: `document`, its `distance`, and `unbiased`, D without the bias of choosing (NULL where its
    values are not in the store). Made when it is named: some milliseconds a document.
`runs`
    One row a (document, statistic, run) of the first look: `document`, `statistic`, `run`, `value`, `held`. It is
    made when a query names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ksdp.audit.errors import InputError
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.design import Block
from ksdp.storage.audits.documents import held_out_distance, whole_values
from ksdp.storage.audits.history import read_summary
from ksdp.storage.blocks import read_groups
from ksdp.storage.codec import check_checksum, read_table
from ksdp.storage.findings import read_verdicts
from ksdp.storage.store import Store, write_whole

TABLES = ("verdicts", "statistics", "effects")
_UNBIASED = ("document", "distance", "unbiased")
_RUNS = ("document", "statistic", "run", "value", "held")
_MOST_VALUES = 50_000_000
_WRITERS = {".csv": "(format csv, header)", ".json": "(format json, array true)", ".parquet": "(format parquet)"}
_SAYABLE = {".csv": "not isnan", ".json": "isfinite"}
"""Which numbers a format can say: JSON has no word for NaN and infinity, and a table's empty cell is no number."""


def _connected(store: Store, audit: str) -> duckdb.DuckDBPyConnection:
    """Views of the audit's files. Nothing else of this machine can be read or written through the connection."""
    folder = store.audit(audit)
    database = duckdb.connect(config={"autoinstall_known_extensions": False, "autoload_known_extensions": False})
    for name in TABLES:
        database.register(name, read_table(folder / f"{name}.parquet", (), f"audit {audit!r}"))
    return database


def described_tables(store: Store, audit: str) -> list[tuple[str, int, list[str]]]:
    """Name, rows and columns of every table."""
    summary = read_summary(store.audit(audit))
    stage = summary.provenance.stages[0]
    tables = []
    for name in TABLES:
        file = pq.ParquetFile(check_checksum(store.audit(audit) / f"{name}.parquet", f"audit {audit!r}"))
        tables.append((name, int(file.metadata.num_rows), list(file.schema_arrow.names)))
    tables.append(("unbiased", tables[0][1], list(_UNBIASED)))
    return [*tables, ("runs", stage.documents * stage.runs * len(stage.statistics), list(_RUNS))]


@contextmanager
def _answer(store: Store, audit: str, query: str) -> Iterator[duckdb.DuckDBPyConnection]:
    with _connected(store, audit) as database:
        if re.search(r"\bunbiased\b", query):
            database.register("unbiased", _unbiased(store, audit))
        if re.search(r"\bruns\b", query):
            database.register("runs", _runs(store, read_summary(store.audit(audit))))
        database.execute("set enable_external_access = false")
        database.execute("set lock_configuration = true")
        try:
            yield database.execute(query)
        except duckdb.Error as error:
            raise InputError(f"the query is refused: {str(error).splitlines()[0]}") from None


def ask(store: Store, audit: str, query: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of the columns and rows of the answer."""
    with _answer(store, audit, query) as answer:
        return [column[0] for column in answer.description or ()], answer.fetchall()


def _unbiased(store: Store, audit: str) -> pa.Table:
    summary = read_summary(store.audit(audit))
    table = read_verdicts(store.audit(audit)).select(list(_UNBIASED[:2]))
    ids = enumerate(table["document"].to_pylist())
    distances = [held_out_distance(store, summary, document, place) for place, document in ids]
    return table.append_column(_UNBIASED[2], pa.array(distances, pa.float64()))


def _runs(store: Store, summary: Summary) -> pa.Table:
    """Values and inclusion of the runs of the first look in which a document was measured, long."""
    stage = summary.provenance.stages[0]
    if summary.design.kind == "literal":
        raise InputError("`runs` can be asked of audits with the shared or the balanced design.")
    if not stage.kept:
        raise InputError(
            'this audit keeps no values of single runs; with `store.values = "all"` in its spec it does.'
        )
    size = stage.documents * stage.runs * len(stage.statistics)
    if size > _MOST_VALUES:
        raise InputError(
            f"`runs` would have {size} rows; at most {_MOST_VALUES} fit in memory. Audit fewer documents."
        )
    ids = read_verdicts(store.audit(summary.audit))["document"]
    documents, parts = np.array(ids.to_pylist(), dtype=object)[: stage.documents], []
    folder, precision = store.blocks / stage.values, summary.spec.store.precision
    for start in range(0, stage.runs, stage.runs_a_block):
        block = Block(0, start, min(start + stage.runs_a_block, stage.runs))
        with whole_values(summary.audit, folder, block):
            cells = read_groups(folder, block, stage.key, stage.statistics, precision)
        inclusion = cells.inclusion[: stage.documents]
        for name, value in zip(stage.statistics, cells.whole(), strict=True):
            parts.append(_long(documents, name, block, value[: stage.documents], inclusion))
    # Where a document's tests read a part of the runs, the others were not measured.
    table = pa.concat_tables(parts).unify_dictionaries()
    return table.filter(pc.is_valid(table["value"]))


def _long(documents: Any, name: str, block: Block, value: Any, inclusion: Any) -> pa.Table:
    rows = len(documents) * len(block)
    return pa.table(
        {
            "document": pa.array(np.repeat(documents, len(block))).dictionary_encode(),
            "statistic": pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [name]),
            "run": np.tile(np.arange(block.start, block.stop), len(documents)),
            "value": pa.array(np.ascontiguousarray(value, dtype=np.float64).ravel(), from_pandas=True),
            "held": np.ascontiguousarray(inclusion).ravel(),
        }
    ).unify_dictionaries()


_FORMULA = r"^[=+\-@\t\r\n]"
_CONTROL = r"[^\P{Cc}\t\n\r]|[\x{061C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2066}-\x{2069}]"
"""How a text begins that a spreadsheet would run, and letters that a terminal would."""


def _cells(database: duckdb.DuckDBPyConnection, suffix: str) -> str:
    """Columns of the answer, without what a format has no word for, and with formulas quoted."""

    def cell(name: str, kind: str) -> str:
        quoted = f'"{name.replace(chr(34), 2 * chr(34))}"'
        if kind in ("DOUBLE", "FLOAT") and suffix in _SAYABLE:
            return f"case when {_SAYABLE[suffix]}({quoted}) then {quoted} end as {quoted}"
        if kind == "VARCHAR" and suffix == ".csv":
            mark = f"case when regexp_matches({quoted}, '{_FORMULA}') then chr(39) else '' end"
            seen = f"regexp_replace({quoted}, '{_CONTROL}', '\N{REPLACEMENT CHARACTER}', 'g')"
            return f"{mark} || {seen} as {quoted}"
        return quoted

    return ", ".join(cell(name, kind) for name, kind, *_ in database.execute("describe answer").fetchall())


def write_answer(store: Store, audit: str, query: str, to: Path) -> int:
    """Write the answer in the format of the file's extension, and return the number of rows."""
    suffix = to.suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(f"`--to` must end in {', '.join(_WRITERS)}; got {to.name!r}.")
    with _answer(store, audit, query) as answer:
        table = pa.table(answer.arrow())
    with duckdb.connect() as database:
        database.register("answer", table)
        cells = _cells(database, suffix)

        def write(part: Path) -> None:
            quoted = str(part).replace("'", "''")
            database.execute(f"copy (select {cells} from answer) to '{quoted}' {_WRITERS[suffix]}")

        write_whole(to, write)
    return int(table.num_rows)
