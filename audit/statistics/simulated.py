"""Statistics learnt from simulated runs: the auditor runs the mechanism on databases drawn for it, and learns.

The training runs are drawn from the same pool with a seed of their own, so that a learnt rule is a fixed function
of the announced numbers when an audit's run is scored: its p-values are those of any plain statistic.

All announced numbers of a run are one vector: the numbers, standardised by the training runs, and what a linear
rule does not see of them: which entry of an array is largest and smallest, the order and equality of neighbours,
equality of arrays of one shape, signs of zeros, what single precision rounds away. One document hardly moves the
covariance of the vector, so that all share one, and in the dual each rule is ridge regression of the documents'
bits on the Gram matrix K of the training runs, factorised once for all documents.

- ``simulated-linear``: K of the vectors, Fisher's discriminant with a shrunk covariance.
- ``simulated-quadratic``: K squared, entry by entry: products of two numbers.
- ``simulated-entry``: of each document the one number, or product of two where there are few, whose mean it moves
  most. A leak in one of many numbers drowns in a ridge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal, cast

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.numeric.array_types import Floats, Ints, Vector
from ksdp.audit.numeric.bits import lost_digits, minus_zeros
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.sparse_rows import same_rows
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.linear.pilot import repeatable

SIMULATED = "simulated"
"""The family."""
TRAINING_RUNS = 1000
MOST_NUMBERS = 2**17
"""Announced numbers of a run, at most: the training runs are held in memory, in single precision."""
_SEED = 0x5EED_0F_7EA4
_FEWEST = 2
_RIDGE = 0.1
_CLIP = 8.0
_FEW = 48
"""Numbers up to which all products of two are entries."""
_MOST_ONE_HOT = 4096
_AT_ONCE = 256


@dataclass(frozen=True)
class SimulatedStatistic:
    """A rule that was learnt from simulated runs."""

    name: str
    kind: Literal["linear", "quadratic", "entry"]
    sentence: str = field(compare=False)
    reads: tuple[str, ...] = ()
    """All announced arrays that statistics may read; see `over`."""
    runs: int = TRAINING_RUNS
    """Training runs."""
    family: str = SIMULATED
    needs: tuple[str, ...] = ()
    version: int = 1

    def over(self, arrays: tuple[str, ...], runs: int) -> SimulatedStatistic:
        """The same rule, of these arrays, from as many training runs as an audit has, up to `TRAINING_RUNS`."""
        return replace(self, reads=arrays, runs=min(runs, TRAINING_RUNS))

    def asks_for(self, shapes: Mapping[str, tuple[int, ...]], documents: int) -> str:
        """Nothing, where the training runs fit into memory."""
        numbers = sum(int(np.prod(shapes[name])) for name in shapes)
        return (
            "" if numbers <= MOST_NUMBERS else f"at most {MOST_NUMBERS:,} announced numbers a run; {numbers:,} are"
        )

    def evaluate(self, observables: Observables, documents: Documents) -> Vector:
        """One number a document, shape (n_documents,), taken from those of the whole pool."""
        pool, shapes = documents.source_pool, {name: observables[name].shape for name in self.reads}
        key = (SIMULATED, self.reads, self.runs)
        rules = cast(LearntRules, pool.derive(key, lambda: train(pool, shapes, self.runs)))
        scores = observables.derive(
            (SIMULATED, self.kind, id(rules)), lambda: rules.scores(observables, self.kind)
        )
        return np.asarray(scores[documents.of_each((SIMULATED, "places"), lambda some: _places(some, pool))])


STATISTICS = (
    SimulatedStatistic(
        "simulated-linear", "linear", "A weighted sum of all announced numbers, with weights from simulated runs."
    ),
    SimulatedStatistic(
        "simulated-quadratic", "quadratic", "Products of all announced numbers, weighted by simulated runs."
    ),
    SimulatedStatistic(
        "simulated-entry", "entry", "The one announced number that the document moves most in simulated runs."
    ),
)


def features_of(observables: Observables, arrays: tuple[str, ...]) -> Floats:
    """What rules are learnt from: one vector a run."""
    parts: list[NDArray[np.floating]] = []
    flat = {name: np.asarray(observables[name], np.float64).ravel() for name in arrays}
    for numbers in flat.values():
        parts += [numbers, np.array([lost_digits(numbers).sum(), minus_zeros(numbers).sum()])]
        if 1 < len(numbers) <= _MOST_ONE_HOT:
            ends = np.zeros((2, len(numbers)))
            ends[0, numbers.argmax()] = ends[1, numbers.argmin()] = 1.0
            parts += [ends.ravel(), np.sign(np.diff(numbers))]
    for (_, one), (_, other) in pairwise(flat.items()):
        if len(one) == len(other):
            parts += [np.array([np.mean(one == other)]), np.sign(one - other)[:_MOST_ONE_HOT]]
    return np.concatenate([np.asarray(part, np.float64) for part in parts])


@dataclass(frozen=True, eq=False)
class LearntRules:
    """What the training runs say, of every document of a pool."""

    arrays: tuple[str, ...]
    varies: Ints
    centre: Floats
    scale: Floats
    vectors: NDArray[np.float32]
    """Standardised, shape (n_training_runs, n_varying)."""
    linear: Floats
    """Shape (n_training_runs, n_documents)."""
    quadratic: Floats
    entry: Ints
    """Places in the vector, or beyond it in the products, shape (n_documents,)."""

    def scores(self, observables: Observables, kind: str) -> Floats:
        """Of every document of the pool, in one order of operations whoever is measured."""
        z = observables.derive((SIMULATED, "vector", id(self)), lambda: self._vector(observables))
        if not len(z):  # nothing that is announced varies
            return np.zeros(len(self.entry))
        if kind == "entry":
            return np.asarray(_with_products(z[None])[0][self.entry])
        with one_thread():
            inner = observables.derive(
                (SIMULATED, "inner", id(self)), lambda: (self.vectors @ z).astype(np.float64) / max(len(z), 1)
            )
            weights = self.linear if kind == "linear" else self.quadratic
            return np.asarray((inner if kind == "linear" else inner**2) @ weights)

    def _vector(self, observables: Observables) -> NDArray[np.float32]:
        found = features_of(observables, self.arrays)[self.varies]
        return np.clip((found - self.centre) / self.scale, -_CLIP, _CLIP).astype(np.float32)


def _with_products(z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Vectors of runs, followed by products of two of their first numbers."""
    first, second = np.triu_indices(min(z.shape[1], _FEW), 1)
    return np.concatenate([z, z[:, first] * z[:, second]], axis=1)


