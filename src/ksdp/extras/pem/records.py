"""Clients' records, of a file; and functions of one's own."""

from __future__ import annotations

import hashlib
import importlib
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.extras.pem.spec import AlgorithmSpec, LogisticSpec, PemDataSpec
from ksdp.storage.files import Refused, extension
from ksdp.storage.readers.columns import Columns, open_columns
from ksdp.storage.readers.counts import read_counts
from ksdp.storage.readers.spec_files import spec_path
from ksdp.storage.readers.tables import check_rows


@dataclass(frozen=True, eq=False)
class Records:
    """Records of the file, one a row, in its order."""

    path: Path
    matrix: sp.csr_array
    columns: tuple[str, ...]
    """Names of the matrix's columns; none for a count matrix."""
    clients: tuple[str, ...]
    owners: NDArray[np.intp]
    """Place of each record's client among `clients`."""

    def parts(self) -> list[sp.csr_array]:
        """Each client's records."""
        return [self.matrix[np.flatnonzero(self.owners == number)] for number in range(len(self.clients))]


def read_records(spec: PemDataSpec, base: Path, algorithm: AlgorithmSpec) -> Records:
    """Read the records of a run."""
    path = spec_path(base, spec.path)
    label = algorithm.label if isinstance(algorithm, LogisticSpec) else None
    if extension(path) in (".npz", ".mtx"):
        return _counts(spec, base, path, label)
    nonnegative = not isinstance(algorithm, LogisticSpec)
    if not spec.described:
        raise SpecError("`data.columns`, `edges` or `categories` must say what the columns of a table become.")
    if spec.labels is not None:
        raise SpecError("`data.labels` goes with a count matrix; a table has its `client` column itself.")
    table = open_columns(path, spec.encoding)
    table.require([*spec.columns, *spec.edges, *spec.categories, *filter(None, (spec.label, spec.client))])
    names = list(spec.columns)
    parts = [sp.csr_array(table.numbers(name, nonnegative=nonnegative)[:, None]) for name in spec.columns]
    for name, edges in spec.edges.items():
        ends = [f"{edge:g}" for edge in edges]
        names += [f"{name} < {ends[0]}", *(f"{a} <= {name} < {b}" for a, b in itertools.pairwise(ends))]
        names.append(f"{name} >= {ends[-1]}")
        parts.append(_ones(np.digitize(table.numbers(name), edges), len(edges) + 1))
    for name, values in spec.categories.items():
        names += [f"{name} = {value}" for value in values]
        parts.append(_ones(_places(table, name, values), len(values)))
    if spec.label is not None:
        names.append(spec.label)
        parts.append(sp.csr_array((table.labels(spec.label) == spec.positive).astype(np.float64)[:, None]))
    matrix = canonical(sp.csr_array(sp.hstack(parts, format="csr")))
    return Records(path, matrix, tuple(names), *_clients(spec, table, matrix.shape[0], path))


def _counts(spec: PemDataSpec, base: Path, path: Path, label: int | None) -> Records:
    if spec.described or spec.label is not None:
        raise SpecError(
            "`data.columns`, `edges`, `categories` and `label` go with a table, not with a count matrix."
        )
    if (spec.labels is None) != (spec.client is None):
        raise SpecError("`data.labels` and `client` go together for a count matrix; else set `clients`.")
    matrix = canonical(read_counts(path))
    width = matrix.shape[1]
    if label is not None and -width <= label < width:  # else the algorithm is refused
        column = matrix[:, [label]].toarray()[:, 0]
        if (wrong := (column != 0) & (column != 1)).any():
            row = int(wrong.argmax()) + 1
            raise Refused(path, "is not 0 or 1, and it is the label.", row=row, column=str(label % width + 1))
    table = None
    if spec.labels is not None:
        table = open_columns(spec_path(base, spec.labels), spec.encoding)
        check_rows(table, matrix.shape[0])
    return Records(path, matrix, (), *_clients(spec, table, matrix.shape[0], path))


def _clients(
    spec: PemDataSpec, table: Columns | None, rows: int, path: Path
) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    if spec.client is not None and table is not None:
        owners, names = table.coded(spec.client)
        order = np.argsort(names)
        places = np.empty(len(names), dtype=np.intp)
        places[order] = np.arange(len(names))
        return tuple(names[order].tolist()), places[owners]
    count = spec.clients or 1
    if count > rows:
        raise Refused(path, f"has {rows} records, which cannot be dealt out to {count} clients.")
    return numbered(count), np.arange(rows, dtype=np.intp) % count


def numbered(count: int) -> tuple[str, ...]:
    """Names of clients that records are dealt out to."""
    return tuple(f"{number + 1:0{len(str(count))}}" for number in range(count))


def _places(table: Columns, name: str, values: tuple[str, ...]) -> NDArray[np.intp]:
    codes, labels = table.coded(name)
    place_of = {value: place for place, value in enumerate(values)}
    places = np.array([place_of.get(value, -1) for value in labels.tolist()], dtype=np.intp)[codes]
    if (places < 0).any():
        row = int((places < 0).argmax()) + 1
        raise Refused(table.path, "is not one of the categories that the spec lists.", row=row, column=name)
    return places


def _ones(places: NDArray[np.intp], width: int) -> sp.csr_array:
    rows = len(places)
    return sp.csr_array((np.ones(rows), places, np.arange(rows + 1)), shape=(rows, width))


_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


@dataclass(frozen=True, eq=False)
class OwnFunctions:
    """Three functions, and the file that they are in."""

    algorithm: PemAlgorithm
    code: str
    """`sha256:` of the file."""


def load_functions(path: str, folder: Path) -> OwnFunctions:
    """Import `module:object`, looked for in a folder and where Python looks."""
    if not _PATH.fullmatch(path):
        raise SpecError(f"`--functions` must be module:object; got {path!r}.")
    module, _, attribute = path.partition(":")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))  # processes of this machine inherit it
    try:
        loaded = importlib.import_module(module)
        made: Any = getattr(loaded, attribute)
        if isinstance(made, type):
            made = made()
    except (Exception, SystemExit) as error:  # whatever a module does when it is imported
        message = " ".join(str(error).split())[:200]
        raise SpecError(f"`--functions` {path!r} cannot be used: {type(error).__name__}: {message}") from error
    if not isinstance(made, PemAlgorithm):
        wanted = "`name`, `init`, `map_in_client` and `reduce_in_aggregator`"
        raise SpecError(f"`--functions` {path!r} must have {wanted}.")
    if re.search(r" at 0x[0-9a-f]+", repr(made)):
        raise SpecError(f"`--functions` {path!r} must say its parameters in `repr`: make it a frozen dataclass.")
    if loaded.__file__ is None:
        raise SpecError(f"`--functions` {path!r} must be in a file.")
    digest = hashlib.sha256(Path(loaded.__file__).read_bytes()).hexdigest()
    return OwnFunctions(made, f"sha256:{digest}")
