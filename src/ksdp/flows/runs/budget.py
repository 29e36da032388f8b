"""A budget over time: what runs on a party's data have given away together, and whether one more is within it.

All runs of a ledger count together, whatever their corpus: one that has grown by a document has another hash, and
holds the same documents. Data that has nothing in common is kept in ledgers of its own.

What two runs without a promise give away together follows from no number of each. A joint audit of all of them as
one view says it, for the corpus that it was made of. One covers a ledger if it has in it every run of that kind,
with every parameter, on that corpus, and called each document clear: a run that comes later needs another audit,
with that run in it, before it begins.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

from pydantic import Field

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.joint import JointMechanism
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.spent import UNIT, Price, Spent, price_of, spent_together, worst_price
from ksdp.audit.mechanisms.words import mechanism_words
from ksdp.audit.numeric.whole_numbers import Whole
from ksdp.audit.randomness import os_random
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import plural
from ksdp.audit.specs.models import Section, validated
from ksdp.flows.interruption import Clock
from ksdp.flows.runs.protocol_files import Run
from ksdp.storage.readers.files import read_toml, toml_value
from ksdp.storage.runs.ledger import Ledger


@dataclass(frozen=True)
class JointAudit:
    """A joint audit that a ledger knows of."""

    audit: str
    corpus: str
    margin: float
    runs: tuple[str, ...]
    """Of each, name, version and all parameters, as one text."""
    bound: float | None = None
    """What pairs of all these runs together certify of every document and attack; None where none were made."""


def record_joint(ledger: Ledger, summary: Summary, now: datetime) -> JointAudit:
    """Write down that a joint audit was made.

    Raises
    ------
    InputError
        If it is no joint audit, is void, left something announced unread, looked at some documents only, or
        did not find all of them clear.
    """
    if summary.mechanism != JointMechanism.name:
        raise InputError(f"{summary.audit} is an audit of {summary.mechanism}; a joint one is of `together`.")
    if not summary.valid:
        raise InputError(f"{summary.audit} is void: its controls failed.")
    if summary.unread:
        raise InputError(f"{summary.audit} did not look at {', '.join(summary.unread)}.")
    if summary.spec.design.documents is not None or summary.spec.statistics.sees == "final":
        raise InputError(f"{summary.audit} looked at some documents, or at the final output alone.")
    if summary.verdicts.clear < summary.documents:
        raise InputError(
            f"{summary.audit} found {summary.verdicts.words}: "
            "it does not show that these runs are safe together. Leave those documents out, or add noise."
        )
    runs = tuple(sorted(map(identity_text, cast(list[dict[str, Any]], summary.parameters["runs"]))))
    bound = None if summary.certificate is None else summary.certificate.largest_bound
    found = JointAudit(summary.audit, summary.corpus, summary.spec.decision.margin, runs, bound)
    line = {"run": f"joint {found.audit}", "time": now.isoformat(timespec="seconds"), "what": "joint"}
    with ledger.locked():
        ledger.add(
            line
            | {"audit": found.audit, "corpus": found.corpus, "margin": found.margin, "runs": list(found.runs)}
            | {"bound": found.bound}
        )
    return found


def joint_audits(ledger: Ledger) -> tuple[JointAudit, ...]:
    """All that the ledger knows of."""
    return tuple(
        JointAudit(
            str(line["audit"]), str(line["corpus"]), float(line["margin"]), tuple(line["runs"]), line["bound"]
        )
        for line in ledger.read()
        if line["what"] == "joint"
    )


def covering(audits: Sequence[JointAudit], runs: Sequence[tuple[str, Mapping[str, Any]]]) -> JointAudit | None:
    """An audit that has all these runs in it, each a corpus' hash and a mechanism; None where there is none."""
    wanted = Counter(identity_text(mechanism) for _, mechanism in runs)
    corpora = {corpus for corpus, _ in runs}
    fits = (a for a in audits if corpora == {a.corpus} and not wanted - Counter(a.runs))
    return next(iter(sorted(fits, key=lambda audit: audit.margin)), None)


