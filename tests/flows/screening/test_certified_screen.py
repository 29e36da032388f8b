"""A list whose documents are certified: what its clearance and `ksdp verify` say of them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.storage.keys import make_identity

from ...specs import spec_text

SHORT = {"rank": 1, "opens": "final", "solver": "power", "iterations": 1}
SPEC = {
    "seed": 3,
    "corpus": {"path": "counts.npz", "weighting": "counts"},
    "mechanism": {"name": "noisy", "mechanism": "pd-svd", "noise": 1.0, "scale": 2.0, "parameters": SHORT},
    "design": {"party_size": 0.5, "with_runs": 40, "fresh_runs": 0},
    "decision": {"margin": 0.5},
    "certificate": {"pairs": 60},
}


def test_a_clearance_says_which_documents_were_certified(tmp_path: Path, ksdp: Callable) -> None:
    counts = np.random.default_rng(5).poisson(3.0, (40, 12)).astype(float)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(counts))
    spec, clearance, store = (tmp_path / name for name in ("spec.toml", "clearance.json", "store"))
    spec.write_text(spec_text(SPEC))
    make_identity(tmp_path, "ana")
    signed = ("--key", tmp_path / "ana.key", "--who", "Ana", "--clearance", clearance)
    found = ksdp("clear", spec, *signed, "--store", store, "--json", check=0).out
    assert found["outcome"] == "signed"

    last = found["rounds"][-1]
    table = pd.read_parquet(store / "audits" / last["audit"] / "verdicts.parquet").set_index("document")
    certified = sorted(table.index[table.proof == "every attack"])
    assert len(certified) == last["verdicts"]["every_attack"] > 30
    said = json.loads(clearance.read_text())["clearance"]
    assert said["certified"] == certified
    assert set(certified) <= set(said["documents"])
    sentence = f"{len(certified)} are clear against every attack (`certified`)"
    assert sentence in said["statement"]
    assert said["coverage"]["opens"] == "final"
    assert "not hold for a run that opens more, nor if two of the three parties" in said["statement"]
    # What it may err by: the level of "clear" and a tenth of it for the certificates.
    assert said["evidence"]["attempts"]["level"] == pytest.approx(0.055)

    public = ("--key", tmp_path / "ana.pub", "--json")
    checked = ksdp("verify", clearance, *public, "--spec", spec, check=0).out
    assert checked["certified"] == len(certified)
    assert sentence in checked["statement"]
    assert checked["evidence"]["attempts"]["level"] == pytest.approx(0.055)
    # The list of certified documents is signed with the rest.
    forged = tmp_path / "forged.json"
    forged.write_text(clearance.read_text().replace(f'"{certified[0]}"', f'"{certified[-1]}"'))
    assert ksdp("verify", forged, *public, check=None).code != 0
