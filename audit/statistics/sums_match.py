r"""The best linear look at the raw sums of NMF's sweeps together, for who knows the document and the population.

The start is public, and every topic follows from the announced sums. So whoever holds a document repeats what its
party did with it: in sweep s and topic t it added :math:`\phi_{st}(x) = w_{st} (x - \sum_{u \ne t} w_u T_u)` to
the announced sum :math:`S_{st}`. All sweeps are one vector :math:`\phi(x)`, and a run announces the sum of its
documents'. The matched filter

.. math:: (\phi(x) - \bar\phi)^T (\Sigma + \lambda I)^{-1} (S - \hat n \bar\phi)

looks for it where other documents vary least, sweeps and topics together: what one sweep says of the document is
small beside what the differences between sweeps say. Mean and covariance are those of a sample of the population
in this very run, n the number of documents that fits best.

It is worked out in the dual, on the Gram matrix of the sample, whose entries are inner products of rows of the
sample, less products of their few coefficients; nothing of topics x features x sample is ever made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.lanes import csr_times_panel, panel_of
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.mechanisms.factorisation.simplex import project_simplex
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.products import announced, csr_arrays

__all__ = ["SumsMatch"]

Floats = NDArray[np.float64]

_SAMPLE = 320
"""Documents that stand for the population; a run costs this number's cube."""


@dataclass(frozen=True)
class SumsMatch:
    """The matched filter above, up to a factor.

    With next to no shrinkage it solves for who was in: where the population is hardly larger than what is
    announced of it, its sums have few solutions. With more it is for populations that a sample stands for.
    """

    name: str
    shrinkage: float
    """lambda, as a part of the mean of the Gram matrix's diagonal."""
    version: int = 1
    family: str = "solved-sums"
    """Not among the defaults: nobody has shown yet where it is enough."""
    needs: tuple[str, ...] = ("sums", "weights")
    needs_background: tuple[str, ...] = ("start",)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""
        everybody = documents.population or documents
        sample = cast(
            _Sampled, observables.derive(("sums of a sample", everybody), lambda: _sampled(observables, everybody))
        )
        key = ("paths in sums", everybody, documents)
        path = cast(_Path, observables.derive(key, lambda: _Path(documents, sample.topics)))
        weights = _weights(sample, announced(observables, "sums"), self.shrinkage)
        return path.dots(weights) - float(sample.path.dots(weights).mean())


def _times(documents: Documents, rows: Floats) -> Floats:
    """X B^T, each row in the same order wherever it stands."""
    out = np.empty((len(documents), len(rows)))
    csr_times_panel(*csr_arrays(documents), panel_of(rows), out)
    return out


def _topics(observables: Observables, start: Floats) -> list[Floats]:
    """Start, and topics after each of the first sweeps, from their sums."""
    found = [start]
    for sums, weights in zip(announced(observables, "sums"), announced(observables, "weights"), strict=True):
        topics = found[-1].copy()
        for t in np.flatnonzero(weights > 0):
            topics[t] = project_simplex(np.maximum(sums[t], 0.0) / weights[t])
        found.append(topics)
    return found


