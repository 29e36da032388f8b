"""A budget over time: what runs on a party's data have given away together, and whether one more is within it.

All runs of a ledger count together, whatever their corpus: one that has grown by a document has another hash, and
holds the same documents. Data that has nothing in common is kept in ledgers of its own.

What two runs without a promise give away together follows from no number of each: they are counted (`unbounded`),
and a budget limits how many there may be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field

from ksdp.audit.errors import ClearanceError, InputError
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.spent import (
    UNIT,
    Price,
    SecretDraw,
    Spent,
    price_of,
    spent_together,
    worst_price,
)
from ksdp.audit.numeric.whole_numbers import Whole
from ksdp.audit.randomness import os_random
from ksdp.audit.reviewing import plural
from ksdp.audit.specs.models import Section, validated
from ksdp.audit.specs.own_names import mechanism_words
from ksdp.flows.interruption import Clock
from ksdp.flows.runs.protocol_files import Run
from ksdp.storage.files import read_toml
from ksdp.storage.runs.ledger import Ledger


class Priced(Protocol):
    """A run that a ledger can hold."""

    @property
    def identity(self) -> dict[str, Any]:
        """The mechanism: name, version, parameters."""

    def worst(self, own: int) -> Price:
        """The highest price that it may have for a party that enters so many documents."""

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """Return the true price; `about` is the content of `run.json`."""


@dataclass(frozen=True, eq=False)
class RunPrices:
    """Prices of a run among parties."""

    run: Run

    @property
    def identity(self) -> dict[str, Any]:
        """The mechanism with its parameters."""
        mechanism = self.run.terms.mechanism
        return {"name": mechanism.name, "version": mechanism.version, **parameters_of(mechanism)}

    def worst(self, own: int) -> Price:
        """Before the others' sizes are known."""
        terms = self.run.terms
        mechanisms = terms.mechanism, terms.as_run
        stated, price = (worst_price(each, own, terms.parties, terms.features) for each in mechanisms)
        return replace(price, why=stated.why)  # who has left is no colluder that the rest is proved against

    def final(self, own: int, about: dict[str, Any]) -> Price:
        """Price at the true sizes, if they are public."""
        terms = self.run.terms
        sizes = tuple((about["sizes"] or {}).values())
        worst = self.worst(own)
        return replace(price_of(terms.as_run, sizes, terms.features), why=worst.why) if sizes else worst


_DELTA = 1e-5


class PartyBudgetSpec(Section, frozen=True):
    """The most that all runs together may give away; what is left out is not limited."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The largest epsilon of all runs with noise together."""
    delta: Annotated[float, Field(gt=0, lt=1)] = _DELTA
    """The delta at which epsilon is stated."""
    advantage: Annotated[float, Field(gt=0, le=1)] | None = None
    """Advantage of any attack that tells one record from another."""
    unbounded: Annotated[int, Whole(0)] | None = None
    """Runs that promise nothing of a record, those without noise first of all."""
    aborted: Annotated[int, Whole(1)] = 5
    """Runs that began and did not finish: the noise of results that are asked for again averages out."""


class BudgetFile(Section, frozen=True):
    """The party's own file."""

    budget: PartyBudgetSpec


@dataclass(frozen=True)
class LedgerEntry:
    """One run of a ledger."""

    run: str
    time: str
    corpus: str
    mechanism: str
    finished: bool
    session: str
    price: Price
    identity: Mapping[str, Any]

    @property
    def words(self) -> str:
        """Name of the run for people."""
        return mechanism_words(self.mechanism, self.identity)


