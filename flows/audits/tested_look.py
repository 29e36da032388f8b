"""One look: its documents measured and tested, in parts where their values are not kept and would not fit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import DamagedBlock
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.flows.audits.steps import Steps, Tally
from ksdp.flows.interruption import advance, current
from ksdp.tasks.audit_ref import AuditRef, open_plan, parts_of
from ksdp.tasks.blocks import drop_values
from ksdp.tasks.slices import SliceTests, slices


@dataclass(frozen=True, eq=False)
class LookTests:
    """What a look gave."""

    documents: ArmTests
    """In the order of the result."""
    controls: list[ArmTests]
    """One a lane."""
    shuffled: list[NDArray[np.float64]]
    canaries: ArmTests
    """In no order: every one of them must be found."""


async def tested_look(ref: AuditRef, steps: Steps, tally: Tally, seconds: dict[str, float]) -> LookTests:
    """Measure and test the documents of a look; what it takes is added to `seconds`."""
    documents: list[ArmTests] = []
    controls: list[ArmTests] = []
    shuffled: list[NDArray[np.float64]] = []
    canaries: list[ArmTests] = []
    parts = await steps.aside(parts_of, ref)
    for number, part in enumerate(parts):
        of = "" if part.part is None else f"part {number + 1} of {len(parts)}"
        began = time.monotonic()
        plan = await measured_stage(part, steps, tally, of)
        sampled = time.monotonic()
        tested = await _test(part, steps, plan, tally, of)
        seconds["sample"] += sampled - began
        seconds["test"] += time.monotonic() - sampled
        mine, own = _by_lane(plan, tested)
        documents += mine
        if not number:  # every part has the same ones: they depend on the runs alone
            controls = own
        shuffled += [some.shuffled for some in tested]
        canaries += [some.canaries for some in tested]
        if part.part is not None:
            drop_values(part)
    return LookTests(ArmTests.join(documents), controls, shuffled, ArmTests.join(canaries))


async def measured_stage(ref: AuditRef, steps: Steps, tally: Tally, of: str = "") -> Plan:
    """Measure all blocks of a stage, or of a part of its documents, which `of` describes."""
    plan = await steps.aside(open_plan, ref)
    current().stage(" ".join(word for word in ("sample", ref.stage, of) if word), plan.runs)
    where = ", ".join(word for word in (ref.stage, of) if word)
    what = f"runs of the mechanism{f' ({where})' if where else ''}"
    async with steps.shown(tally, plan.runs, f"audit-{ref.audit}-runs", what):
        await steps.sample(ref, plan.blocks, tally)
    return plan


async def _test(ref: AuditRef, steps: Steps, plan: Plan, tally: Tally, of: str) -> list[SliceTests]:
    """Test; a block found damaged is computed again, once."""
    parts = slices(plan)
    current().stage(" ".join(word for word in ("test", ref.stage, of) if word), len(plan.audited))

    def done(part: SliceTests) -> None:
        advance(len(part.canaries))  # one a document

    try:
        return await steps.test(ref, parts, done)
    except DamagedBlock as error:
        current().say(f"{error} It is computed again.")
        tally.damaged.append(str(error))
        await steps.sample(ref, plan.blocks, Tally(), attempt=1)
        return await steps.test(ref, parts, done, attempt=1)


def _by_lane(plan: Plan, tested: Sequence[SliceTests]) -> tuple[list[ArmTests], list[ArmTests]]:
    """Documents of each lane in order, and its controls."""
    documents, controls = [], []
    parts = list(zip(slices(plan), tested, strict=True))
    for lane in range(plan.design.lanes):
        whole = ArmTests.join([t.tests for s, t in parts if s.lane == lane])
        documents.append(whole[: len(whole) - CONTROLS])
        controls.append(whole[len(whole) - CONTROLS :])
    return documents, controls