class _Path:
    """What documents do in the first sweeps: their coefficients whenever a sum is made."""

    def __init__(self, documents: Documents, topics: list[Floats]) -> None:
        self.documents, self.current = documents, []
        sweeps, k = len(topics) - 1, len(topics[0])
        fits = [_times(documents, each) for each in topics]
        now = np.zeros((len(documents), k))
        # One column a step: a sweep's topic.
        self.weights = np.empty((len(documents), sweeps * k))
        self.others: list[Floats] = []
        self.fits: list[Floats] = []
        for step in range(sweeps * k):
            s, t = divmod(step, k)
            new = np.arange(k) < t
            topic = np.where(new[:, None], topics[s + 1], topics[s])
            inner = (topic * topic[t]).sum(axis=1)
            rest = fits[s][:, t].copy()
            now[:, t] = 0.0
            for u in range(k):
                rest -= now[:, u] * inner[u]
            self.current.append(topic)
            self.others.append(now.copy())
            self.fits.append(np.where(new, fits[s + 1], fits[s]))
            now[:, t] = np.maximum(rest, 0.0) / inner[t] if inner[t] > 0 else 0.0
            self.weights[:, step] = now[:, t]

    def dots(self, vector: Floats) -> Floats:
        """<phi(x), v> for every document; v of shape (sweeps, k, features)."""
        flat = vector.reshape(-1, vector.shape[-1])
        along = _times(self.documents, flat)
        out = np.zeros(len(along))
        for step, (topics, others) in enumerate(zip(self.current, self.others, strict=True)):
            part, inner = along[:, step].copy(), topics @ flat[step]
            for u in range(len(inner)):
                part -= others[:, u] * inner[u]
            out += self.weights[:, step] * part
        return out

    def gram(self, rows: Floats) -> Floats:
        """<phi(x), phi(z)> for all pairs, `rows` being <x, z>."""
        left, right = [], []
        for step, (topics, others, fits) in enumerate(zip(self.current, self.others, self.fits, strict=True)):
            weight = self.weights[:, step : step + 1]
            left += [weight * others, -weight * fits]
            right += [weight * (others @ (topics @ topics.T) - fits), weight * others]
        crossed = np.concatenate(left, axis=1) @ np.concatenate(right, axis=1).T
        return np.asarray(rows * (self.weights @ self.weights.T) + crossed)

    def combined(self, shares: Floats) -> Floats:
        """sum_x c_x phi(x), shape (sweeps * k, features)."""
        weights = self.weights * shares[:, None]
        out = np.asarray((self.documents.matrix.T @ weights).T)
        for step, (topics, others) in enumerate(zip(self.current, self.others, strict=True)):
            out[step] -= (others.T @ weights[:, step]) @ topics
        return out


@lru_cache(maxsize=4)
def _sample(everybody: Documents) -> tuple[Documents, Floats]:
    """Some of the population, at even steps, and the inner products of its rows."""
    matrix = sp.csr_array(everybody.matrix[:: -(-len(everybody) // _SAMPLE)])
    return Documents(matrix), np.asarray((matrix @ matrix.T).toarray())


@dataclass(frozen=True, eq=False)
class _Sampled:
    """The sample in one run."""

    topics: list[Floats]
    """At the beginning of each sweep and after the last, shape (k, features)."""
    path: _Path
    number: float
    """Documents in the run, as fits best: with so many nothing is left along the mean."""
    centred: Floats
    """Inner products of phi(z) - mean."""
    left: Floats
    """Of these and of S less what was expected."""


def _sampled(observables: Observables, everybody: Documents) -> _Sampled:
    sample, rows = _sample(everybody)
    topics = _topics(observables, np.asarray(everybody.background["start"], dtype=np.float64))
    path = _Path(sample, topics)
    gram, seen = path.gram(rows), path.dots(announced(observables, "sums"))
    means = gram.mean(axis=0)
    number = float(seen.mean() / means.mean()) if means.mean() > 0 else 0.0
    left = seen - number * means
    centred = gram - means - means[:, None] + means.mean()
    return _Sampled(topics, path, number, centred, left - left.mean())


def _weights(sample: _Sampled, sums: Floats, shrinkage: float) -> Floats:
    """S less what was expected, seen through the inverse covariance, shape (sweeps, k, features)."""
    size = len(sample.left)
    ridge = max(shrinkage * float(np.trace(sample.centred)) / size, float(np.finfo(np.float64).tiny))
    system = sample.centred + ridge * np.eye(size)
    factor = scipy.linalg.cho_factor(system, check_finite=False, overwrite_a=True)
    shares = cast(Floats, scipy.linalg.cho_solve(cast(Any, factor), sample.left, check_finite=False))
    return np.asarray(sums - sample.path.combined(sample.number / size + shares).reshape(sums.shape))
