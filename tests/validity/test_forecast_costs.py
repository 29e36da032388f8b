"""CPU seconds that `ksdp plan` forecasts beside those of the audit, stage by stage: ratios, which a load keeps."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.planning import make_plan
from ksdp.flows.audits.calibration import calibrate
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import spec_corpus
from ksdp.storage.readers.spec_files import read_spec_file

pytestmark = pytest.mark.validity

SPEC = """
seed = 3
[corpus]
path = "counts.npz"
weighting = "tf-idf"
[mechanism]
name = "{mechanism}"
rank = 5
[design]
party_size = 0.05
with_runs = {with_runs}
looks = "end"
"""


@pytest.mark.parametrize(("mechanism", "with_runs"), [("pd-svd", 60), ("pd-svd", 200), ("pd-nmf", 60)])
def test_stages_take_what_was_forecast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mechanism: str, with_runs: int
) -> None:
    rng = np.random.default_rng(1)
    counts = rng.poisson(rng.gamma(0.02, 2.0, size=(1500, 4000)))
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts.astype(np.int32)))
    (tmp_path / "spec.toml").write_text(SPEC.format(mechanism=mechanism, with_runs=with_runs))
    spec, base = read_spec_file(tmp_path / "spec.toml")
    plan = make_plan(spec, spec_corpus(spec, base))
    said = calibrate(plan).stages(plan, plan.runs)
    monkeypatch.setattr("ksdp.flows.audits.audit.time", SimpleNamespace(monotonic=time.process_time))
    took = run_audit(spec, base, tmp_path / "store", HERE).seconds_by_stage
    print({stage: (round(said[stage], 2), took[stage]) for stage in took if stage in said})
    assert said["test"] / said["sample"] == pytest.approx(took["test"] / took["sample"], rel=0.3)
    load = took["sample"] / said["sample"]
    assert took["confirm"] < 1.3 * said["confirm"] * load + 1.0
