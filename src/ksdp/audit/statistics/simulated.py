"""A statistic learnt from simulated runs: the audit runs the mechanism on databases of its own, and learns.

The training runs are drawn from the same pool with seeds of their own, so that a learnt rule is a fixed function
of the announced numbers when an audit's run is scored: its p-values are those of any plain statistic.

A run is three vectors, each standardised by the training runs: the announced numbers; their levels, whether a
number is above each of its quantiles; and their order: which entry of an array is largest and smallest, signs of
differences of neighbours and of two arrays of a shape. Arrays that are released up to signs, order or a rotation
of their rows are first turned to the one of the first training run; as they were announced they stand with the
order, as a leak may be in just what was turned.

One document hardly moves the covariance of a vector, so that all documents share it: a rule is ridge regression of
a document's bits, in the dual, on a Gram matrix of the training runs. Four matrices (numbers; numbers and levels;
all; all, squared entry by entry: products of two) and three ridges give twelve rules. As documents whose rows are
alike leave like traces, each of these is also smoothed over documents, by three more ridges on a Gaussian kernel
of their rows: of many numbers and few runs that tells several times as much. A leak in few of many numbers drowns
in a ridge. So there are others: the sum of the entries and squares that move with the document by more than chance
does, weighed by how much; and the one entry, square or product of two that moves most. Of each document the rule
of the best correlation is kept, as training runs left out in turn tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import ClassVar, cast

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ksdp.audit.contract import Alignment, Mechanism, Observables, Release
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.planted import with_leaks
from ksdp.audit.mechanisms.recorded import TRAINING_RUNS, RecordedRuns
from ksdp.audit.mechanisms.schema import with_sampler
from ksdp.audit.numeric.array_types import Bits, Floats, Ints, Singles, Vector
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.sparse_rows import same_rows
from ksdp.audit.statistic import Documents, Pool, Statistic
from ksdp.audit.statistics.further import LinearRule, Scale, correlations, products_of
from ksdp.audit.statistics.linear.pilot import placed_database

SIMULATED = "simulated"
"""The family, and its statistic."""
MOST_NUMBERS = 2**17
"""Numbers of a run that it reads, at most: the training runs are held in memory, in single precision."""
_SEED = 0x5EED_0F_7EA4
_FEWEST = 8
_RIDGES = (0.03, 0.3, 3.0)
"""In units of the mean eigenvalue; of documents' likeness, whose diagonal is 1, as they are."""
_LANDMARKS = 1024
_WIDTH = 4.0
"""Width of the kernel of rows, in median squared distances."""
_BOUNDS = (2.5, 3.5)
"""Correlations that chance seldom gives, in its deviations."""
_FOLDS = 5
_ROUNDING = 1e-5
_PRODUCTS = 2e11
"""Operations that looking at products of two one by one may take: of 182 numbers and 178 documents 18e9."""
_OTHER = 100
"""Documents whose operations a product costs besides."""
_MOST_ORDERED = 4096
_FEWEST_LEVELS, _MOST_LEVELS, _ALL_LEVELS = 5, 15, 15 * 1024
"""Levels of one number, fewer of which say less than its square does; and of all numbers, at most."""
_AT_ONCE = 256
_ENTRIES_AT_ONCE = 4096
_LEARNT_AT_ONCE = 2048


