"""What documents drawn at random say of the whole corpus: bounds of the share that leaks.

Two things can be wrong: verdicts on those that were drawn, and the draw. Each gets half of the error on each side.

Verdicts: among n documents of which n0 are truly at most the margin, p <= t of "at most the margin" happens for
n0 t of them on average at most, however documents depend on each other; so, by Markov's inequality, for
c = n t / error or more of them with probability at most `error`. With t = error max(1 / n, 1 / 100), of the
documents with p <= t all truly leak but for fewer than n / 100 (all of them, where n is at most 100). Likewise
those that are proved below the margin.

The draw: without replacement, so that how many of those drawn leak is hypergeometric.
"""

from __future__ import annotations

import math

from ksdp.audit.array_types import Floats

_SLACK = 0.01
"""Part of the documents that may be wrongly counted, so that not each of them must be proved beyond n / error."""


def surely(log10_p: Floats, error: float) -> int:
    """How many null hypotheses are false at least, with probability 1 - `error`, whatever their p-values share.

    Parameters
    ----------
    log10_p : shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> surely(np.array([-4.0, -3.0, -0.1]), 0.05), surely(np.full(1000, -4.0), 0.05)
    (2, 991)
    """
    count = len(log10_p)
    part = max(1 / count, _SLACK)
    small = int((log10_p <= math.log10(error * part)).sum())
    return max(small - (math.ceil(round(count * part, 9)) - 1), 0)


def share_upper_limit(found: int, drawn: int, level: float, population: int) -> float:
    """Upper confidence limit of a share of a finite population, given `found` of `drawn` at random.

    The construction of Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404, one-sided, with the
    exact law of drawing without replacement: K / population for the largest K such that
    P(Hypergeometric(population, K, drawn) <= found) > level. As the population grows it becomes their limit, and
    where everything is drawn it is the share itself.

    Examples
    --------
    >>> round(share_upper_limit(0, 59, 0.05, 10**6), 3)
    0.05
    >>> share_upper_limit(3, 60, 0.05, 60)
    0.05
    """
    if not 0 <= found <= drawn <= population or drawn < 1 or not 0 < level < 1:
        raise ValueError(
            f"must have 0 <= found <= drawn <= population and a level in (0, 1); got {found}, {drawn}, "
            f"{population}, {level}."
        )
    from scipy.stats import hypergeom  # slow to load, and read by few commands

    level *= 1 - 1e-9  # rounding may not make the limit smaller
    low, high = found, population - (drawn - found)  # what was seen bounds K on both sides
    while low < high:
        middle = (low + high + 1) // 2
        if hypergeom.cdf(found, population, middle, drawn) > level:
            low = middle
        else:
            high = middle - 1
    return low / population


def share_lower_limit(found: int, drawn: int, level: float, population: int) -> float:
    """Lower confidence limit, as `share_upper_limit` is the upper one.

    Examples
    --------
    >>> share_lower_limit(60, 60, 0.05, 60), round(share_lower_limit(59, 59, 0.05, 10**6), 3)
    (1.0, 0.95)
    """
    return 1.0 - share_upper_limit(drawn - found, drawn, level, population)


def share_bounds(log10_above: Floats, log10_below: Floats, population: int, level: float) -> tuple[float, float]:
    """Bounds of the share of a population that leaks more than the margin; both hold with probability 1 - `level`.

    Parameters
    ----------
    log10_above, log10_below : shape (n,)
        p of "at most the margin" and of "at least the margin" of documents drawn at random, over all statistics.
    population : int
        Documents that they were drawn from.

    Examples
    --------
    A hundred of ten thousand, 80 proved to leak and 10 proved not to:

    >>> import numpy as np
    >>> above, below = np.repeat([-9.0, 0.0, 0.0], [80, 10, 10]), np.repeat([0.0, -9.0, 0.0], [80, 10, 10])
    >>> [round(bound, 2) for bound in share_bounds(above, below, 10_000, 0.05)]
    [0.7, 0.96]
    """
    drawn, error = len(log10_above), level / 4
    leaking, safe = surely(log10_above, error), surely(log10_below, error)
    return (
        share_lower_limit(leaking, drawn, error, population),
        share_upper_limit(drawn - safe, drawn, error, population),
    )
