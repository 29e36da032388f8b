"""The matched filter on noisy sums over documents: linear equations in who is in, with noise of known size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, cast

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.equations import Equations, added_variance, own_mechanism, what_they_say
from ksdp.audit.statistics.little_noise import Equated
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_products import LOST

Added = Callable[[str, Floats], float]
"""The variance of what `noisy` added to each entry of an announced array, given its name and the array."""

Adds = Callable[[sp.csr_array], TermNumbers]
"""What each document adds to the sums of a run."""


def nothing_added(name: str, array: Floats) -> float:
    """The variance of what was added to an array, where nobody added anything."""
    return 0.0


class NoisySums(Protocol):
    """A mechanism that releases, with noise, sums of what each document adds, given what was released before."""

    def as_equations(self, observables: Observables, pool: Pool, added: Added) -> tuple[Adds, Equations]:
        """What documents add to the sums of a run, and these sums, where databases are made of `pool`.

        The variance of an entry is that of the mechanism's own noise and what was `added` on top of it.
        """
        ...


@dataclass(frozen=True)
class ReleasesMatch:
    """Whether the noisy sums of all iterations hold what the document would have added to them.

    As `SumsMatch`: what an iteration is computed from was announced before, so that a document adds what its party
    would have, as it is; of noise the size is public. Where noise is nearly all there is, this is the product of
    what the document adds with the sums, and is approached by steps; where there is little, only other documents
    hide one, and it is solved for where these are few (`solved_filters`; of small sums `max_entropy`).

    Parameters
    ----------
    needs : tuple of str
        The observables that `as_equations` reads.
    """

    sentence = "Whether the noisy sums hold what this document adds to them, best weighed."

    needs: tuple[str, ...] = ("sums",)
    name: str = "releases-match"
    version: int = 5
    family: str = "rounds"

    def equations_of(self, observables: Observables, pool: Pool) -> Equated:
        """What documents add to the sums of a run, and these sums."""
        own: NoisySums = own_mechanism(pool.mechanism)

        def added(name: str, array: Floats) -> float:
            return added_variance(pool.mechanism, name, array)

        def made() -> tuple[Adds, Equations]:
            adds, known = own.as_equations(observables, pool, added)
            return adds, replace(known, noise=known.noise + LOST * float(np.square(known.sums).mean()))

        adds, known = cast(tuple[Adds, Equations], observables.derive((self.name, "equations", pool), made))

        def terms(rows: sp.csr_array) -> TermNumbers:
            return adds(rows)

        return terms, known

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        return what_they_say(self.name, observables, documents, *self.equations_of(observables, documents.made_of))


def moment_numbers(rows: sp.csr_array, blocks: Floats) -> TermNumbers:
    """x <x, z> of each document, for the rows z of each block in turn."""
    flat = np.ascontiguousarray(blocks.reshape(-1, blocks.shape[-1]))
    weights = np.empty((rows.shape[0], len(flat)))
    csr_times_panel(rows.indptr, rows.indices, rows.data, panel_of(flat), weights)
    return TermNumbers.plain(rows, weights)
