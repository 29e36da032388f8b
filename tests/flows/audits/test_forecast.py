"""`ksdp plan`: what is said before the audit is what the audit then does, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ksdp.audit.spec.models import Spec
from ksdp.flows.audits.forecast import forecast, forecast_words
from ksdp.flows.prepare import read_spec_file


def test_forecast_agrees_with_the_plan_and_writes_nothing(spec: Callable[..., Path]) -> None:
    path = spec("forecast", with_runs=60)
    before = sorted(path.parent.iterdir())
    said = forecast(*read_spec_file(path))
    assert sorted(path.parent.iterdir()) == before
    assert (said["documents"], said["runs"]) == (120, 300)
    assert (said["n_with"], said["n_without"]) == (60, 240)
    assert "row-space-energy" in said["statistics"]
    assert said["skipped_statistics"]["sigma"] == "needs T, denominators"
    assert 0 < said["detectable_D"] < 1
    assert said["opens"] == "every round"
    assert said["unread"] == []
    assert said["coverage"]["span"] == ["span-energy", "span-leverage"]
    assert (
        said["bytes"] > 300 * (3 * 60 + 30 + (120 + 32) * len(said["statistics"])) * 4
    )  # and canaries, bits, corpus
    assert said["seconds_a_run"] > 0
    assert set(said["cpu_seconds"]) == {"start", "sample", "test", "confirm"}
    assert said["cpu_hours"] * 3600 == pytest.approx(sum(said["cpu_seconds"].values()))


def test_values_that_do_not_stay_are_said(spec: Callable[..., Path]) -> None:
    read, base = read_spec_file(spec("forecast", with_runs=60))
    gone = read.model_copy(update={"store": read.store.model_copy(update={"values": "none"})})
    kept, said = forecast(read, base), forecast(gone, base)
    assert (kept["passing_bytes"], said["value_bytes"], said["parts"]) == (0, 0, 1)
    assert said["bytes"] + said["passing_bytes"] == kept["bytes"]
    assert "GB of values that pass" in forecast_words(said)
    assert "pass" not in forecast_words(kept)
    parts = forecast_words(said | {"parts": 4, "runs_again": True})
    assert "documents in 4 parts, which run the mechanism anew" in parts


def at_margin(path: Path, margin: float) -> tuple[Spec, Path]:
    read, base = read_spec_file(path)
    return read.model_copy(update={"decision": read.decision.model_copy(update={"margin": margin})}), base


def test_more_runs_find_less_and_certify_less(spec: Callable[..., Path]) -> None:
    few, many = (forecast(*at_margin(spec("forecast", with_runs=runs), 0.05)) for runs in (60, 600))
    assert many["detectable_D"] < few["detectable_D"]
    assert many["certifiable_margin"] < few["certifiable_margin"]
    assert many["runs_for_margin"] == few["runs_for_margin"] > many["runs"] > few["runs"]
