"""How strong the attacks of an audit are: what it finds of leaks of known size (without numerics)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ksdp.audit.verdicts.verdict import Verdict


@dataclass(frozen=True)
class Planted:
    """Verdicts on leaks of one kind and size."""

    kind: str
    above: float
    """Their size as planned, above the margin."""
    advantage: float
    """Their mean size as measured."""
    called: Mapping[str, int]


@dataclass(frozen=True)
class AttackStrength:
    """Verdicts of an audit on leaks that were planted for documents that had been called clear."""

    audit: str
    margin: float
    rows: tuple[Planted, ...]
    learnt: bool
    """Whether a statistic learns from simulated runs what to look for."""
    finished: str

    def sentence(self) -> str:
        """For people."""
        above = [row for row in self.rows if row.above > 0 and row.advantage > self.margin]
        sensitive, missed = (sum(row.called[word] for row in above) for word in (Verdict.SENSITIVE, Verdict.CLEAR))
        planted = sum(sum(row.called.values()) for row in above)
        undecided = planted - sensitive - missed
        caveat = " Its attacks know how the mechanism takes a document in; other leaks they do not look for."
        return (
            f"Of {planted} leaks above the margin of {self.margin:g}, planted for clear documents, "
            f"an audit like this called {sensitive} sensitive and {missed} clear; {undecided} stayed open."
            + ("" if self.learnt else caveat)
        )

    def to_json(self) -> dict[str, Any]:
        """As the store holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> AttackStrength:
        """Return the strength that `to_json` wrote."""
        try:
            rows = tuple(Planted(**row) for row in stored["rows"])
            return cls(stored["audit"], stored["margin"], rows, stored["learnt"], stored["finished"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"a key is missing or not known: {error}") from error
