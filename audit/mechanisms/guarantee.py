"""What a mechanism guarantees, in words and numbers that a registry can list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, cast

Made = TypeVar("Made")
Kind = Literal["none", "KSDP", "(epsilon, delta)"]

SAMPLERS = {
    "discrete": "OpenDP's exact integer noise, from the operating system's randomness",
    "fast": "NumPy's noise from the run's seed: a simulation, it protects nobody",
}
"""Of noise, by name, with what a report says of each."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised, about what, and whom one must trust for it.

    `KSDP` means measured, not promised: an audit says how much each document gives away, under the statistics that
    were tried. `(epsilon, delta)` is differential privacy.
    """

    kind: Kind
    unit: str = ""
    """What may change: a record, replaced by another, or an entry of a matrix."""
    trust: str = ""
    """From whom it protects, and who must be honest."""
    source: str = ""
    epsilon: float | None = None
    """None where it depends on the parties' sizes, or nothing is promised."""
    delta: float | None = None
    sampler: str = ""
    """Empty: no noise."""
    sound: bool = True
    """False: a claim that is printed in a paper and does not hold; `notes` say why."""
    notes: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines; `protects` is true only where noise is drawn by the vetted sampler."""
        sampler = {"name": self.sampler, "is": SAMPLERS[self.sampler]} if self.sampler else None
        protects = self.kind == "(epsilon, delta)" and self.sound and self.sampler == "discrete"
        return {
            "kind": self.kind,
            "unit": self.unit,
            "trust": self.trust,
            "source": self.source,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sampler": sampler,
            "sound": self.sound,
            "protects": protects,
            "notes": self.notes,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Guarantee:
        """What `as_json` gave."""
        sampler = stored["sampler"]["name"] if stored["sampler"] else ""
        return cls(**{f.name: stored[f.name] for f in fields(cls) if f.name != "sampler"}, sampler=sampler)


NOTHING = Guarantee("none", notes="No claim is stated.")
"""Of mechanisms that state none."""


def measured(source: str, notes: str = "") -> Guarantee:
    """KSDP: no noise is added for privacy; what is given away is measured, document by document."""
    return Guarantee(
        "KSDP",
        unit="one document, against the distribution that the others come from",
        trust="the coalition of the audit; the secure sums",
        source=source,
        notes=notes or "A measurement on the audited corpus, under the statistics tried; not a promise.",
    )


def guarantee_of(mechanism: object) -> Guarantee:
    """The mechanism's `guarantee`, or `NOTHING`."""
    promise = getattr(mechanism, "guarantee", NOTHING)
    return promise if isinstance(promise, Guarantee) else NOTHING


def as_it_runs(mechanism: Made) -> Made:
    """The mechanism with the vetted sampler, which real parties draw from whatever a spec simulates with."""
    return with_sampler(mechanism, "discrete")


def with_sampler(mechanism: Made, sampler: str) -> Made:
    """The same mechanism with a sampler of `SAMPLERS`; as it is where it has no choice of one."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type):
        return mechanism
    if "sampler" not in {f.name for f in fields(mechanism) if f.init}:
        return mechanism
    changed: dict[str, Any] = {"sampler": sampler}
    return cast(Made, replace(mechanism, **changed))
