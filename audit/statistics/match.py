"""The strongest linear attacks on a basis: matched filters that know what databases are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.expected import expected
from ksdp.audit.statistics.expected_topics import coefficients_under, expected_topics
from ksdp.audit.statistics.products import announced, csr_arrays, has_mean, row_dots, rows_times

__all__ = ["BasisMatch", "TopicsMatch"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BasisMatch:
    """How the announced V differs from the expected one, by what the document would have added to it.

    <C^-1 (w_x^T e_x), Z> for the coefficients w_x of x under the expected vectors, what these leave of it, e_x,
    and the sum Z that the run's V is solved from (`expected`); C is its covariance over databases (`additions`).
    It is the likelihood ratio of the linear, normal model, which no energy of x in V comes near to.
    """

    name: str = "basis-match"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("V",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where there are too few documents to expect a V."""
        found = announced(observables, "V")
        picture = expected(_pool(documents), len(found), has_mean(observables))
        if picture is None:
            return np.zeros(len(documents))

        def rows() -> Floats:
            return np.vstack([picture.additions.filtered(picture.sums(found)), picture.basis])

        filter_and_basis = cast(Floats, observables.derive(("basis match", picture), rows))
        both = _products(documents, filter_and_basis) - filter_and_basis @ picture.additions.mean
        filtered, weights = both[:, : len(found)], both[:, len(found) :]
        return row_dots(filtered, weights)


@dataclass(frozen=True)
class TopicsMatch:
    """How the announced topics differ from the expected ones, by what the document would have added to them.

    As `BasisMatch`, with nonnegative coefficients and the sum that topics are stationary for (`expected_topics`).
    """

    name: str = "topics-match"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("T",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where nothing is known of what is expected."""
        found = announced(observables, "T")
        picture = expected_topics(_pool(documents), len(found))
        if picture is None:
            return np.zeros(len(documents))
        topics = picture.topics

        def rows() -> Floats:
            return np.vstack([picture.additions.filtered(picture.sums(found)), topics])

        filter_and_topics = cast(Floats, observables.derive(("topics match", picture), rows))
        both = _products(documents, filter_and_topics)
        filtered, weights = both[:, : len(found)], coefficients_under(topics, both[:, len(found) :])
        explained = rows_times(weights, topics @ filter_and_topics[: len(found)].T)
        return row_dots(filtered - explained, weights)


def _products(documents: Documents, rows: Floats) -> Floats:
    out = np.empty((len(documents), len(rows)))
    csr_times_panel(*csr_arrays(documents), panel_of(rows), out)
    return out


def _pool(documents: Documents) -> Pool:
    if documents.pool is not None:
        return documents.pool
    return _as_pool(documents.population or documents)


def _as_pool(documents: Documents) -> Pool:
    made = documents.__dict__.get("as_pool")
    if made is None:
        made = documents.__dict__["as_pool"] = Pool(documents.matrix)
    return cast(Pool, made)
