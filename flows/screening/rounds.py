"""The rounds of a screen: audit, leave out, audit again on fresh runs; last, the listed ones by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ksdp.audit.corpus import Corpus, restrict
from ksdp.audit.errors import InputError
from ksdp.audit.groups import unit_count, unit_names
from ksdp.audit.plan import Plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.rounds import Ended, ending, no_proof, proof_runs, round_level, round_spec
from ksdp.audit.spec import Spec
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import Prepared, prepare_stored
from ksdp.flows.progress import current
from ksdp.storage.findings import read_verdicts
from ksdp.storage.screening.screens import sensitive_documents, verdict_ids
from ksdp.storage.store import Store

__all__ = ["Rounds", "Rules", "run_rounds"]


@dataclass(frozen=True)
class Rules:
    """When rounds end, and what may be listed."""

    rounds: int
    """The most audits."""
    most: float
    """Share of a round's documents above which leaving them out is called no help."""
    allowed: tuple[str, ...]
    """Verdicts that let a document onto the list."""
    proof: bool
    """Audit the listed documents by themselves where others were in the databases too."""


@dataclass(frozen=True, eq=False)
class Rounds:
    """What the rounds have found; `plan` and `last` (its verdicts) are of the last one.

    Where groups are audited, documents here are groups, and ids are their names.
    """

    about: list[dict[str, Any]]
    sensitive: list[pa.Table]
    """The sensitive documents of each round."""
    plan: Plan
    last: pa.Table
    ended: Ended
    listed: list[str]
    """Ids that may be listed; none unless the rounds ended stable."""
    why_beside: str | None = None
    """Why the listed documents were not audited by themselves; None where they were, or it was not asked for."""

    @property
    def excluded(self) -> list[str]:
        """Ids of all sensitive documents."""
        return [str(name) for table in self.sensitive for name in table["document"].to_pylist()]

    @property
    def among(self) -> int:
        """Documents that the last round's databases were drawn from."""
        return _pool(self.plan)

    @property
    def beside(self) -> int:
        """Of these, documents that may not be listed."""
        return self.among - len(self.listed)


def run_rounds(
    spec: Spec, corpus: Corpus, store: Path, rules: Rules, *, workers: int | None = None, dask: str | None = None
) -> Rounds:
    """Audit and leave out until nothing new is sensitive, a limit is reached or too few documents are left.

    With `rules.proof`, documents that may not be listed are then left out as well and the rest is audited again,
    until everything in the databases may be listed: what is cleared is what was audited together. Such an audit
    has as many runs as make its bands narrower than those before it (`proof_runs`). A document found sensitive
    there (the others had hidden it) is left out like any other.
    """
    about: list[dict[str, Any]] = []
    sensitive: list[pa.Table] = []
    proving = False
    with_runs: int | None = None
    first = round_spec(spec, 1, rules.rounds, unit_count(corpus, spec.design.unit), None)
    prepared = prepare_stored(first, corpus, store, may_sample=True)
    share = prepared.plan.party_rows / _pool(prepared.plan)
    while True:
        number, before, plan = len(about) + 1, sum(map(len, sensitive)), prepared.plan
        what = "the listed documents by themselves, " if proving else ""
        current().say(f"round {number}: {what}{len(plan.audited)} {plan.units.word}s")
        summary = run_prepared([prepared], workers=workers, dask=dask)[0]
        verdicts = read_verdicts(Store(Path(prepared.ref.store)).audit(prepared.ref.audit))
        about.append(_about(number, prepared, summary, verdicts, proving))
        if not summary.valid:
            why = f"Round {number} is void: {summary.controls.reason}. Nothing of it may be used."
            return Rounds(about, sensitive, plan, verdicts, Ended("void", None, why), [])
        sensitive.append(sensitive_documents(verdicts, number))
        flagged = verdict_ids(verdicts, ["sensitive"])
        may_list = verdict_ids(verdicts, rules.allowed)
        stay = may_list if proving else _others(plan, flagged)
        ended = ending(
            number=number,
            rounds=rules.rounds,
            audited=len(plan.audited),
            sensitive=len(flagged),
            before=before,
            left=len(stay) - len(plan.honest) - len(plan.coalition),
            rows=plan.party_rows,
            share=share,
            most=rules.most,
            unit=plan.units.word,
        )
        if ended is not None and ended.outcome != "stable":
            return Rounds(about, sensitive, plan, verdicts, ended, [])
        if ended is not None:
            done = Rounds(about, sensitive, plan, verdicts, ended, may_list)
            if not (rules.proof and done.listed and done.beside):
                return done
            why_not = no_proof(
                spec,
                number=number,
                rounds=rules.rounds,
                listed=len(done.listed),
                among=done.among,
                rows=plan.party_rows,
                share=share,
            )
            if why_not:
                return _beside(done, why_not)
            proving, stay = True, done.listed
            with_runs = _proof_runs(plan, len(stay), number, rules.rounds, spec.decision.level)
        try:
            prepared = _later(spec, corpus, stay, store, number + 1, rules.rounds, with_runs)
        except InputError as error:
            if ended is not None:
                return _beside(done, f"that audit is refused: {error}".rstrip("."))
            ended = Ended("too-few", False, f"What is left cannot be audited: {error}")
            return Rounds(about, sensitive, plan, verdicts, ended, [])


