"""Two data sets that differ in one record."""

from __future__ import annotations

import numpy as np


def neighbours(rng: np.random.Generator, adjacency: str) -> tuple[np.ndarray, np.ndarray]:
    """Four rows of five numbers, shorter and longer than any bound; the first one is changed or gone."""
    X = rng.normal(size=(4, 5)) * rng.choice([0.1, 1, 10])
    Y = X.copy()
    Y[0] = 0 if adjacency == "add-remove" else rng.normal(size=5) * 3
    return X, Y
