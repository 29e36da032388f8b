"""Data of a Python program: a corpus as arrays, tables or texts, and runs that were made elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import CorpusError, InputError
from ksdp.audit.mechanisms.callables import in_double
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import RawCorpus, SourceFile, column_names, read_source, weighed_corpus
from ksdp.storage.files import require_file
from ksdp.storage.readers.columns import checked_parquet, columns_of
from ksdp.storage.readers.spec_files import COLUMN_FILES, Copy, fetched, spec_path
from ksdp.storage.readers.tables import Labels, row_numbers
from ksdp.storage.readers.text import term_counts

_WHERE = Path("the data")


def corpus_in_memory(
    data: Any,
    spec: CorpusSpec,
    *,
    ids: Sequence[str] | None = None,
    party: Sequence[str] | None = None,
    group: Sequence[str] | None = None,
) -> Corpus:
    """Make a corpus of a matrix, a table with named columns, or texts."""
    spec, copies = fetched(spec, Path(), COLUMN_FILES)
    data = arrow_or_same(data)
    if isinstance(data, pa.Table) or hasattr(data, "columns"):
        if ids is not None or party is not None or group is not None:
            raise CorpusError("`id`, `party` and `group` of a table must be names of columns.")
        read = read_source(_table(data, spec, copies), nonnegative=False)
        if spec.id is None and read.file.kind != "ratings":
            read = replace(read, labels=replace(read.labels, ids=_index(data)))
        return weighed_corpus(read, nonnegative=False)
    agreed = column_names(spec)
    if not sp.issparse(data) and len(data) and all(isinstance(text, str) for text in data):
        matrix, kind = term_counts(list(data), spec, _WHERE, agreed), "text"
    else:
        matrix, kind = _matrix(data), "table"
        if agreed is not None and len(agreed) != matrix.shape[1]:
            raise CorpusError(
                f"`vocabulary` or `columns` must name every column of the data ({matrix.shape[1]}); "
                f"got {len(agreed)} names."
            )
    rows = matrix.shape[0]
    columns = [_labels(column, rows, name) for name, column in (("id", ids), ("party", party), ("group", group))]
    names = columns[0] if columns[0] is not None else row_numbers(rows)
    labels = Labels(names, columns[1], columns[2])
    source = RawCorpus.of(SourceFile(spec, _WHERE, kind, copies=copies), matrix, labels, agreed)
    return weighed_corpus(source, nonnegative=False)


def arrow_or_same(data: Any) -> Any:
    """Return the Arrow table of a stream of columns (DuckDB, polars, a reader), or what was given."""
    if hasattr(data, "iloc") or not (
        hasattr(data, "columns") or hasattr(data, "schema")
    ):  # pandas: its index counts
        return data
    if not hasattr(data, "__arrow_c_stream__"):
        raise CorpusError(f"the {type(data).__name__} hands on no Arrow stream; collect it into a frame first.")
    try:
        return pa.table(data)
    except Exception as error:  # somebody else's code
        raise CorpusError(
            f"the {type(data).__name__} cannot be read as a table: {type(error).__name__}."
        ) from error


def table_columns(data: Any) -> list[str]:
    """Names of the columns of an Arrow table or a frame."""
    return list(data.column_names if isinstance(data, pa.Table) else data.columns)


def _index(data: Any) -> NDArray[np.str_]:
    """A frame's index, where it names each row; row numbers from 1, as in a file, where it only counts them."""
    numbers = row_numbers(len(data))
    if not hasattr(data, "index"):
        return numbers
    names = np.array([str(name) for name in data.index], dtype=np.str_)
    counts = len(np.unique(names)) < len(names) or (names == np.arange(len(names)).astype(np.str_)).all()
    return numbers if counts else names


def _matrix(data: Any) -> sp.csr_array:
    if sp.issparse(data):
        matrix = sp.csr_array(data)
    else:
        array = np.asarray(data)
        if array.ndim != 2 or array.dtype.kind not in "biuf":
            raise CorpusError(
                f"the data must be a matrix of numbers, a table or texts; got {type(data).__name__} "
                f"of {array.ndim} dimensions and type {array.dtype}."
            )
        matrix = sp.csr_array(array)
    if not np.isfinite(matrix.data.astype(np.float64)).all():
        raise CorpusError("the data must be finite; they hold NaN or infinity.")
    return matrix


def _labels(column: Sequence[str] | None, rows: int, name: str) -> NDArray[np.str_] | None:
    if column is None:
        return None
    if len(column) != rows:
        raise CorpusError(f"`{name}` must have one entry a document ({rows}); got {len(column)}.")
    if any(entry is None or entry != entry for entry in column):
        raise CorpusError(f"`{name}` must name every document; one entry at least is missing.")
    return np.array([str(entry) for entry in column], dtype=np.str_)


