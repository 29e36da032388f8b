"""What sums with noise say of a document, against the function that it minimises, by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.equations import Equations, what_they_say
from ksdp.audit.statistics.term_numbers import TermNumbers


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_noise_counts_by_its_variance_however_large_the_parties_are(share: float) -> None:
    rng, documents, features, noise = np.random.default_rng(5), 14, 4, 1.5
    rows = rng.normal(size=(documents, features))
    held = rng.random(documents) < share
    sums = held @ rows + rng.normal(0, np.sqrt(noise), features)

    def terms(some: sp.csr_array, turned: Any = None) -> TermNumbers:
        return TermNumbers.plain(some, np.ones((some.shape[0], 1)))

    matrix = sp.csr_array(rows)
    looked_at = Documents(matrix, pool=Pool(matrix, share))
    found = what_they_say("sums", Observables({}), looked_at, terms, Equations(sums, noise))

    def height(direction: Floats) -> float:
        moved = rows @ direction[:-1] + direction[-1]
        likely = np.log(1 - share + share * np.exp(moved)).sum() - sums @ direction[:-1]
        about_as_many = direction[-1] ** 2 / 2 - share * documents * direction[-1]
        return float(likely + noise * direction[:-1] @ direction[:-1] / 2 + about_as_many)

    wanted = minimize(height, np.zeros(features + 1), tol=1e-12).x
    moved = rows @ wanted[:-1] + wanted[-1]
    np.testing.assert_allclose(found, moved / (1 + np.abs(moved)), atol=2e-2)
    assert np.abs(found).max() > 0.1
