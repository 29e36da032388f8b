"""What two normal samples of one variance prove about Gaussian differential privacy.

Reference: Dong, Roth & Su (2019), https://arxiv.org/abs/1905.02383: normals mu deviations apart are mu-GDP,
exactly (epsilon, delta(epsilon)) for every epsilon.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Of the test whether both arms spread alike, and of the power that `refutable_factor` promises.
_SPREAD_LEVEL, _POWER = 1e-4, 0.9


def spread_differs(arms: NDArray[np.float64]) -> bool:
    """F test of equal variances, two-sided: exact for normal arms."""
    first, second = arms.var(axis=1, ddof=1)
    if not np.isfinite([first, second]).all() or not min(first, second) > 0:
        return bool(first != second)
    from scipy.stats import f as f_law  # half a second of imports, which who reads findings need not wait for

    law = f_law(arms.shape[1] - 1, arms.shape[1] - 1)
    return bool(2 * min(law.sf(first / second), law.cdf(first / second)) < _SPREAD_LEVEL)


def refutable_factor(epsilon: float, delta: float, runs: int, confidence: float) -> float | None:
    """The largest share of the noise that is refuted nine times in ten; None where there is none.

    For a claim that is exact: the epsilon at this delta of the Gaussian noise that is claimed.
    """
    import dp_accounting
    from scipy.optimize import brentq
    from scipy.stats import norm

    claimed = 1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta))

    def spare(factor: float) -> float:
        mu = claimed / factor
        deviation = np.sqrt(2 / runs + mu**2 / (4 * (runs - 1)))
        return float(mu - (norm.ppf(confidence) + norm.ppf(_POWER)) * deviation - claimed)

    return float(brentq(spare, 1e-6, 1.0)) if spare(1e-6) > 0 else None


def gaussian_epsilon_low(arms: NDArray[np.float64], confidence: float, delta: float) -> float:
    """Epsilon at delta of two normals of one variance, apart by the smallest mu that the runs allow."""
    import dp_accounting
    from scipy.optimize import brentq
    from scipy.stats import nct

    runs = arms.shape[1]
    apart, spread = float(arms[0].mean() - arms[1].mean()), float(np.sqrt(arms.var(axis=1, ddof=1).mean()))
    if not (np.isfinite(apart) and spread > 0 and apart > 0):
        return 0.0
    root = np.sqrt(runs / 2)
    seen, free = apart / spread * root, 2 * runs - 2

    def beyond(noncentrality: float) -> float:
        return float(nct.sf(seen, free, noncentrality)) - (1 - confidence)

    if beyond(0.0) >= 0:
        return 0.0
    # The upper end: there about half of all samples lie beyond what was seen.
    mu = float(brentq(beyond, 0.0, seen + 1.0)) / root
    return float(dp_accounting.get_epsilon_gaussian(1 / mu, delta)) if mu > 1e-6 else 0.0