def joint_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """What a joint audit's spec says of the runs; a single one stands there twice, as it will be run again."""
    twice = [
        {key: value for key, value in run.items() if key != "version" and value is not None}
        for run in list(runs) * (2 if len(runs) == 1 else 1)
    ]
    lines = ["[mechanism]", f'name = "{JointMechanism.name}"']
    for run in twice:
        lines += ["", "[[mechanism.runs]]", *(f"{key} = {toml_value(value)}" for key, value in run.items())]
    # Without the last family nobody is clear.
    lines += ["", "[statistics]", 'families = ["paper", "geometry", "rounds", "simulated"]']
    return "\n".join(lines)


def identity_text(mechanism: Mapping[str, Any]) -> str:
    """A mechanism as one text, in exactly one way."""
    return json.dumps(mechanism, sort_keys=True, separators=(",", ":"))


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
class RunPrices:
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


_DELTA = 1e-5


class PartyBudgetSpec(Section, frozen=True):
    """The most that all runs together may give away; what is left out is not limited."""

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The largest epsilon of all runs with noise together."""
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
class BudgetGuard:
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
        runs, audits, identity = entries(self.ledger), joint_audits(self.ledger), self.priced.identity
        now = LedgerEntry(self.name, "", self.corpus, identity["name"], False, "", price, identity)
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
                    f"{plural(before.runs, 'run')}, and with this one it would be {would:.4g}. Nothing was sent. "
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


def budget_files(
    me: str, key: Path, ledger: Path | None = None, budget: Path | None = None
) -> tuple[Path, Path | None]:
    """The ledger and the budget of a party: those that are named, or its own beside its key."""
    beside = key.parent / f"{me}.budget.toml"
    return ledger or key.parent / f"{me}.ledger", budget or (beside if beside.is_file() else None)


def open_guard(
    run: Run | Priced, corpus: str, own: int, ledger: Path, budget: Path | None, clock: Clock
) -> BudgetGuard:
    """The guard of one run, within the budget as the ledger stands.

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
    priced = RunPrices(run) if isinstance(run, Run) else run
    guard = BudgetGuard(Ledger(ledger), limits, priced, corpus, own, clock, os_random(8).hex())
    guard.check()
    return guard


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
    return _together(entries(ledger), joint_audits(ledger))


def _together(runs: Sequence[LedgerEntry], audits: Sequence[JointAudit]) -> Spent:
    """All of them count unless one audit has all of them in it: parts of two audits say nothing together."""
    found = spent_together([run.price for run in runs])
    without = [(run.corpus, run.identity) for run in runs if run.price.mu is None]
    audit = covering(audits, without) if without else None
    if audit is None:
        return found
    return replace(found, unbounded=0, audited=len(without), certified=audit.bound)


def spent_words(total: Spent, delta: float = _DELTA) -> str:
    """The same in a sentence."""
    if not total.runs:
        return "No run has used this data."
    bounded = total.runs - total.unbounded - total.audited
    words = []
    if bounded:
        words.append(
            f"{plural(bounded, 'run')} with noise: epsilon {total.epsilon(delta):.4g} at delta {delta:g} together "
            f"({UNIT}; Gaussian releases composed exactly; each against those that it names); no attack on them "
            f"has an advantage above {total.advantage:.3f}."
        )
    if total.unbounded:
        asked = "before another, audit both together" if total.unbounded == 1 else "a joint audit is needed"
        words.append(f"{plural(total.unbounded, 'run')} without a promise of a record: {asked}.")
    if total.audited:
        words.append(
            f"{plural(total.audited, 'run')} without a promise of a record, all in one joint audit, which found "
            "every document clear."
            + (
                f" No attack on them together has an advantage above {total.certified:.3f}, by pairs of runs."
                if total.certified is not None
                else ""
            )
        )
    return " ".join(words)
