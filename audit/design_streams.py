"""What is drawn beside a design's databases, each from a stream of its own: controls, noise, orders of runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits
from ksdp.audit.design import Block, Design, Rows
from ksdp.audit.randomness import Purpose, generator

__all__ = ["control_bits", "control_noise", "mechanism_rng", "permutation_rng", "shuffled_runs"]


def control_bits(design: Design, block: Block, controls: int) -> Bits:
    """Inclusion bits of control documents, drawn independently of the data, shape (n_controls, n_runs)."""
    columns = [
        generator(design.seed, Purpose.CONTROL, block.lane, run).random(controls) < design.share
        for run in range(block.start, block.stop)
    ]
    return np.stack(columns, axis=1)


def control_noise(design: Design, block: Block, controls: int) -> NDArray[np.float64]:
    """Standard normal noise of the control documents, independent of their bits, shape (n_controls, n_runs)."""
    columns = [
        generator(design.seed, Purpose.CONTROL, block.lane, run, 1).standard_normal(controls)
        for run in range(block.start, block.stop)
    ]
    return np.stack(columns, axis=1)


def mechanism_rng(design: Design, lane: int, run: int) -> np.random.Generator:
    """The mechanism's own randomness in a run: independent of who is in the database."""
    return generator(design.seed, Purpose.MECHANISM, lane, run)


def shuffled_runs(design: Design, lane: int) -> Rows:
    """A random order of a lane's runs, for tests of bits that belong to other runs."""
    return generator(design.seed, Purpose.SHUFFLE, lane).permutation(design.runs)


def permutation_rng(design: Design, lane: int, row: int) -> np.random.Generator:
    """Randomness of the permutations of some documents, the first in row `row` of a lane."""
    return generator(design.seed, Purpose.SHUFFLE, lane, row)
