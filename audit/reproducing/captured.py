"""The curves of DPdisPCA (Imtiaz & Sarwate 2018): captured energy, as a share of the best.

The slides print curves without numbers, so that ours stand alone. Learners: DPdisPCA, every site sending its
whole noisy matrix ("full"), and one site by itself without and with the noise; all data in one place are 1 by
definition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.privacy.dpdispca import DPdisPCA, captured_energy
from ksdp.audit.reproducing.outcome import Cell, Line, Outcome

SITES = 10
SYNTHETIC = "synthetic (200 features, K = 50)"


@dataclass(frozen=True)
class CurvePoints:
    """Which points: epsilons at one site size, and site sizes at one epsilon."""

    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    sizes: tuple[int, ...] = (500, 1000, 2000, 4000)
    epsilon: float = 2.0
    size: int = 2000


def synthetic(rows: int, seed: int, features: int = 200) -> Matrix:
    """Zero mean, a covariance whose eigenvalues fall as exp(-j / 25) along random directions; of norm 1 at most.

    The slides name a pre-determined covariance and do not say which.
    """
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.normal(size=(features, features)))
    drawn = rng.normal(size=(rows, features)) * np.exp(-np.arange(features) / 50)
    captured = drawn @ directions.T
    return np.asarray(captured / np.linalg.norm(captured, axis=1).max())


def captured(
    rows: Matrix, rank: int, curve: CurvePoints, say: Callable[[str], None] = lambda _: None, seed: int = 1
) -> list[tuple[str, float, int, dict[str, float]]]:
    """Shares of the best captured energy: by which axis, epsilon, site size, and by learner.

    Parameters
    ----------
    rows : shape (n, features), in random order
        Of norm 1 at most; the first sites' rows are taken.
    """
    asked = [("epsilon", epsilon, curve.size) for epsilon in curve.epsilons]
    asked += [("site size", curve.epsilon, size) for size in curve.sizes if SITES * size <= len(rows)]
    captured = []
    for axis, epsilon, size in asked:
        say(f"epsilon {epsilon:g}, {size:,} rows a site")
        data = rows[: SITES * size]
        moments = data.T @ data / len(data)
        features = len(moments)
        best = float(scipy.linalg.eigvalsh(moments, subset_by_index=(features - rank, features - 1)).sum())
        parts = tuple(sp.csr_array(data[i * size : (i + 1) * size]) for i in range(SITES))

        own = data[:size].T @ data[:size] / size
        _, vectors = scipy.linalg.eigh(own, subset_by_index=(features - rank, features - 1))
        energies = {
            name: captured_energy(private.run(Database(held), np.random.default_rng(seed))["V"], moments)
            for name, private, held in (
                ("DPdisPCA", DPdisPCA(rank=rank, intermediate=2 * rank, epsilon=epsilon), parts),
                ("full", DPdisPCA(rank=rank, intermediate=features, epsilon=epsilon), parts),
                ("one site, private", DPdisPCA(rank=rank, intermediate=2 * rank, epsilon=epsilon), parts[:1]),
            )
        } | {"one site": captured_energy(vectors.T, moments)}
        captured.append((axis, epsilon, size, {name: value / best for name, value in energies.items()}))
    return captured


def captured_outcome(captured: dict[str, list[tuple[str, float, int, dict[str, float]]]]) -> Outcome:
    """One row a point, one panel a data set and axis."""
    rows: list[tuple[Cell, ...]] = []
    lines, notes = [], []
    for name, points in captured.items():
        learners = tuple(points[0][3])
        rows += [
            (name, axis, f"{epsilon:g}", size, *(round(shares[one], 3) for one in learners))
            for axis, epsilon, size, shares in points
        ]
        for axis in dict.fromkeys(point[0] for point in points):
            of = [point for point in points if point[0] == axis]
            x = tuple(float(point[1] if axis == "epsilon" else point[2]) for point in of)
            lines += [Line(f"{name}: by {axis}", one, x, tuple(point[3][one] for point in of)) for one in learners]
        better = sum(point[3]["DPdisPCA"] > point[3]["one site, private"] for point in points)
        bare = sum(point[3]["DPdisPCA"] > point[3]["one site"] for point in points)
        own = np.mean([point[3]["one site"] for point in points])
        lost = float(np.mean([point[3]["full"] - point[3]["DPdisPCA"] for point in points]))
        notes.append(
            f"{name}: DPdisPCA is above one site with the same noise at {better} of {len(points)} points, but one "
            f"site alone needs no noise, and without it reaches {own:.3f} in the mean: DPdisPCA is above that at "
            f"{bare}. Sending P in place of the whole noisy matrix costs {lost:.3f}."
        )
    columns = ("data", "axis", "epsilon", "rows a site", *next(iter(captured.values()))[0][3])
    return Outcome(
        columns,
        tuple(rows),
        tuple(notes),
        tuple(lines),
        "epsilon; rows a site",
        "captured energy, share",
        ("x",),
    )
