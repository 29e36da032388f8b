"""Designs: which documents are in which run, from the seed alone.

A document is a unit here: where whole groups are audited, read "group", and rows are numbers of groups
(`ksdp.audit.corpus.groups` says which rows of the corpus they hold).

A design is a set of *lanes*; the runs of a lane serve the same target documents. `shared` and `balanced` have
one lane, `literal` has one for each target. The rows of run r of a lane depend on (seed, lane, r) and
nothing else, so that any block of runs can be drawn by any worker, in any order, and topping up continues the
sequence.

Runs are drawn independently of one another. Given its own inclusion bits, the values of a document's
statistic are then independent, and identically distributed if the document leaves no trace: what the exact
Kolmogorov-Smirnov law assumes. Databases have a fixed size by default, so that a document's arms differ by
replacing one document and size is not what is detected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.numeric.array_types import Bits
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.specs.models import DesignSpec

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Runs `start` to `stop` (exclusive) of a lane: the unit of scheduling and of storage."""

    lane: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class Design(Protocol):
    """Interface of designs for samplers and tests."""

    @property
    def seed(self) -> int:
        """The audit's seed."""

    @property
    def lanes(self) -> int:
        """Number of lanes."""

    @property
    def runs(self) -> int:
        """Runs of one lane."""

    def targets(self, lane: int) -> Rows:
        """Rows of the corpus that the lane audits, in order."""

    def rows(self, lane: int, run: int) -> Rows:
        """Rows of the corpus in the victim's part of the database of a run, sorted."""

    def inclusion(self, block: Block) -> Bits:
        """Whether each run held each target, shape (n_targets, n_runs)."""

    @property
    def share(self) -> float:
        """Probability that a run holds a target."""


def _subset(rng: np.random.Generator, pool: Rows, size: int) -> Rows:
    return np.sort(pool[rng.choice(len(pool), size, replace=False, shuffle=False)])


@dataclass(frozen=True, eq=False)
class Shared:
    """Random subsets of the pool; every document's arms come from the same runs.

    With `poisson`, each document is in with probability size / pool (add/remove neighbours: the size of the
    database then varies, and a statistic may detect it).
    """

    pool: Rows
    audited: Rows
    size: int
    runs: int
    seed: int
    poisson: bool = False

    lanes = 1

    @property
    def share(self) -> float:
        """Probability that a run holds a document."""
        return self.size / len(self.pool)

    def targets(self, lane: int) -> Rows:
        """Every audited document."""
        return self.audited

    def rows(self, lane: int, run: int) -> Rows:
        """A fresh random subset."""
        rng = generator(self.seed, Purpose.DRAW, lane, run)
        if self.poisson:
            return self.pool[rng.random(len(self.pool)) < self.share]
        return _subset(rng, self.pool, self.size)

    def inclusion(self, block: Block) -> Bits:
        """Redraw the subsets and look the targets up."""
        place = np.full(int(self.pool.max()) + 1, -1, dtype=np.int64)
        place[self.audited] = np.arange(len(self.audited))
        bits = np.zeros((len(block), len(self.audited)), dtype=np.bool_)
        for at, run in enumerate(range(block.start, block.stop)):
            included = place[self.rows(block.lane, run)]
            bits[at, included[included >= 0]] = True
        return np.ascontiguousarray(bits.T)


@dataclass(frozen=True, eq=False)
class Balanced:
    """Targets in every run with probability 1/2 each; the rest of the database random, its size fixed."""

    pool: Rows
    audited: Rows
    size: int
    runs: int
    seed: int

    lanes = 1
    share = 0.5

    def targets(self, lane: int) -> Rows:
        """The target documents."""
        return self.audited

    @cached_property
    def _others(self) -> Rows:
        return np.setdiff1d(self.pool, self.audited, assume_unique=True)

    def _bits(self, rng: np.random.Generator) -> Bits:
        return np.asarray(rng.random(len(self.audited)) < 0.5)

    def rows(self, lane: int, run: int) -> Rows:
        """The targets that are in, filled up with others."""
        rng = generator(self.seed, Purpose.DRAW, lane, run)
        chosen = self.audited[self._bits(rng)]
        return np.sort(np.concatenate([chosen, _subset(rng, self._others, self.size - len(chosen))]))

    def inclusion(self, block: Block) -> Bits:
        """Redraw the bits."""
        runs = range(block.start, block.stop)
        return np.stack([self._bits(generator(self.seed, Purpose.DRAW, block.lane, run)) for run in runs], axis=1)


