"""Runs that were made elsewhere, as two tables: what each run announced, and which documents were in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError, InputError
from ksdp.storage.readers.files import require_file
from ksdp.storage.readers.parquet import checked_parquet

_RUN, _DOCUMENT = "run", "document"


def _table(given: Any, what: str) -> pa.Table:
    """A Parquet file, an Arrow table or a DataFrame, as an Arrow table."""
    if isinstance(given, str | Path):
        return _parquet(Path(given))
    if isinstance(given, pa.Table):
        return given
    if hasattr(given, "columns"):
        return pa.Table.from_pandas(given, preserve_index=False)
    raise InputError(f"`{what}` must be a Parquet file, a table or arrays; got {type(given).__name__}.")


def _parquet(path: Path) -> pa.Table:
    require_file(path)
    file = checked_parquet(path)
    try:
        return file.read()
    except (OSError, ValueError, pa.ArrowException) as error:
        raise CorpusError(f"{path.name} cannot be read as Parquet: {type(error).__name__}.") from error


def _require(table: pa.Table, what: str, *names: str) -> None:
    for name in names:
        if name not in table.column_names:
            raise InputError(f"`{what}` must have a column `{name}`; it has {', '.join(table.column_names)}.")


def read_observables(given: Any) -> tuple[dict[str, NDArray[np.float64]], list[Any]]:
    """What the runs announced: (arrays by name, whose first axis is the run; the runs' names, in that order).

    Parameters
    ----------
    given : path, Arrow table or DataFrame with a column `run`, each once, and one a column an array: a number, a
        list, or a list of lists, of the same shape in every run. Or a mapping of names to arrays; runs are then
        numbered from 0.

    Raises
    ------
    InputError
        If a column is missing, a run stands twice, or shapes differ.
    """
    if isinstance(given, Mapping):
        arrays = {str(name): np.asarray(array, dtype=np.float64) for name, array in given.items()}
        return arrays, list(range(len(next(iter(arrays.values()))))) if arrays else []
    table = _table(given, "observables")
    _require(table, "observables", _RUN)
    runs = table[_RUN].to_pylist()
    if len(set(runs)) != len(runs):
        raise InputError("`observables` must have one row a run; some run stands there twice.")
    arrays = {}
    for name in table.column_names:
        if name == _RUN:
            continue
        try:
            arrays[name] = np.array([np.asarray(cell, dtype=np.float64) for cell in table[name].to_pylist()])
        except (TypeError, ValueError) as error:
            raise InputError(
                f"column `{name}` of `observables` must hold numbers, or lists of the same lengths in every run."
            ) from error
    return arrays, runs


def read_inclusion(given: Any, runs: list[Any], ids: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Which documents were in which run, shape (n_runs, n_documents), in the order of `runs` and `ids`.

    Parameters
    ----------
    given : path, Arrow table or DataFrame with columns `run` and `document`, one row for each document of a run;
        or a bool array of that shape.

    Raises
    ------
    InputError
        If a column is missing, a run or a document is not known, or a document stands twice in a run.
    """
    if isinstance(given, np.ndarray):
        if given.shape != (len(runs), len(ids)) or given.dtype != np.bool_:
            raise InputError(
                f"`inclusion` must be bool of shape (runs, documents) = ({len(runs)}, {len(ids)}); "
                f"got {given.dtype} of shape {given.shape}."
            )
        return given
    table = _table(given, "inclusion")
    _require(table, "inclusion", _RUN, _DOCUMENT)
    row = {run: at for at, run in enumerate(runs)}
    column = {str(name): at for at, name in enumerate(ids)}
    bits = np.zeros((len(runs), len(ids)), dtype=np.bool_)
    for run, document in zip(table[_RUN].to_pylist(), table[_DOCUMENT].to_pylist(), strict=True):
        at = row.get(run), column.get(str(document))
        if None in at:
            which = (
                f"run {run!r} that `observables`" if at[0] is None else f"document {document!r} that the corpus"
            )
            raise InputError(f"`inclusion` names a {which} does not hold.")
        if bits[at]:
            raise InputError(f"`inclusion` names document {document!r} twice in run {run!r}.")
        bits[at] = True
    return bits
