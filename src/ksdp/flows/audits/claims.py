"""Audit a mechanism's claim: on its worst case, unless the store has the finding, or in one run on a corpus."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.claims import LEAST_RUNS, ClaimFinding, Claims, audit_claim, check_runs, claiming
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.schema import as_it_runs
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import mechanism_of, own_code
from ksdp.audit.runs import database_of, measure, run_observables
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.effects import OneRun, one_run
from ksdp.flows.interruption import Clock, advance, current
from ksdp.flows.prepare import open_spec
from ksdp.storage.audits.claims import ClaimInputs, StoredClaim, read_claim, write_claim
from ksdp.storage.store import Store
from ksdp.tasks.provenance import code_hash, versions


@dataclass(frozen=True)
class AuditedClaim:
    """A finding and where it is."""

    finding: ClaimFinding
    finished: str
    """When it was made."""
    read: bool
    """It was in the store already."""
    path: Path


def run_claim(
    spec: Spec, store: Path, *, runs: int, clock: Clock, confidence: float = 0.95, simulated: bool = False
) -> AuditedClaim:
    """Run the mechanism of a spec on its worst case and store what that proves."""
    made = mechanism_of(spec.mechanism)
    made = made if simulated else as_it_runs(made)
    mechanism = claiming(made)
    check_runs(runs, confidence)
    mechanism.neighbours()  # refused before a store is made for it
    opened = Store.open(store)
    own = own_code(spec.mechanism.model_dump(mode="json"), [made])
    inputs = ClaimInputs(made.name, made.version, parameters_of(made), spec.seed, runs, confidence, own)
    claim = read_claim(opened, inputs, code_hash())
    if claim is not None:
        return AuditedClaim(claim.finding, claim.finished, True, inputs.path(opened))
    current().stage("claim", 2 * runs)
    rng = np.random.default_rng(spec.seed)  # which no audit of documents uses
    finding = audit_claim(mechanism, runs=runs, rng=rng, confidence=confidence, progress=lambda done: advance(2))
    finished = clock().isoformat(timespec="seconds")
    path = write_claim(opened, StoredClaim(inputs, finding, finished, versions()))
    return AuditedClaim(finding, finished, False, path)


@dataclass(frozen=True)
class AuditedRun:
    """Bound for a mechanism, by guessing who was in one run."""

    mechanism: str
    neighbours: str
    """Neighbours that epsilon is about: `add-remove` or `replace-one`."""
    statistic: str
    """By whose values was guessed."""
    delta: float
    confidence: float
    claimed_epsilon: float | None
    """For these neighbours; None where the mechanism says nothing of them."""
    found: OneRun

    @property
    def refuted(self) -> bool:
        """Whether more is proved than is claimed."""
        return self.claimed_epsilon is not None and self.found.epsilon_low > self.claimed_epsilon

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"refuted": self.refuted}

    def sentence(self) -> str:
        """For people."""
        lower, verdict = self.found, "REFUTED" if self.refuted else "not refuted"
        claim = "no claim" if self.claimed_epsilon is None else f"claimed {self.claimed_epsilon:.3g}: {verdict}"
        guessed = "no guesses prove more than"
        if lower.guesses:
            guessed = f"{lower.right} of {lower.guesses} guesses by {self.statistic} are right: at least"
        return (
            f"{self.mechanism}, one run that each of {lower.records} records entered by a fair coin: {guessed} "
            f"epsilon {lower.epsilon_low:.3g}, at delta {self.delta:.1g} ({self.neighbours}); {claim}. That is of "
            "all records together, and of none by itself."
        )


def run_once(spec: Spec, base: Path, *, confidence: float = 0.95, simulated: bool = False) -> AuditedRun:
    """Run a mechanism once on half of the corpus, each record in by a fair coin, and guess the coins."""
    check_runs(LEAST_RUNS, confidence)
    if spec.mechanism.name == "recorded":
        raise SpecError("mechanism 'recorded': nobody here tossed its coins; name a mechanism that can be run.")
    mechanism = mechanism_of(spec.mechanism)
    opened = open_spec(spec, base)
    half, stated = len(opened.holdings.victim) // 2, parameters_of(mechanism).get("adjacency")
    coins: dict[str, Any] = {"kind": "balanced", "sampling": "fixed", "documents": half, "absent": "measured"}
    if stated == "add-remove":
        coins |= {"kind": "shared", "sampling": "poisson", "documents": None}
    design = spec.design.model_copy(update=coins | {"party_size": half, "with_runs": 2, "without_runs": "all"})
    half_of_them = spec.model_copy(update={"design": design, "certificate": None})
    plan = make_plan(Opened.of(half_of_them, opened.corpus))
    made = plan if simulated else replace(plan, opened=replace(plan.opened, mechanism=as_it_runs(mechanism)))
    measured = measure(plan, Block(0, 0, 1), [run_observables(made, 0, 0)], plan.statistics)
    records = len(plan.audited)
    scores = np.stack([measured.values[column.name][:records, 0] for column in plan.statistics])
    epsilon, delta = None, 0.0
    if stated is not None and isinstance(mechanism, Claims):
        sizes = [part.shape[0] for part in database_of(plan, 0, 0).parties]
        epsilon, delta = mechanism.claim(sizes, opened.corpus.features)
    bounds = one_run(scores, measured.inclusion[:records, 0], delta, confidence)
    neighbours = "add-remove" if coins["kind"] == "shared" else "replace-one"
    statistic = plan.statistics[bounds.score].name
    return AuditedRun(mechanism.name, neighbours, statistic, delta, confidence, epsilon, bounds)
