"""What an audit can find and what it can clear, before it runs.

Decisions are those of `decide`: a leak is *detected* when a document's smallest p, times the number of statistics,
passes the correction over documents; a document is *clear* when the equivalence test of every statistic does. Both
are forecast for one document:

- *detection*: the document is the only one that leaks, and leaks through one statistic, so its p must reach
  `strictest_distance_log10_p` (other leaking documents only make it easier). The distance that gives this p
  is exact. How often it is reached depends on more than the advantage: a shift shows at many thresholds at
  once, and the
  largest of many differences is what is measured; an event (a statistic of two values) shows at one threshold
  only and is the worst case. `leak` chooses; an event needs up to twice the runs of a shift where few tests are
  made, 1.3 times where there are many.
- *clearance*: no document gives anything away, D has its exact null law, and the statistics are joined by the
  union bound: exact for one statistic, slightly conservative for several. What D must stay below is the margin
  less a normal quantile of the largest spread of a difference of two shares (`clearing_gap`). As all documents are
  alike, the false discovery rate asks of each what it asks of the last of those that are cleared.

Forecasts hold the arms at their expected sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from ksdp.audit.spec.models import DecisionSpec
from ksdp.audit.verdicts.detection import critical_distance, event_power, first_true, shift_power
from ksdp.audit.verdicts.multiplicity import strictest_distance_log10_p
from ksdp.audit.verdicts.needed_distances import clearing_gap

Leak = Literal["shift", "event"]

_MOST_RUNS = 10**9


def minimal_detectable(
    n_with: int,
    n_without: int,
    documents: int,
    statistics: int,
    rule: DecisionSpec,
    power: float = 0.8,
    leak: Leak = "shift",
) -> float:
    """The true advantage that is detected with probability `power`; inf where the arms cannot give so small a p.

    Examples
    --------
    >>> round(minimal_detectable(200, 6500, 17706, 8, DecisionSpec()), 3)
    0.219
    """
    _check(documents=documents, statistics=statistics, power=power)
    wanted = strictest_distance_log10_p(rule.level, documents, statistics, rule.error)
    low, high = 0.0, 1 - 1e-9
    if _power(high, n_with, n_without, wanted, leak) < power:
        return math.inf
    while high - low > 1e-5:
        middle = (low + high) / 2
        if _power(middle, n_with, n_without, wanted, leak) >= power:
            high = middle
        else:
            low = middle
    return high


def smallest_margin(
    n_with: int, n_without: int, documents: int, statistics: int, rule: DecisionSpec, power: float = 0.8
) -> float:
    """The smallest margin under which a document that gives nothing away is called clear with chance `power`.

    The noise of the largest D of the statistics, and what the equivalence test needs beyond it; inf where no
    margin up to 1 would do.

    Examples
    --------
    >>> round(smallest_margin(200, 6500, 17706, 8, DecisionSpec()), 3)
    0.205
    """
    _check(documents=documents, statistics=statistics, power=power)
    if min(n_with, n_without) < 1:
        return math.inf
    arms = np.array([n_with]), np.array([n_without])
    needed = float(clearing_gap(*arms, _clearing_level(rule, documents, power))[0])
    margin = needed + critical_distance(n_with, n_without, math.log10((1 - power) / statistics))
    return margin if margin <= 1 else math.inf


def runs_for_margin(
    share: float, margin: float, documents: int, statistics: int, rule: DecisionSpec, power: float = 0.8
) -> int:
    """All runs of an audit after which a document that gives nothing away is called clear with chance `power`.

    Parameters
    ----------
    share : float in (0, 1)
        Part of the runs that hold a document.
    margin : float in (0, 1]

    Raises
    ------
    ValueError
        If an argument is out of range, or a billion runs would not do.
    """
    _check(documents=documents, statistics=statistics, power=power, share=share)
    if not 0 < margin <= 1:
        raise ValueError(f"`margin` must be in (0, 1]; got {margin}.")
    return _fewest_runs(
        share, lambda m, n: smallest_margin(m, n, documents, statistics, rule, power) <= margin, margin
    )


def _clearing_level(rule: DecisionSpec, documents: int, power: float) -> float:
    """The raw p at which a document is cleared, where this share of all documents is."""
    if rule.error == "fwer":
        return rule.for_clear / documents
    return rule.for_clear * max(power, 1 / documents) / float((1 / np.arange(1, documents + 1)).sum())


def _check(*, documents: int, statistics: int, power: float = 0.5, share: float = 0.5) -> None:
    for name, count in (("documents", documents), ("statistics", statistics)):
        if count < 1:
            raise ValueError(f"`{name}` must be at least 1; got {count}.")
    for name, part in (("power", power), ("share", share)):
        if not 0 < part < 1:
            raise ValueError(f"`{name}` must be in (0, 1); got {part}.")


def _fewest_runs(share: float, enough: Callable[[int, int], bool], distance: float) -> int:
    def at(runs: int) -> bool:
        held = round(share * runs)
        return enough(held, runs - held)

    near = math.ceil(8 / distance**2 / min(share, 1 - share))
    high = min(near, _MOST_RUNS)
    while not at(high):
        if high == _MOST_RUNS:
            raise ValueError(f"a distance of {distance:g} needs more than {_MOST_RUNS:,} runs.")
        high = min(2 * high, _MOST_RUNS)
    return first_true(at, high, high)


def _power(advantage: float, n_with: int, n_without: int, wanted_log10_p: float, leak: Leak) -> float:
    if leak not in ("shift", "event"):
        raise ValueError(f"`leak` must be shift or event; got {leak!r}.")
    power = shift_power if leak == "shift" else event_power
    return power(advantage, n_with, n_without, wanted_log10_p)
