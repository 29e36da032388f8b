"""Shared products of the statistics: all documents times an announced matrix, computed once a run.

Everything here goes through `Observables.derive`, keyed by what it is, the announced name and the `Documents`
object, so that statistics which ask for the same thing pay for it once, and another set of documents in the
same run gets its own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ksdp.audit.contract import Observables
from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Floats, Singles
from ksdp.audit.numeric.kernels import LINE, csr_times_panel, lined, panel_of, squared_csr_times_panel
from ksdp.audit.numeric.sparse_rows import arrays_of
from ksdp.audit.statistic import Documents

Ints = NDArray[Any]

BASES = ("T", "V")
"""Names under which a mechanism announces its basis: nonnegative topics, or orthonormal singular vectors."""


def announced(observables: Observables, name: str) -> Floats:
    """The announced array `name` as C-contiguous float64; InputError where the run does not announce it."""
    if name not in observables:
        names = ", ".join(sorted(observables)) or "nothing"
        raise InputError(f"the run must announce `{name}`; it announces {names}.")
    return observables.derive(("announced", name), lambda: np.ascontiguousarray(observables[name], np.float64))


def basis_name(observables: Observables) -> str:
    """The name of the announced basis: "T" (k x d topics) or "V" (k x d singular vectors); InputError without."""
    for name in BASES:
        if name in observables:
            return name
    raise InputError(f"the run must announce {' or '.join(f'`{name}`' for name in BASES)}; it announces neither.")


def has_mean(observables: Observables) -> bool:
    """Whether documents are to be centred: the basis is "V" and the run announces the "mean" (PD-PCA)."""
    return "mean" in observables and basis_name(observables) == "V"


def csr_arrays(documents: Documents) -> tuple[Ints, Ints, Floats]:
    """`indptr`, `indices` and `data` of the documents."""
    return arrays_of(documents.matrix)


def panel_arrays(documents: Documents) -> tuple[Ints, Ints, Floats]:
    """As `csr_arrays`, the columns numbered as in panels: those alone that `documents.columns` holds."""
    indptr, indices, data = csr_arrays(documents)
    columns = documents.columns
    if columns is not None:
        indices = cast(Ints, documents.derive("panel indices", lambda: columns.places[indices]))
    return indptr, indices, data


def in_panel(rows: Floats, documents: Documents) -> Floats:
    """Return the panels of `rows`, whose last axis is columns."""
    return rows if documents.columns is None else np.take(rows, documents.columns.used, axis=-1)


def padded_basis(observables: Observables, documents: Documents, name: str) -> Floats:
    """The announced matrix `name` as kernels read it (`panel_of`), once a run."""
    key = ("padded", name, documents.columns)
    return cast(
        Floats, observables.derive(key, lambda: panel_of(in_panel(announced(observables, name), documents)))
    )


def products(observables: Observables, documents: Documents, name: str) -> Floats:
    """X B^T for the announced matrix B (k x d), shape (n_documents, k); exact, O(nnz k)."""

    def compute() -> Floats:
        other = _fitting(observables, documents, name)
        out = np.empty((len(documents), other.shape[0]))
        csr_times_panel(*panel_arrays(documents), padded_basis(observables, documents, name), out)
        return out

    return observables.derive(("products", name, documents), compute)


def _fitting(observables: Observables, documents: Documents, name: str) -> Floats:
    features, other = documents.matrix.shape[1], announced(observables, name)
    if other.ndim != 2 or other.shape[1] != features:
        raise InputError(f"`{name}` must have shape (k, {features}) like the documents; got {other.shape}.")
    return other


def products_beside(
    observables: Observables, documents: Documents, name: str, key: Hashable, rows: Floats
) -> Floats:
    """Products of the documents with other `rows`, in one pass with those with the announced matrix `name`."""
    first = _fitting(observables, documents, name)
    parts = [in_panel(part, documents) for part in (first, rows)]
    panel = observables.derive(("padded", name, key, documents.columns), lambda: panel_of(np.vstack(parts)))
    both = np.empty((len(documents), len(first) + len(rows)))
    csr_times_panel(*panel_arrays(documents), panel, both)
    observables.derive(("products", name, documents), lambda: np.ascontiguousarray(both[:, : len(first)]))
    return np.ascontiguousarray(both[:, len(first) :])


def wide_products(observables: Observables, documents: Documents, name: Hashable, rows: Floats) -> Singles:
    """X B^T for a B of many rows, shape (n_documents, len(rows)), in single precision: half the time of double."""
    key = ("panel", name, documents.columns)
    panel = observables.derive(key, lambda: panel_of(in_panel(rows, documents), np.float32))
    out = np.empty((len(documents), len(rows)), dtype=np.float32)
    csr_times_panel(*panel_arrays(documents), panel, out)
    return out


def gram(observables: Observables, name: str) -> Floats:
    """B B^T of the announced matrix B (k x d), shape (k, k)."""

    def compute() -> Floats:
        matrix = announced(observables, name)
        return matrix @ matrix.T

    return observables.derive(("gram", name), compute)


def mean_products(observables: Observables, documents: Documents) -> Floats:
    """<x, mean> for every document, shape (n_documents,)."""

    def compute() -> Floats:
        return np.asarray(documents.matrix @ announced(observables, "mean").ravel(), dtype=np.float64)

    return observables.derive(("mean products", documents), compute)


def basis_products(observables: Observables, documents: Documents) -> Floats:
    """X T^T for NMF, X V^T for SVD, X V^T - mu V^T where the mean mu is announced as well; (n_documents, k)."""
    name = basis_name(observables)

    def compute() -> Floats:
        raw = products(observables, documents, name)
        if not has_mean(observables):
            return raw
        return raw - announced(observables, name) @ announced(observables, "mean").ravel()

    return observables.derive(("basis products", documents), compute)


def centred_squared_norms(observables: Observables, documents: Documents) -> Floats:
    """|x|^2, or |x - mu|^2 = |x|^2 - 2 <x, mu> + |mu|^2 where the basis comes with a mean; >= 0."""
    if not has_mean(observables):
        return documents.squared_norms

    def compute() -> Floats:
        mean = announced(observables, "mean").ravel()
        size = documents.squared_norms + mean @ mean
        squares = size - 2.0 * mean_products(observables, documents)
        squares[squares < 1e-14 * size] = 0.0  # what is left of x = mu is rounding
        return squares

    return observables.derive(("centred squared norms", documents), compute)


@njit(cache=True, nogil=True)
def _rows_times(rows: Floats, form: Floats, out: Floats) -> None:
    for i in range(rows.shape[0]):
        for t in range(rows.shape[1]):
            x = rows[i, t]
            for s in range(form.shape[1]):
                out[i, s] += x * form[t, s]


def rows_times(rows: Floats, form: Floats) -> Floats:
    """`rows` (n x k) times `form` (k x m, or k), each row summed in the same order wherever it stands."""
    wide = np.ascontiguousarray(form if form.ndim == 2 else form[:, None], dtype=np.float64)
    out = np.zeros((len(rows), wide.shape[1]))
    _rows_times(np.ascontiguousarray(rows, dtype=np.float64), wide, out)
    return out if form.ndim == 2 else out[:, 0]


def row_dots(first: Floats, second: Floats) -> Floats:
    """The inner product of each row of one with the same row of the other, shape (n,)."""
    out = np.empty(len(first))
    _row_dots(np.ascontiguousarray(first), np.ascontiguousarray(second), out)
    return out


@njit(cache=True, nogil=True)
def _row_dots(first: NDArray[Any], second: NDArray[Any], out: Floats) -> None:
    for i in range(first.shape[0]):
        total = 0.0
        for t in range(first.shape[1]):
            total += np.float64(first[i, t]) * np.float64(second[i, t])
        out[i] = total


def row_squares(rows: NDArray[Any]) -> Floats:
    """The sum of each row's squares, shape (n,), in double precision and in the same order everywhere."""
    out = np.empty(len(rows))
    _row_dots(rows, rows, out)
    return out


