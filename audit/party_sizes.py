"""Search for a party size at which few documents stand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from scipy.stats import beta

from ksdp.audit.errors import InputError

__all__ = ["share_upper_limit", "size_grid", "smallest_good"]


def size_grid(first: int, last: int, steps: int = 2) -> tuple[int, ...]:
    """Sizes from `first` to `last`, `steps` to each doubling, `last` included.

    Raises
    ------
    InputError
        If `first` is below 1 or above `last`, or `steps` below 1.

    Examples
    --------
    >>> size_grid(10, 50)
    (10, 14, 20, 28, 40, 50)
    """
    if not 1 <= first <= last or steps < 1:
        raise InputError(f"sizes must satisfy 1 <= `first` <= `last`; got {first} and {last} in {steps} steps.")
    sizes, at = [], 0
    while (size := round(first * 2 ** (at / steps))) < last:
        sizes.append(size)
        at += 1
    return tuple(dict.fromkeys([*sizes, last]))


def smallest_good(sizes: Sequence[int], good: Callable[[int], bool], stride: int = 2) -> int | None:
    """The smallest good size of a grid, by strides up and bisection back; None if the last one reached is bad.

    Right if every size above a good one is good. If not, the size returned is still good, and the size below it on
    the grid (if any) is bad; `good` is asked at most once a size.

    Parameters
    ----------
    sizes : sequence of int
        Ascending.
    good : callable
    stride : int
        Steps on the way up.
    """
    bad, at = -1, 0
    while not good(sizes[at]):
        if at == len(sizes) - 1:
            return None
        bad, at = at, min(at + stride, len(sizes) - 1)
    while at - bad > 1:
        middle = (bad + at) // 2
        if good(sizes[middle]):
            at = middle
        else:
            bad = middle
    return sizes[at]


def share_upper_limit(found: int, drawn: int, level: float) -> float:
    """Upper confidence limit of a share, given `found` of `drawn` at random.

    Clopper and Pearson (1934), https://doi.org/10.1093/biomet/26.4.404, one-sided: the largest share q with
    P(Binomial(drawn, q) <= found) >= level. Drawing without replacement makes it conservative.

    Raises
    ------
    ValueError
        If the numbers do not fit.

    Examples
    --------
    >>> round(share_upper_limit(0, 59, 0.05), 3)
    0.05
    """
    if not 0 <= found <= drawn or drawn < 1 or not 0 < level < 1:
        raise ValueError(f"must have 0 <= found <= drawn and a level in (0, 1); got {found}, {drawn}, {level}.")
    return 1.0 if found == drawn else float(beta.ppf(1 - level, found + 1, drawn - found))
