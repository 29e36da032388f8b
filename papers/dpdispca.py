"""The curves of DPdisPCA (Imtiaz & Sarwate 2018): captured energy by epsilon and by site size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from papers.data import Floats
from papers.outcome import Cell, Line, Outcome, released, say

SITES = 10
SYNTHETIC = "synthetic (200 features, K = 50)"
Captured = list[tuple[str, float, int, dict[str, float]]]
"""Shares of the best captured energy: by which axis, epsilon, site size, and by learner."""


@dataclass(frozen=True)
class CurvePoints:
    """Which points: epsilons at one site size, and site sizes at one epsilon."""

    epsilons: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0)
    sizes: tuple[int, ...] = (500, 1000, 2000, 4000)
    epsilon: float = 2.0
    size: int = 2000


def synthetic(rows: int, seed: int, features: int = 200) -> Floats:
    """Zero mean, a covariance whose eigenvalues fall as exp(-j / 25) along random directions; of norm 1 at most.

    The slides name a pre-determined covariance and do not say which.
    """
    rng = np.random.default_rng(seed)
    directions, _ = np.linalg.qr(rng.normal(size=(features, features)))
    drawn = rng.normal(size=(rows, features)) * np.exp(-np.arange(features) / 50) @ directions.T
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1).max())


def captured(rows: Floats, rank: int, curve: CurvePoints, seed: int = 1) -> Captured:
    """At every point; `rows` are of norm 1 at most and in random order, and the first sites' are taken."""
    points = [("epsilon", epsilon, curve.size) for epsilon in curve.epsilons]
    points += [("site size", curve.epsilon, size) for size in curve.sizes if SITES * size <= len(rows)]
    measured: Captured = []
    for axis, epsilon, size in points:
        say(f"epsilon {epsilon:g}, {size:,} rows a site")
        some = rows[: SITES * size]
        moments = some.T @ some / len(some)
        features = len(moments)
        last = (features - rank, features - 1)
        best = float(scipy.linalg.eigvalsh(moments, subset_by_index=last).sum())
        parts = [sp.csr_array(some[i * size : (i + 1) * size]) for i in range(SITES)]
        _, own = scipy.linalg.eigh(some[:size].T @ some[:size] / size, subset_by_index=last)
        how = {"rank": rank, "epsilon": epsilon}
        bases = {
            name: released("dpdispca", held, seed, intermediate=sent, calibration=noise, **how)["V"]
            for name, sent, noise, held in (
                ("DPdisPCA", 2 * rank, "analytic", parts),
                ("its noise as printed", 2 * rank, "printed", parts),
                ("full", features, "analytic", parts),
                ("pooled, private", 2 * rank, "analytic", [sp.csr_array(some)]),
                ("one site, private", 2 * rank, "analytic", parts[:1]),
            )
        } | {"one site": own.T}
        shares = {name: float(np.trace(V @ moments @ V.T)) / best for name, V in bases.items()}
        measured.append((axis, epsilon, size, shares))
    return measured


def outcome(measured: dict[str, Captured]) -> Outcome:
    """One row a point, one panel a data set and axis."""
    rows: list[tuple[Cell, ...]] = []
    lines, notes = [], []
    for name, points in measured.items():
        learners = tuple(points[0][3])
        rows += [
            (name, axis, f"{epsilon:g}", size, *(round(shares[learner], 3) for learner in learners))
            for axis, epsilon, size, shares in points
        ]
        for axis in dict.fromkeys(point[0] for point in points):
            some = [point for point in points if point[0] == axis]
            x = tuple(float(point[1] if axis == "epsilon" else point[2]) for point in some)
            lines += [
                Line(f"{name}: by {axis}", learner, x, tuple(point[3][learner] for point in some))
                for learner in learners
            ]
        better = sum(point[3]["DPdisPCA"] > point[3]["one site, private"] for point in points)
        bare = sum(point[3]["DPdisPCA"] > point[3]["one site"] for point in points)
        own = np.mean([point[3]["one site"] for point in points])
        pooled = np.mean([point[3]["pooled, private"] for point in points])
        lost = float(np.mean([point[3]["full"] - point[3]["DPdisPCA"] for point in points]))
        notes.append(
            f"{name}: DPdisPCA is above one site with the same noise at {better} of {len(points)} points, but one "
            f"site alone needs no noise, and without it reaches {own:.3f} in the mean: DPdisPCA is above that at "
            f"{bare}. Sending P in place of the whole noisy matrix costs {lost:.3f}; all rows at one site, "
            f"with its noise once, reach {pooled:.3f} in the mean."
        )
    columns = " | ".join(["data | axis | epsilon | rows a site", *next(iter(measured.values()))[0][3]])
    return Outcome(columns, rows, notes, lines, "epsilon; rows a site", "captured energy, share", ("x",))
