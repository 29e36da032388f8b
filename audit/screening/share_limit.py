"""The share of documents that may be above the margin, from a sample of them."""

from __future__ import annotations

from ksdp.audit.verdicts.drawn_share import share_upper_limit

__all__ = ["most_allowed"]


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
