"""Search along one parameter for the first value at which few documents stand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from scipy.stats import hypergeom

from ksdp.audit.errors import InputError

__all__ = ["first_good", "geometric", "most_allowed", "share_upper_limit"]

Value = TypeVar("Value")


def geometric(first: int, last: int, steps: int = 2) -> tuple[int, ...]:
    """Whole numbers from `first` up or down to `last`, `steps` to each factor of two, both ends included.

    Examples
    --------
    >>> geometric(10, 50), geometric(7, 1)
    ((10, 14, 20, 28, 40, 50), (7, 5, 4, 2, 1))
    """
    if min(first, last, steps) < 1:
        raise InputError(f"`first`, `last` and `steps` must be at least 1; got {first}, {last} and {steps}.")
    up = last > first
    values, at = [], 0
    while (value := round(first * 2 ** ((at if up else -at) / steps))) != last and (value < last) == up:
        values.append(value)
        at += 1
    return tuple(dict.fromkeys([*values, last]))


def first_good(values: Sequence[Value], good: Callable[[Value], bool], stride: int = 2) -> Value | None:
    """The first good value of a sequence, by strides out and bisection back; None if the last one reached is bad.

    Right if every value behind a good one is good. If not, the value returned is still good, and the one before it
    (if any) is bad; `good` is asked at most once a value.

    Parameters
    ----------
    values : sequence
        At least one.
    stride : int
        Steps on the way out.
    """
    bad, at = -1, 0
    while not good(values[at]):
        if at == len(values) - 1:
            return None
        bad, at = at, min(at + stride, len(values) - 1)
    while at - bad > 1:
        middle = (bad + at) // 2
        if good(values[middle]):
            at = middle
        else:
            bad = middle
    return values[at]


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
