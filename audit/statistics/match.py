"""The strongest linear attacks on a basis: matched filters that know what databases are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.expected import Expected, expected
from ksdp.audit.statistics.expected_topics import ExpectedTopics, coefficients_under, expected_topics
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
        picture = expected(documents.made_of, len(found), has_mean(observables))
        if picture is None:
            return np.zeros(len(documents))
        _, filtered, weights = _matched(observables, documents, found, picture)
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
        picture = expected_topics(documents.made_of, len(found))
        if picture is None:
            return np.zeros(len(documents))
        rows, filtered, products = _matched(observables, documents, found, picture)
        weights = coefficients_under(picture.topics, products)
        return row_dots(filtered - rows_times(weights, picture.topics @ rows.T), weights)


def _matched(
    observables: Observables, documents: Documents, found: Floats, picture: Expected | ExpectedTopics
) -> tuple[Floats, Floats, Floats]:
    """The run's filter, shape (k, d), and products of the centred documents with it and with what is expected."""

    def compute() -> Floats:
        return np.vstack([picture.additions.filtered(picture.sums(found)), picture.additions.basis])

    rows = cast(Floats, observables.derive(("matched", picture), compute))
    both = np.empty((len(documents), len(rows)))
    csr_times_panel(*csr_arrays(documents), panel_of(rows), both)
    both -= rows @ picture.additions.mean
    return rows[: len(found)], both[:, : len(found)], both[:, len(found) :]
