"""The support statistics against plain loops, and as what they are: a leak that nothing hides."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.support import NEAR_ZERO, log_support, mean_missing, missing_weight


@pytest.fixture(scope="module")
def documents() -> Documents:
    rng = np.random.default_rng(0)
    return Documents(sp.csr_array(rng.poisson(0.4, (25, 30)) * rng.random((25, 30))))


def test_equal_plain_loops(documents: Documents) -> None:
    rng = np.random.default_rng(1)
    v = rng.normal(size=(3, 30))
    v[:, [2, 7, 11]] = 0.0
    mean = rng.random(30) * (np.arange(30) % 4 > 0)
    seen = Observables({"V": v, "mean": mean})
    missing = missing_weight(seen, documents)
    support = log_support(seen, documents)
    absent = mean_missing(seen, documents)
    largest = np.abs(v).max()
    for row, x in enumerate(documents.matrix.toarray()):
        whole = sum(value**2 for value in x) or 1.0
        left = sum(value**2 for j, value in enumerate(x) if max(abs(v[:, j])) <= NEAR_ZERO * largest)
        logs = sum(
            value**2 * math.log(max(*abs(v[:, j]), NEAR_ZERO * largest)) for j, value in enumerate(x) if value
        )
        assert missing[row] == pytest.approx(left / whole)
        assert support[row] == pytest.approx(logs)
        assert absent[row] == pytest.approx(sum(x[j] ** 2 for j in range(30) if mean[j] == 0) / whole)


def test_a_lifted_topic_leaves_out_what_is_at_its_smallest_entry(documents: Documents) -> None:
    topics = np.random.default_rng(2).random((2, 30))
    topics[:, 5] = 0.0
    topics += 0.3
    seen = Observables({"T": topics})
    x = documents.matrix.toarray()
    expected = x[:, 5] ** 2 / np.maximum((x**2).sum(axis=1), 1e-300)
    assert missing_weight(seen, documents) == pytest.approx(expected)
    assert expected.max() > 0


def test_a_document_that_took_part_misses_nothing(documents: Documents) -> None:
    """Every feature of a document in the sample is in the mean and in the row space."""
    x = documents.matrix.toarray()
    held = x[:3]
    seen = Observables({"V": np.linalg.svd(held, full_matrices=False)[2], "mean": held.mean(axis=0)})
    assert mean_missing(seen, documents)[:3] == pytest.approx(0.0)
    assert missing_weight(seen, documents)[:3] == pytest.approx(0.0)
    assert mean_missing(seen, documents)[3:].max() > 0
