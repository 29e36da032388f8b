"""The matched filter on sums of NMF's sweeps: it repeats what the mechanism did, and its dual is the primal."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.public_start import public_start
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.sums_match import SumsMatch, _Path, _topics
from ksdp.audit.verdicts.ks import ks_table

MECHANISM = PDNMF(rank=3, start_seed=4)
SHRINKAGE = 0.03
MATCH = SumsMatch("sums-match", SHRINKAGE)
SOLVE = SumsMatch("sums-solve", 1e-6)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.gamma(0.4, size=(50, 9)) * (rng.random((50, 9)) < 0.7)


def seen(rows: np.ndarray, *, mechanism: PDNMF = MECHANISM) -> Observables:
    return mechanism.run(Database((sp.csr_array(rows),)), np.random.default_rng(0))


def known(rows: np.ndarray, population: np.ndarray | None = None) -> Documents:
    background = {"start": public_start(MECHANISM, rows.shape[1])}
    everybody = None if population is None else known(population)
    return Documents(sp.csr_array(rows), background, population=everybody)


def added(rows: np.ndarray, run: Observables) -> np.ndarray:
    """What each document adds to the sums, shape (n, sweeps, k, d): coordinate descent, document by document."""
    topics = public_start(MECHANISM, rows.shape[1]).copy()
    w = np.zeros((len(rows), 3))
    out = np.zeros((len(rows), 3, 3, rows.shape[1]))
    for s in range(3):
        for t in range(3):
            others = [u for u in range(3) if u != t]
            for i, x in enumerate(rows):
                residual = x - w[i, others] @ topics[others]
                w[i, t] = max(residual @ topics[t], 0) / (topics[t] @ topics[t])
                out[i, s, t] = w[i, t] * residual
            raw = np.maximum(run["sums"][s, t], 0) / run["weights"][s, t]
            theta = np.sort(raw)[::-1]
            least = (np.cumsum(theta) - 1) / np.arange(1, len(theta) + 1)
            topics[t] = np.maximum(raw - least[theta > least][-1], 0)
    return out


def test_what_documents_add_is_what_the_mechanism_announces(rows: np.ndarray) -> None:
    run = seen(rows)
    phi = added(rows, run)
    np.testing.assert_allclose(phi.sum(axis=0), run["sums"], atol=1e-9)
    path = _Path(known(rows), _topics(run, known(rows).background["start"]))
    shares = np.random.default_rng(3).normal(size=len(rows))
    np.testing.assert_allclose(path.combined(shares), np.tensordot(shares, phi, 1).reshape(9, -1), atol=1e-9)
    vector = np.random.default_rng(4).normal(size=phi.shape[1:])
    np.testing.assert_allclose(path.dots(vector), (phi * vector).sum(axis=(1, 2, 3)), atol=1e-9)
    flat = phi.reshape(len(rows), -1)
    np.testing.assert_allclose(path.gram(rows @ rows.T), flat @ flat.T, atol=1e-9)


def test_it_is_the_matched_filter_of_the_primal(rows: np.ndarray) -> None:
    run, others = seen(rows[:20]), rows[10:]
    found = MATCH.evaluate(run, known(rows[:5], others))
    sample = added(others, run).reshape(len(others), -1)
    mean, sums = sample.mean(axis=0), run["sums"].ravel()
    centred = sample - mean
    number = sums @ mean / (mean @ mean)
    form = centred.T @ centred + SHRINKAGE * (centred**2).sum() / len(sample) * np.eye(len(mean))
    filtered = np.linalg.solve(form, sums - number * mean)
    filtered *= SHRINKAGE * (centred**2).sum() / len(sample)  # the dual leaves this factor out
    expected = (added(rows[:5], run).reshape(5, -1) - mean) @ filtered
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_a_value_hangs_on_the_document_alone(rows: np.ndarray) -> None:
    run, whole = seen(rows[:20]), known(rows, rows[20:])
    every = MATCH.evaluate(run, whole)
    for places in ([3], [7, 3, 40], list(range(0, 50, 3))):
        some = whole.at(np.array(places))
        assert (MATCH.evaluate(seen(rows[:20]), some) == every[places]).all()
        assert (SOLVE.evaluate(run, some) == SOLVE.evaluate(run, whole)[places]).all()


def test_it_sees_what_no_energy_sees() -> None:
    """Half of 60 documents over 12 features: their sums' space is nearly everything, whoever was in."""
    rng = np.random.default_rng(2)
    corpus = rng.gamma(2.0, size=(60, 12))
    bits = rng.random((60, 300)).argsort(axis=0).argsort(axis=0) < 30
    values = np.array([SOLVE.evaluate(seen(corpus[held]), known(corpus)) for held in bits.T])
    found = ks_table(np.ascontiguousarray(values.T), bits).distance
    assert np.median(found) > 0.4


@pytest.mark.parametrize("weights", [0.0, 1.0])
def test_empty_topics_and_constant_populations_are_finite(weights: float) -> None:
    run = Observables({"sums": np.zeros((3, 3, 9)), "weights": np.full((3, 3), weights)})
    for rows in (np.zeros((4, 9)), np.ones((4, 9))):
        assert np.isfinite(MATCH.evaluate(run, known(rows))).all()


def test_whose_start_is_public() -> None:
    assert public_start(MECHANISM, 9).shape == (3, 9)
    noisy = Noisy("pd-nmf", noise=0.1, parameters={"rank": 3, "start_seed": 4})
    np.testing.assert_array_equal(public_start(noisy, 9), public_start(MECHANISM, 9))
    for other in (PDNMF(rank=3, weighted=True), PDNMF(rank=3, gamma=0.1), PDNMF(rank=3, start="nnsvd")):
        assert public_start(other, 9) is None
