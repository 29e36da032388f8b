"""Columns of a Parquet, CSV or JSON lines file as Arrow arrays, or a refusal that names the file and the row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ksdp.storage.readers.csv_table import open_csv
from ksdp.storage.readers.files import Refused, kind_of_file
from ksdp.storage.readers.json_lines import open_json_lines
from ksdp.storage.readers.parquet import open_parquet
from ksdp.storage.readers.source import Source

_OPENERS: dict[str, Callable[[Path, str], Source]] = {
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".csv": open_csv,
    ".jsonl": open_json_lines,
    ".ndjson": open_json_lines,
}
"""Extensions of the files with named columns, and what opens them in an encoding; CSV and JSON lines may be
compressed (`.gz`)."""


def open_source(path: Path, encoding: str) -> Source:
    """Open a file by its extension.

    Raises
    ------
    CorpusError
        The file is missing, damaged, wrongly encoded or of another kind.
    """
    suffix = kind_of_file(path)
    if suffix not in _OPENERS:
        raise Refused(path, f"columns are read from {', '.join(_OPENERS)} files; not from {suffix or 'this one'}.")
    return _OPENERS[suffix](path, encoding)
