"""What a record would have put into PEM's announced sums, held against those sums.

Noise is Laplace and the others' records are unknown, so the inner product of a record's own vector with the
noisy sum, added up over the iterations, is the natural first-order test for "it is in there". Every state is
public, so the adversary who suspects a record computes its vector exactly as its client would.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.computed import Computed
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import announced


def _own_cluster(documents: Documents, centres: Floats) -> NDArray[np.int64]:
    """Number of the nearest centre of each document, shape (n_documents,)."""
    return np.asarray(np.argmin((centres**2).sum(axis=1) - 2.0 * (documents.matrix @ centres.T), axis=1))


def own_sum(observables: Observables, documents: Documents) -> Floats:
    """k-means: sum over the iterations of <x, sum of the cluster that x is in>, clusters as announced."""
    every = np.arange(len(documents))
    total = np.zeros(len(documents))
    for sums, centres in zip(announced(observables, "sums"), announced(observables, "centres"), strict=True):
        own = _own_cluster(documents, centres)
        total += (documents.matrix @ sums.T)[every, own]
    return total


def own_gradient(observables: Observables, documents: Documents) -> Floats:
    """Logistic regression: sum over the iterations of <gradient of x, sum of the gradients>.

    The gradient is (sigma(w^T x) - y) x with the announced w; y is the column that the mechanism announces.
    """
    weights, gradients = announced(observables, "weights"), announced(observables, "gradients").copy()
    label = int(announced(observables, "label")[0])
    y = np.asarray(documents.matrix[:, [label]].toarray()).ravel()
    gradients[:, label] = 0.0
    off = expit(documents.matrix @ weights.T) - y[:, None]
    return np.asarray((off * (documents.matrix @ gradients.T)).sum(axis=1), dtype=np.float64)


def own_counts(observables: Observables, documents: Documents) -> Floats:
    """Apriori: sum of the announced counts of the items and pairs that the document holds."""
    held = (documents.matrix != 0).astype(np.float64)
    pairs = held @ announced(observables, "pairs")
    return np.asarray(held @ announced(observables, "items") + held.multiply(pairs).sum(axis=1)).ravel()


def own_size(observables: Observables, documents: Documents) -> Floats:
    """k-means: sum over the iterations of the announced size of the document's own cluster."""
    total = np.zeros(len(documents))
    for counts, centres in zip(announced(observables, "counts"), announced(observables, "centres"), strict=True):
        total += counts[_own_cluster(documents, centres)]
    return total


PEM: tuple[Statistic, ...] = (
    Computed("pem-own-counts", 1, "pem", own_counts, needs=("items", "pairs")),
    Computed("pem-own-gradient", 1, "pem", own_gradient, needs=("gradients", "weights", "label")),
    Computed("pem-own-size", 1, "pem", own_size, needs=("counts", "centres")),
    Computed("pem-own-sum", 1, "pem", own_sum, needs=("sums", "centres")),
)
"""What the entry point gives."""
