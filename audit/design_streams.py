"""What is drawn beside a design's databases, each from a stream of its own: controls, noise, orders of runs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits
from ksdp.audit.design import Block, Design, Rows
from ksdp.audit.randomness import Purpose, generator


def drawn_controls(design: Design, block: Block, controls: int) -> tuple[Bits, NDArray[np.float64]]:
    """Inclusion bits of control documents and standard normal noise, shape (n_controls, n_runs) each.

    They are independent of the data and of each other.
    """

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
