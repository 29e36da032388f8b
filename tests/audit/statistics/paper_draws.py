"""What the statistics of the paper read, drawn."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ksdp.audit.statistics.contract import Documents


def draw(
    seed: int, *, n: int = 9, d: int = 13, k: int = 3, density: float = 0.4, mean: bool = False, scale: float = 1.0
) -> tuple[dict[str, np.ndarray], Documents]:
    """Signed documents, one of them empty and one full, and what a run and the adversary know."""
    rng = np.random.default_rng(seed)
    dense = scale * rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    dense[0] = 0.0
    dense[1] = scale * rng.normal(size=d)
    arrays = {"V": np.linalg.qr(rng.normal(size=(d, k)))[0].T, "sigma": np.sort(rng.exponential(5, k))[::-1]}
    if mean:
        arrays["mean"] = scale * rng.normal(size=d)
    background = {
        "adversary_sigma": np.sort(rng.exponential(5, k))[::-1],
        "adversary_rows": np.array(20),
        "victim_rows": np.array([5]),
    }
    return arrays, Documents(sp.csr_array(dense), background)
