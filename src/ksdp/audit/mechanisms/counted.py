"""A vocabulary agreed by secure document counts: which columns stay is the first thing that a run announces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import (
    EXACT,
    OPENS,
    Database,
    Guarantee,
    Mechanism,
    Observables,
    Release,
    Statistic,
    Terms,
    measured,
    traits_of,
)
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.delegation import DelegatingMechanism
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.parameters import check_least
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.statistics.linear.counts import COUNTS, DOCUMENT_COUNTS, KEPT_COLUMNS

CAN_FOLLOW = ("pd-nmf", "pd-pca", "pd-svd", "sigma-svd")
"""Mechanisms that run on the columns that are left."""
_STARTS = ("random", "random-2x", "nnsvd")


@dataclass(frozen=True)
class Counted(DelegatingMechanism):
    """Counts in how many documents each candidate column is, keeps those in `at_least` so many, runs on these.

    The columns of the corpus are the candidates: they are public. One secure sum counts in how many documents each
    has an entry other than 0, over all parties and exactly; everybody derives the same columns from it, and
    another mechanism runs on these columns of the rows as they are. Releases ``document_counts``, those of
    documents outside the coalition; ``kept_columns``, 1 where a column stays; and what the other mechanism
    releases, with zeros in the columns that went.

    A column whose count is small tells who is in by itself, and counts are as many linear equations in who is in
    as there are candidates (`linear-counts`). `at_least` bounds what the other mechanism releases, not what the
    counts do.

    Parameters
    ----------
    mechanism : {"pd-nmf", "pd-pca", "pd-svd", "sigma-svd"}; it opens every round, and is of no ratings
    at_least : m, at least 1: columns in fewer documents of all parties go
    parameters, mechanism_version : of the other mechanism; filled in

    Examples
    --------
    >>> rows = sp.csr_array([[1.0, 0.0, 2.0, 0.0], [3.0, 1.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0]])
    >>> counted = Counted("pd-svd", at_least=2, parameters={"rank": 1})
    >>> seen = counted.run(Database((rows[:1], rows[1:])), np.random.default_rng(0))
    >>> seen["document_counts"], seen["kept_columns"], np.abs(seen["V"]).round(2)
    (array([3., 1., 2., 0.]), array([1., 0., 1., 0.]), array([[0.92, 0.  , 0.38, 0.  ]]))
    """

    name: ClassVar[str] = "counted"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = measured(
        "this package", "A measurement. Counts of documents are announced as they are, without noise."
    )

    mechanism: str = "pd-nmf"
    at_least: int = 2
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    mechanism_version: int | None = None

    def __post_init__(self) -> None:
        check_least(self, at_least=1)
        if self.mechanism not in CAN_FOLLOW:
            raise SpecError(
                f"`mechanism` must be {', '.join(CAN_FOLLOW)} after counts of documents; got {self.mechanism!r}."
            )
        if not isinstance(self.parameters, Mapping):
            raise SpecError("`parameters` must be a table: those of the other mechanism.")
        inner = self.inner
        traits = traits_of(inner)
        if traits.opens != OPENS[0]:
            raise SpecError(f"`opens` must be {OPENS[0]!r} after counts of documents: a run on shares takes none.")
        if traits.weighted:
            raise SpecError("`weighted` must be false after counts of documents: who rated what is no vocabulary.")
        if isinstance(inner, PDNMF) and inner.start not in _STARTS:
            raise SpecError(
                f"`start` must be one of {', '.join(_STARTS)} after counts of documents; got {inner.start!r}."
            )
        self.fill_in()

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Those of the counts and of the columns that are left."""
        return COUNTS

    def releases(self, features: int) -> tuple[Release, ...]:
        """The counts, the columns that are left, and what the other mechanism releases, for so many candidates."""
        counts = Release(DOCUMENT_COUNTS, (features,), Terms("counts"), EXACT)
        return (
            counts,
            Release(KEPT_COLUMNS, (features,), noise=EXACT, final=True),
            *self.inner.releases(features),
        )

    def kept(self, counts: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which columns stay, by the counts of all parties."""
        kept = np.asarray(counts >= self.at_least)
        left = int(kept.sum())
        if not left:
            raise CorpusError(f"`at_least` = {self.at_least} leaves none of {len(counts)} columns: lower it.")
        try:
            self.inner.releases(left)
        except SpecError as error:
            raise CorpusError(
                f"`at_least` = {self.at_least} leaves {left} of {len(counts)} columns, too few for "
                f"{self.mechanism}: {error}"
            ) from None
        return kept

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Count, then run the other mechanism on the columns that are left."""
        counts = [document_counts(part) for part in database.parties]
        kept = self.kept(np.sum(counts, axis=0))
        outside = np.sum([counts[party] for party in database.outside], axis=0)
        seen = self.within(database, kept, rng)
        return Observables({DOCUMENT_COUNTS: outside, KEPT_COLUMNS: kept.astype(np.float64), **seen})

    def within(self, database: Database, kept: NDArray[np.bool_], rng: np.random.Generator) -> Observables:
        """What the other mechanism announces of the rows in some of the columns, in the candidates' columns."""
        chosen = (np.flatnonzero(kept), len(kept))
        parties = tuple(part[:, kept] for part in database.parties)
        seen = self.inner.run(Database(parties, database.coalition, database.held, chosen), rng)
        return Observables(widened(self.inner, seen, kept))


def document_counts(rows: sp.csr_array) -> NDArray[np.float64]:
    """In how many rows each column has an entry other than 0, shape (d,).

    Examples
    --------
    >>> document_counts(sp.csr_array([[0.5, 0.0], [2.0, -1.0]]))
    array([2., 1.])
    """
    indices, data = np.asarray(rows.indices), np.asarray(rows.data)
    return np.bincount(indices[data != 0], minlength=rows.shape[1]).astype(np.float64)


def widened(mechanism: Mechanism, seen: Mapping[str, Any], kept: NDArray[np.bool_]) -> dict[str, Any]:
    """What a mechanism announced of some columns, as of all, with zeros in those that went.

    Columns are along the last axis; an array whose last axis is no shorter with fewer of them stays as it is.
    """
    left = {a.name: a.shape for a in recorded(mechanism, int(kept.sum()))}
    arrays = dict(seen)
    for announced in recorded(mechanism, len(kept)):
        if announced.name not in seen or announced.shape[-1:] == left[announced.name][-1:]:
            continue
        wide = np.zeros((*np.shape(seen[announced.name])[:-1], announced.shape[-1]))
        wide[..., kept] = seen[announced.name]
        arrays[announced.name] = wide
    return arrays
