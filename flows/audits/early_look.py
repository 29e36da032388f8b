"""What a first look would save: decided documents cost nothing more, and an audit ends where none is open."""

from __future__ import annotations

from typing import Any

import numpy as np

from ksdp.audit.interim_looks import FEWEST_WITH, decides_on_the_way
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.verdicts.bands import band_width
from ksdp.flows.audits.calibration import Calibration

LOOKS = (0.1, 1.0)
WORTH = 60.0
"""CPU seconds that it must be able to save."""


def early_look(plan: Plan, costs: Calibration) -> dict[str, Any] | None:
    """The cost of an audit whose first look decides every document, if it has an early look or could have one.

    Returns
    -------
    dict or None
        `runs` of the first look, whole blocks, its `cpu_seconds` without fresh runs, and `of` those of all runs;
        where the audit has none yet, `looks` and `spending` as a spec writes them, and `wider`, the part by which
        bands of who is not decided grow. None where the spec has looks of its own or cannot have any, where a
        tenth of the runs is too few, or where there is little to save.
    """
    looked = plan if len(plan.looks) > 1 else _with_looks(plan)
    if looked is None or plan.spec.design.looks not in ("needed", 1):
        return None
    look = _costs(plan, looked, costs)
    if look["of"] - look["cpu_seconds"] < WORTH:
        return None
    asks = {"looks": list(LOOKS), "spending": "pocock", "wider": _wider(plan, looked)}
    return look if looked is plan else look | asks


def _with_looks(plan: Plan) -> Plan | None:
    """The plan if it looked at a tenth of its runs, where it can."""
    spec = plan.spec
    few = min(plan.arms) * LOOKS[0] < FEWEST_WITH
    if few or not decides_on_the_way(spec.rule):
        return None
    design = spec.design.model_copy(update={"looks": LOOKS})
    decision = spec.decision.model_copy(update={"spending": "pocock"})
    return make_plan(spec.model_copy(update={"design": design, "decision": decision}), plan.corpus)


def _costs(plan: Plan, looked: Plan, costs: Calibration) -> dict[str, Any]:
    """CPU seconds until the first look, and of all runs. More documents are looked at in each run there, where all
    runs are read."""
    done = looked.looks[0].runs
    runs, documents = done * looked.design.lanes, len(plan.audited)
    more = looked.reading.measured(done, plan.design.share) / plan.measured
    a_run = costs.again + max(costs.sample - costs.again, 0.0) * more
    first = costs.start + a_run * runs + costs.test * documents * runs / looked.runs
    return {
        "runs": runs,
        "cpu_seconds": first,
        "of": costs.start + costs.sample * plan.runs + costs.test * documents,
    }


def _wider(plan: Plan, looked: Plan) -> float:
    """By how much the bands of the last look are wider than those of the only one."""
    counted, level = plan.counted * len(plan.columns), plan.spec.rule.for_clear
    with_, without = (np.array([n]) for n in plan.arms)
    last = level * looked.looks[-1].level / plan.spec.rule.level
    width, wider = (float(band_width(with_, without, part / counted)[0]) for part in (level, last))
    return wider / width - 1.0
