"""The strongest linear attack on singular vectors: a matched filter that knows what databases are drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.expected import Expected, expected
from ksdp.audit.statistics.products import announced, csr_arrays, has_mean, row_dots

__all__ = ["BasisMatch"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BasisMatch:
    """How the announced V differs from the expected one, by what the document would have added to it.

    sum_t <x, v_t> <x, G_t> for the expected vectors v_t, where G is the run's difference by the inverse of its
    covariance over all documents (`expected`): the likelihood ratio of the linear, normal model, which no energy
    of x in V comes near to. Of V with many columns the entries' variances stand for the covariance.
    """

    name: str = "basis-match"
    version: int = 1
    family: str = "geometry"
    needs: tuple[str, ...] = ("V",)
    reads: tuple[str, ...] = ("mean",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where there are too few documents to expect a V."""
        found = announced(observables, "V")
        picture = expected(_pool(documents), len(found), has_mean(observables))
        if picture is None:
            return np.zeros(len(documents))
        rows = cast(Floats, observables.derive(("basis match", picture), lambda: _rows(found, picture)))
        both = np.empty((len(documents), len(rows)))
        csr_times_panel(*csr_arrays(documents), panel_of(rows), both)
        both -= rows @ picture.mean
        return row_dots(both[:, : picture.rank], both[:, picture.rank :])


def _rows(found: Floats, picture: Expected) -> Floats:
    return np.vstack([picture.filtered(picture.sums(found)), picture.basis])


def _pool(documents: Documents) -> Pool:
    if documents.pool is not None:
        return documents.pool
    return _as_pool(documents.population or documents)


def _as_pool(documents: Documents) -> Pool:
    made = documents.__dict__.get("as_pool")
    if made is None:
        made = documents.__dict__["as_pool"] = Pool(documents.matrix)
    return cast(Pool, made)
