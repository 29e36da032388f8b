"""What sums with noise say of a document, against the direction of largest entropy.

That one is compared with SciPy's in `test_max_entropy`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.linear.operator import TermNumbers
from ksdp.audit.statistics.linear.system import Equations, what_they_say
from ksdp.audit.statistics.linear.tilting import Direction, span_of


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

    shares = np.full(documents, share)
    wanted = Direction(*span_of(rows, noise).direction(sums - shares @ rows, shares)).of(terms(matrix))
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert np.abs(found).max() > 0.1