@dataclass(frozen=True)
class SimulatedStatistic:
    """The rules that are learnt from simulated runs, one a document."""

    name: str = SIMULATED
    sentence: str = field(
        default="The rule that tells the document apart best in simulated runs: a weighted sum of the announced "
        "numbers, of their levels, order and products, or one of them.",
        compare=False,
    )
    reads: tuple[str, ...] = ()
    """All announced arrays that statistics may read; see `over`."""
    alignments: tuple[Alignment, ...] = ()
    """Alignment of each of these."""
    runs: int = TRAINING_RUNS
    """Training runs."""
    further: int = 0
    """Training runs that teach a weighted sum of the numbers alone."""
    family: str = SIMULATED
    needs: tuple[str, ...] = ()
    version: int = 1
    weighs: ClassVar[bool] = True

    def over(self, releases: Sequence[Release], runs: int, further: int = 0) -> SimulatedStatistic:
        """The same, of these arrays, from so many training runs, up to `TRAINING_RUNS`, and further ones."""
        names, turns = (
            tuple(release.name for release in releases),
            tuple(release.alignment for release in releases),
        )
        first = min(max(runs, _FEWEST), TRAINING_RUNS)
        return replace(self, reads=names, alignments=turns, runs=first, further=max(further - first, 0))

    def asks_for(self, shapes: Mapping[str, tuple[int, ...]], documents: int) -> str:
        """Nothing, where the training runs fit into memory."""
        numbers = sum(int(np.prod(shapes[name])) for name in self.reads)
        return "" if numbers <= MOST_NUMBERS else f"at most {MOST_NUMBERS:,} numbers to read; it has {numbers:,}"

    def evaluate(self, observables: Observables, documents: Documents) -> Vector:
        """One number a document, shape (n_documents,), taken from those of the whole pool."""
        pool, shapes = documents.source_pool, {name: observables[name].shape for name in self.reads}
        turns = dict(zip(self.reads, self.alignments, strict=True))
        key = SIMULATED, self.reads, self.runs, self.further
        rules = pool.derive(key, lambda: train(pool, shapes, self.runs, turns, self.further))
        scores = observables.derive((SIMULATED, id(rules)), lambda: rules.scores(observables))
        return np.asarray(scores[places_in_pool(documents)])


STATISTICS = (SimulatedStatistic(),)


def unlearnt(statistics: Iterable[Statistic]) -> tuple[Statistic, ...]:
    """The statistics that need no training runs."""
    return tuple(each for each in statistics if not isinstance(each, SimulatedStatistic))


def aligned(rows: Floats, reference: Floats, alignment: Alignment) -> Floats:
    """Matrices, along the last two axes, turned to others by what a release leaves open (`Release.alignment`)."""
    if alignment == "none" or rows.ndim < 2:
        return rows
    pairs = zip(*(array.reshape(-1, *rows.shape[-2:]) for array in (rows, reference)), strict=True)
    return np.stack([_turned(rows_of_run, other, alignment) for rows_of_run, other in pairs]).reshape(rows.shape)


def _turned(rows: Floats, reference: Floats, alignment: Alignment) -> Floats:
    if alignment == "signs":
        return np.asarray(rows * np.where((rows * reference).sum(axis=1) < 0, -1.0, 1.0)[:, None], np.float64)
    if alignment == "permutation":
        sizes = np.linalg.norm(rows, axis=1)
        units = rows / np.where(sizes > 0, sizes, 1.0)[:, None]
        order = linear_sum_assignment(reference @ units.T, maximize=True)[1]
        return np.asarray(rows[order], np.float64)
    U, _, Vt = np.linalg.svd(reference @ rows.T)
    return np.asarray(U @ Vt @ rows, np.float64)


@dataclass(frozen=True, eq=False)
class Alignments:
    """How the numbers and their order are read from what a run announces."""

    arrays: tuple[str, ...]
    alignments: tuple[Alignment, ...] = ()
    references: tuple[Floats, ...] = ()
    """Arrays to align to, of the first training run."""

    @classmethod
    def of(cls, observables: Observables, alignments: Mapping[str, Alignment]) -> Alignments:
        """Return the alignments of these arrays, with references from the run."""
        arrays = tuple(np.asarray(observables[name], np.float64) for name in alignments)
        return cls(tuple(alignments), tuple(alignments.values()), arrays)

    def __call__(self, observables: Observables) -> tuple[Floats, Floats]:
        """Numbers of one run, and their order, with which stands what was turned, as it was announced."""
        arrays = [np.asarray(observables[name], np.float64) for name in self.arrays]
        turns = zip(arrays, self.references, self.alignments, strict=True)
        flat = [aligned(array, reference, how).ravel() for array, reference, how in turns]
        plain = [array.ravel() for array, how in zip(arrays, self.alignments, strict=True) if how != "none"]
        return np.concatenate(flat), np.concatenate([order_of(flat), *plain])

    def with_products(self, numbers: Floats, observables: Observables) -> Floats:
        """The numbers of a run, and `products_of` its arrays."""
        arrays = zip(self.arrays, self.alignments, strict=True)
        return np.concatenate(
            [numbers, *(products_of(np.asarray(observables[n], float), how) for n, how in arrays)]
        )