def train(pool: Pool, shapes: Mapping[str, tuple[int, ...]], runs: int) -> LearntRules:
    """Run the mechanism on databases of the pool and learn who is in, document by document.

    Runs that fail, or announce other shapes or numbers that are not finite, are left out: they void an audit.

    Raises
    ------
    KsdpError
        If nobody can run the mechanism.
    """
    if pool.mechanism is None:
        raise KsdpError(
            "the statistics learnt from simulated runs need a mechanism that can be run; there is none."
        )
    rng, arrays = np.random.default_rng(_SEED), tuple(shapes)
    mechanism = repeatable(pool.mechanism)
    count = pool.drawn.shape[0]
    held, rows = [], []
    for _ in range(runs):
        places, parts = pool.one_choice(rng)
        coalition = frozenset({len(parts) - 1}) if pool.colluding and len(parts) > 1 else frozenset[int]()
        try:
            seen = mechanism.run(Database(parts, coalition), rng)
        except KsdpError:  # an audit whose run fails says so itself
            continue
        if any(name not in seen or np.shape(seen[name]) != shape for name, shape in shapes.items()):
            continue
        vector = features_of(seen, arrays)
        if np.isfinite(vector).all():
            held.append(places)
            rows.append(vector)
    if len(rows) < _FEWEST:
        raise KsdpError(
            f"only {len(rows)} of {runs} simulated runs announced what was declared; see the mechanism."
        )
    found, bits = np.stack(rows), np.zeros((len(rows), count))
    for bit, places in zip(bits, held, strict=True):
        bit[places] = 1.0
    same = same_rows(pool.drawn, pool.drawn)
    totals = np.zeros_like(bits)
    np.add.at(totals.T, same, bits.T)
    return learn(found, totals[:, same], arrays)


def learn(found: Floats, bits: Floats, arrays: tuple[str, ...]) -> LearntRules:
    """The rules of vectors (runs, numbers) and bits (runs, documents)."""
    centre, scale = found.mean(axis=0), found.std(axis=0)
    varies = np.flatnonzero(scale > 1e-12 * np.abs(centre))
    centre, scale = centre[varies], scale[varies]
    z = np.clip((found[:, varies] - centre) / scale, -_CLIP, _CLIP).astype(np.float32)
    centred = bits - bits.mean(axis=0)
    with one_thread():
        gram = (z @ z.T).astype(np.float64) / max(z.shape[1], 1)
        entry = _most_moved(_with_products(z).T.astype(np.float64), centred)
        weights = [_ridge(kernel, centred) for kernel in (gram, gram**2)]
    return LearntRules(arrays, varies, centre, scale, z, weights[0], weights[1], entry)


def _most_moved(numbers: Floats, centred: Floats) -> Ints:
    """The place of the number that each document moves most; some documents at a time, as the table is large."""
    documents = centred.shape[1]
    if not len(numbers):
        return np.zeros(documents, np.int64)
    parts = (centred[:, at : at + _AT_ONCE] for at in range(0, documents, _AT_ONCE))
    return np.concatenate([np.abs(numbers @ part).argmax(axis=0) for part in parts])


def _ridge(kernel: Floats, centred: Floats) -> Floats:
    """Weights of the training runs, shape (n_runs, n_documents), with an intercept: they sum to 0."""
    means = kernel.mean(axis=0)
    inner = kernel - means - means[:, None] + means.mean()
    ridge = _RIDGE * (float(np.trace(inner)) / len(inner) or 1.0)
    factor = scipy.linalg.cho_factor(inner + ridge * np.eye(len(inner)), check_finite=False)
    weights = scipy.linalg.cho_solve(factor, centred, check_finite=False)
    return np.asarray(weights - weights.mean(axis=0))


def _places(documents: Documents, pool: Pool) -> Ints:
    """Where the documents stand in the pool."""
    places = same_rows(documents.matrix, pool.drawn)
    if len(places) and places.min() < 0:
        raise KsdpError("the statistics learnt from simulated runs know the documents of the pool alone.")
    return places
