"""Search along one parameter for the first value at which few documents stand out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ksdp.audit.errors import InputError
from ksdp.audit.verdicts.drawn_share import share_upper_limit

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
