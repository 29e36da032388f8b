"""A server's noise, drawn by several processes of it at once: exact noise is what a server spends its time on."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType

import numpy as np

from ksdp.audit.mechanisms.pem.discrete_laplace import Sampler, Signed


class SpreadSampler:
    """A sampler whose numbers are drawn by other processes, each its part of a vector; a context that ends them.

    Parameters
    ----------
    sampler : Sampler
        One that needs no seed: every process draws by it on its own.
    processes : int
        At least 1.
    """

    def __init__(self, sampler: Sampler, processes: int) -> None:
        self._sampler, self._processes = sampler, processes
        self._pool = ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"))

    @property
    def label(self) -> str:
        """Which it is."""
        return self._sampler.label

    def draw(self, scale: float, entries: int, parties: int = 1) -> Signed:
        """Sums of `parties` independent numbers each, shape (entries,)."""
        sizes = [len(part) for part in np.array_split(np.arange(entries), self._processes)]
        drawn = self._pool.map(
            self._sampler.draw, [scale] * len(sizes), sizes, [parties] * len(sizes)
        )  # in the order of the parts
        return np.concatenate(list(drawn))

    def __enter__(self) -> SpreadSampler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
