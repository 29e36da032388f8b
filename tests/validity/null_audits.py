"""Who is in which run, and what statistics of nothing have in common: drawn for audits that are replayed."""

import numpy as np

__all__ = ["dependent_values", "shared_inclusion"]


def shared_inclusion(rng: np.random.Generator, documents: int, runs: int, share: float) -> np.ndarray:
    """Fixed-size random subsets: what the shared design draws."""
    order = rng.random((runs, documents)).argsort(axis=1).argsort(axis=1)
    return np.ascontiguousarray((order < share * documents).T)


def dependent_values(rng: np.random.Generator, documents: int, runs: int, statistics: int = 3) -> np.ndarray:
    """Statistics that share noise with one another, and with every document of the same run."""
    run = rng.normal(size=(1, 1, runs))
    own = rng.normal(size=(1, documents, runs))
    return run + own + 0.5 * rng.normal(size=(statistics, documents, runs))
