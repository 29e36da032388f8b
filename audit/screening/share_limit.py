"""The share of documents that may be above the margin, from a sample of them."""

from __future__ import annotations

from bisect import bisect_left

from ksdp.audit.verdicts.drawn_share import share_upper_limit


def fewest_drawn(level: float, population: int, quota: float) -> int:
    """How many have to be drawn at least, so that a share of at most `quota` can be shown: where all are, any can.

    Examples
    --------
    >>> fewest_drawn(0.05, 10_000, 0.05), fewest_drawn(0.05, 40, 0.0)
    (59, 39)
    """
    counts = range(1, population + 1)
    # Where none is found, the limit falls with every document drawn.
    place = bisect_left(counts, True, key=lambda drawn: share_upper_limit(0, drawn, level, population) <= quota)
    return counts[place]


def most_allowed(drawn: int, level: float, population: int, quota: float) -> int | None:
    """The most of `drawn` that may be found with the limit of their share within `quota`; None if 0 is too many.

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
