"""Which columns of a table become a corpus, where the spec does not name them."""

from __future__ import annotations

from pathlib import Path

from ksdp.audit.spec import CorpusSpec
from ksdp.storage.corpora import MEMORY, find_source
from ksdp.storage.readers.columns import open_columns
from ksdp.storage.readers.tables import chosen_columns

__all__ = ["taken_columns"]


def taken_columns(spec: CorpusSpec, base: Path) -> tuple[str, ...]:
    """Names of the numeric columns that a table is read by; none where the spec names them, or it is no table.

    Raises
    ------
    InputError
        As for `load_corpus`.
    """
    if spec.path == MEMORY or spec.columns is not None:
        return ()
    path, kind, columns = find_source(spec, base)
    return chosen_columns(spec, columns or open_columns(path, spec.encoding)) if kind == "table" else ()
