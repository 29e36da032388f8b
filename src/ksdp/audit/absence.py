r"""Bounds by a document's rarest feature, known before any run: a sum is zero where nobody has a feature.

A run holds n of N documents, all entries non-negative. Let f of them have a feature, document x among these. A
run without x shows nothing of it with chance C(N - f, n) / C(N - 1, n), or (1 - n / N)^(f - 1) where each is in by
itself, and a run with x shows something. Whoever looks has that much of TPR - FPR: a lower bound of D, exact, of
databases as an audit draws them. It ends where others' documents in every run have the feature, and with noise.

Sums of rows show all features of a run. Leading singular vectors show those of the documents that hang together:
the first one is positive on the connected part (documents and features) with the largest singular value, by Perron
and Frobenius, and zero elsewhere. The chance that a document is elsewhere is bounded, and subtracted.

The other documents are ranked by how far each moves these vectors, to first order (`pull`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import EXACT, Release
from ksdp.audit.mechanisms.factorisation.lanczos import singular_rows
from ksdp.audit.numeric.array_types import Floats, Ints

_CERTAIN = 1e-6
"""A draw that misses all of some documents with at most this chance makes their feature a hub."""


@dataclass(frozen=True, eq=False)
class Absence:
    """Lower bounds that follow from the rarest feature of each document, shape (n_documents,) each."""

    bound: Floats
    """Lower bound of D; 0 where nothing is proved."""
    feature: Ints
    holders: Ints
    """Documents to draw from that have it, the document itself included."""


@dataclass(frozen=True, eq=False)
class ProvedSensitive:
    """Units that absence proves to be above the margin: an audit spends no runs and no level on them."""

    units: Ints
    """Ascending."""
    bound: Floats


def absence_shown(releases: Iterable[Release]) -> str:
    """How exact releases show features that no document of the run has: `sum`, `factor`, or empty: not."""
    every = tuple(releases)
    exact = {a.name for a in every if a.noise == EXACT and not a.derived_from}
    moments = [(a.name, a.terms) for a in every if a.terms and a.terms.form == "moments"]
    if {terms.centre for _, terms in moments} & exact:
        return "sum"
    own = (terms.basis == name and not terms.centre for name, terms in moments if name in exact)
    return "factor" if any(own) else ""


def absence_bounds(
    rows: sp.csr_array,
    size: int,
    shown: str,
    *,
    poisson: bool = False,
    others: sp.csr_array | None = None,
    entering: int | None = None,
) -> Absence:
    """Lower bounds of D of each of the documents (or groups), a row each, of which a run draws `size`."""
    documents, features = rows.shape
    best, feature = np.zeros(documents), np.zeros(documents, np.int64)
    parts = [rows] if others is None else [rows, others]
    having = [np.bincount(part.indices[part.data != 0], minlength=features) for part in parts]
    if shown and size < documents and min(part.data.min(initial=0.0) for part in parts) >= 0:
        chance = _none_drawn(having[0] - 1, size, documents - 1, poisson)
        if others is not None:
            chance *= _none_drawn(having[1], others.shape[0] if entering is None else entering, others.shape[0])
        value = np.where(rows.data > 0, chance[rows.indices], 0.0)
        best = _largest(rows, value)
        row = np.repeat(np.arange(documents), np.diff(rows.indptr))
        at = np.flatnonzero(value == best[row])
        feature[row[at]] = rows.indices[at]
        if shown == "factor":
            best = np.maximum(best - _apart_chance(rows, size, poisson, others), 0.0)
    return Absence(best, feature, having[0][feature])


def pull(rows: sp.csr_array, size: int, rank: int) -> Floats:
    """How far each document moves V to first order, beside how far the others of a run do, shape (n,)."""
    part, squares = size / rows.shape[0], rows.multiply(rows).tocsr()
    weights = np.square(np.asarray(rows @ singular_rows(rows, rank, np.ones(rows.shape[1])).rows.T))
    others = part * (1.0 - part) * np.asarray(squares.T @ weights)
    chances = np.asarray(squares @ np.divide(1.0, others, out=np.zeros_like(others), where=others > 0))
    return np.asarray(np.sqrt((weights * chances).sum(axis=1)))


def _none_drawn(marked: NDArray[np.integer], draws: int, among: int, poisson: bool = False) -> Floats:
    """The chance that a draw of so many has none of the marked; with `poisson`, of one more by themselves."""
    at = np.arange(int(marked.max(initial=0)))
    factors = np.maximum(among - draws - at, 0) / np.maximum(among - at, 1)
    if poisson:
        factors = np.full(len(at), 1.0 - draws / (among + 1))
    return np.asarray(np.concatenate(([1.0], np.cumprod(factors)))[np.maximum(marked, 0)], np.float64)


def _largest(rows: sp.csr_array, values: Floats) -> Floats:
    """The largest of the values at each row's entries; 0 where it has none."""
    best, full = np.zeros(rows.shape[0]), np.diff(rows.indptr) > 0
    best[full] = np.maximum.reduceat(values, rows.indptr[:-1][full]) if full.any() else 0.0
    return best


def _apart_chance(rows: sp.csr_array, size: int, poisson: bool, others: sp.csr_array | None) -> Floats:
    """Upper bound of the chance that a run with a document has it outside its leading part, shape (n,)."""
    # Hubs: the feature that most documents have and, step by step, each that stands beside a hub in so many that
    # no draw misses all of these. Documents with a hub hang together but for the sum of these chances.
    documents, features = rows.shape
    has = sp.csr_array((np.asarray(rows.data != 0, np.float64), rows.indices, rows.indptr), shape=rows.shape)
    hubs, apart, fresh = np.zeros(features), 0.0, np.array([int(np.argmax(has.sum(axis=0)))])
    while len(fresh):
        hubs[fresh] = 1.0
        linked = np.asarray(has @ hubs) > 0
        beside = np.asarray(has.T @ linked.astype(np.float64), np.int64)
        missed = _none_drawn(beside - 1, size - 1, documents - 1, poisson)
        fresh = np.flatnonzero((missed <= _CERTAIN) & (hubs == 0))
        apart += float(missed[fresh].sum())
    alone = np.where(linked, 0.0, 1.0 - _largest(rows, np.where(rows.data != 0, 1.0 - missed[rows.indices], 0.0)))
    # Documents without a hub may have a larger singular value by themselves: squared, at most the largest row sum
    # of X X^T. That of the hubs' part is at least ||X w||^2, for w >= 0 of length 1: a sum over the draw of mean m
    # and second moment s, below a with chance exp(-(m - a)^2 / 2 s) (Maurer 2003; Hoeffding 1963, theorem 4).
    loose = [rows[np.flatnonzero(~linked)]]
    loose += [] if others is None else [others[np.flatnonzero(np.asarray((others != 0) @ hubs) == 0)]]
    limit = sum(float((part @ (part.T @ np.ones(part.shape[0]))).max(initial=0.0)) for part in loose)
    if limit > 0.0:
        mean = np.asarray(rows.sum(axis=0)).ravel()  # nearly the leading direction
        scores = np.asarray(rows @ (mean / np.linalg.norm(mean))) ** 2 * linked
        above = (size - 1) / (documents - 1) * float(scores.sum() - scores.max()) - limit
        spread = 2 * size / documents * float(scores @ scores)
        apart += float(np.exp(-(above**2) / spread)) if above > 0 else 1.0
    return np.minimum(alone + apart, 1.0)
