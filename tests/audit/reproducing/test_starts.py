"""Table 1 of PD-ML-Lite on small data."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS
from ksdp.audit.reproducing.starts import PRINTED, AskedStarts, perplexity, starts_outcome, starts_scores


def words(rows: int = 300) -> sp.csr_array:
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(30, 0.1), size=3)
    mixtures = rng.dirichlet(np.full(3, 0.3), size=rows) @ topics
    return sp.csr_array(np.array([rng.multinomial(40, row / row.sum()) for row in mixtures], dtype=float))


def test_perplexity_of_known_mixtures() -> None:
    """Documents of one topic each; a topic is uniform on its own terms, so that perplexity is their number."""
    T = np.kron(np.eye(2), np.full((1, 4), 0.25))
    counts = sp.csr_array(np.kron(np.eye(2), np.full((1, 4), 5.0)))
    assert perplexity(T, counts, counts) == pytest.approx(1 / (0.99 / 4 + 0.01 / 8))


def test_a_term_that_no_topic_has_costs_what_the_smoothing_leaves() -> None:
    T, counts = np.array([[1.0, 0.0]]), sp.csr_array([[1.0, 1.0]])
    assert perplexity(T, counts, counts) == pytest.approx(np.exp(-(np.log(0.995) + np.log(0.005)) / 2))


def test_every_start_is_scored_in_the_same_settings() -> None:
    found = starts_scores(words(), AskedStarts((2,), (0.2, 0.4), (3,), trials=1))
    assert set(found) == set(STARTS) == set(PRINTED)
    assert {len(scores) for scores in found.values()} == {2}
    errors = {name: np.mean([score[0] for score in scores]) for name, scores in found.items()}
    assert all(0 < error < 1 for error in errors.values())
    assert errors["pd-nmf-init"] < 1.1 * errors["nnsvd"]
    outcome = starts_outcome({"words": found})
    assert [row[1] for row in outcome.rows] == list(STARTS)
    assert [row[2] for row in outcome.rows][STARTS.index("random")] == pytest.approx(3.96)
