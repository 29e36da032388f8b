"""Two data sets that differ in one record."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st


def of_any_neighbours(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with fifty seeds, of either adjacency."""
    adjacencies = st.sampled_from(["replace-one", "add-remove"])
    return given(seed=st.integers(0, 10_000), adjacency=adjacencies)(
        settings(deadline=None, max_examples=50)(test)
    )


def neighbours(rng: np.random.Generator, adjacency: str) -> tuple[np.ndarray, np.ndarray]:
    """Four rows of five numbers, shorter and longer than any bound; the first one is changed or gone."""
    X = rng.normal(size=(4, 5)) * rng.choice([0.1, 1, 10])
    Y = X.copy()
    Y[0] = 0 if adjacency == "add-remove" else rng.normal(size=5) * 3
    return X, Y
