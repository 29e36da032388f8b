"""What a run may give away at most, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.spent import Price, price_of, worst_price
from ksdp.flows.runs.terms import Run


class Priced(Protocol):
    """A run that a ledger can hold."""

    @property
    def identity(self) -> dict[str, Any]:
        """The mechanism: name, version, parameters."""
        ...

    def worst(self, own: int) -> Price:
        """The highest price that it may have for a party that enters so many documents."""
        ...

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """What it came to; `about` is what `run.json` says."""
        ...


@dataclass(frozen=True, eq=False)
class PartyRunPrices:
    """Of a run among parties."""

    run: Run

    @property
    def identity(self) -> dict[str, Any]:
        """The mechanism with its parameters."""
        mechanism = self.run.terms.mechanism
        return {"name": mechanism.name, "version": mechanism.version, **parameters_of(mechanism)}

    def worst(self, own: int) -> Price:
        """Before the others' sizes are known."""
        terms = self.run.terms
        return worst_price(terms.mechanism, own, terms.parties, terms.features)

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """Of the true sizes, where they are public."""
        terms = self.run.terms
        return price_of(terms.mechanism, about["sizes"], terms.features) if about["sizes"] else self.worst(own)
