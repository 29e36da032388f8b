"""Statistics of announced second moments, against dense forms."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.moments import moment_energy, moment_leverage, moment_match


def population(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 4)) * [1.0, 0.5, 0.3, 0.1]


def seen(rows: np.ndarray) -> Observables:
    return Observables({"moments": (rows.T @ rows)[np.triu_indices(4)]})


def test_energy_and_leverage_are_those_of_the_run() -> None:
    rows = population()
    documents = Documents(sp.csr_array(rows[:10]))
    S = rows.T @ rows
    energy = [x @ S @ x for x in rows[:10]]
    leverage = [x @ np.linalg.solve(S, x) for x in rows[:10]]
    np.testing.assert_allclose(moment_energy(seen(rows), documents), energy)
    np.testing.assert_allclose(moment_leverage(seen(rows), documents), leverage, rtol=1e-6)


def test_the_matched_filter_is_the_whitened_product() -> None:
    rows = population(29)  # few enough for all of them to be looked at
    upper = np.triu_indices(4)
    triangles = np.array([np.outer(x, x)[upper] for x in rows])
    covariance = np.cov(triangles.T)
    covariance += 0.05 * np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    weights = np.linalg.solve(covariance, (rows.T @ rows)[upper])
    found = moment_match(seen(rows), Documents(sp.csr_array(rows)))
    np.testing.assert_allclose(found, triangles @ weights, rtol=1e-8)


def test_it_finds_more_than_energy_alone() -> None:
    """A document along a quiet direction: energy looks where the others are loud."""
    rng = np.random.default_rng(1)
    rows = np.vstack([population(400), [[0.0, 0.0, 0.0, 0.45]]])
    documents = Documents(sp.csr_array(rows))
    found = {evaluate: ([], []) for evaluate in (moment_energy, moment_match)}
    for run in range(300):
        held = rng.choice(400, 100, replace=False)
        inside = run % 2
        drawn = rows[np.append(held[:-1], 400) if inside else held]
        for evaluate, arms in found.items():
            arms[inside].append(evaluate(seen(drawn), documents)[400])
    D = {evaluate: ks_2samp(*arms).statistic for evaluate, arms in found.items()}
    assert D[moment_match] > 0.5
    assert D[moment_match] > D[moment_energy]
