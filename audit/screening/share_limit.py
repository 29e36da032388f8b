"""The share of documents that may be above the margin, from a sample of them."""

from __future__ import annotations

from scipy.stats import hypergeom

__all__ = ["most_allowed", "share_upper_limit"]


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
    low, high = found, population - (drawn - found)  # what was seen bounds K on both sides
    while low < high:
        middle = (low + high + 1) // 2
        if hypergeom.cdf(found, population, middle, drawn) > level:
            low = middle
        else:
            high = middle - 1
    return low / population


def most_allowed(drawn: int, level: float, population: int, quota: float) -> int | None:
    """How many of `drawn` may be found so that the share is at most `quota` for certain; None if not even none.

    Examples
    --------
    >>> most_allowed(200, 0.05, 10_000, 0.05), most_allowed(20, 0.05, 10_000, 0.05)
    (4, None)
    """
    allowed = None
    for found in range(drawn + 1):
        if share_upper_limit(found, drawn, level, population) > quota:
            break
        allowed = found
    return allowed
