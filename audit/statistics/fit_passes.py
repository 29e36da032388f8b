"""A round through the documents of a fit, in its units: products with what is left, and taking parts out of it.

What is left of the sums is a panel and c, panel + sum over u of c_u B_u, with the products of all of it with B
beside it, so that no row of the basis is ever written out (`one_by_one`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ksdp.audit.kernels import add_row_to_panel, row_times_panel


@njit(cache=True, nogil=True)
def go_round(
    csr: Any, about: Any, pairs: Any, left: Any, parts: Any, bounds: Any, resting: Any, found: Any
) -> None:
    """Once through the documents: found[i] = parts[i] + <a_i, left> / |a_i|^2.

    Parts move there, or as far as bounds[0] and bounds[1] let them, and what that adds is taken from what is left;
    without bounds, of shape (2, 0), they stay. Who is `resting`, shape (n,) or nobody, is passed over.
    """
    (indptr, indices, data), (weights, scalars, sizes) = csr, about
    (starts, places, values), (panel, single, across) = pairs, left
    sums = np.zeros(panel.shape[1], panel.dtype)
    for i in range(len(parts)):
        found[i] = 0.0
        if not sizes[i] > 0.0 or (len(resting) and resting[i]):
            continue
        row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], sums)
        plus, less, odd = 0.0, 0.0, (starts[i + 1] - starts[i]) % 2
        more, fewer = 0.0, 0.0  # two chains of sums each: one waits for itself
        for p in range(starts[i], starts[i + 1] - odd, 2):
            one, two = places[p], places[p + 1]
            plus += values[p, 0] * across[one, 0]
            less += values[p, 1] * across[one, 1]
            more += values[p + 1, 0] * across[two, 0]
            fewer += values[p + 1, 1] * across[two, 1]
        if odd:
            p = starts[i + 1] - 1
            plus += values[p, 0] * across[places[p], 0]
            less += values[p, 1] * across[places[p], 1]
        total = (plus + more) - (less + fewer)
        for r in range(weights.shape[1]):
            total += weights[i, r] * sums[r]
        for s in range(len(single)):
            total += scalars[i, s] * single[s]
        found[i] = parts[i] + total / sizes[i]
        if not bounds.shape[1]:
            continue
        new = min(max(found[i], bounds[0, i]), bounds[1, i])
        step = new - parts[i]
        if step == 0.0:
            continue
        parts[i] = new
        for r in range(weights.shape[1]):
            sums[r] = -step * weights[i, r]
        for r in range(weights.shape[1], len(sums)):
            sums[r] = 0.0
        add_row_to_panel(indices, data, indptr[i], indptr[i + 1], sums, panel)
        for p in range(starts[i], starts[i + 1]):
            across[places[p], 0] += step * values[p, 1]
            across[places[p], 1] -= step * values[p, 2]
        for s in range(len(single)):
            single[s] -= step * scalars[i, s]
