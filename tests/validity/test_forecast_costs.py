"""CPU seconds that `ksdp plan` forecasts are those of audits, within a factor of two, for several mechanisms."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import parse_spec
from ksdp.flows.audits.costs import costs_of
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec

pytestmark = pytest.mark.validity

AUDITS: dict[str, tuple[dict[str, Any], float, int]] = {
    "PD-SVD, every round": ({"name": "pd-svd"}, 0.05, 40),
    "PD-SVD, many runs": ({"name": "pd-svd", "rank": 3, "opens": "final"}, 0.1, 80),
    "PD-NMF": ({"name": "pd-nmf"}, 0.3, 60),
    "PD-NMF, rank 20": ({"name": "pd-nmf", "rank": 20, "opens": "final"}, 0.3, 60),
    "noise": ({"name": "noisy", "noise": 0.1}, 0.2, 40),
    "power": ({"name": "hardt-roth", "epsilon": 2.0}, 0.2, 60),
}
"""Mechanism, the party's size, and runs with a document."""


def test_audits_take_what_was_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slower or busier machine moves all ratios alike: they are within a factor of two of one speed."""
    for module in ("audit", "stages"):
        clock = SimpleNamespace(monotonic=time.process_time)
        monkeypatch.setattr(f"ksdp.flows.audits.{module}.time", clock)
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.02, 2.0, size=(700, 1200)))
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts.astype(np.int32)))
    ratios = {}
    for name, (mechanism, party_size, with_runs) in AUDITS.items():
        design = {"party_size": party_size, "with_runs": with_runs, "looks": "end", "fresh_runs": 0}
        corpus = {"path": "counts.npz", "weighting": "tf-idf"}
        spec = parse_spec({"seed": 3, "corpus": corpus, "mechanism": mechanism, "design": design})
        plan = make_plan(open_spec(spec, tmp_path))
        said = sum(costs_of(plan).stages(plan.runs).values())
        ratios[name] = said / sum(
            run_audit(open_spec(spec, tmp_path), tmp_path / "store", HERE).seconds_by_stage.values()
        )
        print(f"{name:24} forecast {said:6.1f}  ratio {ratios[name]:.2f}", flush=True)
    found = np.array(list(ratios.values()))
    assert 0.25 < np.median(found) < 4.0
    assert found.max() / found.min() < 4.0, ratios
