"""All documents at once against SciPy's loop: speed, and how far the numbers differ."""

from __future__ import annotations

import time

import numpy as np
from scipy.stats import ks_2samp

from ksdp.audit.verdicts.laws import ks_table


def run(documents: int = 4000, runs: int = 6700, share: float = 0.03, scipy_documents: int = 200) -> None:
    """Print the ratio on documents whose leaks range from none to complete."""
    rng = np.random.default_rng(0)
    inclusion = rng.random((documents, runs)) < share
    shift = rng.uniform(0, 4, size=(documents, 1)) * (rng.random((documents, 1)) < 0.7)
    values = (rng.normal(size=(documents, runs)) + shift * inclusion).astype(np.float32)
    ks_table(values[:20], inclusion[:20])  # compiled kernels are read from their cache here

    begin = time.perf_counter()
    table = ks_table(values, inclusion)
    ours = (time.perf_counter() - begin) / documents
    begin = time.perf_counter()
    theirs = [
        ks_2samp(values[i][inclusion[i]], values[i][~inclusion[i]], method="exact") for i in range(scipy_documents)
    ]
    scipy = (time.perf_counter() - begin) / scipy_documents
    d_error = max(abs(r.statistic - table.distance[i]) for i, r in enumerate(theirs))
    p_error = max(abs(np.log10(r.pvalue) - table.log10_p[i]) for i, r in enumerate(theirs) if r.pvalue > 0)
    print(f"KS with exact p, {runs} runs, {share:.0%} with, a document:")
    print(f"  ours {ours * 1e6:.0f} us, SciPy {scipy * 1e6:.0f} us")
    print(f"  {scipy / ours:.0f} x; largest difference of D {d_error:.1e}, of log10 p {p_error:.1e}")
