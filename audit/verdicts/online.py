"""Error control over audits that are repeated for as long as a protocol is in use.

Testing every night is looking many times too. Two answers:

- **Spending** (`spent_level`): audit number t decides at the level times gamma_t, sum of gamma = 1. Whatever an
  audit controls (false discovery or family-wise error, under any dependence), all audits together control at
  the full level, because the share of false discoveries of a union is at most the sum of the shares.
- **LORD++** (`start`, `level_now`, `advance`): one test after another, each at a level that the past decides; a
  rejection earns level back, so a long quiet stream does not starve what comes after. The false discovery rate
  is controlled at every moment if the p-values are independent over tests (each on fresh runs; use one stream a
  corpus, with the audit's smallest corrected p) and the state alone decides levels.

The state is a frozen value: store it with the audit, hand it to the next.

References: Ramdas, Yang, Wainwright & Jordan (2017), https://arxiv.org/abs/1710.00499, equation (9) (LORD++);
Javanmard & Montanari (2018), https://doi.org/10.1214/17-AOS1559.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import zeta

_POWER = 1.6
"""Of the sequence gamma_t = t^-1.6 / zeta(1.6): slow enough that late tests keep some level."""


@dataclass(frozen=True)
class OnlineState:
    """Everything that LORD++ remembers."""

    level: float
    """False discovery rate of the whole stream."""
    wealth: float
    """What may be spent before the first rejection, below `level`."""
    tests: int = 0
    """Tests made."""
    rejections: tuple[int, ...] = ()
    """Numbers (from 1) of the tests that rejected, ascending."""

    def __post_init__(self) -> None:
        if not 0 < self.level < 1:
            raise ValueError(f"`level` must be in (0, 1); got {self.level}.")
        if not 0 < self.wealth <= self.level:
            raise ValueError(f"`wealth` must be in (0, `level`]; got {self.wealth}.")
        ascending = all(a < b for a, b in zip((0, *self.rejections), self.rejections, strict=False))
        if not ascending or (self.rejections and self.rejections[-1] > self.tests):
            raise ValueError("`rejections` must ascend from 1 and not exceed `tests`.")


def start(level: float = 0.05, wealth: float | None = None) -> OnlineState:
    """A stream before its first test; `wealth` is half the level unless given."""
    return OnlineState(level, level / 2 if wealth is None else wealth)


def level_now(state: OnlineState) -> float:
    """The level of the next test: reject if its p is at or below it.

    gamma_t W + (level - W) gamma_(t - r_1) + level sum_(j > 1) gamma_(t - r_j), with W the initial wealth and r_j
    the rejections.

    Examples
    --------
    >>> state = start(0.05)
    >>> round(level_now(state), 4)
    0.0109
    >>> round(level_now(advance(state, 0.3)), 4), round(level_now(advance(state, 0.001)), 4)
    (0.0036, 0.0145)
    """
    now = state.tests + 1
    level = state.wealth * float(_gamma(np.array([now]))[0])
    if state.rejections:
        since = _gamma(now - np.array(state.rejections))
        level += (state.level - state.wealth) * float(since[0]) + state.level * float(since[1:].sum())
    return level


def advance(state: OnlineState, p: float) -> OnlineState:
    """The state after a test with this p-value."""
    if not 0 <= p <= 1:
        raise ValueError(f"`p` must be in [0, 1]; got {p}.")
    tests = state.tests + 1
    rejections = (*state.rejections, tests) if p <= level_now(state) else state.rejections
    return dataclasses.replace(state, tests=tests, rejections=rejections)


def spent_level(level: float, audit: int) -> float:
    """The level at which audit number `audit` (from 1) decides, so that all of them together keep `level`.

    Examples
    --------
    >>> [round(spent_level(0.05, t), 4) for t in (1, 2, 30)]
    [0.0219, 0.0072, 0.0001]
    """
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    if audit < 1:
        raise ValueError(f"`audit` must be at least 1; got {audit}.")
    return level * float(_gamma(np.array([audit]))[0])


def _gamma(index: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(index.astype(np.float64) ** -_POWER / zeta(_POWER), dtype=np.float64)
