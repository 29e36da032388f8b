"""A budget over time: what runs on a party's data have given away together, and whether one more is within it.

All runs of a ledger count together, whatever their corpus: one that has grown by a document has another hash, and
holds the same documents. Data that has nothing in common is kept in ledgers of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.privacy.spent import UNIT, Price, Spent, spent_together
from ksdp.audit.mechanisms.words import mechanism_words
from ksdp.audit.randomness import os_random
from ksdp.audit.spec.models import Section, validated
from ksdp.audit.whole_numbers import Whole
from ksdp.flows.interruption import Clock
from ksdp.flows.runs.joint import JointAudit, covering, joint_audits
from ksdp.flows.runs.prices import PartyRunPrices, Priced
from ksdp.flows.runs.terms import Run
from ksdp.storage.readers.files import read_toml
from ksdp.storage.runs.ledger import Ledger

_DELTA = 1e-5


class PartyBudgetSpec(Section, frozen=True):
    """The most that all runs together may give away; what is left out is not limited."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    delta: Annotated[float, Field(gt=0, lt=1)] = _DELTA
    """The delta at which epsilon is stated."""
    advantage: Annotated[float, Field(gt=0, le=1)] | None = None
    """Of any attack that tells one record from another."""
    unbounded: Annotated[int, Whole(0)] | None = None
    """Runs that promise nothing of a record, those without noise first of all."""


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
    """The mechanism: name, version, parameters."""

    @property
    def words(self) -> str:
        """What was run, as people call it."""
        return mechanism_words(self.mechanism, self.identity)


@dataclass(frozen=True, eq=False)
class Purse:
    """A party's ledger and its budget, for one run."""

    ledger: Ledger
    budget: PartyBudgetSpec
    priced: Priced
    corpus: str
    """Hash of what enters. A joint audit covers runs that all documents of its corpus entered, and no others: the
    difference of two runs, one without a document, is none that it has simulated."""
    own: int
    """Documents that enter."""
    clock: Clock
    name: str
    """Of this run in the ledger."""

    def check(self) -> None:
        """Refuse a run that would go beyond the budget.

        Raises
        ------
        InputError
            Saying which limit, what was spent and what this run costs.
        """
        self._within()

    def _within(self) -> Price:
        """What this run costs at most, if that is within the budget."""
        price = self.priced.worst(self.own)
        runs, audits = list(map(_run_of, entries(self.ledger))), joint_audits(self.ledger)
        now = _Run(self.corpus, self.priced.identity, price)
        before, after = _together(runs, audits), _together([*runs, now], audits)
        delta = self.budget.delta
        limits: tuple[tuple[str, float | None, float, float, str], ...] = (
            ("unbounded", self.budget.unbounded, before.unbounded, after.unbounded, f" ({price.why})"),
            ("epsilon", self.budget.epsilon, before.epsilon(delta), after.epsilon(delta), f" at delta {delta:g}"),
            ("advantage", self.budget.advantage, before.advantage, after.advantage, ""),
        )
        for name, limit, was, would, more in limits:
            if limit is not None and would > limit and would > was:
                raise InputError(
                    f"this run is beyond the budget: `{name}` may be {limit:g}{more}; {was:.4g} is spent by "
                    f"{_runs(before.runs)}, and with this one it would be {would:.4g}. Nothing was sent. "
                    + (_JOINT if name == "unbounded" else "")
                )
        return price

    def begin(self) -> None:
        """Write down that the run begins, at the highest price that it may have; once more within the budget.

        Raises
        ------
        InputError
            If another run was faster, and there is not enough left.
        """
        with self.ledger.locked():
            price = self._within()
            self._add("begun", price, corpus=self.corpus, documents=self.own, mechanism=self.priced.identity)

    def finish(self, result: dict[str, Any]) -> None:
        """Write down what it came to."""
        price = self.priced.final(self.own, result)
        with self.ledger.locked():
            self._add("finished", price, session=result["session"], result=result["result"])

    def _add(self, what: str, price: Price, **more: Any) -> None:
        line = {"run": self.name, "time": self.clock().isoformat(timespec="seconds"), "what": what}
        self.ledger.add(line | {"mu": price.mu, "why": price.why} | more)