@dataclass(frozen=True, eq=False)
class BudgetGuard:
    """A party's ledger and its budget, for one run."""

    ledger: Ledger
    budget: PartyBudgetSpec
    priced: Priced
    corpus: str
    own: int
    clock: Clock
    name: str
    """Name of this run in the ledger."""
    draw: SecretDraw | None = None
    """The party's secret draw; None where all documents enter."""
    expires: datetime | None = None
    """The first moment at which the clearance holds no more; None where there is none."""

    def check(self) -> None:
        """Refuse a run that would go beyond the budget."""
        self._within()

    def _within(self) -> Price:
        price, runs = replace(self.priced.worst(self.own), draw=self.draw), entries(self.ledger)
        prices, aborted = [run.price for run in runs], sum(not run.finished for run in runs)
        before, after = spent_together(prices), spent_together([*prices, price])
        delta = self.budget.delta
        limits: tuple[tuple[str, float | None, float, float, str], ...] = (
            ("unbounded", self.budget.unbounded, before.unbounded, after.unbounded, f" ({price.why})"),
            ("epsilon", self.budget.epsilon, before.epsilon(delta), after.epsilon(delta), f" at delta {delta:g}"),
            ("advantage", self.budget.advantage, before.advantage, after.advantage, ""),
            ("aborted", self.budget.aborted, aborted, aborted + 1, " (this one among them until it has finished)"),
        )
        for name, limit, was, would, more in limits:
            if limit is not None and would > limit and would > was:
                raise InputError(
                    f"this run is beyond the budget: `{name}` may be {limit:g}{more}; {was:.4g} is spent by "
                    f"{plural(before.runs, 'run')}, and with this one it would be {would:.4g}. Nothing was sent. "
                    + (_NO_SUM if name == "unbounded" else f"The budget file, beside the key, sets `{name}`.")
                )
        return price

    def begin(self) -> None:
        """Write down that the run begins, at the highest price that it may have; once more within the budget."""
        if self.expires is not None and self.clock() >= self.expires:
            raise ClearanceError(
                "expired", f"the clearance expired at {self.expires.isoformat()}. Nothing was sent."
            )
        with self.ledger.locked():
            price = self._within()
            self._add("begun", price, corpus=self.corpus, documents=self.own, mechanism=self.priced.identity)

    def finish(self, result: dict[str, Any]) -> None:
        """Write down what it came to."""
        price = replace(self.priced.final(self.own, result), draw=self.draw)
        with self.ledger.locked():
            self._add("finished", price, session=result["session"], result=result["result"])

    def _add(self, what: str, price: Price, **more: Any) -> None:
        line = {"run": self.name, "time": self.clock().isoformat(timespec="seconds"), "what": what}
        draw = None if price.draw is None else asdict(price.draw)
        self.ledger.add(line | {"mu": price.mu, "why": price.why, "draw": draw} | more)


_NO_SUM = (
    "What runs without noise give away does not add up: an audit measures one of them, and nothing bounds "
    "several. Take a mechanism with noise (docs/mechanisms.md), or raise the limit."
)


def budget_files(me: str, key: Path, ledger: Path | None = None) -> tuple[Path, Path | None]:
    """The ledger and the budget of a party, beside its key, or the ledger that is named; no budget: None."""
    budget = key.parent / f"{me}.budget.toml"
    return ledger or key.parent / f"{me}.ledger", budget if budget.is_file() else None


def open_guard(
    run: Run | Priced,
    corpus: str,
    own: int,
    ledger: Path,
    budget: Path | None,
    clock: Clock,
    draw: SecretDraw | None = None,
    expires: datetime | None = None,
) -> BudgetGuard:
    """The guard of one run, within the budget as the ledger stands; `draw` and `expires` as in `BudgetGuard`."""
    limits = PartyBudgetSpec()
    if budget is not None:
        limits = validated(BudgetFile, read_toml(budget, "the budget"), "budget").budget
    priced = RunPrices(run) if isinstance(run, Run) else run
    guard = BudgetGuard(Ledger(ledger), limits, priced, corpus, own, clock, os_random(8).hex(), draw, expires)
    guard.check()
    return guard


def entries(ledger: Ledger) -> tuple[LedgerEntry, ...]:
    """The runs of a ledger, in the order in which they began: at what they came to, or at what they may have."""
    runs: dict[str, dict[str, Any]] = {}
    for line in ledger.read():
        runs[line["run"]] = runs.get(line["run"], {}) | line
    return tuple(
        LedgerEntry(
            name,
            str(line["time"]),
            str(line["corpus"]),
            str(line["mechanism"]["name"]),
            line["what"] == "finished",
            str(line.get("session", "")),
            Price(line["mu"], str(line["why"]), None if line["draw"] is None else SecretDraw(**line["draw"])),
            dict(line["mechanism"]),
        )
        for name, line in runs.items()
    )


def spent(ledger: Ledger) -> Spent:
    """Return the privacy loss of all runs of a ledger together."""
    return spent_together([run.price for run in entries(ledger)])


def spent_words(total: Spent, delta: float = _DELTA) -> str:
    """The same in a sentence."""
    if not total.runs:
        return "No run has used this data."
    bounded = total.runs - total.unbounded
    words = []
    if bounded and total.drawn:
        words.append(
            f"{plural(bounded, 'run')} with noise, or of secret draws (together {total.drawn:g}): no attack tells "
            f"with an advantage above {total.advantage:.3f} that a party has a document, if the draw is secret."
        )
    elif bounded:
        words.append(
            f"{plural(bounded, 'run')} with noise: epsilon {total.epsilon(delta):.4g} at delta {delta:g} together "
            f"({UNIT}; Gaussian releases composed exactly; each against those that it names); no attack on them "
            f"has an advantage above {total.advantage:.3f}."
        )
    if total.unbounded == 1:
        words.append("1 run promises nothing of a record: its audit is all that is known of it.")
    if total.unbounded > 1:
        words.append(
            f"{total.unbounded} runs promise nothing of a record: an audit measures one of them, and nothing "
            "bounds what they give away together."
        )
    return " ".join(words)
