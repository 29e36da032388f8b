"""A mechanism and a statistic of one's own: the sum of all documents with noise, and which of them point along it.

`ksdp audit noisy-sum.toml` finds this file beside the spec. Once it is good, an entry point of group
`ksdp.mechanisms` or `ksdp.statistics` gives it a name everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import ksdp
from ksdp.audit.contract import Database, Observables, Release
from ksdp.audit.statistic import Documents


@dataclass(frozen=True)
class NoisySum:
    """Announces the sum of all parties' documents, with Gaussian noise."""

    noise: float = 1.0
    """Standard deviation; a key of the spec's [mechanism]."""

    name = "noisy-sum"
    version = 1  # one more whenever what a run computes changes; runs of edited code are other runs in any case

    def releases(self, features: int) -> tuple[Release, ...]:
        """Names and shapes of what `run` returns, known before any run."""
        return (Release("total", (features,), final=True),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """The parties' matrices are CSR, the victim's first; `ksdp.noise` declares what `rng` adds."""
        total = sum(np.asarray(party.sum(axis=0)).ravel() for party in database.parties)
        return Observables({"total": ksdp.noise(total, rng, scale=self.noise)})


@dataclass(frozen=True)
class AlongTheSum:
    """Inner product of the document with the announced sum: large if the document is in it."""

    name: str = "along-the-sum"
    version: int = 1
    family: str = "examples"
    needs: tuple[str, ...] = ("total",)

    def evaluate(self, observables: Observables, documents: Documents) -> np.ndarray:
        """One number a document, shape (n_documents,), all documents at once."""
        return np.asarray(documents.matrix @ observables["total"], dtype=np.float64)


along_the_sum = AlongTheSum()
