"""The first whole number for which something holds."""

from __future__ import annotations

from collections.abc import Callable


def first_whole(holds: Callable[[int], bool], above: int = 0) -> int:
    """The smallest number above `above` for which `holds`, where it holds of all larger ones too.

    Doubles until it holds, then halves the gap.

    Examples
    --------
    >>> first_whole(lambda n: n * n >= 1000)
    32
    """
    low, high = above, max(1, 2 * above)
    while not holds(high):
        low, high = high, 2 * high
    return halve(holds, low, high)


def halve(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest number above `low` for which `holds`, where it holds of `high` and of all between the two."""
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
