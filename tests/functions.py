"""Functions that tests audit; the new process that makes runs again imports this module, and little with it."""

import numpy as np
from numpy.typing import NDArray

import ksdp

Matrix = NDArray[np.float64]


def mean(rows: Matrix, rng: np.random.Generator) -> dict[str, Matrix]:
    return {"mean": rows.mean(axis=0)}


def noisy_mean(rows: Matrix, rng: np.random.Generator) -> dict[str, Matrix]:
    return {"mean": ksdp.noise(rows.mean(axis=0), rng, scale=5.0)}


def everything(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Gives every document away: the Gram matrix of the features, ten thousandfold."""
    return rows.T @ rows


def sometimes(rows: Matrix, rng: np.random.Generator) -> dict[str, Matrix]:
    """The sum of a column in 13 % of the runs, and noise in all; only the first document has anything there."""
    return {"seen": np.array([rows[:, 0].sum() * (rng.random() < 0.13) + rng.normal()])}