@dataclass(frozen=True, eq=False)
class Literal:
    """Algorithm 5 to the letter: each target has its own runs, even ones with it and odd ones without.

    Both arms have the same size (the printed X'_i + {x} against Y_i would differ by one document, and the
    size would be what is detected) and are drawn independently, not paired, as the two-sample test assumes.
    """

    pool: Rows
    audited: Rows
    size: int
    runs: int
    seed: int

    share = 0.5

    @property
    def lanes(self) -> int:
        """One for each target."""
        return len(self.audited)

    def targets(self, lane: int) -> Rows:
        """The lane's own document."""
        return self.audited[lane : lane + 1]

    def rows(self, lane: int, run: int) -> Rows:
        """A random subset of the other documents, with the target in even runs."""
        target = self.audited[lane]
        others = self.pool[self.pool != target]
        # The lane is named by its document, so that auditing more documents later redraws nothing.
        rng = generator(self.seed, Purpose.DRAW, int(target), run)
        if run % 2:
            return _subset(rng, others, self.size)
        return np.sort(np.append(_subset(rng, others, self.size - 1), target))

    def inclusion(self, block: Block) -> Bits:
        """Even runs hold the target."""
        return np.asarray(np.arange(block.start, block.stop) % 2 == 0)[None, :]


def as_rows(size: float | int, documents: int) -> int:
    """A party size in rows: a fraction of the corpus, or rows already."""
    return size if isinstance(size, int) else max(1, math.floor(size * documents))


def make_design(spec: DesignSpec, pool: Rows, seed: int, *, documents: int, targets: Rows | None = None) -> Design:
    """Build the design of an audit."""
    size = as_rows(spec.party_size, documents)
    if not 2 <= size < len(pool):
        raise SpecError(
            f"`design.party_size` must be at least 2 {spec.unit}s and leave some out of {len(pool)}; got {size}."
        )
    if targets is None and isinstance(spec.documents, int):
        if spec.documents > len(pool):
            raise SpecError(f"`design.documents` must be at most {len(pool)}; got {spec.documents}.")
        targets = _subset(generator(seed, Purpose.TARGETS), pool, spec.documents)
    audited = pool if targets is None else np.sort(targets)
    if spec.kind == "shared":
        share = size / len(pool)
        runs = math.ceil(spec.with_runs / min(share, 1 - share))
        return Shared(pool, audited, size, runs, seed, poisson=spec.sampling == "poisson")
    if spec.sampling == "poisson":
        raise SpecError("`design.sampling` poisson goes with the shared design only.")
    if spec.kind == "literal":
        return Literal(pool, audited, size, 2 * spec.with_runs, seed)
    if len(audited) > size or size > len(pool) - len(audited):
        raise SpecError(
            f"`design.documents` must be at most the party size ({size}) and leave as many others; "
            f"got {len(audited)} of {len(pool)}."
        )
    return Balanced(pool, audited, size, 2 * spec.with_runs, seed)


def drawn_controls(design: Design, block: Block, controls: int) -> tuple[Bits, NDArray[np.float64]]:
    """Inclusion bits of control documents and standard normal noise, shape (n_controls, n_runs) each."""

    def drawn(run: int, *place: int) -> np.random.Generator:
        return generator(design.seed, Purpose.CONTROL, block.lane, run, *place)

    runs = range(block.start, block.stop)
    bits = np.stack([drawn(run).random(controls) < design.share for run in runs], axis=1)
    return bits, np.stack([drawn(run, 1).standard_normal(controls) for run in runs], axis=1)


def mechanism_rng(design: Design, lane: int, run: int) -> np.random.Generator:
    """The mechanism's own randomness in a run: independent of who is in the database."""
    return generator(design.seed, Purpose.MECHANISM, lane, run)


def shuffled_runs(design: Design, lane: int) -> Rows:
    """A random order of a lane's runs, for tests of bits that belong to other runs."""
    return generator(design.seed, Purpose.SHUFFLE, lane).permutation(design.runs)
