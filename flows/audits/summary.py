"""What an audit found, as one object: what `audit.json` holds and `ksdp audit --json` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.interim_verdicts import Standing
from ksdp.audit.mechanisms.contract import opens_of
from ksdp.audit.mechanisms.guarantee import guarantee_of
from ksdp.audit.plan import LEARNED_PREFIX, Plan, parameters_of
from ksdp.audit.testing import ArmTests, Controls, judge_controls
from ksdp.audit.verdicts.decide import Verdict, detectable_distance
from ksdp.audit.verdicts.fresh_effects import Effect
from ksdp.audit.verdicts.power import minimal_detectable, smallest_margin
from ksdp.tasks.audit_ref import AuditRef

__all__ = ["Tested", "detectable", "summarise"]


@dataclass(frozen=True, eq=False)
class Tested:
    """Everything that the looks gave."""

    plan: Plan
    stages: tuple[AuditRef, ...]
    """One a look that was made."""
    standing: Standing
    controls: Sequence[ArmTests]
    """One a lane and look."""
    shuffled: Sequence[NDArray[np.float64]]


def detectable(tested: Tested) -> NDArray[np.float64]:
    """The measured D at which each document would surely have been called sensitive at its last look."""
    tests, rule = tested.standing.tests, tested.plan.spec.decision
    documents, columns = tests.distance.shape
    out = np.empty(documents)
    for number in np.unique(tested.standing.look):
        mine = tested.standing.look == number
        arms = (tests.n_with[mine, 0], tests.n_without[mine, 0])
        out[mine] = detectable_distance(*arms, documents, columns, rule, tested.plan.looks[number].level)
    return out


def summarise(tested: Tested, effects: Sequence[Effect]) -> dict[str, Any]:
    """All but what only the flow knows: times, folders, provenance."""
    plan, tests, decisions = tested.plan, tested.standing.tests, tested.standing.decisions
    learned = [n for n, column in enumerate(plan.columns) if column.name.startswith(LEARNED_PREFIX)]
    judged = judge_controls(tested.controls, tested.shuffled, learned)
    done = plan.looks[len(tested.stages) - 1]
    held = tests.n_with[:, 0]
    return {
        "mechanism": plan.mechanism.name,
        "mechanism_version": plan.mechanism.version,
        "parameters": parameters_of(plan.mechanism),
        "guarantee": guarantee_of(plan.mechanism).as_json(),
        "documents": len(tests),
        "runs": done.runs * plan.design.lanes,
        "valid": judged.valid,
        "verdicts": {v.value: int((decisions.verdict == v).sum()) for v in Verdict},
        "statistics": _statistics(tested),
        "skipped_statistics": plan.skipped,
        "opens": "final" if plan.spec.statistics.sees == "final" else opens_of(plan.mechanism),
        "coverage": {name: list(who) for name, who in plan.coverage.read_by.items()},
        "unread": list(plan.coverage.unread),
        "announced": [{"name": a.name, "shape": list(a.shape)} for a in plan.announced if a.name in plan.seen],
        "paper_alone": _paper_alone(tested),
        "controls": _controls(judged),
        "power": _power(tested, len(plan.columns)),
        "looks": _looks(tested),
        "fresh": _fresh(tested, effects),
        "corpus_about": {
            "documents": len(plan.corpus),
            "features": plan.corpus.features,
            "entries": int(plan.corpus.matrix.nnz),
            "without_features": len(plan.corpus.left_out),
            "parties": _parties(plan),
        },
        "design": {
            "kind": plan.spec.design.kind,
            "unit": plan.units.word,
            "sampling": plan.spec.design.sampling,
            "party_rows": plan.party_rows,
            "honest_rows": len(plan.honest),
            "coalition_rows": len(plan.coalition),
            "share": plan.design.share,
            "n_with": [int(held.min()), int(np.median(held)), int(held.max())],
        },
        "spec": plan.spec.model_dump(mode="json"),
    }


def _statistics(tested: Tested) -> dict[str, Any]:
    """One entry a column: how strong it is, and what it alone would have said."""
    standing = tested.standing
    distances = np.nan_to_num(standing.tests.distance)
    return {
        about.name: {
            "version": about.version,
            "family": about.family,
            "median_D": float(np.median(distances[:, column])),
            "max_D": float(distances[:, column].max()),
            "sensitive": int(standing.alone[:, column].sum()),
            "strongest_for": int((standing.decisions.strongest == column).sum()),
        }
        for column, about in enumerate(tested.plan.columns)
    }


def _paper_alone(tested: Tested) -> dict[str, Any] | None:
    columns = tested.plan.columns
    paper = [n for n, column in enumerate(columns) if column.family.startswith("paper")]
    if not paper:
        return None
    tests = tested.standing.tests
    smallest = tests.log10_p[:, paper].min(axis=1)
    return {
        "statistics": [columns[n].name for n in paper],
        "sensitive": int(tested.standing.paper.sum()),
        "median_D": float(np.median(np.nan_to_num(tests.distance[:, paper]).max(axis=1))),
        "mean_smallest_p": float((10**smallest).mean()),
        "uncorrected_below_level": int((smallest <= np.log10(tested.plan.spec.decision.level)).sum()),
    }


def _controls(judged: Controls) -> dict[str, Any]:
    names = (
        "null",
        "null_smallest_p",
        "planted",
        "planted_largest_p",
        "shuffled",
        "shuffled_smallest_p",
        "reason",
    )
    return {name: getattr(judged, name) for name in names}


def _power(tested: Tested, columns: int) -> dict[str, Any]:
    """What arms of the median size can find or certify at the last look, 8 times in 10."""
    last = tested.standing.look == tested.standing.look.max()
    tests, rule = tested.standing.tests, tested.plan.spec.decision
    m, n = (int(np.median(arm[last, 0])) for arm in (tests.n_with, tests.n_without))
    at_look = rule.model_copy(update={"level": tested.plan.looks[len(tested.stages) - 1].level})
    finds, certifies = 1.0, 1.0
    if min(m, n):
        finds = min(minimal_detectable(m, n, len(tests), columns, at_look), 1.0)
        certifies = min(smallest_margin(m, n, len(tests), columns, at_look), 1.0)
    needed = tested.standing.decisions.runs_to_decide
    finite = needed[np.isfinite(needed)]
    return {
        "detectable_D": finds,
        "certifiable_margin": certifies,
        "runs_to_decide_median": float(np.median(finite)) if len(finite) else None,
    }


def _looks(tested: Tested) -> list[dict[str, Any]]:
    """One entry a planned look; those that were not needed have tested nobody."""
    verdict, when = tested.standing.decisions.verdict, tested.standing.look
    return [
        {
            "runs": look.runs,
            "level": look.level,
            "tested": int((when >= number).sum()),
            "sensitive": int(((when == number) & (verdict == Verdict.SENSITIVE)).sum()),
            "clear": int(((when == number) & (verdict == Verdict.CLEAR)).sum()),
        }
        for number, look in enumerate(tested.plan.looks)
    ]


def _fresh(tested: Tested, effects: Sequence[Effect]) -> dict[str, Any] | None:
    if not effects:
        return None
    level = tested.plan.spec.decision.level
    return {
        "runs": tested.plan.fresh_runs * tested.plan.design.lanes,
        "documents": len(effects),
        "n_with_median": int(np.median([e.n_with for e in effects])),
        "confirmed": sum(e.advantage_low > 0 or e.log10_p <= math.log10(level) for e in effects),
        "median_advantage": float(np.median([e.advantage for e in effects])),
        "largest_advantage_low": max(e.advantage_low for e in effects),
        "median_D": float(np.median([e.distance for e in effects])),
        "largest_epsilon_low": max(e.epsilon_low for e in effects),
        "median_tpr_at_fpr_01": float(np.median([e.tpr_at_fpr_01 for e in effects])),
        "median_tpr_at_fpr_001": float(np.median([e.tpr_at_fpr_001 for e in effects])),
    }


def _parties(plan: Plan) -> dict[str, int] | None:
    if plan.corpus.party is None:
        return None
    names, counts = np.unique(plan.corpus.party, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}