_JOINT = (
    "A joint audit is needed: what runs without noise give away together is in all their announcements at once. "
    "`ksdp budget LEDGER --next PROTOCOL` prints its mechanism, and `--joint AUDIT` takes what it found."
)


def purse_files(
    me: str, key: Path, ledger: Path | None = None, budget: Path | None = None
) -> tuple[Path, Path | None]:
    """The ledger and the budget of a party: those that are named, or its own beside its key."""
    beside = key.parent / f"{me}.budget.toml"
    return ledger or key.parent / f"{me}.ledger", budget or (beside if beside.is_file() else None)


def open_purse(
    run: Run | Priced,
    corpus: str,
    own: int,
    ledger: Path,
    budget: Path | None,
    clock: Clock,
) -> Purse:
    """The purse of one run, within the budget as the ledger stands.

    Parameters
    ----------
    budget : Path, optional
        The party's file with `[budget]`; nothing is limited without.

    Raises
    ------
    InputError
        If the run would go beyond the budget.
    """
    limits = PartyBudgetSpec()
    if budget is not None:
        limits = validated(BudgetFile, read_toml(budget, "the budget"), "budget").budget
    priced = PartyRunPrices(run) if isinstance(run, Run) else run
    purse = Purse(Ledger(ledger), limits, priced, corpus, own, clock, os_random(8).hex())
    purse.check()
    return purse


def entries(ledger: Ledger) -> tuple[LedgerEntry, ...]:
    """The runs of a ledger, in the order in which they began: at what they came to, or at what they may have."""
    runs: dict[str, dict[str, Any]] = {}
    for line in ledger.read():
        if line["what"] == "joint":
            continue
        runs[line["run"]] = runs.get(line["run"], {}) | line
    return tuple(
        LedgerEntry(
            name,
            str(line["time"]),
            str(line["corpus"]),
            str(line["mechanism"]["name"]),
            line["what"] == "finished",
            str(line.get("session", "")),
            Price(line["mu"], str(line["why"])),
            dict(line["mechanism"]),
        )
        for name, line in runs.items()
    )


def spent(ledger: Ledger) -> Spent:
    """What all runs of a ledger give away together; those in one joint audit are not unbounded any more."""
    return _together(list(map(_run_of, entries(ledger))), joint_audits(ledger))


@dataclass(frozen=True)
class _Run:
    corpus: str
    identity: Mapping[str, Any]
    price: Price


def _run_of(entry: LedgerEntry) -> _Run:
    return _Run(entry.corpus, entry.identity, entry.price)


def _together(runs: Sequence[_Run], audits: Sequence[JointAudit]) -> Spent:
    """All of them count unless one audit has all of them in it: parts of two audits say nothing together."""
    found = spent_together([run.price for run in runs])
    without = [(run.corpus, run.identity) for run in runs if run.price.mu is None]
    if not without or covering(audits, without) is None:
        return found
    return replace(found, unbounded=0, audited=len(without))


def spent_words(total: Spent, delta: float = _DELTA) -> str:
    """The same in a sentence."""
    if not total.runs:
        return "No run has used this data."
    bounded = total.runs - total.unbounded - total.audited
    words = []
    if bounded:
        words.append(
            f"{_runs(bounded)} with noise: epsilon {total.epsilon(delta):.4g} at delta {delta:g} together "
            f"({UNIT}; Gaussian releases composed exactly; each against those that it names); no attack on them "
            f"has an advantage above {total.advantage:.3f}."
        )
    if total.unbounded:
        words.append(f"{_runs(total.unbounded)} without a promise of a record: a joint audit is needed.")
    if total.audited:
        words.append(
            f"{_runs(total.audited)} without a promise of a record, all in one joint audit, which found every "
            "document clear."
        )
    return " ".join(words)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"
