"""The strongest linear attacks on a basis: matched filters that know what databases are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.additions import Additions
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.expected import Expected, expected
from ksdp.audit.statistics.expected_topics import ExpectedTopics, coefficients_under, expected_topics
from ksdp.audit.statistics.products import (
    announced,
    csr_arrays,
    has_mean,
    products_beside,
    row_dots,
    rows_times,
)
from ksdp.audit.statistics.rated_match import are_rated, topics_of_ratings


@dataclass(frozen=True)
class BasisMatch:
    """How the announced V differs from the expected one, by what the document would have added to it.

    <C^-1 (w_x^T e_x), Z> for the coefficients w_x of x under the expected vectors, what these leave of it, e_x,
    and the sum Z that the run's V is solved from (`expected`); C is its covariance over databases (`additions`).
    It is the likelihood ratio of the linear, normal model, which no energy of x in V comes near to.
    """

    sentence = "Whether the announced directions moved the way this document would move them, best weighed."

    name: str = "basis-match"
    version: int = 5
    family: str = "geometry"
    needs: tuple[str, ...] = ("V",)
    of_expected: ClassVar[bool] = True

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
    Of ratings that sum is over stored entries, and taken at the run's own topics (`rated_match`).
    """

    sentence = "Whether the announced topics moved the way this document would move them, best weighed."

    name: str = "topics-match"
    version: int = 4
    family: str = "geometry"
    needs: tuple[str, ...] = ("T",)
    of_expected: ClassVar[bool] = True

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where nothing is known of what is expected."""
        found = announced(observables, "T")
        if are_rated(documents):
            return topics_of_ratings(self.name, observables, documents, found)
        picture = expected_topics(documents.made_of, len(found))
        if picture is None:
            return np.zeros(len(documents))
        rows, filtered, _ = _matched(observables, documents, found, picture)
        weights = documents.of_each(("weights under", picture), lambda all_: _weights(all_, picture))
        return row_dots(filtered - rows_times(weights, picture.topics @ rows.T), weights)


def _weights(documents: Documents, picture: ExpectedTopics) -> Floats:
    """Coefficients of the documents under the expected topics."""
    return coefficients_under(picture.topics, _expected_products(documents, picture))


def _expected_products(documents: Documents, picture: Expected | ExpectedTopics) -> Floats:
    return documents.of_each(("expected", picture), lambda all_: _centred(all_, picture.additions))


def _matched(
    observables: Observables, documents: Documents, found: Floats, picture: Expected | ExpectedTopics
) -> tuple[Floats, Floats, Floats]:
    """The run's filter, shape (k, d), and products of the centred documents with it and with what is expected."""
    additions, name = picture.additions, "V" if isinstance(picture, Expected) else "T"
    rows = cast(Floats, observables.derive(("matched", picture), lambda: additions.filtered(picture.sums(found))))
    filtered = products_beside(observables, documents, name, ("matched", picture), rows)
    if additions.mean.any():
        filtered = filtered - rows @ additions.mean
    return rows, filtered, _expected_products(documents, picture)


def _centred(documents: Documents, additions: Additions) -> Floats:
    """Products of the centred documents with what is expected of any run."""
    products = np.empty((len(documents), len(additions.basis)))
    csr_times_panel(*csr_arrays(documents), panel_of(additions.basis), products)
    return products - additions.basis @ additions.mean
