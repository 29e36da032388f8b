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

The level of audits that are repeated for as long as a protocol is in use: one budget a schedule.

Two kinds, and what each asks for:

- `lord` (LORD++): the level of an audit is decided by those before it, and a discovery earns level back. The
  audits' p-values must be independent, so every audit draws fresh runs: a seed of its own.
- `spending`: audit number t decides at the level times gamma_t, and all of them together keep the level under any
  dependence. Every audit may therefore use the spec's own seed, and with it runs that the store holds already.

An audit is one test of "nothing leaks" that rejects if it calls any document sensitive: where nothing leaks, that
happens with probability at most its level. So LORD++ controls the expected share of false ones among the audits
that find something, and within an audit the share of false documents is controlled at its own level. Only whether
something was found is passed on, because with several looks an audit's corrected p-values mean something at its
own level only.

"Clear" and the bands are always spent by `spending`, whatever the kind: no discovery earns a wrong "clear" back,
and the levels of LORD++ add up to more than one where audits keep finding something. So over all audits of a
schedule, of what each calls clear at most its part is expected to be wrong, and the parts add up to the level.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import zeta

from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.specs.models import Spec

_POWER = 1.6
"""Exponent of the sequence gamma_t = t^-1.6 / zeta(1.6): slow enough that late tests keep some level."""


@dataclass(frozen=True)
class OnlineState:
    """Everything that LORD++ remembers."""

    level: float
    """False discovery rate of the whole stream."""
    wealth: float
    """Level that may be spent before the first rejection, below `level`."""
    tests: int = 0
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
    """The level at which audit number `audit` (from 1) decides, so that all of them together keep `level`."""
    if not 0 < level < 1:
        raise ValueError(f"`level` must be in (0, 1); got {level}.")
    if audit < 1:
        raise ValueError(f"`audit` must be at least 1; got {audit}.")
    return level * float(_gamma(np.array([audit]))[0])


def _gamma(index: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(index.astype(np.float64) ** -_POWER / zeta(_POWER), dtype=np.float64)


@dataclass(frozen=True)
class LevelBudget:
    """Level that has been spent so far."""

    kind: Literal["lord", "spending"]
    state: OnlineState

    @property
    def number(self) -> int:
        """Number of the next audit, from 1."""
        return self.state.tests + 1

    @property
    def next_level(self) -> float:
        """At which the next audit decides."""
        return level_now(self.state) if self.kind == "lord" else spent_level(self.state.level, self.number)

    @property
    def next_clear_level(self) -> float:
        """At which the next audit calls documents clear and its bands hold: all audits' add up to the level."""
        return spent_level(self.state.level, self.number)

    @property
    def left(self) -> float:
        """Sum of the levels of all audits to come, should none of them find anything.

        With G(k) the sum of gamma over t > k, r_j the rejections and t the audits done: for `lord`
        W G(t) + (level - W) G(t - r_1) + level sum_(j > 1) G(t - r_j), for `spending` level G(t).
        """
        done = self.state.tests
        if self.kind == "spending":
            return self.state.level * _tail(done)
        wealth = self.state.wealth * _tail(done)
        for place, rejection in enumerate(self.state.rejections):
            earned = self.state.level - self.state.wealth if place == 0 else self.state.level
            wealth += earned * _tail(done - rejection)
        return wealth

    def spend(self, discovery: bool) -> LevelBudget:
        """The budget after an audit that called a document sensitive, or none; a void one found none."""
        return LevelBudget(self.kind, advance(self.state, 0.0 if discovery else 1.0))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"kind": self.kind} | asdict(self.state)


def _tail(done: int) -> float:
    """Sum of gamma_t over t > `done`: zeta(1.6, done + 1) / zeta(1.6)."""
    return float(zeta(_POWER, done + 1) / zeta(_POWER))


def open_budget(kind: Literal["lord", "spending"], level: float) -> LevelBudget:
    """A budget before its first audit."""
    return LevelBudget(kind, start(level))


def read_budget(stored: Mapping[str, Any]) -> LevelBudget:
    """The budget that `as_dict` wrote."""
    if stored.get("kind") not in ("lord", "spending"):
        raise ValueError(f"`kind` must be lord or spending; got {stored.get('kind')!r}.")
    rejections = tuple(int(number) for number in stored["rejections"])
    state = OnlineState(float(stored["level"]), float(stored["wealth"]), int(stored["tests"]), rejections)
    return LevelBudget(stored["kind"], state)


def audit_seed(seed: int, number: int) -> int:
    """Seed of an audit, below 2^53: the spec's own in the first, so that runs made before are not made again."""
    if number == 1:
        return seed
    return derived_seed(seed, Purpose.SCHEDULE, number)


def next_spec(spec: Spec, budget: LevelBudget, documents: tuple[str, ...] | None) -> Spec:
    """The spec of the next audit: its level, its seed, and the documents that it is about."""
    design = spec.design if documents is None else spec.design.model_copy(update={"documents": documents})
    seed = audit_seed(spec.seed, budget.number) if budget.kind == "lord" else spec.seed
    levels = {"level": budget.next_level, "clear_level": budget.next_clear_level}
    decision = spec.decision.model_copy(update=levels)
    return spec.model_copy(update={"seed": seed, "design": design, "decision": decision})