def _beside(done: Rounds, why: str) -> Rounds:
    return Rounds(done.about, done.sensitive, done.plan, done.last, done.ended, done.listed, why)


def _others(plan: Plan, out: Sequence[str]) -> list[str]:
    """Ids of a round's documents (or groups) without some."""
    return [str(name) for name in plan.units.ids[~np.isin(plan.units.ids, list(out))]]


def _later(
    spec: Spec, corpus: Corpus, stay: Sequence[str], store: Path, number: int, rounds: int, with_runs: int | None
) -> Prepared:
    """The audit of a later round."""
    rest = restrict(corpus, np.flatnonzero(np.isin(unit_names(corpus, spec.design.unit), list(stay))))
    named = spec.design.documents
    audited = sorted(set(named) & set(stay)) if isinstance(named, tuple) else None
    units = unit_count(corpus, spec.design.unit)
    later = round_spec(spec, number, rounds, units, audited, with_runs)
    return prepare_stored(later, rest, store, may_sample=True)


def _proof_runs(plan: Plan, listed: int, number: int, rounds: int, level: float) -> int:
    """Runs for a proof of the listed documents after a round."""
    held, statistics = plan.design.runs * plan.design.share, len(plan.statistics)
    each = round_level(level, number, rounds) / (len(plan.audited) * statistics)
    arms = (round(held), round(plan.design.runs - held), each)
    share = plan.party_rows / listed if plan.spec.design.kind == "shared" else plan.design.share
    return proof_runs(arms, share, round_level(level, number + 1, rounds) / (listed * statistics))


def _pool(plan: Plan) -> int:
    """Documents that the victim's databases are drawn from."""
    return len(plan.units) - len(plan.honest) - len(plan.coalition)


def _about(number: int, prepared: Prepared, summary: Summary, verdicts: pa.Table, proving: bool) -> dict[str, Any]:
    distance = np.nan_to_num(verdicts["distance"].to_numpy())
    return {
        "round": number,
        "proof": proving,
        "audit": prepared.ref.audit,
        "corpus": prepared.ref.corpus,
        "among": _pool(prepared.plan),
        "documents": summary.documents,
        **summary.verdicts.as_dict(),
        "median_D": float(np.median(distance)),
        "largest_D": float(distance.max()),
        "level": prepared.plan.spec.decision.level,
        "seed": prepared.plan.spec.seed,
        "runs": summary.runs,
        "cached_runs": summary.cached_runs,
        "valid": summary.valid,
    }
