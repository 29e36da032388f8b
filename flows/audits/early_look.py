"""What a first look would save: decided documents cost nothing more, and an audit ends where none is open."""

from __future__ import annotations

from typing import Any

import numpy as np

from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.verdicts.bands import band_width
from ksdp.flows.audits.calibration import Calibration

__all__ = ["early_look"]

LOOKS = (0.1, 1.0)
FEWEST_WITH = 8
"""Runs with a document at the first look, below which hardly anything is decided."""
WORTH = 60.0
"""CPU seconds that it must be able to save."""


def early_look(plan: Plan, costs: Calibration) -> dict[str, Any] | None:
    """What it would cost if the first look decided everybody, and how much wider bands are where it does not.

    Returns
    -------
    dict or None
        `looks` and `spending` as a spec writes them, `runs` of the first look, whole blocks, its `cpu_seconds`
        without fresh runs, `of` those of all runs, and `wider`, the part by which bands grow. None where the spec
        has looks of its own or cannot have any, where a tenth of the runs is too few, or where there is little to
        save.
    """
    spec = plan.spec
    few = min(plan.arms) * LOOKS[0] < FEWEST_WITH
    if len(plan.looks) > 1 or spec.rule.joint or spec.rule.stopping != "planned" or not spec.rule.margin or few:
        return None
    design = spec.design.model_copy(update={"looks": LOOKS})
    decision = spec.decision.model_copy(update={"spending": "pocock"})
    looked = make_plan(spec.model_copy(update={"design": design, "decision": decision}), plan.corpus)
    share = plan.design.share
    kept, now = (share + (1 - share) / every for every in (looked.every, plan.every))
    # More documents are looked at in each run where it is not settled which of them are read.
    a_run = costs.again + max(costs.sample - costs.again, 0.0) * kept / now
    runs, documents = looked.looks[0].runs * looked.design.lanes, len(plan.audited)
    first = costs.start + a_run * runs + costs.test * documents * runs / looked.runs
    whole = costs.start + costs.sample * plan.runs + costs.test * documents
    if whole - first < WORTH:
        return None
    counted = plan.counted * len(plan.columns)
    level = spec.rule.for_clear
    with_, without = (np.array([n]) for n in plan.arms)
    last = level * looked.looks[-1].level / spec.rule.level
    width, wider = (float(band_width(with_, without, part / counted)[0]) for part in (level, last))
    return {
        "looks": list(LOOKS),
        "spending": "pocock",
        "runs": runs,
        "cpu_seconds": first,
        "of": whole,
        "wider": wider / width - 1.0,
    }