def order_of(flat: Sequence[Floats]) -> Floats:
    """Places of the largest and smallest number, signs of differences of neighbours and of arrays of one shape."""
    parts: list[NDArray[np.floating]] = [np.zeros(0)]
    for numbers in flat:
        if 1 < len(numbers) <= _MOST_ORDERED:
            ends = np.zeros((2, len(numbers)))
            ends[0, numbers.argmax()] = ends[1, numbers.argmin()] = 1.0
            parts += [ends.ravel(), np.sign(np.diff(numbers))]
    for first, other in pairwise(flat):
        if len(first) == len(other):
            parts += [np.array([np.mean(first == other)]), np.sign(first - other)[:_MOST_ORDERED]]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Levels:
    """Whether numbers are above some of their values."""

    of: Ints
    """Places of the numbers."""
    above: Floats

    @classmethod
    def by_quantiles(cls, numbers: Floats) -> Levels:
        """Between the values of numbers that take few, at quantiles of others; fewer or none of many."""
        each = min(_MOST_LEVELS, _ALL_LEVELS // max(numbers.shape[1], 1))
        if each < _FEWEST_LEVELS:
            return cls(np.zeros(0, np.int64), np.zeros(0))
        cuts, at = [np.zeros(0)], np.linspace(0.0, 1.0, each + 2)[1:-1]
        for column in numbers.T:
            values = np.unique(column)
            few = len(values) <= each + 1
            cuts.append((values[1:] + values[:-1]) / 2.0 if few else np.unique(np.quantile(column, at)))
        counts = [len(cut) for cut in cuts[1:]]
        return cls(np.repeat(np.arange(len(counts)), counts), np.concatenate(cuts))

    def __call__(self, numbers: Floats) -> Floats:
        """Return levels of numbers along the last axis: 1 above, 0 else."""
        return np.asarray(numbers[..., self.of] > self.above, np.float64)


@dataclass(frozen=True, eq=False)
class RidgeRule:
    """The documents that one Gram matrix serves best."""

    kernel: int
    documents: Ints
    weights: Floats
    """Weights of the training runs, shape (n_training_runs, n_documents)."""


@dataclass(frozen=True, eq=False)
class SumRules:
    """Weighted sums of entries, squares and products of two, each array of shape (n_terms,)."""

    documents: Ints
    first: Ints
    """Places in all vectors, one after the other; beyond them stands 1."""
    second: Ints
    weights: Floats

    def scores(self, every: Singles, count: int) -> Floats:
        """Return the scores of so many documents; 0 for those without a term."""
        terms = self.weights * every[self.first] * every[self.second]
        return np.bincount(self.documents, terms, count).astype(np.float64)  # whole numbers where there is none

    def of(self, documents: Bits) -> SumRules:
        """Return the rules of some documents, a mask of shape (n_documents,)."""
        kept = documents[self.documents]
        return SumRules(self.documents[kept], self.first[kept], self.second[kept], self.weights[kept])

    @classmethod
    def joined(cls, some: Sequence[SumRules]) -> SumRules:
        """All terms of some."""
        arrays = ([rule.documents, rule.first, rule.second, rule.weights] for rule in some)
        return cls(*(np.concatenate(parts) for parts in zip(*arrays, strict=True)))


@dataclass(frozen=True, eq=False)
class LearntRules:
    """Rules for every document of a pool, learnt from the training runs."""

    reading: Alignments
    levels: Levels
    scales: tuple[Scale, ...]
    vectors: tuple[Singles, ...]
    """Numbers, levels and order of the training runs: (n_training_runs, n_varying) each."""
    ridges: tuple[RidgeRule, ...]
    sums: SumRules
    """Rules of the other documents."""
    count: int
    """Documents."""
    correlations: Floats
    """Correlation of each document's rule, in training runs left out in turn."""
    linear: LinearRule | None = None
    """Rule of further runs, if it tells more."""

    def scores(self, observables: Observables) -> Floats:
        """Return the score of every document of the pool, in one order of operations whoever is measured."""
        numbers, order = self.reading(observables)
        parts = (numbers, self.levels(numbers), order)
        z = [scale(part) for scale, part in zip(self.scales, parts, strict=True)]
        out = self.sums.scores(np.concatenate([*z, np.ones(1, np.float32)]), self.count)
        with one_thread():
            inner = [_inner(vectors, vector) for vectors, vector in zip(self.vectors, z, strict=True)]
            kernels = _kernels(inner)
            for rule in self.ridges:
                out[rule.documents] = kernels[rule.kernel] @ rule.weights
            if self.linear is not None:
                products = self.reading.with_products(numbers, observables)
                out[self.linear.documents] = self.linear.scale(products) @ self.linear.weights
        return out


def _inner(vectors: Singles, other: Singles) -> Floats:
    return np.asarray(np.asarray(vectors @ other, np.float64) / max(vectors.shape[1], 1))


def _kernels(inner: Sequence[Floats]) -> tuple[Floats, ...]:
    numbers, levels, order = inner
    both = np.asarray(numbers + levels)
    products = np.asarray(both + order)
    return numbers, both, products, np.asarray(products**2)


def simulated_runs(
    pool: Pool, shapes: Mapping[str, tuple[int, ...]], runs: int, rng: np.random.Generator
) -> Iterator[tuple[Ints, Observables]]:
    """Yield the documents and the announcement of each run; runs that void an audit are left out."""
    for places, seen in _without_leaks(pool, shapes, runs, rng):
        units = places if pool.group is None else np.unique(pool.group[places])
        yield units, Observables(with_leaks(pool.leaks, seen, units, rng)) if pool.leaks else seen


def _without_leaks(
    pool: Pool, shapes: Mapping[str, tuple[int, ...]], runs: int, rng: np.random.Generator
) -> Iterator[tuple[Ints, Observables]]:
    if isinstance(pool.mechanism, RecordedRuns):  # checked where they were read
        for rows, seen in pool.mechanism.to_learn_from():
            yield rows if pool.corpus_rows is None else np.flatnonzero(np.isin(pool.corpus_rows, rows)), seen
        return
    mechanism = with_sampler(cast(Mechanism, pool.mechanism), "fast")
    for _ in range(runs):
        places, database = placed_database(pool, rng)
        try:
            seen = mechanism.run(database, rng)
        except KsdpError:  # an audit whose run fails says so itself
            continue
        if any(name not in seen or np.shape(seen[name]) != shape for name, shape in shapes.items()):
            continue
        if all(np.isfinite(seen[name]).all() for name in shapes):
            yield places, seen


def train(
    pool: Pool,
    shapes: Mapping[str, tuple[int, ...]],
    runs: int,
    alignments: Mapping[str, Alignment],
    further: int = 0,
) -> LearntRules:
    """Run the mechanism on databases of the pool and learn who is in, document by document."""
    if pool.mechanism is None:
        raise KsdpError(
            "the statistic learnt from simulated runs needs a mechanism that can be run; there is none."
        )
    reading = Alignments(())
    databases: list[Ints] = []
    read: list[tuple[Floats, Floats]] = []
    wide: list[Floats] = []
    rng = np.random.default_rng(_SEED)
    for places, seen in simulated_runs(pool, shapes, runs, rng):
        if not databases:
            reading = Alignments.of(seen, alignments)
        databases.append(places)
        read.append(reading(seen))
        wide += [reading.with_products(read[-1][0], seen)] if further else []
    if len(databases) < _FEWEST:
        raise KsdpError(
            f"only {len(databases)} of {runs} simulated runs announced what was declared; see the mechanism."
        )
    numbers, order = (np.stack(vectors) for vectors in zip(*read, strict=True))
    units = _units_of(pool)
    same, likeness = same_rows(units, units), Likeness.of(units)
    rules = learn(reading, numbers, order, _copies(databases, same), likeness)
    if not further:
        return rules
    for places, seen in simulated_runs(pool, shapes, further, rng):
        databases.append(places)
        wide.append(reading.with_products(reading(seen)[0], seen))
    return replace(rules, linear=LinearRule.of(np.stack(wide), _copies(databases, same), rules.correlations))


def _copies(members: Sequence[Ints], same: Ints) -> Floats:
    """How many documents of each one's content runs held, shape (n_runs, n_documents)."""
    totals = np.zeros((len(members), len(same)))
    for total, places in zip(totals, members, strict=True):
        np.add.at(total, same[places], 1.0)
    return np.asarray(totals[:, same])


@dataclass(frozen=True, eq=False)
class Likeness:
    """A Gaussian kernel of documents' rows, of low rank: U diag(values) U^T."""

    values: Vector
    """Shape (rank,)."""
    vectors: Singles
    """U, orthonormal, shape (n_documents, rank)."""

    @classmethod
    def of(cls, rows: sp.csr_array) -> Likeness:
        """Return the likeness of rows, each column over its deviation (Nystrom: Williams & Seeger 2001)."""
        mean = np.asarray(rows.mean(axis=0)).ravel()
        variance = np.asarray(rows.multiply(rows).mean(axis=0)).ravel() - mean**2
        varies = variance > _ROUNDING**2 * np.maximum(mean**2, np.finfo(float).tiny)
        scaled = sp.csr_array(rows[:, varies] / np.sqrt(variance[varies]))
        count, rng = scaled.shape[0], np.random.default_rng(_SEED)
        some = np.sort(rng.choice(count, min(count, _LANDMARKS), replace=False))
        sizes = np.asarray(scaled.multiply(scaled).sum(axis=1)).ravel()
        kernel = np.asarray((scaled @ scaled[some].T).toarray())  # of many documents it is large: one array
        kernel *= -2.0
        kernel += sizes[:, None]
        kernel += sizes[some]
        kernel /= -_WIDTH * float(np.median(kernel[some])) or -1.0
        np.exp(np.minimum(kernel, 0.0, out=kernel), out=kernel)
        with one_thread():
            values, vectors = scipy.linalg.eigh(kernel[some], check_finite=False)
            kept = values > 1e-9 * values[-1]
            half = kernel @ (vectors[:, kept] / np.sqrt(values[kept]))
            values, turn = scipy.linalg.eigh(half.T @ half, check_finite=False)
            kept = values > 1e-9 * values[-1]
            vectors = half @ (turn[:, kept] / np.sqrt(values[kept]))
            return cls(values[kept], vectors.astype(np.float32))

    def kept(self, ridge: float) -> Singles:
        """The share of each direction that kernel ridge regression keeps, shape (rank,)."""
        return (self.values / (self.values + ridge)).astype(np.float32)


def learn(reading: Alignments, numbers: Floats, order: Floats, bits: Floats, likeness: Likeness) -> LearntRules:
    """The rules of what is read, a row a run, and of bits, or how many copies are in, (runs, documents)."""
    levels = Levels.by_quantiles(numbers)
    parts = (numbers, levels(numbers), order)
    scales = tuple(Scale.of(part) for part in parts)
    z = tuple(scale(part) for scale, part in zip(scales, parts, strict=True))
    centred = bits - bits.mean(axis=0)
    entries = Entries.of(z, bits.shape[1])
    with one_thread():
        sums, best = one_term(entries, centred)
        for some, gain in few_terms(entries, centred):
            sums = SumRules.joined((sums.of(gain <= best), some.of(gain > best)))
            best = np.maximum(best, gain)
        inner = [_inner(vector, vector.T) for vector in z]
        kernel = np.full(bits.shape[1], -1)
        weights = np.zeros_like(centred)
        for which, matrix in enumerate(_kernels(inner)):
            for part, gain, weigh in ridge_rules(matrix, centred, likeness):
                better = np.flatnonzero(gain > best[part])
                weights[:, part.start + better], kernel[part.start + better] = weigh(better), which
                best[part] = np.maximum(best[part], gain)
    ridges = tuple(
        RidgeRule(int(which), mine, np.ascontiguousarray(weights[:, mine]))
        for which in np.unique(kernel[kernel >= 0])
        for mine in [np.flatnonzero(kernel == which)]
    )
    return LearntRules(reading, levels, scales, z, ridges, sums.of(kernel < 0), bits.shape[1], best)


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of all vectors and squares of numbers in the training runs."""

    values: Singles
    """Standardised, shape (n_entries, n_runs)."""
    first: Ints
    """Places, as of `SumRules`."""
    second: Ints
    deviations: Floats
    multiplied: tuple[Singles, Ints]
    """Entries whose products of two are looked at, and places: no levels, as many as there is time for."""

    @classmethod
    def of(cls, z: Sequence[Singles], documents: int) -> Entries:
        """Return the entries of numbers, levels and order, each of shape (n_runs, n_varying)."""
        every, numbers, levels = np.concatenate([matrix.T for matrix in z]), z[0].shape[1], z[1].shape[1]
        places, runs = np.arange(len(every)), every.shape[1]
        some = np.delete(places, np.s_[numbers : numbers + levels])
        some = some[: int(np.sqrt(_PRODUCTS / (runs * (documents + _OTHER))))]
        multiplied = every[some], some
        values = np.concatenate([every, every[:numbers] ** 2])
        second = np.concatenate([np.full_like(places, len(places)), places[:numbers]])
        first = np.concatenate([places, places[:numbers]])
        return cls(values, first, second, _standardise(values), multiplied)

    def products(self) -> Iterator[tuple[Singles, Ints, Ints]]:
        """Products of two, standardised, and their places."""
        rows, places = self.multiplied
        for at, place in enumerate(places[:-1], start=1):
            values = rows[at:] * rows[at - 1]
            _standardise(values)
            yield values, np.full(len(values), place), places[at:]


def _standardise(values: Singles) -> Floats:
    values -= values.mean(axis=1)[:, None]
    deviations = values.std(axis=1)
    deviations[deviations < _ROUNDING] = np.inf
    values /= deviations[:, None]
    return np.asarray(deviations, np.float64)


def _units(centred: Floats) -> Singles:
    return np.asarray(centred / np.maximum(centred.std(axis=0), np.finfo(float).tiny), np.float32)


def one_term(entries: Entries, centred: Floats) -> tuple[SumRules, Floats]:
    """Return the number with the largest correlation for each document, less the correlation by chance."""
    runs, documents = centred.shape
    unit, places, most, count = _units(centred), np.zeros((2, documents), np.int64), np.zeros(documents), 0
    for values, first, second in chain([(entries.values, entries.first, entries.second)], entries.products()):
        if not len(first):
            continue
        count += len(first)
        for at in range(0, documents, _AT_ONCE):
            correlations = np.abs(values @ unit[:, at : at + _AT_ONCE]) / runs
            best = correlations.argmax(axis=0)
            largest = correlations[best, np.arange(len(best))]
            better = np.flatnonzero(largest > most[at : at + _AT_ONCE])
            most[at + better] = largest[better]
            places[:, at + better] = first[best[better]], second[best[better]]
    places_told = np.flatnonzero(most)
    gain = np.sqrt(np.maximum(most**2 - 2.0 * np.log(max(count, 2)) / runs, 0.0))
    rules = SumRules(places_told, places[0, places_told], places[1, places_told], np.ones(len(places_told)))
    return rules, np.where(most > 0, gain, -np.inf)


def few_terms(entries: Entries, centred: Floats) -> tuple[tuple[SumRules, Floats], ...]:
    """For each bound sums of all that is beyond it, and their correlations, a fifth of runs left out in turn."""
    runs, documents = centred.shape
    unit, gains = _units(centred), np.zeros((len(_BOUNDS), documents))
    sums: list[list[SumRules]] = [[] for _ in _BOUNDS]
    folds = [slice(runs * at // _FOLDS, runs * (at + 1) // _FOLDS) for at in range(_FOLDS)]
    for start in range(0, documents, _AT_ONCE):
        bits = unit[:, start : start + _AT_ONCE]
        *without, full = _beyond_chance(entries.values, bits, folds)
        for which, bound in enumerate(_BOUNDS):
            guess = np.zeros(bits.shape)
            for part, fold in zip(without, folds, strict=True):
                guess[fold] = (_beyond(part, bound).T @ entries.values[:, fold]).T
            gains[which, start : start + _AT_ONCE] = correlations(guess, bits)
            kept = _beyond(full, bound)
            weights = kept.data / entries.deviations[kept.row]
            first, second = entries.first[kept.row], entries.second[kept.row]
            sums[which].append(SumRules(start + kept.col, first, second, weights))
    return tuple((SumRules.joined(some), gain) for some, gain in zip(sums, gains, strict=True))


def _beyond_chance(values: Singles, bits: Singles, folds: Sequence[slice]) -> list[sp.coo_array]:
    """Correlations, shape (n_entries, n_bits), in deviations of chance: without each fold, and of all runs."""
    sizes = [len(bits) - len(bits[fold]) for fold in folds] + [len(bits)]
    parts_found: list[list[sp.coo_array]] = [[] for _ in sizes]
    for at in range(0, max(len(values), 1), _ENTRIES_AT_ONCE):
        parts = [values[at : at + _ENTRIES_AT_ONCE, fold] @ bits[fold] for fold in folds]
        total = np.sum(parts, axis=0)
        for kept, part, size in zip(parts_found, (*parts, 0.0), sizes, strict=True):
            beyond = (total - part) / np.sqrt(size)
            kept.append(sp.coo_array(np.where(np.abs(beyond) > min(_BOUNDS), beyond, 0.0)))
    return [sp.coo_array(sp.vstack(some)) for some in parts_found]


def _beyond(matrix: sp.coo_array, bound: float) -> sp.coo_array:
    kept = np.abs(matrix.data) > bound
    return sp.coo_array((matrix.data[kept], (matrix.row[kept], matrix.col[kept])), matrix.shape)


def ridge_rules(
    kernel: Floats, centred: Floats, likeness: Likeness
) -> Iterator[tuple[slice, Vector, Callable[[Ints], Floats]]]:
    """For some documents after others: correlations with each run left out, and the weights of those of them that
    are asked for, shape (runs, documents), which sum to 0. By each ridge alone, then smoothed by likeness.

    With A = (K + r I)^-1 of the centred matrix K, weights are A y. Leaving run i out of the rule and its intercept
    leaves (A y)_i / (A_ii - 1 / (n r)) of y_i. Both are linear in y: smoothed over documents they are the weights
    times U diag(values / (values + ridge)) U^T.
    """
    means = kernel.mean(axis=0)
    values, vectors = scipy.linalg.eigh(kernel - means - means[:, None] + means.mean(), check_finite=False)
    values = np.maximum(values, 0.0)
    unit = float(values.mean()) or 1.0
    squares = vectors**2
    parts = [slice(at, at + _LEARNT_AT_ONCE) for at in range(0, centred.shape[1], _LEARNT_AT_ONCE)]
    guesses, weights = np.zeros((2, len(_RIDGES), len(kernel), len(likeness.values)), np.float32)
    for part in parts:
        bits, alike = centred[:, part], likeness.vectors[part]
        turned = vectors.T @ bits
        for at, ridge in enumerate(_RIDGES):
            inverse = 1.0 / (values + ridge * unit)
            weight = vectors @ (turned * inverse[:, None])
            guess = bits - weight / (squares @ inverse - 1.0 / (len(kernel) * ridge * unit))[:, None]
            weight -= weight.mean(axis=0)
            guesses[at] += guess.astype(np.float32) @ alike
            weights[at] += weight.astype(np.float32) @ alike
            yield part, correlations(guess, bits), partial(np.take, weight, axis=1)
    for guess, weight in zip(guesses, weights, strict=True):
        for kept in map(likeness.kept, _RIDGES):
            smooth, weigh = guess * kept, weight * kept
            for part in parts:
                alike = likeness.vectors[part]
                yield part, correlations(smooth @ alike.T, centred[:, part]), partial(_turned_back, weigh, alike)


def _turned_back(weights: Singles, vectors: Singles, places: Ints) -> Floats:
    return (weights @ vectors[places].T).astype(np.float64)


def _units_of(pool: Pool) -> sp.csr_array:
    if pool.group is None:
        return pool.drawn
    group = pool.group
    return cast(sp.csr_array, pool.derive("units", lambda: _of_groups(pool.drawn, group)))


def _of_groups(rows: sp.csr_array, group: Ints) -> sp.csr_array:
    """Sums of the documents of each group, and of their squares: others hardly have both."""
    together = sp.csr_array((np.ones(len(group)), (group, np.arange(len(group)))))
    return canonical(sp.csr_array(sp.hstack([together @ rows, together @ rows.multiply(rows)])))


def places_in_pool(documents: Documents) -> Ints:
    """Where documents, or groups, stand among those that databases are drawn from."""
    pool, starts = documents.source_pool, documents.starts

    def places_of(some: Documents) -> Ints:
        if some.rows is None or starts is None:
            return same_rows(some.matrix, _units_of(pool))
        return same_rows(
            _of_groups(some.rows.matrix, np.repeat(np.arange(len(some)), np.diff(starts))), _units_of(pool)
        )

    places = documents.of_each((SIMULATED, "places"), places_of)
    if len(places) and places.min() < 0:
        raise KsdpError("what is learnt from simulated runs is of the documents of the pool alone.")
    return places
