"""What `ksdp plan` says of a first look: as the audit would plan it, and only where it can save something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.audit.planning import make_plan
from ksdp.audit.verdicts.bands import band_width
from ksdp.flows.audits.calibration import Calibration
from ksdp.flows.audits.early_look import early_look
from ksdp.flows.audits.forecast import forecast_words
from ksdp.flows.prepare import read_spec_file, spec_corpus

COSTS = Calibration(sample=2.0, test=0.5, fresh=7.0, start=10.0)


@pytest.fixture
def planned(spec: Callable[..., Path]) -> Callable[..., Any]:
    def plan(
        with_runs: int = 200, design: dict[str, Any] | None = None, decision: dict[str, Any] | None = None
    ) -> Any:
        read, base = read_spec_file(spec("early", with_runs=with_runs))
        fields = {"design": design or {}, "decision": {"margin": 0.2} | (decision or {})}
        update = {name: getattr(read, name).model_copy(update=changed) for name, changed in fields.items()}
        return make_plan(read.model_copy(update=update), spec_corpus(read, base))

    return plan


def test_a_first_look_costs_what_its_runs_do(planned: Callable[..., Any]) -> None:
    plan = planned()
    said = early_look(plan, COSTS)
    assert said is not None
    looked = planned(design={"looks": (0.1, 1.0)}, decision={"spending": "pocock"})
    runs = looked.looks[0].runs
    assert plan.reading.every == looked.reading.every == 1
    assert said["runs"] == runs == 256  # a tenth of 1,000, in whole blocks
    assert said["cpu_seconds"] == pytest.approx(10.0 + 2.0 * runs + 0.5 * 120 * runs / plan.runs)
    assert said["of"] == pytest.approx(10.0 + 2.0 * plan.runs + 0.5 * 120)
    assert 0 < said["wider"] < 0.1
    widths = [
        band_width(*(np.array([n]) for n in plan.arms), level / (120 * len(plan.columns)))[0]
        for level in (0.05, looked.looks[-1].level)
    ]
    assert said["wider"] == pytest.approx(widths[1] / widths[0] - 1)
    words = forecast_words(
        {
            "views": [],
            "documents": 120,
            "unit": "document",
            "runs": plan.runs,
            "blocks": 1,
            "statistics": [],
            "certificate_runs": 0,
            "cpu_hours": 1.0,
            "seconds_a_run": 1.0,
            "bytes": 1,
            "moved_bytes": 1,
            "corpus_bytes": 1,
            "cpu_seconds": {},
            "cpu_seconds_at_most": 9,
            "detectable_D": 0.1,
            "certifiable_margin": 0.1,
            "margin": 0.0,
            "runs_for_margin": None,
            "unread": [],
            "early_look": said,
        }
    )
    assert "look      set `design.looks = [0.1, 1.0]`" in words
    assert f"of {said['of']:.0f}" in words


@pytest.mark.parametrize(
    ("design", "decision"),
    [
        ({"looks": 2}, {}),
        ({}, {"margin": 0.0}),
        ({}, {"stopping": "anytime"}),
        ({}, {"over_statistics": "max-t"}),
    ],
)
def test_who_has_looks_or_cannot_is_told_of_none(
    planned: Callable[..., Any], design: dict[str, Any], decision: dict[str, Any]
) -> None:
    assert early_look(planned(design=design, decision=decision), COSTS) is None


def test_nothing_is_said_where_little_is_saved_or_a_tenth_is_too_few(planned: Callable[..., Any]) -> None:
    assert early_look(planned(), Calibration(sample=0.01, test=0.0, fresh=0.0, start=10.0)) is None
    assert early_look(planned(with_runs=60), COSTS) is None


def test_an_audit_that_decides_early_by_itself_says_what_that_saves(planned: Callable[..., Any]) -> None:
    plan = planned()
    early = replace(plan, looks=planned(design={"looks": (0.1, 1.0)}).looks)
    said = early_look(early, COSTS)
    assert said is not None
    assert said["runs"] == 256
    assert said["of"] == pytest.approx(10.0 + 2.0 * plan.runs + 0.5 * 120)
    assert "looks" not in said  # there is nothing to set