def _table(data: Any, spec: CorpusSpec, copies: tuple[Copy, ...]) -> SourceFile:
    names = table_columns(data)
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise CorpusError(f"the table has the column `{name}` {times} times; rename all but one.")
    table = data if isinstance(data, pa.Table) else pa.Table.from_pandas(data, preserve_index=False)
    if not table.num_rows:
        raise CorpusError("the table has no rows.")
    columns = columns_of(table, _WHERE)
    triplet = set(spec.triplet) <= set(columns.names) and (spec.columns is None or spec.format == "ratings")
    kind = "text" if spec.text else "ratings" if triplet else "table"
    return SourceFile(spec, _WHERE, kind, columns, copies)


_RUN, _DOCUMENT = "run", "document"


def _as_table(given: Any, what: str) -> pa.Table:
    if isinstance(given, str | Path):
        return _parquet(Path(given))
    if isinstance(given := arrow_or_same(given), pa.Table):
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
    """Read the runs' releases: (arrays by name, whose first axis is the run; the runs' names, in that order)."""
    if isinstance(given, Mapping):
        arrays = {str(name): _in_double(str(name), array) for name, array in given.items()}
        return arrays, list(range(len(next(iter(arrays.values()))))) if arrays else []
    table = _as_table(given, "observables")
    _require(table, "observables", _RUN)
    runs = table[_RUN].to_pylist()
    if len(set(runs)) != len(runs):
        raise InputError("`observables` must have one row a run; some run stands there twice.")
    arrays = {}
    for name in table.column_names:
        if name == _RUN:
            continue
        try:
            arrays[name] = np.array([_in_double(name, cell) for cell in table[name].to_pylist()])
        except (TypeError, ValueError) as error:
            raise InputError(
                f"column `{name}` of `observables` must hold numbers, or lists of the same lengths in every run."
            ) from error
    return arrays, runs


def _in_double(name: str, given: Any) -> NDArray[np.float64]:
    array = np.asarray(given)
    if array.dtype.kind in "iuf" and not in_double(array):
        raise InputError(f"the recorded {name!r} has more digits than double precision holds: record parts.")
    return array.astype(np.float64)


def read_inclusion(given: Any, runs: list[Any], ids: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Which documents were in which run, shape (n_runs, n_documents), in the order of `runs` and `ids`."""
    if isinstance(given, np.ndarray):
        if given.shape != (len(runs), len(ids)) or given.dtype != np.bool_:
            raise InputError(
                f"`inclusion` must be bool of shape (runs, documents) = ({len(runs)}, {len(ids)}); "
                f"got {given.dtype} of shape {given.shape}."
            )
        return given
    table = _as_table(given, "inclusion")
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


RECORDED = "recorded"
"""Name in a spec of a mechanism whose runs were made elsewhere."""
_DECIDED = (
    "kind",
    "unit",
    "party_size",
    "with_runs",
    "looks",
    "fresh_runs",
    "without_runs",
    "sampling",
    "documents",
)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Releases of runs that were made elsewhere, and the documents in them; nothing is run.

    The documents of every run have to have been drawn at random, afresh for each run, whatever they are. Verdicts
    rest on that, and it is taken on trust: an audit that runs the mechanism itself checks it.

    Parameters
    ----------
    observables : Parquet file, table, or mapping of names to arrays
        One row a run: a column `run`, and one for each announced array (a number, a list, a list of lists). As a
        mapping, the first axis of each array is the run.
    inclusion : Parquet file, table, or bool array of shape (runs, documents)
        One row for each document of each run: columns `run` and `document` (its id).
    """

    observables: Any
    inclusion: Any


def recorded_runs(given: Recorded, corpus: Corpus) -> RecordedRuns:
    """The recorded runs of the documents of a corpus."""
    arrays, runs = read_observables(given.observables)
    return RecordedRuns(arrays, read_inclusion(given.inclusion, runs, corpus.ids), corpus.features)


def recorded_tables(made: RecordedRuns, tables: Mapping[str, Any], design: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a spec that audits recorded runs: what the record decides, nobody else does."""
    if wrong := [key for key in design if key in _DECIDED]:
        raise InputError(f"`design.{wrong[0]}` is what the recorded runs say; leave it out.")
    recorded = {
        "party_size": made.rows,
        "with_runs": made.smaller_arm,
        "fresh_runs": 0,
        "without_runs": "all",
        "sampling": "fixed" if made.fixed else "poisson",
    }
    statistics = dict(tables.get("statistics", {}))
    statistics.setdefault("families", ())
    return {**tables, "design": recorded, "mechanism": {"name": made.name}, "statistics": statistics}


def recorded_in_spec(tables: Mapping[str, Any], base: Path) -> Recorded:
    """The two files that `[mechanism]` of a spec names, relative to its folder."""
    mechanism = dict(tables["mechanism"])
    mechanism.pop("name")
    if set(mechanism) != {"observables", "inclusion"}:
        raise InputError(
            '`mechanism` "recorded" must name two Parquet files, `observables` and `inclusion`, and nothing else.'
        )
    return Recorded(*(spec_path(base, str(mechanism[key])) for key in ("observables", "inclusion")))
