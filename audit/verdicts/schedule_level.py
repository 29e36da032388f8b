"""The level of audits that are repeated for as long as a protocol is in use: one budget a schedule.

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

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from scipy.special import zeta

from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.spec.models import Spec
from ksdp.audit.verdicts.online import OnlineState, advance, level_now, spent_level, start

_POWER = 1.6
"""Of gamma_t in `ksdp.audit.verdicts.online`; a test compares."""


@dataclass(frozen=True)
class LevelBudget:
    """What has been spent so far."""

    kind: Literal["lord", "spending"]
    state: OnlineState

    @property
    def number(self) -> int:
        """Of the next audit, from 1."""
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
        left = self.state.wealth * _tail(done)
        for place, rejection in enumerate(self.state.rejections):
            earned = self.state.level - self.state.wealth if place == 0 else self.state.level
            left += earned * _tail(done - rejection)
        return left

    def spend(self, found: bool) -> LevelBudget:
        """The budget after an audit that called a document sensitive, or none; a void one found none."""
        return LevelBudget(self.kind, advance(self.state, 0.0 if found else 1.0))

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {"kind": self.kind} | asdict(self.state)


def _tail(done: int) -> float:
    """Sum of gamma_t over t > `done`: zeta(1.6, done + 1) / zeta(1.6)."""
    return float(zeta(_POWER, done + 1) / zeta(_POWER))


def open_budget(kind: Literal["lord", "spending"], level: float) -> LevelBudget:
    """A budget before its first audit.

    Examples
    --------
    >>> budget = open_budget("lord", 0.05)
    >>> budget.number, round(budget.next_level, 4), round(budget.left, 4)
    (1, 0.0109, 0.025)
    >>> found = budget.spend(True)
    >>> found.number, round(found.next_level, 4), round(found.left, 4)
    (2, 0.0145, 0.0391)
    """
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
    """The spec of the next audit: its level, its seed, and the documents that it is about.

    Parameters
    ----------
    documents : ids, optional
        What the level is spent on; the spec's own where there is none.
    """
    design = spec.design if documents is None else spec.design.model_copy(update={"documents": documents})
    seed = audit_seed(spec.seed, budget.number) if budget.kind == "lord" else spec.seed
    levels = {"level": budget.next_level, "clear_level": budget.next_clear_level}
    decision = spec.decision.model_copy(update=levels)
    certificate = spec.certificate
    if certificate is not None and certificate.level is not None:
        # What was asked for all certificates of the schedule together, spent like "clear".
        certificate = certificate.model_copy(update={"level": spent_level(certificate.level, budget.number)})
    changed = {"seed": seed, "design": design, "decision": decision, "certificate": certificate}
    return spec.model_copy(update=changed)
