"""Recorded runs whose two tables do not belong together: a mix-up, and no audit.

What a run announced depends on the documents that were in it, and documents whose rows are alike move it alike. So
the covariances of documents' bits with what was announced are alike where rows are. They are not where runs or
documents were shifted or shuffled in one of the tables: then rows in a random order fit as well as those recorded.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ksdp.audit.numeric.array_types import Bits, Floats, Ints

MOST_RUNS = 1500
"""Most runs that are examined: a mix-up shows in fewer."""
_COMPONENTS = 20
"""Number of principal components of the announcement."""
_ORDERS = 99
"""Random orders of documents, none of which may fit as well as what was recorded."""
_MOST_DOCUMENTS = 1024
"""Most documents that are compared with each other."""


def fits_documents(announced: Floats, bits: Bits, rows: sp.csr_array) -> bool:
    """Whether what was announced, (n_runs, n_numbers), fits who was in better than documents in random orders."""
    rng, some = np.random.default_rng(0), min(len(bits.T), _MOST_DOCUMENTS)
    places = np.sort(rng.choice(len(bits.T), some, replace=False))
    # Where signs or orders are arbitrary, the squares are not.
    theirs, own_bits = _components(np.hstack([announced, np.square(announced)])), bits[:, places]
    moved = theirs.T @ (own_bits - own_bits.mean(axis=0))
    gram = _centred((rows[places] @ rows[places].T).toarray())
    moves, alike = _centred(moved.T @ moved), (gram, _centred(gram**2))
    orders = [np.arange(some), *(_cycle(rng.permutation(some)) for _ in range(_ORDERS))]
    fits = np.array([[np.vdot(moves, side[np.ix_(order, order)]) for side in alike] for order in orders])
    spread = fits.std(axis=0)
    best = np.divide(fits - fits.mean(axis=0), spread, out=np.zeros_like(fits), where=spread > 0.0).max(axis=1)
    return bool(best[0] > best[1:].max())


def _centred(gram: Floats) -> Floats:
    means = gram.mean(axis=0)
    return np.asarray(gram - means - means[:, None] + means.mean())


def _cycle(order: Ints) -> Ints:
    """An order in which nobody stays in place, where who stands out would fit whoever the others are."""
    cycle = np.empty_like(order)
    cycle[order] = np.roll(order, 1)
    return cycle


def _components(columns: Floats) -> Floats:
    """Leading directions of the runs, orthonormal, shape (n_runs, at most `_COMPONENTS`)."""
    from sklearn.utils.extmath import randomized_svd  # slow to load

    centred = columns - columns.mean(axis=0)
    spread = np.sqrt(np.square(centred).mean(axis=0))
    varies = spread > 1e-12 * (1.0 + np.abs(columns).max(axis=0))
    standard = centred[:, varies] / spread[varies]
    if not standard.size:
        return np.zeros((len(columns), 0))
    most = min(_COMPONENTS, len(columns) // 10, standard.shape[1])
    directions, sizes, _ = randomized_svd(standard, max(most, 1), random_state=0)
    return np.asarray(directions[:, sizes > 1e-9 * sizes[0]])