# What is linear in the squares of a document's entries: sums over features a of x_a^2 c_a, and the largest
# x_a^2 c_a, for columns c that a run gives. One pass over the documents serves all who ask for it, in single
# precision, as stored values are; a column's sums depend on no other column, so who asks for what changes no bit.

_SINGLES = LINE // 4


@dataclass(frozen=True)
class EntryColumns:
    """Some columns c, by who fills them in."""

    count: int
    fill: Callable[[Singles], None]
    """Writes them, as in panels (`in_panel`), into an array of shape (columns, count)."""
    largest: bool = False
    """Whether the largest x_a^2 c_a are wanted, of c >= 0, and not the sums."""


def ask(observables: Observables, documents: Documents, key: Hashable, columns: EntryColumns) -> None:
    """Have columns in the next pass over the documents; `key` names what they hold among all that a run gives."""
    _asked(observables, documents).setdefault(key, columns)


def over_entries(observables: Observables, documents: Documents, key: Hashable, columns: EntryColumns) -> Singles:
    """The sums, or the largest (0 without entries), of x_a^2 c_a for each column, shape (n_documents, count)."""
    singles = cast(dict[Hashable, Singles], observables.derive(("found of entries", documents), dict))
    if key not in singles:
        ask(observables, documents, key, columns)
        wanted = {name: some for name, some in _asked(observables, documents).items() if name not in singles}
        singles.update(_pass(observables, documents, wanted))
    return singles[key]


def _asked(observables: Observables, documents: Documents) -> dict[Hashable, EntryColumns]:
    return cast(dict[Hashable, EntryColumns], observables.derive(("asked of entries", documents), dict))


def _pass(
    observables: Observables, documents: Documents, wanted: dict[Hashable, EntryColumns]
) -> dict[Hashable, Singles]:
    """All that is wanted; the columns of which the largest are looked for stand last."""
    order = sorted(wanted, key=lambda name: wanted[name].largest)
    tops = sum(wanted[name].count for name in order if wanted[name].largest)
    width = sum(wanted[name].count for name in order)
    lanes = -(-width // _SINGLES) * _SINGLES
    at, first = 0, {}
    for name in order:
        if wanted[name].largest and at < lanes - tops:
            at = lanes - tops
        first[name], at = at, at + wanted[name].count

    def panel() -> Singles:
        columns = documents.columns
        filled = lined((documents.matrix.shape[1] if columns is None else len(columns.used), lanes), np.float32)
        for name in order:
            wanted[name].fill(filled[:, first[name] : first[name] + wanted[name].count])
        return filled

    filled = observables.derive(("panel of entries", tuple(order), documents.columns), panel)
    out = np.empty((len(documents), lanes + _SINGLES), dtype=np.float32)
    squared_csr_times_panel(*panel_arrays(documents), filled, out)
    shift = {name: _SINGLES if wanted[name].largest else 0 for name in order}
    return {name: out[:, first[name] + shift[name] :][:, : wanted[name].count] for name in order}
