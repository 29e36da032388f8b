"""Recorded runs whose numbers fit who was in them better when one of the two is shifted: a mix-up, and no audit.

What a run announced depends on the documents that were in it. So announcements and the sums of their databases'
rows are correlated, run by run, in the order in which they belong together, and in no other. The fit is Pillai's
trace of the leading components of both, times the runs: without any connection it has about a chi-squared law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from ksdp.audit.numeric.array_types import Bits, Floats

_COMPONENTS = 20
MOST_RUNS = 1500
"""That are looked at: a shift shows in fewer."""
_MOST_DOCUMENTS = 5
"""By how many places documents are shifted, either way; runs are by any number."""
_SURE = 9.0
"""Decimal digits by which a shift has to fit better than what was recorded."""
_TIMES = 2
"""By this factor too: where a document enters otherwise than by its row, chance decides which order fits best, by
half as many digits more; a wrong order leaves a fifth of them."""


@dataclass(frozen=True)
class Shift:
    """An order that fits better than the one recorded."""

    what: str
    """`runs` or `documents`."""
    by: int
    digits: float
    """-log10 of the p-value of its fit."""
    recorded: float
    """The same of what was recorded."""


def better_shift(announced: Floats, bits: Bits, rows: sp.csr_array) -> Shift | None:
    """The shift that surely fits better than no shift; None where there is none.

    Parameters
    ----------
    announced : array, shape (n_runs, n_numbers)
    bits : bool array, shape (n_runs, n_documents)
        Who was in.
    rows : csr_array, shape (n_documents, n_features)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows, bits = rng.normal(size=(30, 3)), rng.random((200, 30)) < 0.5
    >>> sums = bits @ rows
    >>> better_shift(sums, bits, sp.csr_array(rows)) is None
    True
    >>> found = better_shift(np.roll(sums, 1, axis=0), bits, sp.csr_array(rows))
    >>> found.what, found.by
    ('runs', 1)
    """
    runs = len(bits)
    # Where signs or orders are arbitrary, the squares are not.
    theirs = _components(np.hstack([announced, np.square(announced)]))
    fits = _digits(theirs, _components(bits @ rows))
    recorded, by = float(fits[0]), int(np.argmax(fits))
    found = [Shift("runs", by if by <= runs // 2 else by - runs, float(fits[by]), recorded)]
    for by in (*range(-_MOST_DOCUMENTS, 0), *range(1, _MOST_DOCUMENTS + 1)):
        moved = _components(np.roll(bits, -by, axis=1) @ rows)
        found.append(Shift("documents", by, float(_digits(theirs, moved)[0]), recorded))
    best = max(found, key=lambda shift: shift.digits)
    return best if best.digits > _TIMES * recorded + _SURE + math.log10(runs) else None


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
    left, sizes, _ = randomized_svd(standard, max(most, 1), random_state=0)
    return np.asarray(left[:, sizes > 1e-9 * sizes[0]])


def _digits(theirs: Floats, ours: Floats) -> Floats:
    """-log10 p of the fit at each shift of runs, shape (n_runs,)."""
    from scipy.stats import chi2  # half a second of imports, which recorded runs alone need

    runs = len(theirs)
    pairs = theirs.shape[1] * ours.shape[1]
    if not pairs:
        return np.zeros(runs)
    moved = np.fft.rfft(theirs, axis=0)[:, :, None] * np.conj(np.fft.rfft(ours, axis=0))[:, None, :]
    traces = np.square(np.fft.irfft(moved, n=runs, axis=0)).sum(axis=(1, 2))
    at, half = traces * (runs - 1) / 2, pairs / 2
    # The tail's first term, where p underflows.
    far = at - (half - 1) * np.log(np.maximum(at, 1.0)) + gammaln(half)
    exact = -chi2.logsf(2 * at, pairs)
    return np.asarray(np.where(np.isfinite(exact), exact, far) / math.log(10))
