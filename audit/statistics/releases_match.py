"""The matched filter on the noisy sums of X^T X Z: linear equations in who is in, with noise of known size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.equations import Equations, own_mechanism, what_they_say
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.terms import Stage, Terms

__all__ = ["Moments", "ReleasesMatch"]

Floats = NDArray[np.float64]


class Moments(Protocol):
    """A mechanism that releases, with noise, sums over documents of x <x, z> for rows z that all know."""

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sums."""
        ...

    def asked(self, sums: Floats, known: sp.csr_array | None) -> tuple[Floats, Floats]:
        """The rows z of each release, shape (releases, rank, features), and the deviations of the noise.

        Parameters
        ----------
        sums : what the coalition sees of the releases, shape (releases, rank, features)
        known : the coalition's own documents, whose share is not in these
        """
        ...


@dataclass(frozen=True)
class ReleasesMatch:
    """Whether the noisy sums of a power method's iterations hold what the document would have added to them.

    As `SumsMatch`: the block that each sum is of was announced before, so that x adds x <x, z>, as it is; of noise
    the size is public.
    """

    name: str = "releases-match"
    version: int = 1
    family: str = "rounds"
    needs: tuple[str, ...] = ("sums",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        pool, sums = documents.made_of, announced(observables, "sums")
        own: Moments = own_mechanism(pool.mechanism)
        blocks, deviations = observables.derive(
            (self.name, "asked", pool), lambda: own.asked(sums, pool.fixed if pool.colluding else None)
        )

        def terms(rows: sp.csr_array, turned: sp.csr_array | None = None) -> Terms:
            bounded = own.bounded(rows)
            return moment_terms(bounded, blocks, turned if bounded is rows else None)

        noise = np.repeat(np.square(deviations), sums[0].size)
        known = Equations(sums.ravel(), noise, of_all=False)
        return what_they_say(self.name, observables, documents, terms, known)


def moment_terms(rows: sp.csr_array, blocks: Floats, turned: sp.csr_array | None = None) -> Terms:
    """x <x, z> of each document, for the rows z of each block in turn."""
    nothing, origin = np.zeros((rows.shape[0], 1)), np.zeros((1, rows.shape[1]))
    stages = []
    for block in blocks:
        weights = np.empty((rows.shape[0], len(block)))
        csr_times_panel(rows.indptr, rows.indices, rows.data, panel_of(np.ascontiguousarray(block)), weights)
        stages.append(Stage(weights, nothing, origin))
    return Terms(rows, tuple(stages), np.zeros((rows.shape[0], 0)), turned)
